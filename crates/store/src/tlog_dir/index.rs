//! The index: finds entries by id, and the last entry of a subject. Rows that are not on disk yet
//! are kept in memory.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use sotto_protocol::log::Reader;
use sotto_protocol::log::admit::{Subject, subject};
use sotto_protocol::log::rows::Row;
use sotto_protocol::log::sequence::NewEntry;
use sotto_wire::tlog::tile::TILE_WIDTH;
use sotto_wire::{Checkpoint, Entry, EntryId};

use super::disk::Disk;
use super::fetch::FolderFetch;
use super::table::{Fingerprint, Table};
use super::{LogDirError, Placed};

/// If more rows than this are in memory, they are written at the next opportunity: about 60 MiB if
/// every entry has a subject. Rows are spread over 2^16 files, so writing many at once costs little
/// more than writing a few.
const MAX_UNWRITTEN: usize = 1 << 19;

/// The last entry of a subject.
#[derive(Clone, Copy, Debug)]
struct Last {
    index: u64,
    rank: u64,
}

#[derive(Debug)]
pub(super) struct Index {
    by_id: Table,
    names: Table,
    /// Rows of `by_id` and `names` that are not on disk yet.
    ids: BTreeMap<EntryId, u64>,
    lasts: BTreeMap<[u8; 32], Last>,
    /// The fingerprint of all rows, on disk or in memory.
    ids_print: Fingerprint,
    names_print: Fingerprint,
    /// The size up to which incomplete tiles have been dropped.
    pruned: u64,
}

impl Index {
    pub(super) fn new(by_id: PathBuf, names: PathBuf) -> Self {
        Self {
            by_id: Table::new(by_id),
            names: Table::new(names),
            ids: BTreeMap::new(),
            lasts: BTreeMap::new(),
            ids_print: Fingerprint::default(),
            names_print: Fingerprint::default(),
            pruned: 0,
        }
    }

    pub(super) fn fingerprints(&self) -> (Fingerprint, Fingerprint) {
        (self.ids_print, self.names_print)
    }

    /// Whether so many rows are in memory that they should be written.
    pub(super) fn is_full(&self) -> bool {
        self.ids.len() >= MAX_UNWRITTEN
    }

    /// Returns the sizes between which incomplete tiles are to be dropped, and records this as
    /// done.
    pub(super) fn take_pruned(&mut self, size: u64) -> (u64, u64) {
        (std::mem::replace(&mut self.pruned, size), size)
    }

    pub(super) fn find(&self, id: &EntryId) -> io::Result<Option<u64>> {
        match self.ids.get(id) {
            Some(index) => Ok(Some(*index)),
            None => self.by_id.find(id.as_bytes()),
        }
    }

    /// The rank of the last entry of a subject in the signed tree.
    pub(super) fn last_rank(
        &self,
        subject: &[u8; 32],
        tree: Option<&Checkpoint>,
        reader: &mut Reader<FolderFetch>,
    ) -> Result<Option<u64>, LogDirError> {
        Ok(self.last(subject, tree, reader)?.map(|last| last.rank))
    }

    /// Decides which candidates are new, in order, and gives each its index.
    pub(super) fn place(
        &mut self,
        tree: Option<&Checkpoint>,
        candidates: Vec<NewEntry>,
        reader: &mut Reader<FolderFetch>,
    ) -> Result<(Vec<Placed>, Vec<NewEntry>), LogDirError> {
        let size = tree.map_or(0, |tree| tree.size);
        let (mut placed, mut new) = (Vec::with_capacity(candidates.len()), Vec::new());
        for entry in candidates {
            if let Some(index) = self.find(&entry.id())? {
                placed.push(Placed::Known(index));
                continue;
            }
            let mut last = None;
            if let Some(subject) = entry.subject() {
                last = self.last(&subject.key, tree, reader)?;
                if last.is_some_and(|last| subject.rank <= last.rank) {
                    placed.push(Placed::Outdated);
                    continue;
                }
            }
            let index = size + new.len() as u64;
            self.add_id(entry.id(), index);
            if let Some(subject) = entry.subject() {
                self.add_subject(subject, index, last.map(|last| last.index));
            }
            placed.push(Placed::New(index));
            new.push(entry);
        }
        Ok((placed, new))
    }

    /// Writes all rows, except those of entries from `below` on, which are not public yet.
    pub(super) fn write(&mut self, disk: &mut Disk, below: u64) -> io::Result<()> {
        let rows = self.lasts.iter().map(|(key, last)| Row { key: *key, index: last.index });
        self.names.put(disk, rows)?;
        // Written second, so that an entry that is found by its id also has its subject's row.
        let rows = self.ids.iter().filter(|(_, index)| **index < below);
        let rows = rows.map(|(id, index)| Row { key: *id.as_bytes(), index: *index });
        self.by_id.put(disk, rows)?;
        self.lasts.clear();
        self.ids.retain(|_, index| *index >= below);
        Ok(())
    }

    /// Brings rows on disk and in memory into agreement with the signed tree. `wanted` are the
    /// fingerprints that its rows must have; entries from `below` on are not public yet.
    pub(super) fn recover(
        &mut self,
        tree: Option<&Checkpoint>,
        wanted: (Fingerprint, Fingerprint),
        below: u64,
        reader: &mut Reader<FolderFetch>,
        disk: &mut Disk,
    ) -> Result<(), LogDirError> {
        self.ids.clear();
        self.lasts.clear();
        disk.create_dir(self.by_id.folder())?;
        disk.create_dir(self.names.folder())?;
        if let Some(missing) = self.scan(tree.map_or(0, |tree| tree.size)) {
            self.pruned = missing.first().copied().unwrap_or(tree.map_or(0, |tree| tree.size));
            self.fill(&missing, tree, below, reader, disk)?;
            if self.fingerprints() == wanted {
                return Ok(());
            }
        }
        tracing::warn!("the log's index does not match and is rebuilt from the entries");
        self.rebuild(tree, below, reader, disk)?;
        match self.fingerprints() == wanted {
            true => Ok(()),
            false => Err(LogDirError::Damaged("the entries do not match its state".to_owned())),
        }
    }

    /// Reads all rows on disk and returns the indices that no row refers to; `None` if the rows are
    /// unusable.
    fn scan(&mut self, size: u64) -> Option<Vec<u64>> {
        let (mut ids, mut names) = (Fingerprint::default(), Fingerprint::default());
        let mut seen = vec![false; usize::try_from(size).ok()?];
        let mut sound = true;
        let visit = |row: &Row| {
            ids.toggle(row);
            let place = usize::try_from(row.index).ok().and_then(|index| seen.get_mut(index));
            // Beyond the tree, or a duplicate.
            sound &= place.is_some_and(|seen| !std::mem::replace(seen, true));
        };
        self.by_id.scan(visit).ok()?;
        self.names.scan(|row| names.toggle(row)).ok()?;
        (self.ids_print, self.names_print) = (ids, names);
        let missing = seen.iter().zip(0..).filter(|(seen, _)| !**seen);
        sound.then(|| missing.map(|(_, index)| index).collect())
    }

    /// Adds rows for these entries, and writes rows to disk when too many are in memory.
    fn fill(
        &mut self,
        indices: &[u64],
        tree: Option<&Checkpoint>,
        below: u64,
        reader: &mut Reader<FolderFetch>,
        disk: &mut Disk,
    ) -> Result<(), LogDirError> {
        let Some(tree) = tree else { return Ok(()) };
        let width = u64::from(TILE_WIDTH);
        for run in indices.chunk_by(|a, b| b - a == 1 && b / width == a / width) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let entries = reader.entries(*first..last + 1, tree)?;
            for (bytes, index) in entries.iter().zip(*first..) {
                let entry = Entry::parse(bytes)?;
                self.add_id(entry.id(), index);
                let Some(subject) = subject(&entry) else { continue };
                let known = match self.lasts.get(&subject.key) {
                    Some(last) => Some(last.index),
                    None => self.names.find(&subject.key)?,
                };
                if known.is_none_or(|known| known < index) {
                    self.add_subject(&subject, index, known);
                }
            }
            if self.is_full() {
                self.write(disk, below)?;
            }
        }
        Ok(())
    }

    fn rebuild(
        &mut self,
        tree: Option<&Checkpoint>,
        below: u64,
        reader: &mut Reader<FolderFetch>,
        disk: &mut Disk,
    ) -> Result<(), LogDirError> {
        let (by_id, names) = (self.by_id.folder().to_owned(), self.names.folder().to_owned());
        disk.remove_all(&[by_id.clone(), names.clone()], true)?;
        *self = Self::new(by_id, names);
        disk.create_dir(self.by_id.folder())?;
        disk.create_dir(self.names.folder())?;
        let size = tree.map_or(0, |tree| tree.size);
        for begin in (0..size).step_by(usize::from(TILE_WIDTH)) {
            let end = size.min(begin + u64::from(TILE_WIDTH));
            let bundle: Vec<u64> = (begin..end).collect();
            self.fill(&bundle, tree, below, reader, disk)?;
        }
        Ok(())
    }

    fn last(
        &self,
        key: &[u8; 32],
        tree: Option<&Checkpoint>,
        reader: &mut Reader<FolderFetch>,
    ) -> Result<Option<Last>, LogDirError> {
        if let Some(last) = self.lasts.get(key) {
            return Ok(Some(*last));
        }
        let (Some(index), Some(tree)) = (self.names.find(key)?, tree) else { return Ok(None) };
        let entry = Entry::parse(&reader.entry(index, tree)?)?;
        let found = subject(&entry).filter(|subject| subject.key == *key);
        let rank = found.map(|subject| subject.rank);
        let rank = rank.ok_or_else(|| LogDirError::Damaged("a row of state/names".to_owned()))?;
        Ok(Some(Last { index, rank }))
    }

    fn add_id(&mut self, id: EntryId, index: u64) {
        self.ids_print.toggle(&Row { key: *id.as_bytes(), index });
        self.ids.insert(id, index);
    }

    /// Adds the row of a subject, replacing the one with the index `old`.
    fn add_subject(&mut self, subject: &Subject, index: u64, old: Option<u64>) {
        if let Some(index) = old {
            self.names_print.toggle(&Row { key: subject.key, index });
        }
        self.names_print.toggle(&Row { key: subject.key, index });
        self.lasts.insert(subject.key, Last { index, rank: subject.rank });
    }
}
