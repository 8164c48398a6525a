//! Signing and verifying notes and checkpoints (C2SP signed-note, tlog-cosignature).
//!
//! The rules are the same everywhere. Signatures by unknown keys are ignored. A signature by a
//! known key that does not verify invalidates the whole note. If a key signed several times, all
//! its signatures must verify.
//!
//! The caller decides whether a time is recent or old enough: nothing here reads a clock.

mod checkpoint;
mod endorsement;
mod key;

use ed25519_dalek::{Signature, VerifyingKey};
use sotto_wire::{FormatError, KeyType, Note, NoteSignature, VerifierKey};
use thiserror::Error;

pub use checkpoint::{
    QuorumTime, VerifiedCheckpoint, quorum, verify_checkpoint, verify_log, verify_proof,
};
pub use endorsement::verify_endorsement;
pub use key::NoteKey;

use crate::merkle::ProofError;

/// Why a note is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoteError {
    /// The key did not sign the note.
    #[error("a signature is missing")]
    Missing,
    /// A known key has a signature that does not verify.
    #[error("a signature by a known key does not verify")]
    Bad,
    /// The key is not of the required type.
    #[error("the key is of the wrong type")]
    WrongKeyType,
    /// The text of the note is not that of a checkpoint.
    #[error("not a checkpoint: {0}")]
    NotACheckpoint(FormatError),
    /// The policy knows no log with the origin of the checkpoint.
    #[error("the checkpoint belongs to an unknown log")]
    UnknownLog,
    /// The witnesses that cosigned do not meet the quorum.
    #[error("the witnesses that cosigned do not meet the quorum")]
    NoQuorum,
    /// The policy requires no witness, so nothing proves a time.
    #[error("the policy asks for no witness, so no time is proven")]
    NoTime,
    /// The inclusion proof does not lead to the root of the checkpoint.
    #[error(transparent)]
    Proof(#[from] ProofError),
}

/// Checks that this key, of the type [`KeyType::Ed25519`], signed the note.
pub fn verify(note: &Note, key: &VerifierKey) -> Result<(), NoteError> {
    if key.key_type() != KeyType::Ed25519 {
        return Err(NoteError::WrongKeyType);
    }
    let mut result = Err(NoteError::Missing);
    for signature in signatures_by(note, key) {
        verify_bytes(key, note.text().as_bytes(), &signature.signature)?;
        result = Ok(());
    }
    result
}

/// When this key, of the type [`KeyType::CosignatureV1`], cosigned the note: the newest time, if it
/// cosigned several times.
pub fn cosignature_time(note: &Note, key: &VerifierKey) -> Result<u64, NoteError> {
    cosignature_times(note, key).map(|times| times.newest)
}

/// The times at which a witness cosigned a note. A log may ask again to show that the checkpoint is
/// still current, so there may be more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CosignatureTimes {
    /// The oldest time: the witness had seen the checkpoint by then.
    pub oldest: u64,
    /// The newest time: the checkpoint was still the largest that the witness had seen.
    pub newest: u64,
}

/// The oldest and newest times at which this key, of the type [`KeyType::CosignatureV1`], cosigned
/// the note.
pub fn cosignature_times(note: &Note, key: &VerifierKey) -> Result<CosignatureTimes, NoteError> {
    if key.key_type() != KeyType::CosignatureV1 {
        return Err(NoteError::WrongKeyType);
    }
    let mut times: Option<CosignatureTimes> = None;
    for signature in signatures_by(note, key) {
        let (time, bytes) = signature.signature.split_first_chunk().ok_or(NoteError::Bad)?;
        let time = u64::from_be_bytes(*time);
        if time > MAX_TIME {
            return Err(NoteError::Bad);
        }
        verify_bytes(key, cosigned_message(note.text(), time).as_bytes(), bytes)?;
        let CosignatureTimes { oldest, newest } =
            times.unwrap_or(CosignatureTimes { oldest: time, newest: time });
        times = Some(CosignatureTimes { oldest: oldest.min(time), newest: newest.max(time) });
    }
    times.ok_or(NoteError::Missing)
}

/// The latest time a cosignature may have (C2SP tlog-cosignature "Format").
const MAX_TIME: u64 = i64::MAX as u64;

/// What a witness signs (C2SP tlog-cosignature "Ed25519 signed message").
fn cosigned_message(text: &str, time: u64) -> String {
    format!("cosignature/v1\ntime {time}\n{text}")
}

fn signatures_by<'a>(
    note: &'a Note,
    key: &'a VerifierKey,
) -> impl Iterator<Item = &'a NoteSignature> {
    note.signatures().iter().filter(move |signature| signature.is_by(key))
}

/// Strict verification: no keys of small order and no alternative form of a signature, so that all
/// verifiers agree.
fn verify_bytes(key: &VerifierKey, message: &[u8], signature: &[u8]) -> Result<(), NoteError> {
    let key = VerifyingKey::from_bytes(key.public_key()).map_err(|_| NoteError::Bad)?;
    let signature = Signature::from_slice(signature).map_err(|_| NoteError::Bad)?;
    key.verify_strict(message, &signature).map_err(|_| NoteError::Bad)
}

#[cfg(test)]
mod tests;
