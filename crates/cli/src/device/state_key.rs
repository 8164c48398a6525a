//! The key that seals a device's state: in a separate file beside the state, readable only by its
//! owner. A phone has a key store for that.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sotto_client::SealingKey;
use zeroize::Zeroizing;

use crate::output::WithHint;
use crate::{private_file, random};

/// The key of the state at `path`. A new state gets a new key; a state without its key is an error.
pub(super) fn open_or_make(path: &Path) -> Result<SealingKey> {
    let file = beside(path);
    if !file.exists() && !path.exists() {
        let key = SealingKey::generate(&mut random::system());
        let text = Zeroizing::new(URL_SAFE_NO_PAD.encode(key.expose()));
        private_file::write(&file, &format!("{}\n", text.as_str()), false)?;
        return Ok(key);
    }
    open(path)
}

/// The key of the existing state at `path`.
pub(super) fn open(path: &Path) -> Result<SealingKey> {
    let file = beside(path);
    if !file.exists() {
        return Err(anyhow!("the key of {} is missing: {}", path.display(), file.display())).hint(
            "put the key back, or move the state away: the device then starts with an empty state",
        );
    }
    let text = private_file::read(&file)?;
    let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(text.trim()).unwrap_or_default());
    let key: Zeroizing<[u8; 32]> = bytes
        .as_slice()
        .try_into()
        .map(Zeroizing::new)
        .with_context(|| format!("{} holds no key", file.display()))?;
    Ok(SealingKey::new(*key))
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".key");
    path.with_file_name(name)
}
