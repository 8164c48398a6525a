//! `[recipes]`: which recipes of a public log an aggregator takes part in.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;
use sotto_crypto::Secret;
use sotto_protocol::trust::Trust;
use sotto_server::{AuthToken, RecipeAuthor, RecipesConfig};
use sotto_wire::{KeyType, Role, VerifierKey};

use crate::output::WithHint;
use crate::task_file::{optional_secret, secret, secret_array};
use crate::trust_file;

/// The table as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecipesTable {
    trust: PathBuf,
    operator: String,
    #[serde(deserialize_with = "secret")]
    verify_key_init: Secret<String>,
    #[serde(deserialize_with = "secret")]
    leader_authentication_token: Secret<String>,
    #[serde(default = "default_poll_s")]
    poll_s: u64,
    log_url: Option<String>,
    authors: Vec<AuthorTable>,
}

/// `[[recipes.authors]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthorTable {
    key: String,
    #[serde(default, deserialize_with = "optional_secret")]
    collector_authentication_token: Option<Secret<String>>,
}

pub(super) fn default_poll_s() -> u64 {
    60
}

impl RecipesTable {
    /// The settings for a role. `place` finds a path of the file.
    pub(super) fn config(
        &self,
        role: Role,
        public_url: Option<&str>,
        place: impl Fn(&Path) -> PathBuf,
    ) -> Result<RecipesConfig> {
        let public_url = public_url
            .ok_or_else(|| anyhow!("`public_url` is not set"))
            .hint("set it to the URL that recipes name for this aggregator, to the letter")?;
        ensure!(self.poll_s > 0, "poll_s must be at least 1");
        ensure!(!self.authors.is_empty(), "no author is listed under [[recipes.authors]]");
        let trust = trust_file::read(&place(&self.trust))?;
        let log_url = match &self.log_url {
            Some(url) => url.clone(),
            None => log_url(&trust)?,
        };
        Ok(RecipesConfig {
            operator: self.operator.parse().context("operator")?,
            public_url: public_url.to_owned(),
            log_url,
            log_certificates: None,
            verify_key_init: secret_array(&self.verify_key_init).context("verify_key_init")?,
            leader_token: token(&self.leader_authentication_token)?.into(),
            authors: self
                .authors
                .iter()
                .map(|author| author.config(role))
                .collect::<Result<_>>()?,
            poll: Duration::from_secs(self.poll_s),
            trust,
        })
    }
}

impl AuthorTable {
    fn config(&self, role: Role) -> Result<RecipeAuthor> {
        let key: VerifierKey = self
            .key
            .parse()
            .with_context(|| format!("authors: {:?} is no key", self.key))
            .hint("write it like `sotto keys signer` prints it: name+hash+key")?;
        let name = key.name();
        ensure!(key.key_type() == KeyType::Ed25519, "authors: {name}: this is a witness's key");
        ensure!(
            self.collector_authentication_token.is_some() == (role == Role::Leader),
            "authors: {name}: collector_authentication_token is the leader's alone, and needed there"
        );
        let collector = self.collector_authentication_token.as_ref();
        let collector_token = collector.map(|text| token(text).map(Into::into)).transpose()?;
        Ok(RecipeAuthor { key, collector_token })
    }
}

fn token(text: &Secret<String>) -> Result<AuthToken> {
    Ok(AuthToken::bearer(text.expose().as_str())?)
}

/// Where the policy says that its one log is.
fn log_url(trust: &Trust) -> Result<String> {
    match trust.policy().logs() {
        [log] if log.url.is_some() => Ok(log.url.clone().unwrap_or_default()),
        _ => {
            Err(anyhow!("`log_url` is not set, and the policy does not name one log with its URL"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toml_text;

    const AUTHOR: &str = "[[authors]]\nkey = \"KEY\"\n";
    const TOKEN: &str = "collector_authentication_token = \"abcdefghijklmnop\"\n";

    fn key(name: &str, seed: u8) -> sotto_crypto::note::NoteKey {
        sotto_crypto::note::NoteKey::from_seed(name.parse().unwrap(), Secret::new([seed; 32]))
    }

    fn trust(url: &str) -> String {
        let (log, operator) = (key("log.example", 1), key("leader.example", 2));
        let (log, operator) = (log.verifier(), operator.verifier());
        let witness = key("w.example", 4).cosigner();
        format!(
            "policy = \"\"\"\nlog {log} {url}\nwitness w {witness}\nquorum w\n\"\"\"\n\
             [[operators]]\nkey = \"{operator}\"\n"
        )
    }

    fn config(
        trust: &str,
        more: &str,
        public_url: Option<&str>,
        role: Role,
    ) -> Result<RecipesConfig> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("trust.toml"), trust).unwrap();
        let secret = "BAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ";
        let more = more.replace("KEY", &key("author.example", 3).verifier().to_string());
        let text = format!(
            "trust = \"trust.toml\"\noperator = \"leader.example\"\nverify_key_init = \"{secret}\"\n\
             leader_authentication_token = \"abcdefghijklmnop\"\n{more}"
        );
        let table: RecipesTable = toml_text::parse(&text)?;
        table.config(role, public_url, |path| folder.path().join(path))
    }

    #[test]
    fn the_table_reaches_the_server() {
        let (trust, author) = (trust("https://log.example/"), format!("{AUTHOR}{TOKEN}"));
        let url = Some("https://leader.example/dap/");
        let config = config(&trust, &format!("poll_s = 5\n{author}"), url, Role::Leader).unwrap();
        assert_eq!(config.public_url, "https://leader.example/dap/");
        assert_eq!(config.log_url, "https://log.example/");
        assert_eq!(config.operator.as_str(), "leader.example");
        assert_eq!(config.poll, Duration::from_secs(5));
        assert_eq!(config.verify_key_init.expose(), &[4; 32]);
        assert_eq!(config.authors[0].key, key("author.example", 3).verifier());
        assert!(config.authors[0].collector_token.is_some());
    }

    #[test]
    fn mistakes_are_named() {
        let url = Some("https://a.example/");
        let (with_url, without) = (trust("https://log.example/"), trust(""));
        let with_token = format!("{AUTHOR}{TOKEN}");
        let cosigner = AUTHOR.replace("KEY", &key("w.example", 4).cosigner().to_string());
        for (trust, more, url, role, message) in [
            (&with_url, &*with_token, None, Role::Leader, "`public_url` is not set"),
            (&with_url, AUTHOR, url, Role::Leader, "needed there"),
            (&with_url, &with_token, url, Role::Helper, "leader's alone"),
            (&with_url, "authors = []\n", url, Role::Leader, "no author"),
            (&with_url, &cosigner, url, Role::Helper, "a witness's key"),
            (&with_url, &format!("poll_s = 0\n{AUTHOR}"), url, Role::Helper, "poll_s"),
            (&without, AUTHOR, url, Role::Helper, "`log_url` is not set"),
            (&String::from("policy = 1"), AUTHOR, url, Role::Helper, "line 1"),
        ] {
            let error = format!("{:#}", config(trust, more, url, role).unwrap_err());
            assert!(error.contains(message), "{error}");
        }
    }
}
