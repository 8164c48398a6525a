//! Merkle trees of logs (RFC 9162 "Merkle Trees", with the hashes of RFC 6962).
//!
//! [`verify_inclusion`] and [`verify_consistency`] are for verifiers, which trust a root.
//! [`prove_inclusion`], [`prove_consistency`] and [`root`] are for provers, which have the tree,
//! through [`Hashes`]: [`TileHashes`] reads it from the tiles of a log. [`TileBuilder`] builds
//! tiles as leaves arrive, and [`Frontier`] keeps only what the root of a growing tree needs.
//!
//! Callers decide where the tiles are stored and which root to trust.

mod builder;
mod frontier;
mod prove;
mod tiles;
mod verify;

use sha2::{Digest, Sha256};
use sotto_wire::TreeHash;

pub use builder::{Tile, TileBuilder};
pub use frontier::Frontier;
pub use prove::{ProveError, prove_consistency, prove_inclusion, root};
pub use tiles::{TileError, TileHashes, tile_path};
pub use verify::{ProofError, verify_consistency, verify_inclusion};

/// The most leaves in a tree: the size must also fit a signed 64-bit integer, as other
/// implementations use.
pub const MAX_TREE_SIZE: u64 = i64::MAX as u64;

/// Access to the hashes of a tree.
pub trait Hashes {
    /// The error of a failed read.
    type Error;

    /// The hash of the complete subtree `index` of 2^`level` leaves, which starts at leaf
    /// `index * 2^level`. Called only where the tree has all of these leaves.
    fn hash(&mut self, level: u8, index: u64) -> Result<TreeHash, Self::Error>;
}

/// The hash of a leaf with this content.
pub fn leaf_hash(entry: &[u8]) -> TreeHash {
    let mut digest = Sha256::new();
    digest.update([0]);
    digest.update(entry);
    TreeHash(digest.finalize().into())
}

/// The hash of the node above these two.
pub fn node_hash(left: &TreeHash, right: &TreeHash) -> TreeHash {
    let mut node = [1; 1 + 2 * TreeHash::LEN];
    node[1..1 + TreeHash::LEN].copy_from_slice(&left.0);
    node[1 + TreeHash::LEN..].copy_from_slice(&right.0);
    TreeHash(Sha256::digest(node).into())
}

/// The root of the tree without leaves.
pub fn empty_root() -> TreeHash {
    TreeHash(Sha256::digest([]).into())
}

/// The root of a complete subtree above these hashes, whose number is a power of two.
fn subtree_root(hashes: &[TreeHash]) -> TreeHash {
    let mut row = hashes.to_vec();
    while row.len() > 1 {
        row = row.chunks_exact(2).map(|pair| node_hash(&pair[0], &pair[1])).collect();
    }
    row.first().copied().unwrap_or_else(empty_root)
}

/// Joins the subtree `left` with what is to the right of it.
fn join(left: TreeHash, right: Option<TreeHash>) -> Option<TreeHash> {
    Some(right.map_or(left, |right| node_hash(&left, &right)))
}

#[cfg(test)]
mod tests;
