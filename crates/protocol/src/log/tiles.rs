//! Which files an append writes.

use sotto_crypto::merkle::tile_path;
use sotto_wire::tlog::tile::{BundlePath, MAX_TILE_LEVEL, TILE_WIDTH};

const WIDTH: u64 = TILE_WIDTH as u64;

/// The file of a tile of hashes or of a bundle of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileFile {
    /// Its path below the log's address.
    pub path: String,
    /// Whether it will never grow again.
    pub is_full: bool,
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
            let Some(tile) = tile_path(level, index, new) else { continue };
            let is_full = tile.width() == TILE_WIDTH;
            files.push(TileFile { path: tile.to_path(), is_full });
            if level == 0 {
                let bundle = bundle_path(index, new);
                files.extend(bundle.map(|path| TileFile { path: path.to_path(), is_full }));
            }
        }
    }
    files
}
