//! The trust file: the keys and policies that a device trusts without proof.

use std::path::Path;

use anyhow::{Context, Result};
use sotto_protocol::trust::{Trust, TrustFile};

use crate::toml_text;

/// Reads and checks a trust file.
pub(crate) fn read(path: &Path) -> Result<Trust> {
    let file: TrustFile = toml_text::read(path)?;
    Trust::try_from(file).with_context(|| format!("{} cannot be used", path.display()))
}
