//! The HPKE keys of an aggregator: those that the configuration lists, or one that the server
//! makes.

use std::path::{Path, PathBuf};

use anyhow::Result;
use sotto_crypto::HpkeKeypair;

use super::key_history::KeyHistory;
use crate::keys;

/// The key that a server makes when none is configured.
const OWN_KEY: &str = "hpke_key.toml";

/// Loads the listed keys, or the server's own key, which it makes at its first start. No id may
/// have belonged to another key of this server.
pub(super) fn load(listed: &[PathBuf], data_dir: &Path) -> Result<Vec<HpkeKeypair>> {
    let mut history = KeyHistory::read(data_dir)?;
    let keys = if listed.is_empty() {
        vec![own_key(data_dir, &history)?]
    } else {
        listed.iter().map(|path| keys::read(path)).collect::<Result<_>>()?
    };
    history.record(&keys)?;
    Ok(keys)
}

fn own_key(data_dir: &Path, history: &KeyHistory) -> Result<HpkeKeypair> {
    let path = data_dir.join(OWN_KEY);
    if !path.exists() {
        keys::write(&path, &keys::generate(history.unused_id()?), false)?;
        tracing::info!(file = %path.display(), "made an HPKE key");
    }
    keys::read(&path)
}
