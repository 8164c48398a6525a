//! A public log in a folder: C2SP tlog-tiles as plain files that any web server can serve.
//!
//! ```text
//! DIR/public/checkpoint, tile/, by-id/, first/   served
//! DIR/state/pending, staging, names/, halted     the log's own
//! DIR/log.lock                                   held while the log is open
//! ```
//! An append loads the state, calls one pure function ([`mod@sotto_protocol::log::sequence`]), then
//! takes the steps of [`Step`], each durable before the next. [`LogDir::stage`] goes as far as the
//! signed checkpoint in `state/pending`: from then on this log signs no other tree of that size.
//! The host shows it to the witnesses and passes the cosigned checkpoint to [`LogDir::publish`],
//! which acknowledges the entries. Whatever lies beyond the pending size after a crash was never
//! signed, and is dropped.
//!
//! The memory that a running log needs does not grow with the log. Startup reads each derived row
//! once and the right edge of the tree, but not the entries, unless rows are missing.

mod disk;
mod fetch;
mod fsck;
mod index;
mod recover;
mod state;
mod table;

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use sotto_crypto::note::{self, NoteKey};
use sotto_protocol::log::admit::Held;
use sotto_protocol::log::sequence::{self, LogState, NewEntry, sequence};
use sotto_protocol::log::witnessing::{Cosigned, Halt};
use sotto_protocol::log::{CHECKPOINT_PATH, Reader, ReaderError, first, tiles};
use sotto_wire::tlog::tile::TILE_WIDTH;
use sotto_wire::{Entry, EntryId, FormatError, Note, Recipe, TreeHash};

pub use disk::{DiskOp, DiskWatch, Step};
pub use fetch::FolderFetch;
pub use fsck::{Fsck, FsckError, fsck};

use crate::lock::try_lock;
use disk::Disk;
use index::Index;
use state::Pending;

/// The most entries in one append. All their bytes are in memory at the same time.
pub const MAX_BATCH: usize = 1 << 16;

/// Why a log operation failed.
#[derive(Debug, thiserror::Error)]
pub enum LogDirError {
    /// The disk failed.
    #[error("the log's files: {0}")]
    Io(#[from] io::Error),
    /// Another process has the log open.
    #[error("another process has this log open")]
    Locked,
    /// The files contradict each other. Nothing was changed.
    #[error("the log's files are damaged: {0}")]
    Damaged(String),
    /// The folder belongs to another key or origin.
    #[error("the folder holds the log of another key")]
    OtherKey,
    /// The log has stopped permanently.
    #[error("the log has stopped for good: {0}")]
    Halted(String),
    /// The previous checkpoint is not published yet.
    #[error("the last checkpoint is not published yet")]
    Unpublished,
    /// The checkpoint is not the one that was staged.
    #[error("this is not the checkpoint that was staged")]
    NotPending,
    /// Too many entries at once.
    #[error("an append has at most {MAX_BATCH} entries")]
    BatchTooLarge,
    /// A step failed, and so did rereading the files.
    #[error("the log's files could not be read after a failure")]
    Unsure,
    /// An entry cannot be in a log.
    #[error(transparent)]
    Entry(#[from] FormatError),
    /// The tiles do not yield the expected hashes.
    #[error(transparent)]
    Reader(#[from] ReaderError),
}

/// What happened to an entry of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// Appended, at this index.
    New(u64),
    /// Already in the log, at this index.
    Known(u64),
    /// Not appended: its author has another recipe with this name, or its operator has a key set or
    /// a receipt with this or a higher sequence number.
    Outdated,
}

/// A signed checkpoint that waits for its witnesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// Signed by the log alone.
    pub note: Note,
    /// The size before the append.
    pub from: u64,
    /// The size that the note states.
    pub size: u64,
    /// What happened to each entry of the call, in order.
    pub placed: Vec<Placed>,
}

/// A log, open for appending.
#[derive(Debug)]
pub struct LogDir {
    public: PathBuf,
    state: PathBuf,
    key: NoteKey,
    disk: Disk,
    tree: LogState,
    pending: Option<Pending>,
    published: Option<Note>,
    index: Index,
    reader: Reader<FolderFetch>,
    halted: Option<String>,
    /// A step failed half-way. The files say how far it came, so they are reread before the next
    /// step.
    unsure: bool,
    _lock: File,
}

impl LogDir {
    /// Opens the log in `folder`, which is created if it is missing. The name of the key is the
    /// log's origin.
    pub fn open(folder: &Path, key: NoteKey) -> Result<Self, LogDirError> {
        Self::open_watched(folder, key, None)
    }

    /// As [`Self::open`], with a watcher that sees every change to the disk before it happens.
    pub fn open_watched(
        folder: &Path,
        key: NoteKey,
        watch: Option<Box<dyn DiskWatch>>,
    ) -> Result<Self, LogDirError> {
        let (public, state) = (folder.join("public"), folder.join("state"));
        let mut disk = Disk::new(folder, state.join("tmp"), watch);
        disk.create_dir(folder)?;
        let lock = File::create(folder.join("log.lock"))?;
        match try_lock(&lock) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LogDirError::Locked),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let mut log = Self {
            index: Index::new(public.join("by-id"), state.join("names")),
            reader: Reader::new(FolderFetch::new(&public)),
            public,
            state,
            key,
            disk,
            tree: LogState::new(),
            pending: None,
            published: None,
            halted: None,
            unsure: true,
            _lock: lock,
        };
        log.recover()?;
        Ok(log)
    }

    /// The folder to serve.
    pub fn public(&self) -> &Path {
        &self.public
    }

    /// The origin of the log.
    pub fn origin(&self) -> &str {
        self.key.name().as_str()
    }

    /// The last cosigned checkpoint.
    pub fn published(&self) -> Option<&Note> {
        self.published.as_ref()
    }

    /// The size of the last signed checkpoint, published or not; 0 before the first.
    pub fn signed_size(&self) -> u64 {
        self.pending.as_ref().map_or(0, |pending| pending.checkpoint.size)
    }

    /// The signed checkpoint that waits for its witnesses, if there is one. After a restart it is
    /// the one that was staged before.
    pub fn pending(&self) -> Option<Staged> {
        let pending = self.pending.as_ref().filter(|_| self.is_unpublished())?;
        Some(staged(pending, Vec::new()))
    }

    /// Why the log has stopped permanently, if it has.
    pub fn halted(&self) -> Option<&str> {
        self.halted.as_deref()
    }

    /// Appends entries as far as a signed, durable checkpoint. The caller has already decided that
    /// the log wants them ([`sotto_protocol::log::admit`]). An id or a name that is already in the
    /// log is not appended again. Without any new entry the checkpoint is the last one again, for
    /// fresh cosignatures.
    pub fn stage(&mut self, entries: &[Entry]) -> Result<Staged, LogDirError> {
        self.attempt(|log| log.take_stage(entries))
    }

    /// Publishes the staged checkpoint, now cosigned. When this returns, the entries are
    /// acknowledged. A published checkpoint may be published again with newer cosignatures.
    pub fn publish(&mut self, cosigned: &Cosigned) -> Result<(), LogDirError> {
        self.attempt(|log| log.take_publish(cosigned))?;
        if self.index.is_full() { self.write_index() } else { Ok(()) }
    }

    /// Writes the index rows of what was published since the last call, and drops incomplete tiles
    /// that have become complete. Hosts call this after each [`Self::publish`], once submitters are
    /// answered; a bulk import may call it less often.
    pub fn write_index(&mut self) -> Result<(), LogDirError> {
        self.attempt(Self::take_write_index)
    }

    /// Stops the log permanently: nothing more is signed or published, even after a restart. An
    /// operator who has understood the reason may remove `state/halted`.
    pub fn halt(&mut self, halt: &Halt) -> Result<(), LogDirError> {
        self.disk.enter(Step::Halt);
        let reason = halt.to_string();
        self.halted = Some(reason.clone());
        let path = self.state.join("halted");
        Ok(self.disk.replace_all(&[(path, format!("{reason}\n").into_bytes())])?)
    }

    /// The consistency proof between two sizes, at most the signed one.
    pub fn consistency(&mut self, old: u64, new: u64) -> Result<Vec<TreeHash>, LogDirError> {
        self.check_size(new)?;
        Ok(self.reader.consistency(old, new)?)
    }

    /// The inclusion proof of an entry in the tree of a size, at most the signed one.
    pub fn inclusion(&mut self, index: u64, size: u64) -> Result<Vec<TreeHash>, LogDirError> {
        self.check_size(size)?;
        Ok(self.reader.inclusion(index, size)?)
    }

    fn take_stage(&mut self, entries: &[Entry]) -> Result<Staged, LogDirError> {
        if self.is_unpublished() {
            return Err(LogDirError::Unpublished);
        }
        if entries.len() > MAX_BATCH {
            return Err(LogDirError::BatchTooLarge);
        }
        let mut candidates = Vec::with_capacity(entries.len());
        for entry in entries {
            candidates.push(NewEntry::try_from(entry)?);
        }
        // From here to the end of the step, the index in memory is ahead of the files.
        self.unsure = true;
        let tree = self.pending.as_ref().map(|pending| &pending.checkpoint);
        let (placed, new) = self.index.place(tree, candidates, &mut self.reader)?;
        if new.is_empty()
            && let Some(pending) = &self.pending
        {
            self.unsure = false;
            return Ok(staged(pending, placed));
        }
        let sequenced = sequence(&self.tree, &new);
        self.write_tiles(&sequenced)?;
        let checkpoint = sequenced.checkpoint(self.origin());
        let text = checkpoint.to_text();
        let note = Note::new(text.clone())?.with_signature(self.key.sign(&text));
        let (ids, names) = self.index.fingerprints();
        let pending = Pending { from: self.tree.size(), ids, names, note, checkpoint };
        self.disk.enter(Step::Pending);
        self.disk.replace_all(&[(self.state.join("pending"), pending.to_bytes())])?;
        let staged = staged(&pending, placed);
        self.tree = sequenced.state;
        self.pending = Some(pending);
        self.unsure = false;
        Ok(staged)
    }

    fn take_publish(&mut self, cosigned: &Cosigned) -> Result<(), LogDirError> {
        let Some(pending) = &self.pending else { return Err(LogDirError::NotPending) };
        let is_ours = note::verify(cosigned.note(), &self.key.verifier()).is_ok();
        if cosigned.note().text() != pending.note.text() || !is_ours {
            return Err(LogDirError::NotPending);
        }
        let (from, size) = (pending.from, pending.checkpoint.size);
        self.unsure = true;
        self.write_first(from, size, cosigned.note())?;
        self.disk.enter(Step::Checkpoint);
        let path = self.public.join(CHECKPOINT_PATH);
        self.disk.replace_all(&[(path, cosigned.note().to_bytes())])?;
        self.published = Some(cosigned.note().clone());
        self.unsure = false;
        Ok(())
    }

    fn take_write_index(&mut self) -> Result<(), LogDirError> {
        if self.is_unpublished() {
            return Err(LogDirError::Unpublished);
        }
        self.unsure = true;
        // In this order, because startup takes a written index as proof that pruning is done.
        self.prune()?;
        self.disk.enter(Step::Index);
        self.index.write(&mut self.disk, self.tree.size())?;
        self.unsure = false;
        Ok(())
    }

    fn check_size(&self, size: u64) -> Result<(), LogDirError> {
        match size > self.signed_size() {
            true => Err(ReaderError::OutOfRange(size).into()),
            false => Ok(()),
        }
    }

    fn is_unpublished(&self) -> bool {
        let text = |note: &Note| note.text().to_owned();
        let pending = self.pending.as_ref().map(|pending| text(&pending.note));
        pending != self.published.as_ref().map(text)
    }

    /// Takes a step unless the log has stopped. If it fails half-way, the files are reread: they
    /// say how far it came.
    fn attempt<T>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<T, LogDirError>,
    ) -> Result<T, LogDirError> {
        if let Some(reason) = &self.halted {
            return Err(LogDirError::Halted(reason.clone()));
        }
        if self.unsure {
            self.recover()?;
        }
        let result = step(self);
        if self.unsure
            && let Err(error) = self.recover()
        {
            tracing::warn!(%error, "the log's files cannot be reread after a failed step");
        }
        result
    }

    fn sure(&self) -> Result<(), LogDirError> {
        if self.unsure { Err(LogDirError::Unsure) } else { Ok(()) }
    }

    fn write_tiles(&mut self, sequenced: &sequence::Sequenced) -> Result<(), LogDirError> {
        self.disk.enter(Step::Intent);
        let intent = sequenced.state.size().to_string().into_bytes();
        self.disk.replace_all(&[(self.state.join("staging"), intent)])?;
        self.disk.enter(Step::Tiles);
        let files = sequenced.writes.iter();
        let files: Vec<_> =
            files.map(|file| (self.public.join(&file.path), file.bytes.clone())).collect();
        Ok(self.disk.replace_all(&files)?)
    }

    /// Adds the checkpoint to the files of those bundles that it is the first to cover.
    fn write_first(&mut self, from: u64, size: u64, note: &Note) -> Result<(), LogDirError> {
        let width = u64::from(TILE_WIDTH);
        let mut files = Vec::new();
        for bundle in from / width..size.div_ceil(width) {
            let path = self.public.join(first::path(bundle));
            let mut bytes = recover::read(&path)?.unwrap_or_default();
            let known = first::parse(&bytes);
            let known = known.map_err(|error| recover::damaged(&path, error))?;
            // A crash may have occurred between this step and the next. The older checkpoint proves
            // more.
            if known.last().is_some_and(|(checkpoint, _)| checkpoint.size >= size) {
                continue;
            }
            bytes.extend_from_slice(&first::encode(note));
            files.push((path, bytes));
        }
        self.disk.enter(Step::First);
        Ok(self.disk.replace_all(&files)?)
    }

    /// Drops the incomplete versions of tiles that have become complete. Readers fall back to the
    /// full ones.
    fn prune(&mut self) -> Result<(), LogDirError> {
        let (from, size) = self.index.take_pruned(self.signed_size());
        self.disk.enter(Step::Prune);
        let full = tiles::written(from, size).into_iter().filter(|tile| tile.is_full);
        let folders: Vec<PathBuf> =
            full.map(|tile| self.public.join(format!("{}.p", tile.path))).collect();
        Ok(self.disk.remove_all(&folders, false)?)
    }
}

impl Held for LogDir {
    type Error = LogDirError;

    fn index_of(&self, id: &EntryId) -> Result<Option<u64>, LogDirError> {
        self.sure()?;
        Ok(self.index.find(id)?)
    }

    fn recipe(&self, id: &EntryId) -> Result<Option<Recipe>, LogDirError> {
        let (Some(index), Some(pending)) = (self.index_of(id)?, &self.pending) else {
            return Ok(None);
        };
        let mut reader = Reader::new(FolderFetch::new(&self.public));
        let entry = Entry::parse(&reader.entry(index, &pending.checkpoint)?)?;
        Ok(entry.recipe().cloned())
    }

    fn last_rank(&self, subject: &[u8; 32]) -> Result<Option<u64>, LogDirError> {
        self.sure()?;
        let mut reader = Reader::new(FolderFetch::new(&self.public));
        let tree = self.pending.as_ref().map(|pending| &pending.checkpoint);
        self.index.last_rank(subject, tree, &mut reader)
    }
}

fn staged(pending: &Pending, placed: Vec<Placed>) -> Staged {
    Staged { note: pending.note.clone(), from: pending.from, size: pending.checkpoint.size, placed }
}
