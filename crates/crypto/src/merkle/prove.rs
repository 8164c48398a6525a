//! Roots and proofs of a tree whose hashes can be read (RFC 9162 "Generating an Inclusion Proof"
//! and "Generating a Consistency Proof").

use sotto_wire::TreeHash;
use thiserror::Error;

use crate::merkle::{Hashes, empty_root, join};

/// Why there is no proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProveError<E> {
    /// The tree has no such leaf, or the old tree is larger than the new one.
    #[error("there is no such proof: the index or size is beyond the tree")]
    OutOfRange,
    /// A hash could not be read.
    #[error(transparent)]
    Read(#[from] E),
}

/// The root of the tree of the first `size` leaves.
pub fn root<H: Hashes>(size: u64, hashes: &mut H) -> Result<TreeHash, H::Error> {
    range_root(0, size, hashes)
}

/// The proof that leaf `index` is in the tree of `size` leaves: the siblings from the leaf to the
/// root.
pub fn prove_inclusion<H: Hashes>(
    index: u64,
    size: u64,
    hashes: &mut H,
) -> Result<Vec<TreeHash>, ProveError<H::Error>> {
    if index >= size {
        return Err(ProveError::OutOfRange);
    }
    let mut proof = Vec::new();
    let mut subtree = (0, size);
    while subtree.1 > 1 {
        subtree = descend(subtree, index, &mut proof, hashes)?;
    }
    // Collected from the root down.
    proof.reverse();
    Ok(proof)
}

/// The proof that the tree of `new_size` leaves begins with the tree of `old_size` leaves. It is
/// empty if the sizes are equal or the old one is 0.
pub fn prove_consistency<H: Hashes>(
    old_size: u64,
    new_size: u64,
    hashes: &mut H,
) -> Result<Vec<TreeHash>, ProveError<H::Error>> {
    if old_size > new_size {
        return Err(ProveError::OutOfRange);
    }
    let mut proof = Vec::new();
    if old_size == 0 {
        return Ok(proof);
    }
    let mut subtree = (0, new_size);
    while subtree.0 + subtree.1 != old_size {
        subtree = descend(subtree, old_size - 1, &mut proof, hashes)?;
    }
    // What remains is the last subtree of the old tree. If that is the whole old tree, the verifier
    // knows it as the root.
    if subtree.0 > 0 {
        proof.push(range_root(subtree.0, subtree.1, hashes)?);
    }
    proof.reverse();
    Ok(proof)
}

/// Goes down to the half of a subtree (its first leaf and how many it has) that holds leaf `index`.
/// The root of the other half is part of the proof.
fn descend<H: Hashes>(
    (start, len): (u64, u64),
    index: u64,
    proof: &mut Vec<TreeHash>,
    hashes: &mut H,
) -> Result<(u64, u64), H::Error> {
    let split = 1 << (len - 1).ilog2();
    let (left, right) = ((start, split), (start + split, len - split));
    let (inside, other) = if index < right.0 { (left, right) } else { (right, left) };
    proof.push(range_root(other.0, other.1, hashes)?);
    Ok(inside)
}

/// The root above `len` leaves from `start` on. `start` is a multiple of the largest power of two
/// up to `len`.
fn range_root<H: Hashes>(start: u64, len: u64, hashes: &mut H) -> Result<TreeHash, H::Error> {
    let mut end = start + len;
    let mut right = None;
    for level in 0..u64::BITS as u8 {
        if len >> level & 1 == 1 {
            end -= 1 << level;
            right = join(hashes.hash(level, end >> level)?, right);
        }
    }
    Ok(right.unwrap_or_else(empty_root))
}
