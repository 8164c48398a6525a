//! Which files an append writes.

use sotto_crypto::merkle::tile_path;
use sotto_wire::tlog::tile::{BundlePath, MAX_TILE_LEVEL, TILE_WIDTH, TilePath};

const WIDTH: u64 = TILE_WIDTH as u64;

/// A tile of hashes or a bundle of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TileFile {
    /// Entries.
    Bundle(BundlePath),
    /// Hashes.
    Hashes(TilePath),
}

impl TileFile {
    /// Its path below the log's address.
    pub fn to_path(&self) -> String {
        match self {
            Self::Bundle(path) => path.to_path(),
            Self::Hashes(path) => path.to_path(),
        }
    }

    /// Whether it will never grow again.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Bundle(path) => path.width() == TILE_WIDTH,
            Self::Hashes(path) => path.width() == TILE_WIDTH,
        }
    }
}

/// The bundle `index` in a tree of `size` entries; `None` if the tree has no entry in it.
pub fn bundle_path(index: u64, size: u64) -> Option<BundlePath> {
    tile_path(0, index, size).and_then(|tile| BundlePath::new(index, tile.width()))
}

/// The files that an append from `old` to `new` entries writes. None of them belongs to the old
/// tree.
pub fn written(old: u64, new: u64) -> Vec<TileFile> {
    let mut files = Vec::new();
    for level in 0..=MAX_TILE_LEVEL {
        let (had, has) = (old >> (8 * level), new >> (8 * level));
        if has <= had {
            break;
        }
        for index in had / WIDTH..=(has - 1) / WIDTH {
            files.extend(tile_path(level, index, new).map(TileFile::Hashes));
            if level == 0 {
                files.extend(bundle_path(index, new).map(TileFile::Bundle));
            }
        }
    }
    files
}
