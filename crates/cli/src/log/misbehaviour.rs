//! Files with which anyone can verify that a promise was broken.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use sotto_protocol::Moment;
use sotto_protocol::log::Misbehaviour;

use crate::private_file;
use crate::time_text::{now, show_moment};

/// The version of the file format.
const VERSION: u32 = 1;

/// The contents of the file. The words are for people; only the evidence is checked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MisbehaviourFile {
    version: u32,
    charge: String,
    how_to_check: String,
    evidence: Misbehaviour,
}

/// The text of a file with this evidence.
pub(super) fn text(evidence: &Misbehaviour) -> Result<String> {
    let charge = evidence.check().map_err(|reason| anyhow::anyhow!("no proof: {reason}"))?;
    let file = MisbehaviourFile {
        version: VERSION,
        charge,
        how_to_check: "sotto log verify --misbehaviour THIS_FILE".to_owned(),
        evidence: evidence.clone(),
    };
    Ok(serde_json::to_string_pretty(&file)?)
}

/// Writes `misbehaviour-<time>.json` into a folder and returns its path. Never replaces an existing
/// file.
pub(super) fn write(folder: &Path, evidence: &Misbehaviour) -> Result<PathBuf> {
    let text = text(evidence)?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let time = show_moment(now().unwrap_or(Moment(0))).replace(':', "");
    for number in 1.. {
        let more = if number == 1 { String::new() } else { format!("-{number}") };
        let path = folder.join(format!("misbehaviour-{time}{more}.json"));
        if path.symlink_metadata().is_err() {
            private_file::write(&path, &text, false)?;
            return Ok(path);
        }
    }
    anyhow::bail!("there is no free name for the file")
}

/// Reads the evidence in a file. It is not checked yet.
pub(super) fn read(path: &Path) -> Result<Misbehaviour> {
    let text = private_file::read(path)?;
    let file: MisbehaviourFile = serde_json::from_str(&text)
        .with_context(|| format!("{} is not a misbehaviour file", path.display()))?;
    ensure!(file.version == VERSION, "{} has unknown version {}", path.display(), file.version);
    Ok(file.evidence)
}
