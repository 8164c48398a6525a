//! Reading a tree from its tiles (C2SP tlog-tiles "Merkle Tree").
//!
//! A tile of level L holds the hashes of the tree's level 8 L. The seven levels above it, up to the
//! next level of tiles, are not stored: they are computed from the tile below.

use std::collections::BTreeMap;

use sotto_wire::TreeHash;
use sotto_wire::tlog::{TILE_WIDTH, TilePath};
use thiserror::Error;

use crate::merkle::{Hashes, subtree_root};

/// Why a hash could not be obtained from the tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TileError<E> {
    /// The tile could not be read.
    #[error(transparent)]
    Read(E),
    /// The tile has a different length from what its name says.
    #[error("a tile has the wrong length")]
    Length,
    /// The tree of this size has no such hash.
    #[error("the tree has no such hash")]
    OutOfRange,
}

/// The hashes of a tree of a given size, read from tiles by a closure.
///
/// The closure is given the tile that exists at this size, full or partial, and returns its bytes.
/// It may return the full tile instead of a partial one, as a log may have deleted the latter. Each
/// tile is requested once and kept, so use a new value for every proof or two.
///
/// Nothing here is verified: a wrong tile gives a wrong hash, and then a proof that does not
/// verify.
#[derive(Debug)]
pub struct TileHashes<F> {
    size: u64,
    read: F,
    tiles: BTreeMap<TilePath, Vec<TreeHash>>,
}

impl<F> TileHashes<F> {
    /// The tree of `size` leaves whose tiles `read` returns.
    pub fn new(size: u64, read: F) -> Self {
        Self { size, read, tiles: BTreeMap::new() }
    }
}

impl<F, B, E> Hashes for TileHashes<F>
where
    F: FnMut(TilePath) -> Result<B, E>,
    B: AsRef<[u8]>,
{
    type Error = TileError<E>;

    fn hash(&mut self, level: u8, index: u64) -> Result<TreeHash, TileError<E>> {
        let (tile_level, above) = (level / 8, level % 8);
        // A subtree of fewer than 256 hashes lies within one tile.
        let first = index.checked_mul(1 << above).ok_or(TileError::OutOfRange)?;
        let path = tile_path(tile_level, first >> 8, self.size).ok_or(TileError::OutOfRange)?;
        if !self.tiles.contains_key(&path) {
            let tile = (self.read)(path).map_err(TileError::Read)?;
            self.tiles.insert(path, parse_tile(path, tile.as_ref())?);
        }
        let offset = (first % u64::from(TILE_WIDTH)) as usize;
        self.tiles
            .get(&path)
            .and_then(|hashes| hashes.get(offset..offset + (1 << above)))
            .map(subtree_root)
            .ok_or(TileError::OutOfRange)
    }
}

/// The tile `index` of `level` in a tree of `size` leaves: full, partial, or `None` if the tree has
/// no hash in it.
pub fn tile_path(level: u8, index: u64, size: u64) -> Option<TilePath> {
    let row = size.checked_shr(8 * u32::from(level))?;
    let width = row.checked_sub(index.checked_mul(u64::from(TILE_WIDTH))?)?;
    TilePath::new(level, index, width.min(u64::from(TILE_WIDTH)) as u16)
}

/// The hashes of a tile from its bytes, or from those of the full tile.
pub(super) fn parse_tile<E>(path: TilePath, bytes: &[u8]) -> Result<Vec<TreeHash>, TileError<E>> {
    let (hashes, rest) = bytes.as_chunks::<{ TreeHash::LEN }>();
    let width = usize::from(path.width());
    let is_full = hashes.len() == usize::from(TILE_WIDTH);
    if !rest.is_empty() || (hashes.len() != width && !is_full) {
        return Err(TileError::Length);
    }
    Ok(hashes.iter().take(width).copied().map(TreeHash).collect())
}
