//! Verifying proofs (RFC 9162 "Verifying an Inclusion Proof" and "Verifying Consistency between Two
//! Tree Heads").

use sotto_wire::TreeHash;
use thiserror::Error;

use crate::merkle::{empty_root, node_hash};

/// The proof does not verify.
///
/// There is one error for all causes: nothing follows from a failed proof, however it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the Merkle proof does not verify")]
pub struct ProofError;

/// Checks that `leaf` is the leaf `index` of the tree with this size and root.
pub fn verify_inclusion(
    leaf: &TreeHash,
    index: u64,
    size: u64,
    proof: &[TreeHash],
    root: &TreeHash,
) -> Result<(), ProofError> {
    if index >= size {
        return Err(ProofError);
    }
    let mut walk = Walk { node: index, last: size - 1 };
    let mut hash = *leaf;
    for sibling in proof {
        hash = match walk.up()? {
            Side::Left => node_hash(sibling, &hash),
            Side::Right => node_hash(&hash, sibling),
        };
    }
    match walk.is_at_root() && hash == *root {
        true => Ok(()),
        false => Err(ProofError),
    }
}

/// Checks that the tree of the new size and root begins with the leaves of the old tree.
///
/// The empty tree is a prefix of every tree; the proof of that is empty. The root of a tree without
/// leaves must be [`empty_root`].
pub fn verify_consistency(
    old_size: u64,
    old_root: &TreeHash,
    new_size: u64,
    new_root: &TreeHash,
    proof: &[TreeHash],
) -> Result<(), ProofError> {
    let is_possible = |size: u64, root: &TreeHash| size > 0 || *root == empty_root();
    if !is_possible(old_size, old_root) || !is_possible(new_size, new_root) || old_size > new_size {
        return Err(ProofError);
    }
    if old_size == 0 || old_size == new_size {
        let same = old_size < new_size || old_root == new_root;
        return if proof.is_empty() && same { Ok(()) } else { Err(ProofError) };
    }
    let mut walk = Walk { node: old_size - 1, last: new_size - 1 };
    while walk.node & 1 == 1 {
        walk.shift();
    }
    // If the old tree is one complete subtree, its root starts the proof and is not sent.
    let (first, rest) = match old_size.is_power_of_two() {
        true => (old_root, proof),
        false => proof.split_first().ok_or(ProofError)?,
    };
    let (mut old_hash, mut new_hash) = (*first, *first);
    for sibling in rest {
        match walk.up()? {
            Side::Left => {
                old_hash = node_hash(sibling, &old_hash);
                new_hash = node_hash(sibling, &new_hash);
            }
            Side::Right => new_hash = node_hash(&new_hash, sibling),
        }
    }
    match walk.is_at_root() && old_hash == *old_root && new_hash == *new_root {
        true => Ok(()),
        false => Err(ProofError),
    }
}

/// The path from a node to the root: `fn` and `sn` of RFC 9162.
struct Walk {
    /// The index of the node in its level.
    node: u64,
    /// The index of the last node in the level.
    last: u64,
}

/// On which side of the node its sibling is.
enum Side {
    Left,
    Right,
}

impl Walk {
    /// Goes one node up. Fails at the root, which has no sibling.
    fn up(&mut self) -> Result<Side, ProofError> {
        if self.last == 0 {
            return Err(ProofError);
        }
        let side = match self.node & 1 == 1 || self.node == self.last {
            true => Side::Left,
            false => Side::Right,
        };
        if matches!(side, Side::Left) {
            // The last node of a level has no sibling if its index is even: it moves up unchanged.
            while self.node & 1 == 0 && self.node != 0 {
                self.shift();
            }
        }
        self.shift();
        Ok(side)
    }

    fn shift(&mut self) {
        self.node >>= 1;
        self.last >>= 1;
    }

    fn is_at_root(&self) -> bool {
        self.last == 0
    }
}
