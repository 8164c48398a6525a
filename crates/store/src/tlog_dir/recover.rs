//! Opening a log: reads how far it came and cleans up after a crash.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::Path;

use sotto_crypto::note;
use sotto_protocol::log::sequence::LogState;
use sotto_protocol::log::{CHECKPOINT_PATH, Reader, tiles};
use sotto_wire::{Checkpoint, Note};

use super::disk::Step;
use super::fetch::FolderFetch;
use super::state::Pending;
use super::{LogDir, LogDirError};

impl LogDir {
    /// Brings memory into agreement with the files, and the files with the last signed checkpoint.
    pub(super) fn recover(&mut self) -> Result<(), LogDirError> {
        self.disk.enter(Step::Open);
        let temporary = self.state.join("tmp");
        self.disk.remove_all(std::slice::from_ref(&temporary), false)?;
        self.disk.create_dir(&temporary)?;
        self.disk.create_dir(&self.public)?;
        self.halted = read(&self.state.join("halted"))?
            .map(|reason| String::from_utf8_lossy(&reason).trim().to_owned());
        self.reader = Reader::new(FolderFetch::new(&self.public));
        self.load_checkpoints()?;
        // What was found may be in the folders without being durable, if the previous process died
        // before its sync. From here on it is relied upon.
        self.disk.sync_dir(&self.state)?;
        self.disk.sync_dir(&self.public)?;
        self.cut()?;
        self.load_tree()?;
        let tree = self.pending.as_ref().map(|pending| &pending.checkpoint);
        let wanted = self.pending.as_ref().map(|pending| (pending.ids, pending.names));
        let wanted = wanted.unwrap_or_default();
        let below = self.published_size()?;
        self.index.recover(tree, wanted, below, &mut self.reader, &mut self.disk)?;
        if self.halted.is_none() {
            if !self.is_unpublished() {
                self.prune()?;
            }
            self.disk.enter(Step::Index);
            self.index.write(&mut self.disk, below)?;
        }
        self.unsure = false;
        Ok(())
    }

    /// The size of the last published checkpoint; 0 before the first.
    pub(super) fn published_size(&self) -> Result<u64, LogDirError> {
        let size = |note: &Note| Checkpoint::parse(note.text()).map(|found| found.size);
        Ok(self.published.as_ref().map(size).transpose()?.unwrap_or(0))
    }

    /// Loads the signed and the published checkpoint and checks that they belong together.
    fn load_checkpoints(&mut self) -> Result<(), LogDirError> {
        let path = self.state.join("pending");
        let pending = read(&path)?.map(|bytes| Pending::parse(&bytes)).transpose();
        self.pending = pending.map_err(|error| damaged(&path, error))?;
        let path = self.public.join(CHECKPOINT_PATH);
        let published = read(&path)?.map(|bytes| Note::parse(&bytes)).transpose();
        self.published = published.map_err(|error| damaged(&path, error))?;
        if let Some(pending) = &self.pending {
            let verified = note::verify(&pending.note, &self.key.verifier());
            if verified.is_err() || pending.checkpoint.origin != self.origin() {
                return Err(LogDirError::OtherKey);
            }
        }
        let Some(note) = &self.published else { return Ok(()) };
        let published = Checkpoint::parse(note.text()).map_err(|error| damaged(&path, error))?;
        // A checkpoint that this state does not contain was made by a later state, which is lost.
        // To continue from here would fork the log.
        match &self.pending {
            Some(pending) if published.size < pending.checkpoint.size => Ok(()),
            Some(pending) if published == pending.checkpoint => Ok(()),
            _ => Err(damaged(&path, "the log's state does not contain this checkpoint")),
        }
    }

    /// Drops tiles beyond the signed size: they were never announced.
    fn cut(&mut self) -> Result<(), LogDirError> {
        let path = self.state.join("staging");
        let Some(bytes) = read(&path)? else { return Ok(()) };
        let staging = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok());
        let staging = staging.ok_or_else(|| damaged(&path, "it is not a number"))?;
        let files = tiles::written(self.signed_size(), staging).into_iter();
        let files: Vec<_> = files.map(|tile| self.public.join(tile.path)).collect();
        Ok(self.disk.remove_all(&files, true)?)
    }

    /// Loads the right edge of the signed tree.
    fn load_tree(&mut self) -> Result<(), LogDirError> {
        let Some(pending) = &self.pending else {
            self.tree = LogState::new();
            return Ok(());
        };
        let public = &self.public;
        let load = |path: &str| fs::read(public.join(path)).map_err(|error| damaged(path, error));
        let tree = LogState::load(pending.checkpoint.size, load);
        let tree = tree.map_err(|error| LogDirError::Damaged(error.to_string()))?;
        if tree.root() != pending.checkpoint.root {
            return Err(LogDirError::Damaged("the tiles do not match its state".to_owned()));
        }
        self.tree = tree;
        Ok(())
    }
}

/// A file's bytes; `None` if it does not exist.
pub(super) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn damaged(path: impl AsRef<Path>, reason: impl Display) -> LogDirError {
    LogDirError::Damaged(format!("{}: {reason}", path.as_ref().display()))
}
