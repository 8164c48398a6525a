//! `sotto keys`: HPKE key pairs, signing keys, and an operator's key sets in the log.

mod publish;
mod secret;
mod show;
mod signer;
mod store;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use serde::Deserialize;
use serde_json::json;
use sotto_crypto::hpke::Suite;
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_wire::{HpkeConfigId, KeySet};
use zeroize::Zeroizing;

pub(crate) use self::store::store_key;
use crate::output::{Outcome, Output};
use crate::task_file::{self, key_lines};
use crate::{private_file, random, toml_text};

/// Makes keys.
#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Make an HPKE key pair for an aggregator, a gateway, an issuer or a collector.
    New(NewArgs),
    /// Make a signing key for an author, an operator, a log or a witness.
    Signer(signer::SignerArgs),
    /// Make a secret that two parties share: a token or a verify key.
    Secret(secret::SecretArgs),
    /// Make the key of a store in PostgreSQL.
    Store(store::StoreArgs),
    /// Show the public half of a key file.
    Show(show::ShowArgs),
    /// Publish an operator's next key set in the log.
    Publish(Box<publish::PublishArgs>),
}

#[derive(Debug, Args)]
#[command(
    after_help = "List the file under `hpke_keys` in the server's configuration. Put a new key \
    first. Keep an old one listed until devices have stopped using it: at least twice as long as \
    they may cache it.\n\nDevices require hybrid keys by default. Add an x25519 key for devices of an \
    older version and for other implementations of DAP."
)]
struct NewArgs {
    /// Hybrid keys (X-Wing) keep recorded traffic closed to quantum computers. X25519 alone is for
    /// other implementations and older devices.
    #[arg(long, value_enum, default_value_t = SuiteArg::Hybrid)]
    suite: SuiteArg,
    /// The key's id, 0 to 255, which no earlier key of the server had [default: random]
    #[arg(long)]
    id: Option<u8>,
    /// The file to write, readable only by its owner.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace an existing file. Reports sealed to its key can no longer be opened.
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SuiteArg {
    Hybrid,
    X25519,
}

impl KeysArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        match self.command {
            KeysCommand::New(args) => args.run(output),
            KeysCommand::Signer(args) => args.run(output),
            KeysCommand::Secret(args) => args.run(output),
            KeysCommand::Store(args) => args.run(output),
            KeysCommand::Show(args) => args.run(output),
            KeysCommand::Publish(args) => args.run(output),
        }
    }
}

impl NewArgs {
    fn run(self, output: &Output) -> Result<Outcome> {
        // Random, so that a new key is unlikely to reuse the id of the key it replaces: devices
        // cache keys by id.
        let id = self.id.unwrap_or_else(|| {
            let [id] = random::bytes();
            id
        });
        let key = match self.suite {
            SuiteArg::Hybrid => generate_hybrid(id),
            SuiteArg::X25519 => generate(id),
        };
        write(&self.out, &key, self.force)?;
        let config = KeySet::config_text(key.config());
        if output.json() {
            output.value(&json!({ "file": self.out, "key_id": id, "hpke_config": config }))?;
        } else {
            output.line(config)?;
            output.remark(format!(
                "wrote {} (secret), key id {id}; above is its public half",
                self.out.display()
            ));
        }
        Ok(Outcome::Yes)
    }
}

/// A new key pair of DAP's suite.
pub(crate) fn generate(id: u8) -> HpkeKeypair {
    generate_for(Suite::X25519, id)
}

/// A new hybrid key pair.
pub(crate) fn generate_hybrid(id: u8) -> HpkeKeypair {
    generate_for(Suite::Hybrid, id)
}

pub(crate) fn generate_for(suite: Suite, id: u8) -> HpkeKeypair {
    HpkeKeypair::generate_for(suite, HpkeConfigId::new(id), &mut random::system())
}

/// A copy, for another owner.
pub(crate) fn duplicate(key: &HpkeKeypair) -> Result<HpkeKeypair> {
    let private_key = Secret::new(*key.private_key().expose());
    Ok(HpkeKeypair::from_parts(key.config().clone(), private_key)?)
}

/// Reads a key file.
pub(crate) fn read(path: &Path) -> Result<HpkeKeypair> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct KeyFile {
        hpke_config: String,
        #[serde(deserialize_with = "task_file::secret")]
        hpke_private_key: Secret<String>,
    }
    let file: KeyFile = toml_text::read(path)?;
    let key = task_file::hpke_config(&file.hpke_config).and_then(|config| {
        let private_key = task_file::secret_array(&file.hpke_private_key)?;
        Ok(HpkeKeypair::from_parts(config, private_key)?)
    });
    key.with_context(|| format!("{} is not an HPKE key file", path.display()))
}

/// Writes a key file.
pub(crate) fn write(path: &Path, key: &HpkeKeypair, force: bool) -> Result<()> {
    private_file::write(path, &text(key), force)
}

/// The text of a key file.
pub(crate) fn text(key: &HpkeKeypair) -> Zeroizing<String> {
    let mut text = key_lines(key);
    text.insert_str(
        0,
        "# An HPKE key pair. SECRET: whoever has it can open shares sealed to it.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_files_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.toml");
        for key in [generate_hybrid(17), generate(17)] {
            write(&path, &key, true).unwrap();
            let back = read(&path).unwrap();
            assert_eq!(back.config(), key.config());
            assert_eq!(back.private_key(), key.private_key());
        }
        let key = generate(17);
        let other = key_lines(&generate(17));
        let mixed = format!("{}\n{}\n", line(&key_lines(&key), 0), line(&other, 1));
        std::fs::write(&path, mixed).unwrap();
        assert!(read(&path).is_err());
    }

    #[test]
    fn a_key_is_not_replaced_by_accident() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.toml");
        write(&path, &generate(1), false).unwrap();
        assert!(write(&path, &generate(2), false).is_err());
        assert_eq!(read(&path).unwrap().config().id().value(), 1);
        write(&path, &generate(2), true).unwrap();
        assert_eq!(read(&path).unwrap().config().id().value(), 2);
    }

    fn line(text: &str, number: usize) -> &str {
        text.lines().nth(number).unwrap()
    }
}
