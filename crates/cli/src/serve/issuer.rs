//! `sotto serve issuer`: loads everything that its configuration names.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use sotto_server::{
    HttpFile, Issuer, IssuerAttester, IssuerAttesterTable, IssuerConfig, IssuerFile,
};
use sotto_store::IssuerDb;

use super::config::{Bound, RoleFile, Start, load_http, peer_token, same_operator};
use super::key_files;
use crate::output::WithHint;
use crate::{private_file, signer_file};

/// The folder for encapsulation keys in `data_dir`, if no key files are listed.
const OWN_KEYS: &str = "encapsulation-keys";

impl RoleFile for IssuerFile {
    const ROLE: &'static str = "issuer";

    fn is_secret(&self) -> bool {
        true
    }

    fn http(&self) -> &HttpFile {
        &self.http
    }

    fn data_dir(&mut self) -> &mut PathBuf {
        &mut self.data_dir
    }

    async fn bind(self, start: Start) -> Result<Bound> {
        let attester = attester(self.attester.as_ref())?;
        if self.rules.authors.is_empty() {
            tracing::warn!(
                "no author is configured: list the authors who may request token keys under `authors`"
            );
        }
        let operator = signer_file::read(&self.key)?;
        if attester.name == operator.name().as_str() {
            return Err(same_operator(&attester.name));
        }
        let http = load_http(self.http, start)?;
        private_file::make_folder(&self.data_dir)?;
        let own = self.data_dir.join(OWN_KEYS);
        let encapsulation_keys = key_files::follow("encapsulation", self.encapsulation_keys, &own)?;
        let db = IssuerDb::open(&self.data_dir)
            .with_context(|| format!("cannot open the token keys in {}", self.data_dir.display()))
            .hint("is another issuer running on this folder, or does it belong to another user?")?;
        let config =
            IssuerConfig { http, operator, encapsulation_keys, attester, rules: self.rules };
        super::bound(Issuer::bind(config, db).await)
    }
}

fn attester(table: Option<&IssuerAttesterTable>) -> Result<IssuerAttester> {
    let Some(table) = table else {
        return Err(anyhow!("no attester is configured")).hint(
            "name the attester that may request tokens: [attester] operator = \"attester.example\", \
             token = \"...\"",
        );
    };
    let token = peer_token(&table.token)
        .with_context(|| format!("the token of the attester {:?}", table.operator))?;
    Ok(IssuerAttester { name: table.operator.clone(), token })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sotto_crypto::Secret;

    use super::*;
    use crate::toml_text;

    fn settings(folder: &Path, text: &str) -> IssuerFile {
        let path = folder.join("issuer.toml");
        std::fs::write(&path, text).unwrap();
        let settings = crate::serve::config::read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        settings
    }

    #[tokio::test]
    async fn an_issuer_that_is_its_own_attester_or_has_no_real_token_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let key = sotto_crypto::note::NoteKey::from_seed(
            "issuer.example".parse().unwrap(),
            Secret::new([1; 32]),
        );
        signer_file::write(&folder.path().join("operator.key"), &key, false).unwrap();
        for (operator, token, message) in [
            ("issuer.example", "abcdefghijklmnop", "must be two operators"),
            ("attester.example", "...", "placeholder"),
        ] {
            let text = format!("[attester]\noperator = \"{operator}\"\ntoken = \"{token}\"\n");
            let error = settings(folder.path(), &text).bind(Start::default()).await.unwrap_err();
            assert!(format!("{error:#}").contains(message), "{error:#}");
        }
        // Only the key has been written.
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    /// The check comes before anything is written.
    #[tokio::test]
    async fn an_issuer_without_attesters_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = settings(folder.path(), "").bind(Start::default()).await.unwrap_err();
        assert!(format!("{error:#}").contains("no attester"), "{error:#}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        assert!(toml_text::parse::<IssuerFile>("[attester]\ntoken = \"t\"").is_err());
    }
}
