//! Whether two checkpoints of a log can both be honest.

use anyhow::{Context, Result};
use sotto_crypto::note;
use sotto_protocol::log::misbehaviour::{self, Comparison};
use sotto_protocol::log::{Fetch, Misbehaviour, Reader};
use sotto_wire::{Checkpoint, Note, TlogPolicy};

/// A checkpoint, and the note that signs it.
#[derive(Clone, Debug)]
pub(super) struct SignedTree {
    pub(super) tree: Checkpoint,
    pub(super) note: Note,
}

/// The result of a comparison.
#[derive(Debug)]
pub(super) enum Compared {
    /// The larger tree extends the smaller one.
    Agree,
    /// They contradict each other, and this proves it.
    Contradict(Misbehaviour),
    /// Nothing is proved either way, for this reason.
    Unclear(String),
}

impl SignedTree {
    pub(super) fn new(note: Note) -> Result<Self> {
        let tree = Checkpoint::parse(note.text()).context("not a checkpoint")?;
        Ok(Self { tree, note })
    }
}

/// Compares two checkpoints, in either order. The files of the log are read only if the sizes
/// differ.
pub(super) fn compare(
    fetch: &mut dyn Fetch,
    policy: &TlogPolicy,
    one: &SignedTree,
    other: &SignedTree,
) -> Compared {
    let (small, large) = if one.tree.size <= other.tree.size { (one, other) } else { (other, one) };
    let proof = match misbehaviour::compare(&mut Reader::new(fetch), &small.tree, &large.tree) {
        Ok(Comparison::Extends) => return Compared::Agree,
        Ok(Comparison::Split(proof)) => proof,
        Ok(Comparison::Unproved) => {
            let words = "the log's files do not belong to its checkpoint";
            return Compared::Unclear(words.to_owned());
        }
        Err(error) => return Compared::Unclear(error.to_string()),
    };
    // A log may have had several keys. The evidence names one that signed both.
    let signed_both =
        |key: &&_| note::verify(&small.note, key).is_ok() && note::verify(&large.note, key).is_ok();
    let Some(key) = policy.log_keys(&large.tree.origin).find(signed_both) else {
        return Compared::Unclear("no key of the policy signed both checkpoints".to_owned());
    };
    match Misbehaviour::split_view(key, &small.note, &large.note, proof) {
        Ok(found) => Compared::Contradict(found),
        Err(reason) => Compared::Unclear(reason),
    }
}
