//! Remembers the last accepted checkpoint of each log, so that the next command notices if the log
//! shrinks or forks.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use sotto_wire::Note;

use super::fork::SignedTree;
use crate::private_file;

/// Where checkpoints are remembered.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    folder: PathBuf,
}

impl Memory {
    /// The given folder, or the default one of this user; `None` if there is neither.
    pub(super) fn open(folder: Option<&Path>) -> Option<Self> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let usual = || {
            let state = variable("XDG_STATE_HOME").map(PathBuf::from);
            let state =
                state.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/state")));
            Some(state?.join("sotto/checkpoints"))
        };
        Some(Self { folder: folder.map(Path::to_owned).or_else(usual)? })
    }

    /// The remembered checkpoint of a log.
    pub(super) fn recall(&self, origin: &str) -> Result<Option<SignedTree>> {
        let path = self.path(origin);
        match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            read => {
                let bytes = read.with_context(|| format!("cannot read {}", path.display()))?;
                let tree = Note::parse(&bytes).map_err(Into::into).and_then(SignedTree::new);
                tree.map(Some).with_context(|| format!("{} is damaged", path.display()))
            }
        }
    }

    /// Remembers an accepted checkpoint.
    pub(super) fn keep(&self, believed: &SignedTree) -> Result<()> {
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make {}", self.folder.display()))?;
        let text = String::from_utf8(believed.note.to_bytes()).context("a note is text")?;
        private_file::write(&self.path(&believed.tree.origin), &text, true)
    }

    fn path(&self, origin: &str) -> PathBuf {
        let name: String =
            Sha256::digest(origin).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(name)
    }
}
