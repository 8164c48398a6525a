//! The right edge of a growing tree: enough to append leaves and compute the root.

use sotto_wire::TreeHash;

use crate::merkle::{Hashes, MAX_TREE_SIZE, empty_root, join, node_hash};

/// The complete subtrees that make up a tree, one for each set bit of its size.
///
/// It keeps at most 63 hashes, so it can follow a tree of any size. It cannot produce proofs;
/// [`TileBuilder`](crate::merkle::TileBuilder) keeps what tiles need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    /// Largest first.
    subtrees: Vec<TreeHash>,
}

impl Frontier {
    /// The tree without leaves.
    pub fn new() -> Self {
        Self::default()
    }

    /// The right edge of the tree of the first `size` leaves.
    pub fn read<H: Hashes>(size: u64, hashes: &mut H) -> Result<Self, H::Error> {
        let mut subtrees = Vec::new();
        let mut start = 0;
        for level in (0..u64::BITS as u8).rev() {
            if size >> level & 1 == 1 {
                subtrees.push(hashes.hash(level, start >> level)?);
                start += 1 << level;
            }
        }
        Ok(Self { size, subtrees })
    }

    /// Reads the bytes of [`to_bytes`](Self::to_bytes). `None` if the length does not match the
    /// size.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (size, hashes) = bytes.split_first_chunk::<8>()?;
        let size = u64::from_be_bytes(*size);
        let (hashes, rest) = hashes.as_chunks::<{ TreeHash::LEN }>();
        let fits = rest.is_empty() && hashes.len() == size.count_ones() as usize;
        (fits && size <= MAX_TREE_SIZE)
            .then(|| Self { size, subtrees: hashes.iter().copied().map(TreeHash).collect() })
    }

    /// The size in eight bytes, then the hashes of the subtrees, largest first.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.size.to_be_bytes().to_vec();
        self.subtrees.iter().for_each(|hash| out.extend_from_slice(&hash.0));
        out
    }

    /// Appends a leaf, by its hash.
    pub fn append(&mut self, leaf: TreeHash) {
        let mut hash = leaf;
        // Merges with each complete subtree of the same size on its left.
        for _ in 0..self.size.trailing_ones() {
            if let Some(left) = self.subtrees.pop() {
                hash = node_hash(&left, &hash);
            }
        }
        self.subtrees.push(hash);
        self.size += 1;
    }

    /// How many leaves the tree has.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The root of the tree.
    pub fn root(&self) -> TreeHash {
        let root = self.subtrees.iter().rev().fold(None, |right, left| join(*left, right));
        root.unwrap_or_else(empty_root)
    }
}
