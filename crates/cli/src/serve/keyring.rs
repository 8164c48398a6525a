//! The HPKE keys of a server: those that the configuration lists, or one that it keeps itself.

use std::path::Path;

use anyhow::Result;
use sotto_crypto::HpkeKeypair;

use super::config::Settings;
use super::key_history::KeyHistory;
use crate::keys;

/// The key that a server makes when none is configured.
const OWN_KEY: &str = "hpke_key.toml";

/// Loads the listed keys; with none listed, the server's own, made at the first start. Their ids must
/// not have belonged to other keys of this server.
pub(super) fn load(settings: &Settings, data_dir: &Path) -> Result<Vec<HpkeKeypair>> {
    let mut history = KeyHistory::read(data_dir)?;
    let listed = &settings.file.hpke_keys;
    let keys = if listed.is_empty() {
        vec![own_key(data_dir, &history)?]
    } else {
        listed.iter().map(|path| keys::read(&settings.path(path))).collect::<Result<_>>()?
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
