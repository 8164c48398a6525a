//! The pure core of appending: the right edge of the tree and new entries in; files, the new edge
//! and the checkpoint to sign out.
//!
//! Nothing here decides whether an entry may be appended ([`super::admit`]) or makes anything
//! durable (`sotto-store`).

use sotto_crypto::merkle::{Tile, TileBuilder, TileError, leaf_hash};
use sotto_wire::limits::MAX_ENTRY_LEN;
use sotto_wire::tlog::tile::{BundlePath, TILE_WIDTH};
use sotto_wire::{Checkpoint, Entry, EntryId, FormatError, TreeHash};

use super::admit::{Subject, subject};
use super::tiles::bundle_path;

const WIDTH: u64 = TILE_WIDTH as u64;

/// A file of the log, by its path below the log's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileWrite {
    /// Where it goes.
    pub path: String,
    /// What it holds.
    pub bytes: Vec<u8>,
}

impl From<Tile> for FileWrite {
    fn from(tile: Tile) -> Self {
        Self { path: tile.path.to_path(), bytes: tile.to_bytes() }
    }
}

/// The right edge of a tree: everything that an append needs to know about the existing tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    tree: TileBuilder,
    /// The incomplete bundle, encoded.
    bundle: Vec<u8>,
}

impl LogState {
    /// The edge of the empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Loads the edge of a tree of `size` entries. `read` returns the bytes of a file of the log.
    /// The caller compares the root.
    pub fn load<E>(
        size: u64,
        mut read: impl FnMut(&str) -> Result<Vec<u8>, E>,
    ) -> Result<Self, TileError<E>> {
        let tree = TileBuilder::resume(size, |path| read(&path.to_path()))?;
        let bundle = match bundle_path(size / WIDTH, size) {
            Some(path) => read(&path.to_path()).map_err(TileError::Read)?,
            None => Vec::new(),
        };
        Ok(Self { tree, bundle })
    }

    /// The number of entries.
    pub fn size(&self) -> u64 {
        self.tree.size()
    }

    /// The root of the tree.
    pub fn root(&self) -> TreeHash {
        self.tree.root()
    }

    /// Appends one entry of at most 65,535 bytes and collects the files that it completes.
    pub fn push(&mut self, entry: &[u8], writes: &mut Vec<FileWrite>) {
        self.bundle.extend_from_slice(&(entry.len() as u16).to_be_bytes());
        self.bundle.extend_from_slice(entry);
        writes.extend(self.tree.push(leaf_hash(entry)).into_iter().map(FileWrite::from));
        if self.size().is_multiple_of(WIDTH)
            && let Some(path) = BundlePath::new(self.size() / WIDTH - 1, TILE_WIDTH)
        {
            let bytes = std::mem::take(&mut self.bundle);
            writes.push(FileWrite { path: path.to_path(), bytes });
        }
    }

    /// The incomplete files that differ from those of the tree of `old` entries.
    pub fn partial(&self, old: u64) -> impl Iterator<Item = FileWrite> {
        let size = self.size();
        let grown = move |level: u8| old >> (8 * level) < size >> (8 * level);
        let bundle = bundle_path(size / WIDTH, size).filter(|_| grown(0));
        let bundle =
            bundle.map(|path| FileWrite { path: path.to_path(), bytes: self.bundle.clone() });
        let tiles = self.tree.partial_tiles().filter(move |tile| grown(tile.path.level()));
        tiles.map(FileWrite::from).chain(bundle)
    }
}

/// What an append writes and the state after it.
#[derive(Clone, Debug)]
pub struct Sequenced {
    /// The files, none of which exists in the old tree.
    pub writes: Vec<FileWrite>,
    /// The new right edge.
    pub state: LogState,
}

impl Sequenced {
    /// The checkpoint of the new tree, to be signed once the files are durable.
    pub fn checkpoint(&self, origin: &str) -> Checkpoint {
        checkpoint(origin, &self.state)
    }
}

/// The checkpoint of a tree.
pub fn checkpoint(origin: &str, state: &LogState) -> Checkpoint {
    Checkpoint::new(origin, state.size(), state.root())
}

/// An entry to be appended: its bytes and the keys under which it can be found.
#[derive(Clone, Debug)]
pub struct NewEntry {
    bytes: Vec<u8>,
    id: EntryId,
    subject: Option<Subject>,
}

impl NewEntry {
    /// The entry as the log holds it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its id.
    pub fn id(&self) -> EntryId {
        self.id
    }

    /// What it is about.
    pub fn subject(&self) -> Option<&Subject> {
        self.subject.as_ref()
    }
}

impl TryFrom<&Entry> for NewEntry {
    type Error = FormatError;

    fn try_from(entry: &Entry) -> Result<Self, FormatError> {
        let bytes = entry.to_bytes();
        // Bundles store an entry's length in two bytes.
        if bytes.len() > MAX_ENTRY_LEN {
            return Err(FormatError::new("an entry has at most 65,535 bytes"));
        }
        Ok(Self { bytes, id: entry.id(), subject: subject(entry) })
    }
}

/// Appends entries in their order.
pub fn sequence<'a>(
    state: &LogState,
    entries: impl IntoIterator<Item = &'a NewEntry>,
) -> Sequenced {
    let (mut next, mut writes) = (state.clone(), Vec::new());
    for entry in entries {
        next.push(&entry.bytes, &mut writes);
    }
    writes.extend(next.partial(state.size()));
    Sequenced { writes, state: next }
}
