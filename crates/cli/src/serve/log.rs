//! `sotto serve log`: loads everything that its configuration names.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use sotto_crypto::note::NoteKey;
use sotto_protocol::log::admit::Signers;
use sotto_server::{HttpFile, Log, LogConfig, LogFile};
use sotto_store::LogDir;
use sotto_wire::{PublicKey, TlogPolicy};

use super::config::{Bound, RoleFile, Start, load_authorities, load_http};
use super::gateway;
use crate::output::WithHint;
use crate::{private_file, signer_file};

impl RoleFile for LogFile {
    const ROLE: &'static str = "log";

    fn http(&self) -> &HttpFile {
        &self.http
    }

    fn data_dir(&mut self) -> &mut PathBuf {
        &mut self.data_dir
    }

    async fn bind(self, start: Start) -> Result<Bound> {
        let key = signer_file::read(&self.key)?;
        let (policy, submitters) = (policy(&self, &key)?, submitters(&self)?);
        let public_url = self.http.public_url.clone();
        let witness_certificates = load_authorities(&self.http)?;
        let http = load_http(self.http, start)?;
        if !policy.requires_witnesses() {
            tracing::warn!("the policy requires no witness: nobody notices if this log forks");
        }
        private_file::make_folder(&self.data_dir)?;
        let load_gateway = |table| gateway::load(table, &self.data_dir, public_url.as_deref());
        let gateway = self.gateway.map(load_gateway).transpose()?;
        let dir = LogDir::open(&self.data_dir, key)
            .with_context(|| format!("cannot open the log in {}", self.data_dir.display()))
            .hint("is another log running on this folder, or was it made with another key?")?;
        let config =
            LogConfig { http, policy, submitters, witness_certificates, gateway, ..self.log };
        super::bound(Log::bind(config, dir).await)
    }
}

/// The policy. Its only log must be the one with this key.
fn policy(file: &LogFile, key: &NoteKey) -> Result<TlogPolicy> {
    let Some(policy) = &file.policy else {
        return Err(anyhow!("no policy is configured"))
            .hint("`sotto serve log --print-config` shows an example of a policy");
    };
    match policy.logs() {
        [log] if log.key == key.verifier() => Ok(policy.clone()),
        _ => Err(anyhow!("the policy must have one log line, with this log's own key"))
            .hint(format!("write: log {}", key.verifier())),
    }
}

fn submitters(file: &LogFile) -> Result<Signers> {
    match (file.submitters.as_slice(), file.insecure_open_submission) {
        ([], true) => Ok(Signers::InsecureOpen),
        ([], false) => Err(anyhow!("nobody may submit")).hint(
            "list the public keys of authors and operators under `submitters`, or set \
             `insecure_open_submission = true`",
        ),
        (_, true) => {
            Err(anyhow!("`submitters` and `insecure_open_submission` contradict each other"))
        }
        (listed, false) => {
            let keys = listed.iter().map(|key| PublicKey::new(*key.public_key()));
            Ok(Signers::Listed(keys.collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sotto_crypto::Secret;

    use super::*;
    use crate::output::hint_of;
    use crate::toml_text;

    fn key(name: &str) -> NoteKey {
        NoteKey::from_seed(name.parse().unwrap(), Secret::new([7; 32]))
    }

    #[test]
    fn defaults_are_as_documented() {
        let log = LogFile::default().log;
        assert_eq!(log.refresh, Duration::from_secs(600));
        assert_eq!(log.batch_delay, Duration::from_millis(200));
    }

    #[test]
    fn settings_reach_the_log() {
        let key = key("log.example");
        let text = format!(
            "listen = \"127.0.0.1:7\"\npublic_url = \"https://x.example/log/\"\n\
             policy = \"log {}\\nquorum none\\n\"\nsubmitters = [\"{}\"]\nbatch_delay_ms = 5\n\
             [limits]\nmax_connections = 9\n",
            key.verifier(),
            key.verifier()
        );
        let file: LogFile = toml_text::parse(&text).unwrap();
        policy(&file, &key).unwrap();
        let Signers::Listed(listed) = submitters(&file).unwrap() else { panic!("open") };
        assert!(listed.contains(&PublicKey::new(*key.verifier().public_key())));
        assert_eq!(file.log.batch_delay, Duration::from_millis(5));
        let http = load_http(file.http, Start::default()).unwrap();
        assert_eq!(http.listen, "127.0.0.1:7".parse().unwrap());
        assert_eq!(http.base_path, "/log/");
        assert_eq!(http.connections.max_connections, 9);
    }

    #[test]
    fn mistakes_are_named() {
        let own = key("log.example");
        let with =
            |key: &NoteKey| format!("policy = \"log {}\\nquorum none\\n\"\n", key.verifier());
        let check = |text: &str| {
            let file: LogFile = toml_text::parse(text)?;
            policy(&file, &own)?;
            submitters(&file)
        };
        for (text, message) in [
            (String::new(), "no policy"),
            ("policy = \"x\\n\"".to_owned(), "policy: line 1"),
            (with(&key("other.example")), "this log's own key"),
            (with(&own), "nobody may submit"),
            (with(&own) + "submitters = [\"x\"]", "submitters: \"x\" is not a public key"),
        ] {
            let error = check(&text).unwrap_err();
            assert!(format!("{error:#}").contains(message), "{text}: {error:#}");
            assert!(hint_of(&error).is_some(), "{text}: {error:#}");
        }
    }
}
