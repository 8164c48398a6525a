//! `sotto serve witness`: loads everything that its configuration names.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use sotto_server::{HttpFile, Witness, WitnessConfig, WitnessFile};
use sotto_store::WitnessDir;

use super::config::{Bound, RoleFile, Start, load_http};
use crate::output::WithHint;
use crate::{private_file, signer_file};

impl RoleFile for WitnessFile {
    const ROLE: &'static str = "witness";

    fn http(&self) -> &HttpFile {
        &self.http
    }

    fn data_dir(&mut self) -> &mut PathBuf {
        &mut self.data_dir
    }

    async fn bind(self, start: Start) -> Result<Bound> {
        if self.logs.is_empty() {
            return Err(anyhow!("no log is configured"))
                .hint("list the public keys of logs: logs = [\"name+hash+key\"]");
        }
        let http = load_http(self.http, start)?;
        let key = signer_file::read(&self.key)?;
        private_file::make_folder(&self.data_dir)?;
        tracing::info!(key = %key.cosigner(), "logs name the witness by this key");
        let dir = WitnessDir::open(&self.data_dir, key)
            .with_context(|| format!("cannot open the witness in {}", self.data_dir.display()))
            .hint("is another witness running on this folder?")?;
        let config = WitnessConfig { http, logs: self.logs };
        super::bound(Witness::bind(config, dir).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::hint_of;
    use crate::toml_text;

    #[tokio::test]
    async fn mistakes_are_named() {
        let error = WitnessFile::default().bind(Start::default()).await.unwrap_err();
        assert!(error.to_string().contains("no log is configured"), "{error}");
        let error = toml_text::parse::<WitnessFile>("logs = [\"x\"]").unwrap_err();
        assert!(format!("{error:#}").contains("logs: \"x\" is not a public key"), "{error:#}");
        assert!(hint_of(&error).unwrap().contains("name+hash+key"), "{error:?}");
        let error = toml_text::parse::<WitnessFile>("log = []").unwrap_err();
        assert!(format!("{error:#}").contains("unknown field `log`"), "{error:#}");
    }
}
