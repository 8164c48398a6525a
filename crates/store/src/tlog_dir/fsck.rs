//! Checks every file of a log against its entries: tiles, root, rows, first checkpoints, and files
//! that do not belong there.
//!
//! Works on the public folder alone, so anyone can check a mirror. If the log is being appended to,
//! files beyond the checkpoint are reported although nothing is wrong with them. The meaning of the
//! entries is not checked; `log monitor` does that.

mod strays;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use sotto_protocol::log::rows::Row;
use sotto_protocol::log::sequence::LogState;
use sotto_protocol::log::tiles::bundle_path;
use sotto_protocol::log::witnessing::Cosigned;
use sotto_protocol::log::{CHECKPOINT_PATH, Fetch, FetchError, first};
use sotto_wire::limits::MAX_ENTRY_BUNDLE_LEN;
use sotto_wire::tlog::tile::TILE_WIDTH;
use sotto_wire::{Checkpoint, Entry, EntryBundle, Note, TlogPolicy, TreeHash};

use super::fetch::FolderFetch;
use super::table::{Fingerprint, Table};

/// The most differences that are described; any others are only counted.
const MAX_DIFFERENCES: usize = 1000;
const WIDTH: u64 = TILE_WIDTH as u64;

/// Why a log could not be checked. [`Fsck`] says what is wrong with the log itself.
#[derive(Debug, thiserror::Error)]
pub enum FsckError {
    /// The disk failed.
    #[error("the log's files: {0}")]
    Io(#[from] io::Error),
    /// A file cannot be read.
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fsck {
    /// The size that the checkpoint states.
    pub size: u64,
    /// A description of each difference; at most 1000 of them.
    pub differences: Vec<String>,
    /// How many more there are.
    pub more: u64,
}

impl Fsck {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.differences.is_empty()
    }

    fn report(&mut self, difference: String) {
        if self.differences.len() < MAX_DIFFERENCES {
            self.differences.push(difference);
        } else {
            self.more += 1;
        }
    }
}

/// Checks the log in a folder. `progress` is called from time to time with the number of entries
/// done and the total.
pub fn fsck(
    public: &Path,
    policy: &TlogPolicy,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Fsck, FsckError> {
    let mut check = Check::new(public, policy);
    let Some(checkpoint) = check.checkpoint()? else { return Ok(check.found) };
    check.found.size = checkpoint.size;
    for bundle in 0..checkpoint.size.div_ceil(WIDTH) {
        progress(bundle * WIDTH, checkpoint.size);
        check.first(bundle, checkpoint.size)?;
        if !check.bundle(bundle, checkpoint.size)? {
            check
                .found
                .report(format!("the entries from {} on could not be checked", check.tree.size()));
            return Ok(check.found);
        }
    }
    progress(checkpoint.size, checkpoint.size);
    check.edge(&checkpoint)?;
    check.rows(&checkpoint)?;
    strays::check(public, checkpoint.size, &mut check.found)?;
    Ok(check.found)
}

/// The state of a check that goes through the entries once.
struct Check<'a> {
    fetch: FolderFetch,
    policy: &'a TlogPolicy,
    by_id: Table,
    tree: LogState,
    ids: Fingerprint,
    /// Roots that `first` files claim for sizes not reached yet.
    claimed: BTreeMap<u64, (TreeHash, String)>,
    /// The last verified note: neighbouring bundles mostly have the same one.
    verified: Option<Note>,
    found: Fsck,
}

impl<'a> Check<'a> {
    fn new(public: &Path, policy: &'a TlogPolicy) -> Self {
        Self {
            fetch: FolderFetch::new(public),
            policy,
            by_id: Table::new(public.join("by-id")),
            tree: LogState::new(),
            ids: Fingerprint::default(),
            claimed: BTreeMap::new(),
            verified: None,
            found: Fsck::default(),
        }
    }

    fn checkpoint(&mut self) -> Result<Option<Checkpoint>, FsckError> {
        let Some(bytes) = self.fetch.fetch(CHECKPOINT_PATH, first::MAX_NOTE)? else {
            self.found.report("there is no checkpoint".to_owned());
            return Ok(None);
        };
        let note = Note::parse(&bytes);
        let checkpoint = note.as_ref().ok().and_then(|note| Checkpoint::parse(note.text()).ok());
        let (Ok(note), Some(checkpoint)) = (note, checkpoint) else {
            self.found.report("checkpoint: it cannot be read".to_owned());
            return Ok(None);
        };
        if let Err(error) = Cosigned::new(note, self.policy) {
            self.found.report(format!("checkpoint: {error}"));
        }
        Ok(Some(checkpoint))
    }

    /// Checks the first checkpoints of a bundle, except for their roots, which are checked with the
    /// entries.
    fn first(&mut self, bundle: u64, size: u64) -> Result<(), FsckError> {
        let path = first::path(bundle);
        let Some(bytes) = self.fetch.fetch(&path, first::MAX_FILE)? else {
            self.found.report(format!("{path}: it is missing"));
            return Ok(());
        };
        let notes = match first::parse(&bytes) {
            Ok(notes) => notes,
            Err(error) => {
                self.found.report(format!("{path}: {error}"));
                return Ok(());
            }
        };
        let end = size.min((bundle + 1) * WIDTH);
        if notes.last().is_none_or(|(last, _)| last.size < end) {
            self.found.report(format!("{path}: it does not cover all entries of its bundle"));
        }
        let mut before = bundle * WIDTH;
        for (checkpoint, note) in notes {
            if before >= end || checkpoint.size <= bundle * WIDTH || checkpoint.size > size {
                let size = checkpoint.size;
                self.found.report(format!("{path}: size {size} is not the first of any entry"));
                continue;
            }
            before = checkpoint.size;
            if self.verified.as_ref() != Some(&note) {
                match Cosigned::new(note.clone(), self.policy) {
                    Ok(_) => self.verified = Some(note),
                    Err(error) => {
                        self.found.report(format!("{path}: size {before}: {error}"));
                    }
                }
            }
            let claim = (checkpoint.root, path.clone());
            if let Some((root, other)) = self.claimed.insert(before, claim)
                && root != checkpoint.root
            {
                self.found.report(format!("{path} and {other} have two roots for size {before}"));
            }
        }
        Ok(())
    }

    /// Derives the tiles and rows of a bundle's entries; `false` if the bundle cannot be read.
    fn bundle(&mut self, bundle: u64, size: u64) -> Result<bool, FsckError> {
        let path = bundle_path(bundle, size).map(|path| path.to_path()).unwrap_or_default();
        let Some(bytes) = self.fetch.fetch(&path, MAX_ENTRY_BUNDLE_LEN)? else {
            self.found.report(format!("{path}: it is missing"));
            return Ok(false);
        };
        let wanted = WIDTH.min(size - bundle * WIDTH) as usize;
        let entries = EntryBundle::parse(&bytes).ok().filter(|found| found.len() == wanted);
        let Some(entries) = entries else {
            self.found.report(format!("{path}: it is not a bundle of {wanted} entries"));
            return Ok(false);
        };
        let mut writes = Vec::new();
        for bytes in entries {
            let index = self.tree.size();
            match Entry::parse(bytes) {
                Ok(entry) => self.ids.toggle(&Row { key: *entry.id().as_bytes(), index }),
                Err(error) => self.found.report(format!("entry {index}: {error}")),
            }
            self.tree.push(bytes, &mut writes);
            if let Some((root, path)) = self.claimed.remove(&self.tree.size())
                && root != self.tree.root()
            {
                let size = self.tree.size();
                self.found.report(format!("{path}: the root of size {size} is wrong"));
            }
        }
        for write in writes {
            self.compare(&write.path, &write.bytes)?;
        }
        Ok(true)
    }

    /// Checks the incomplete tiles and the root.
    fn edge(&mut self, checkpoint: &Checkpoint) -> Result<(), FsckError> {
        let writes: Vec<_> = self.tree.partial(0).collect();
        for write in writes {
            self.compare(&write.path, &write.bytes)?;
        }
        if self.tree.root() != checkpoint.root {
            self.found.report("checkpoint: the root is not that of the entries".to_owned());
        }
        Ok(())
    }

    fn compare(&mut self, path: &str, bytes: &[u8]) -> Result<(), FsckError> {
        match self.fetch.fetch(path, MAX_ENTRY_BUNDLE_LEN)? {
            None => self.found.report(format!("{path}: it is missing")),
            Some(found) if found != bytes => {
                self.found.report(format!("{path}: it is not what the entries give"));
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Checks the rows: all at once, and one by one only if something is wrong.
    fn rows(&mut self, checkpoint: &Checkpoint) -> Result<(), FsckError> {
        let mut ids = Fingerprint::default();
        let scanned = self.by_id.scan(|row| ids.toggle(row));
        if scanned.is_ok() && ids == self.ids {
            return Ok(());
        }
        if let Err(error) = scanned {
            self.found.report(format!("by-id: {error}"));
        }
        let before = self.found.differences.len();
        for bundle in 0..checkpoint.size.div_ceil(WIDTH) {
            let path = bundle_path(bundle, checkpoint.size).map(|path| path.to_path());
            let bytes = self.fetch.fetch(&path.unwrap_or_default(), MAX_ENTRY_BUNDLE_LEN)?;
            let entries = bytes.as_deref().map(EntryBundle::parse).and_then(Result::ok);
            for (bytes, index) in entries.unwrap_or_default().into_iter().zip(bundle * WIDTH..) {
                let Ok(entry) = Entry::parse(bytes) else { continue };
                match self.by_id.find(entry.id().as_bytes()) {
                    Ok(Some(found)) if found == index => {}
                    Ok(Some(found)) => {
                        self.found.report(format!("by-id: entry {index} is given as {found}"));
                    }
                    Ok(None) => self.found.report(format!("by-id: entry {index} is missing")),
                    Err(error) => self.found.report(format!("by-id of entry {index}: {error}")),
                }
            }
        }
        if self.found.differences.len() == before {
            self.found.report("by-id: there are rows without an entry".to_owned());
        }
        Ok(())
    }
}
