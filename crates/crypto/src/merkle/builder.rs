//! Tiles of a growing tree (C2SP tlog-tiles "Merkle Tree").

use sotto_wire::TreeHash;
use sotto_wire::tlog::{TILE_WIDTH, TilePath};

use crate::merkle::tiles::{TileError, parse_tile, tile_path};
use crate::merkle::{MAX_TREE_SIZE, empty_root, join, subtree_root};

const WIDTH: usize = TILE_WIDTH as usize;

/// A tile with its hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Which tile it is.
    pub path: TilePath,
    /// As many hashes as the path says.
    pub hashes: Vec<TreeHash>,
}

impl Tile {
    /// The content of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.hashes.iter().flat_map(|hash| hash.0).collect()
    }
}

/// Builds the tiles of a log as leaves are appended.
///
/// To extend a log to a new size, [`push`](Self::push) each leaf and write the tiles that it
/// returns, which are complete and never change. Then write [`partial_tiles`](Self::partial_tiles),
/// which belong only to the new size. [`root`](Self::root) is the root of the new size. After a
/// restart, [`resume`](Self::resume) reads only the partial tiles of the last size.
///
/// It keeps fewer than 256 hashes for each of at most eight levels.
///
/// ```
/// use sotto_crypto::merkle::{TileBuilder, leaf_hash};
///
/// let mut builder = TileBuilder::new();
/// let mut written = Vec::new();
/// for entry in 0..70_000u32 {
///     written.extend(builder.push(leaf_hash(&entry.to_be_bytes())));
/// }
/// assert_eq!(written.len(), 273 + 1); // Level 0 and level 1.
/// let partial: Vec<_> = builder.partial_tiles().map(|tile| tile.path.to_path()).collect();
/// assert_eq!(partial, ["tile/0/273.p/112", "tile/1/001.p/17", "tile/2/000.p/1"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TileBuilder {
    size: u64,
    /// The hashes in the last tile of each level, always fewer than a full tile.
    levels: Vec<Vec<TreeHash>>,
}

impl TileBuilder {
    /// For the tree without leaves.
    pub fn new() -> Self {
        Self::default()
    }

    /// For the tree of `size` leaves, whose partial tiles `read` returns. It may return the full
    /// tile instead of a partial one. The caller should compare [`root`](Self::root) with the root
    /// it knows: files may be damaged.
    pub fn resume<E, B: AsRef<[u8]>>(
        size: u64,
        mut read: impl FnMut(TilePath) -> Result<B, E>,
    ) -> Result<Self, TileError<E>> {
        if size > MAX_TREE_SIZE {
            return Err(TileError::OutOfRange);
        }
        let mut levels = Vec::new();
        while size >> (8 * levels.len()) > 0 {
            let row = size >> (8 * levels.len());
            let hashes = match tile_path(levels.len() as u8, row >> 8, size) {
                Some(path) => parse_tile(path, read(path).map_err(TileError::Read)?.as_ref())?,
                None => Vec::new(),
            };
            levels.push(hashes);
        }
        Ok(Self { size, levels })
    }

    /// Appends a leaf, by its hash. Returns the tiles that it completes, lowest first: usually
    /// none, and one of level 0 for every 256 leaves.
    pub fn push(&mut self, leaf: TreeHash) -> Vec<Tile> {
        let mut complete = Vec::new();
        let mut hash = leaf;
        self.size += 1;
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::with_capacity(WIDTH));
            }
            let Some(row) = self.levels.get_mut(level) else { break };
            row.push(hash);
            if row.len() < WIDTH {
                break;
            }
            hash = subtree_root(row);
            let hashes = std::mem::replace(row, Vec::with_capacity(WIDTH));
            let index = (self.size >> (8 * level) >> 8) - 1;
            complete.extend(
                TilePath::new(level as u8, index, TILE_WIDTH).map(|path| Tile { path, hashes }),
            );
        }
        complete
    }

    /// The tiles that are not full at this size, lowest first. Empty ones are omitted.
    pub fn partial_tiles(&self) -> impl Iterator<Item = Tile> {
        self.levels.iter().enumerate().filter_map(|(level, hashes)| {
            let index = self.size >> (8 * level) >> 8;
            let path = TilePath::new(level as u8, index, hashes.len() as u16)?;
            Some(Tile { path, hashes: hashes.clone() })
        })
    }

    /// How many leaves the tree has.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The root of the tree.
    pub fn root(&self) -> TreeHash {
        let mut right = None;
        for row in &self.levels {
            let mut rest = row.as_slice();
            // From right to left: the smallest complete subtree first.
            while !rest.is_empty() {
                let len = 1 << rest.len().trailing_zeros();
                let (before, subtree) = rest.split_at(rest.len() - len);
                right = join(subtree_root(subtree), right);
                rest = before;
            }
        }
        right.unwrap_or_else(empty_root)
    }
}
