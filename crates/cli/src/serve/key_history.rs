//! Which HPKE key each key id has had on a server, stored in its data folder.
//!
//! Devices cache a key by its id, and a report names only the id. If an id were reused for another
//! key, a report sealed to the old key would be acknowledged but could never be opened. So an id
//! belongs to the first key that was served under it, and a server with another key under that id
//! does not start.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use sotto_crypto::HpkeKeypair;

use crate::output::WithHint;
use crate::{private_file, random, toml_text};

/// The file, in the server's data folder.
const FILE: &str = "hpke_keys_seen.toml";

/// Copies the history of a server into another folder, if there is one.
pub(super) fn copy(data_dir: &Path, to: &Path) -> Result<()> {
    let from = data_dir.join(FILE);
    if from.exists() {
        let text = private_file::read_bytes(&from)?;
        private_file::write(&to.join(FILE), &String::from_utf8(text)?, false)?;
    }
    Ok(())
}

/// The used ids, and the public key of each.
#[derive(Debug)]
pub(super) struct KeyHistory {
    path: PathBuf,
    seen: BTreeMap<u8, String>,
}

impl KeyHistory {
    /// Reads the history of a server; a new server has none.
    pub(super) fn read(data_dir: &Path) -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct HistoryFile {
            public_keys: BTreeMap<String, String>,
        }
        let path = data_dir.join(FILE);
        if !path.try_exists().with_context(|| format!("cannot read {}", path.display()))? {
            return Ok(Self { path, seen: BTreeMap::new() });
        }
        let file: HistoryFile = toml_text::read(&path)?;
        let seen = file.public_keys.into_iter().map(|(id, key)| Ok((id.parse()?, key)));
        let seen: Result<_> = seen.collect();
        let seen = seen.with_context(|| format!("{}: key ids are 0 to 255", path.display()))?;
        Ok(Self { path, seen })
    }

    /// A random unused id.
    pub(super) fn unused_id(&self) -> Result<u8> {
        let unused: Vec<u8> = (0..=u8::MAX).filter(|id| !self.seen.contains_key(id)).collect();
        let [random] = random::bytes();
        unused.get(usize::from(random) % unused.len().max(1)).copied().with_context(|| {
            format!("all 256 HPKE key ids are used; remove old ones from {}", self.path.display())
        })
    }

    /// Refuses keys whose id belonged to another key, and records the ids of the rest on disk.
    pub(super) fn record(&mut self, keys: &[HpkeKeypair]) -> Result<()> {
        let mut seen = self.seen.clone();
        for key in keys {
            let id = key.config().id().value();
            let public_key = URL_SAFE_NO_PAD.encode(key.config().public_key());
            match seen.insert(id, public_key.clone()) {
                Some(other) if other != public_key => return self.refuse(id),
                _ => {}
            }
        }
        if seen == self.seen {
            return Ok(());
        }
        private_file::write(&self.path, &text(&seen), true)?;
        self.seen = seen;
        Ok(())
    }

    fn refuse(&self, id: u8) -> Result<()> {
        if !self.seen.contains_key(&id) {
            return Err(anyhow!("two of the listed HPKE keys have the id {id}"))
                .hint("make a new one with another id: `sotto keys new --out FILE`");
        }
        let unused = self.unused_id().map_or(String::new(), |id| format!(" --id {id}"));
        Err(anyhow!(
            "the HPKE key with id {id} is not the key that this server had under that id: reports \
             from devices that cached the old key would be lost"
        ))
        .hint(format!(
            "make a key with another id (`sotto keys new{unused} --out FILE`) and list the old key \
             file behind it; {} lists the ids that were used",
            self.path.display()
        ))
    }
}

fn text(seen: &BTreeMap<u8, String>) -> String {
    let mut text = String::from(
        "# The HPKE public keys of this server, past and present, by key id. Written by the server.\n\
         # An id must not come back with another key while devices may have cached the old one.\n\
         [public_keys]\n",
    );
    for (id, public_key) in seen {
        let _ = writeln!(text, "{id} = \"{public_key}\"");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    #[test]
    fn an_id_keeps_its_key_over_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new, impostor) = (keys::generate(1), keys::generate(2), keys::generate(1));
        let history = || KeyHistory::read(folder.path()).unwrap();
        history().record(std::slice::from_ref(&old)).unwrap();
        history().record(std::slice::from_ref(&old)).unwrap();
        // A replaced key is refused, even beside a good key, which is then not recorded either.
        let error = history().record(&[new, impostor]).unwrap_err();
        assert!(error.to_string().contains("id 1"), "{error}");
        let (new, impostor) = (keys::generate(2), keys::generate(1));
        history().record(&[new, old]).unwrap();
        // A key that is no longer listed still owns its id.
        history().record(&[keys::generate(3)]).unwrap();
        assert!(history().record(&[impostor]).is_err());
        assert!(history().record(&[keys::generate(2)]).is_err());
    }

    #[test]
    fn two_keys_with_one_id_leave_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let mut history = KeyHistory::read(folder.path()).unwrap();
        let twins = [keys::generate(4), keys::generate(4)];
        let error = history.record(&twins).unwrap_err();
        assert!(error.to_string().contains("two of the listed"), "{error}");
        // Either one alone is accepted.
        history.record(&twins[1..]).unwrap();
    }

    #[test]
    fn unused_ids_are_those_without_a_key() {
        let folder = tempfile::tempdir().unwrap();
        let mut history = KeyHistory::read(folder.path()).unwrap();
        for id in (0..=u8::MAX).filter(|id| *id != 77) {
            history.seen.insert(id, String::new());
        }
        assert_eq!(history.unused_id().unwrap(), 77);
        history.seen.insert(77, String::new());
        assert!(history.unused_id().is_err());
    }

    #[test]
    fn a_damaged_history_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["[public_keys]\n256 = \"x\"\n", "[public_keys", ""] {
            std::fs::write(folder.path().join(FILE), text).unwrap();
            assert!(KeyHistory::read(folder.path()).is_err(), "{text}");
        }
    }
}
