//! The HPKE keys of a server: those that the configuration lists, or one that it keeps itself.

use std::path::Path;

use anyhow::Result;
use sotto_crypto::HpkeKeypair;

use super::config::Settings;
use crate::keys;

/// The key that a server makes when none is configured.
const OWN_KEY: &str = "hpke_key.toml";

/// Loads the listed keys; with none listed, the server's own, made at the first start.
pub(super) fn load(settings: &Settings, data_dir: &Path) -> Result<Vec<HpkeKeypair>> {
    if !settings.file.hpke_keys.is_empty() {
        return settings
            .file
            .hpke_keys
            .iter()
            .map(|path| keys::read(&settings.path(path)))
            .collect();
    }
    let path = data_dir.join(OWN_KEY);
    if !path.exists() {
        keys::write(&path, &keys::generate(1), false)?;
        tracing::info!(file = %path.display(), "made an HPKE key");
    }
    Ok(vec![keys::read(&path)?])
}
