//! `sotto serve witness`: loads everything that its configuration names.

use anyhow::{Context, Result, anyhow};
use sotto_server::{Server, Witness, WitnessConfig, WitnessFile};
use sotto_store::WitnessDir;

use super::config::{ConfigFile, load_http};
use crate::output::WithHint;
use crate::{private_file, signer_file};

/// The configuration of a witness.
pub(super) type WitnessSettings = ConfigFile<WitnessFile>;

impl WitnessSettings {
    /// Opens the folder and binds.
    pub(super) async fn bind(self, insecure_http: bool) -> Result<Server> {
        let Self(file) = self;
        if file.logs.is_empty() {
            return Err(anyhow!("no log is configured"))
                .hint("list the public keys of logs: logs = [\"name+hash+key\"]");
        }
        let http = load_http(file.http, insecure_http)?;
        let key = signer_file::read(&file.key)?;
        private_file::make_folder(&file.data_dir)?;
        tracing::info!(key = %key.cosigner(), "logs name the witness by this key");
        let dir = WitnessDir::open(&file.data_dir, key)
            .with_context(|| format!("cannot open the witness in {}", file.data_dir.display()))
            .hint("is another witness running on this folder?")?;
        let config = WitnessConfig { http, logs: file.logs };
        Witness::bind(config, dir).await.or_else(super::explain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::hint_of;
    use crate::toml_text;

    #[tokio::test]
    async fn mistakes_are_named() {
        let error = ConfigFile(WitnessFile::default()).bind(false).await.unwrap_err();
        assert!(error.to_string().contains("no log is configured"), "{error}");
        let error = toml_text::parse::<WitnessFile>("logs = [\"x\"]").unwrap_err();
        assert!(format!("{error:#}").contains("logs: \"x\" is not a public key"), "{error:#}");
        assert!(hint_of(&error).unwrap().contains("name+hash+key"), "{error:?}");
        let error = toml_text::parse::<WitnessFile>("log = []").unwrap_err();
        assert!(format!("{error:#}").contains("unknown field `log`"), "{error:#}");
    }
}
