//! The HPKE keys of an aggregator: those that the configuration lists, or one of each suite that the
//! server makes.

use std::path::{Path, PathBuf};

use anyhow::Result;
use sotto_crypto::HpkeKeypair;
use sotto_crypto::hpke::Suite;

use super::key_history::KeyHistory;
use crate::keys;

/// The keys that a server makes when none is configured, the preferred one last. Older versions made
/// the first one alone.
const OWN_KEYS: [(&str, Suite); 2] =
    [("hpke_key.toml", Suite::X25519), ("hpke_key_hybrid.toml", Suite::Hybrid)];

/// Loads the listed keys, or the server's own keys, which it makes if they are missing. No id may
/// have belonged to another key of this server.
pub(super) fn load(listed: &[PathBuf], data_dir: &Path) -> Result<Vec<HpkeKeypair>> {
    let mut history = KeyHistory::read(data_dir)?;
    let keys: Vec<HpkeKeypair> = if listed.is_empty() {
        let own = OWN_KEYS.map(|(file, suite)| own_key(&data_dir.join(file), suite, &mut history));
        own.into_iter().rev().collect::<Result<_>>()?
    } else {
        listed.iter().map(|path| keys::read(path)).collect::<Result<_>>()?
    };
    history.record(&keys)?;
    Ok(keys)
}

/// Reads the key, or makes it, with an id that no other key has.
fn own_key(path: &Path, suite: Suite, history: &mut KeyHistory) -> Result<HpkeKeypair> {
    if !path.exists() {
        keys::write(path, &keys::generate_for(suite, history.unused_id()?), false)?;
        tracing::info!(file = %path.display(), "made an HPKE key");
    }
    let key = keys::read(path)?;
    history.record(std::slice::from_ref(&key))?;
    Ok(key)
}
