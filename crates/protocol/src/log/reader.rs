//! Reads a log from plain files, wherever they are, and trusts none of them.
//!
//! A [`Reader`] builds proofs from tiles (C2SP `tlog-tiles`). What it returns is either checked
//! against a checkpoint that the caller gives, or a proof that the caller checks. Whether the
//! checkpoint deserves trust (log key, witnesses, age) is up to the caller. Transport is up to the
//! implementation of [`Fetch`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use sotto_crypto::merkle::{
    self, ProveError, TileError, TileHashes, leaf_hash, tile_path, verify_inclusion,
};
use sotto_wire::limits::MAX_ENTRY_BUNDLE_LEN;
use sotto_wire::tlog::tile::{BundlePath, EntryBundle, TILE_WIDTH, TilePath};
use sotto_wire::{Checkpoint, EntryId, Note, TlogProof, TreeHash};

use super::tiles::bundle_path;
use super::{CHECKPOINT_PATH, first, rows};

/// The longest checkpoint note that a reader accepts.
pub const MAX_CHECKPOINT: usize = first::MAX_NOTE;
/// How many tiles a reader remembers: 8 MiB, a log of 262,144 entries. In a longer one, tiles of old
/// entries may be fetched again.
const CACHED_TILES: usize = 1024;
const WIDTH: u64 = TILE_WIDTH as u64;

/// Where the files of a log come from.
pub trait Fetch {
    /// The file at a path below the log's address; `None` if there is none. A file longer than
    /// `limit` bytes is an error and must not be read to its end.
    fn fetch(&mut self, path: &str, limit: usize) -> Result<Option<Vec<u8>>, FetchError>;
}

impl<F: Fetch + ?Sized> Fetch for &mut F {
    fn fetch(&mut self, path: &str, limit: usize) -> Result<Option<Vec<u8>>, FetchError> {
        (**self).fetch(path, limit)
    }
}

impl<F: Fetch + ?Sized> Fetch for Box<F> {
    fn fetch(&mut self, path: &str, limit: usize) -> Result<Option<Vec<u8>>, FetchError> {
        (**self).fetch(path, limit)
    }
}

/// Files in memory.
impl Fetch for BTreeMap<String, Vec<u8>> {
    fn fetch(&mut self, path: &str, limit: usize) -> Result<Option<Vec<u8>>, FetchError> {
        match self.get(path) {
            Some(bytes) if bytes.len() > limit => Err(FetchError::too_long(path, limit)),
            found => Ok(found.cloned()),
        }
    }
}

/// A file could not be fetched: a transport error, which says nothing about the log.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FetchError(String);

impl FetchError {
    /// An error with a reason for people.
    pub fn new(reason: impl std::fmt::Display) -> Self {
        Self(reason.to_string())
    }

    /// The error for a file above its limit.
    pub fn too_long(path: &str, limit: usize) -> Self {
        Self(format!("{path} is longer than {limit} bytes"))
    }
}

/// Why a reader has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReaderError {
    /// Transport failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A file that the log must have is missing.
    #[error("the log has no {0}")]
    Missing(String),
    /// A file is not in its format.
    #[error("{path}: {reason}")]
    Malformed {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The files do not belong to the given checkpoint.
    #[error("{0} does not belong to the checkpoint")]
    Mismatch(String),
    /// The requested index or size is outside the tree.
    #[error("entry or size {0} is outside the tree")]
    OutOfRange(u64),
    /// No checkpoint in the `first` file covers the entry.
    #[error("no first checkpoint covers entry {0}")]
    NoFirst(u64),
}

impl ReaderError {
    fn malformed(path: &str, reason: impl std::fmt::Display) -> Self {
        Self::Malformed { path: path.to_owned(), reason: reason.to_string() }
    }
}

/// Reads a log through a [`Fetch`].
#[derive(Debug)]
pub struct Reader<F> {
    fetch: F,
    tiles: BTreeMap<TilePath, Arc<[u8]>>,
    /// The first checkpoints of the bundle that was requested last.
    first: Option<(u64, Vec<(Checkpoint, Note)>)>,
}

impl<F: Fetch> Reader<F> {
    /// A reader of the log behind `fetch`.
    pub fn new(fetch: F) -> Self {
        Self { fetch, tiles: BTreeMap::new(), first: None }
    }

    /// Forgets every file: files are fetched again when they are needed.
    pub fn forget(&mut self) {
        self.tiles.clear();
        self.first = None;
    }

    /// The newest checkpoint, unverified; `None` if the log has published none yet.
    pub fn checkpoint(&mut self) -> Result<Option<Note>, ReaderError> {
        let Some(bytes) = self.fetch.fetch(CHECKPOINT_PATH, MAX_CHECKPOINT)? else {
            return Ok(None);
        };
        let note = Note::parse(&bytes);
        note.map(Some).map_err(|error| ReaderError::malformed(CHECKPOINT_PATH, error))
    }

    /// The entries of a range, in order, checked to be those of `tree`.
    ///
    /// One inclusion proof per bundle is enough: it is built from the leaf hashes of all entries in
    /// the bundle, so it holds for all of them or for none.
    pub fn entries(
        &mut self,
        range: Range<u64>,
        tree: &Checkpoint,
    ) -> Result<Vec<Vec<u8>>, ReaderError> {
        if range.end > tree.size {
            return Err(ReaderError::OutOfRange(range.end));
        }
        let mut found = Vec::new();
        if range.is_empty() {
            return Ok(found);
        }
        for bundle in range.start / WIDTH..=(range.end - 1) / WIDTH {
            let begin = bundle * WIDTH;
            let entries = self.bundle(bundle, tree)?;
            let skip = range.start.saturating_sub(begin) as usize;
            let take = (range.end - begin).min(WIDTH) as usize;
            found.extend(entries.into_iter().take(take).skip(skip));
        }
        Ok(found)
    }

    /// One entry, checked to be that of `tree`.
    pub fn entry(&mut self, index: u64, tree: &Checkpoint) -> Result<Vec<u8>, ReaderError> {
        let end = index.checked_add(1).ok_or(ReaderError::OutOfRange(index))?;
        let entry = self.entries(index..end, tree)?.pop();
        entry.ok_or(ReaderError::OutOfRange(index))
    }

    /// The index that the log gives for an id. It is a hint: the caller checks that the entry there
    /// has this id, and treats `None` as "not found", never as a proof of absence.
    pub fn find(&mut self, id: &EntryId) -> Result<Option<u64>, ReaderError> {
        let path = rows::by_id_path(id);
        let Some(bytes) = self.fetch.fetch(&path, rows::MAX_ROWS * rows::ROW_LEN)? else {
            return Ok(None);
        };
        let key = id.as_bytes();
        let rows = rows::parse(rows::bucket(key), &bytes)
            .map_err(|error| ReaderError::malformed(&path, error))?;
        Ok(rows::find(&rows, key))
    }

    /// The inclusion proof of an entry in the tree of `size` entries. The caller verifies it.
    pub fn inclusion(&mut self, index: u64, size: u64) -> Result<Vec<TreeHash>, ReaderError> {
        if index >= size {
            return Err(ReaderError::OutOfRange(index));
        }
        let mut hashes = TileHashes::new(size, |path| self.tile(path));
        merkle::prove_inclusion(index, size, &mut hashes).map_err(|error| prove_error(error, size))
    }

    /// The consistency proof between the trees of two sizes. The caller verifies it.
    pub fn consistency(&mut self, old: u64, new: u64) -> Result<Vec<TreeHash>, ReaderError> {
        if old > new {
            return Err(ReaderError::OutOfRange(old));
        }
        let mut hashes = TileHashes::new(new, |path| self.tile(path));
        merkle::prove_consistency(old, new, &mut hashes).map_err(|error| prove_error(error, new))
    }

    /// The root of the tree of `size` entries, computed from its tiles.
    pub fn root(&mut self, size: u64) -> Result<TreeHash, ReaderError> {
        self.root_of_prefix(size, size)
    }

    /// The root of the first `old` entries of the tree of `new` entries, from the tiles of that
    /// tree alone: a log that never had a checkpoint of size `old` has no others.
    pub fn root_of_prefix(&mut self, old: u64, new: u64) -> Result<TreeHash, ReaderError> {
        if old > new {
            return Err(ReaderError::OutOfRange(old));
        }
        let mut hashes = TileHashes::new(new, |path| self.tile(path));
        merkle::root(old, &mut hashes).map_err(|error| tile_error(error, new))
    }

    /// The cosigned checkpoint that first covered an entry, unverified. Together with
    /// [`Self::proof`] it shows since when the entry has been public.
    pub fn first_checkpoint(&mut self, index: u64) -> Result<Note, ReaderError> {
        let bundle = index / WIDTH;
        let covering = |notes: &[(Checkpoint, Note)]| {
            let found = notes.iter().find(|(checkpoint, _)| checkpoint.size > index);
            found.map(|(_, note)| note.clone())
        };
        // The file grows until its bundle is full, so a miss in the cache means nothing.
        if let Some((known, notes)) = &self.first
            && *known == bundle
            && let Some(note) = covering(notes)
        {
            return Ok(note);
        }
        let path = first::path(bundle);
        let bytes = self.fetch.fetch(&path, first::MAX_FILE)?;
        let bytes = bytes.ok_or_else(|| ReaderError::Missing(path.clone()))?;
        let notes = first::parse(&bytes).map_err(|error| ReaderError::malformed(&path, error))?;
        let note = covering(&notes);
        self.first = Some((bundle, notes));
        note.ok_or(ReaderError::NoFirst(index))
    }

    /// The proof bundle of an entry under a checkpoint of this log. The caller verifies it.
    pub fn proof(&mut self, index: u64, checkpoint: &Note) -> Result<TlogProof, ReaderError> {
        let size = Checkpoint::parse(checkpoint.text())
            .map_err(|error| ReaderError::malformed(CHECKPOINT_PATH, error))?
            .size;
        let hashes = self.inclusion(index, size)?;
        Ok(TlogProof { extra: None, index, hashes, checkpoint: checkpoint.clone() })
    }

    /// All entries of a bundle as far as `tree` has them, checked.
    fn bundle(&mut self, index: u64, tree: &Checkpoint) -> Result<Vec<Vec<u8>>, ReaderError> {
        let begin = index * WIDTH;
        let outside = || ReaderError::OutOfRange(begin);
        let bundle = bundle_path(index, tree.size).ok_or_else(outside)?;
        let tile = tile_path(0, index, tree.size).ok_or_else(outside)?;
        let full = BundlePath::new(index, TILE_WIDTH).ok_or_else(outside)?;
        let path = bundle.to_path();
        let bytes = self.either(&path, &full.to_path(), MAX_ENTRY_BUNDLE_LEN)?;
        let mut entries =
            EntryBundle::parse(&bytes).map_err(|error| ReaderError::malformed(&path, error))?;
        entries.truncate(usize::from(bundle.width()));
        let leaves: Vec<TreeHash> = entries.iter().map(|entry| leaf_hash(entry)).collect();
        // The proof is built from the hashes of these very entries. A tile that the log serves
        // separately may be different the next time, so it proves nothing about them.
        let own: Arc<[u8]> = concat(&leaves).into();
        let read = |path| if path == tile { Ok(Arc::clone(&own)) } else { self.tile(path) };
        let mut hashes = TileHashes::new(tree.size, read);
        let proof = merkle::prove_inclusion(begin, tree.size, &mut hashes)
            .map_err(|error| prove_error(error, tree.size))?;
        let leaf = leaves.first().ok_or_else(outside)?;
        verify_inclusion(leaf, begin, tree.size, &proof, &tree.root)
            .map_err(|_| ReaderError::Mismatch(path))?;
        // Whoever has read the entries fetches none of their tiles: which ones a proof needs depends
        // on what was seen before, and the log must not learn that.
        self.remember(tile, &own);
        Ok(entries.into_iter().map(<[u8]>::to_vec).collect())
    }

    /// The bytes of a tile, unverified.
    fn tile(&mut self, tile: TilePath) -> Result<Arc<[u8]>, ReaderError> {
        if let Some(bytes) = self.tiles.get(&tile) {
            return Ok(Arc::clone(bytes));
        }
        let full = TilePath::new(tile.level(), tile.index(), TILE_WIDTH);
        let full = full.map(|full| full.to_path()).unwrap_or_default();
        let bytes = self.either(&tile.to_path(), &full, TreeHash::LEN * WIDTH as usize)?;
        let bytes: Arc<[u8]> = bytes.into();
        self.remember(tile, &bytes);
        Ok(bytes)
    }

    fn remember(&mut self, tile: TilePath, bytes: &Arc<[u8]>) {
        if self.tiles.len() >= CACHED_TILES {
            self.tiles.clear();
        }
        self.tiles.insert(tile, Arc::clone(bytes));
    }

    /// A file, or its full form. A log may drop an incomplete tile once the full tile exists, which
    /// begins with the same bytes.
    fn either(&mut self, path: &str, full: &str, limit: usize) -> Result<Vec<u8>, ReaderError> {
        if let Some(bytes) = self.fetch.fetch(path, limit)? {
            return Ok(bytes);
        }
        let bytes = if full == path { None } else { self.fetch.fetch(full, limit)? };
        bytes.ok_or_else(|| ReaderError::Missing(path.to_owned()))
    }
}

fn concat(hashes: &[TreeHash]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| hash.0).collect()
}

fn prove_error(error: ProveError<TileError<ReaderError>>, size: u64) -> ReaderError {
    match error {
        ProveError::Read(error) => tile_error(error, size),
        ProveError::OutOfRange => ReaderError::OutOfRange(size),
    }
}

fn tile_error(error: TileError<ReaderError>, size: u64) -> ReaderError {
    match error {
        TileError::Read(error) => error,
        TileError::Length => ReaderError::malformed("a tile", "it has the wrong length"),
        TileError::OutOfRange => ReaderError::OutOfRange(size),
    }
}
