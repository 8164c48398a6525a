//! Checkpoints under a trust policy: the log's signature, the witnesses' quorum, and what they
//! prove about time.

use std::collections::BTreeMap;

use sotto_wire::{Checkpoint, Note, TlogPolicy, TlogProof, TreeHash, VerifierKey};

use crate::merkle::verify_inclusion;
use crate::note::{CosignatureTimes, NoteError, cosignature_times, verify};

/// A checkpoint that a known log signed and a quorum of witnesses cosigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedCheckpoint {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The key of the log that signed it.
    pub log: VerifierKey,
    /// When each witness cosigned it, by its name in the policy: the newest time, if it cosigned
    /// several times.
    pub times: BTreeMap<String, u64>,
    /// What the quorum proves about time; `None` if the policy requires no witness.
    pub quorum: Option<QuorumTime>,
}

/// What a quorum of cosignatures proves about time, in POSIX seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuorumTime {
    /// The newest cosignature of any known witness. Callers should reject a time in the future.
    pub newest: u64,
    /// The smallest time `t` such that the witnesses that cosigned by `t` form a quorum: the
    /// checkpoint is at least as old as that.
    pub proven: u64,
    /// The largest time `t` such that the witnesses that cosigned at `t` or later form a quorum:
    /// the checkpoint was still current then. Unlike `newest`, it does not rely on a single
    /// witness.
    pub fresh: u64,
}

/// Checks that the note is a checkpoint of a log that the policy knows, signed by its key.
/// Cosignatures are not checked.
pub fn verify_log(note: &Note, policy: &TlogPolicy) -> Result<Checkpoint, NoteError> {
    verify_log_key(note, policy).map(|(checkpoint, _)| checkpoint)
}

/// Checks that the witnesses that cosigned the note meet the policy's quorum, and returns what they
/// prove about time. The log's signature is not checked. Fails if the policy requires no witness.
pub fn quorum(note: &Note, policy: &TlogPolicy) -> Result<QuorumTime, NoteError> {
    match policy.requires_witnesses() {
        true => quorum_time(policy, &witness_times(note, policy)?),
        false => Err(NoteError::NoTime),
    }
}

/// Checks a checkpoint under a policy: the log's signature and the quorum.
pub fn verify_checkpoint(
    note: &Note,
    policy: &TlogPolicy,
) -> Result<VerifiedCheckpoint, NoteError> {
    let (checkpoint, log) = verify_log_key(note, policy)?;
    let times = witness_times(note, policy)?;
    let quorum = match policy.requires_witnesses() {
        true => Some(quorum_time(policy, &times)?),
        false => None,
    };
    let times = times.iter().map(|(name, times)| ((*name).to_owned(), times.newest)).collect();
    Ok(VerifiedCheckpoint { checkpoint, log: log.clone(), times, quorum })
}

/// Checks that the entry with this leaf hash is in a log, proven as the policy requires. The extra
/// data of the proof is not verified.
pub fn verify_proof(
    leaf: &TreeHash,
    proof: &TlogProof,
    policy: &TlogPolicy,
) -> Result<VerifiedCheckpoint, NoteError> {
    let verified = verify_checkpoint(&proof.checkpoint, policy)?;
    let Checkpoint { size, root, .. } = &verified.checkpoint;
    verify_inclusion(leaf, proof.index, *size, &proof.hashes, root)?;
    Ok(verified)
}

fn verify_log_key<'a>(
    note: &Note,
    policy: &'a TlogPolicy,
) -> Result<(Checkpoint, &'a VerifierKey), NoteError> {
    let checkpoint = Checkpoint::parse(note.text()).map_err(NoteError::NotACheckpoint)?;
    if policy.log_keys(&checkpoint.origin).next().is_none() {
        return Err(NoteError::UnknownLog);
    }
    let mut signer = None;
    for log in policy.logs() {
        match verify(note, &log.key) {
            // A log must not sign for another one.
            Ok(()) if log.key.name().as_str() == checkpoint.origin => {
                signer.get_or_insert(&log.key);
            }
            Ok(()) | Err(NoteError::Missing) => {}
            Err(error) => return Err(error),
        }
    }
    signer.map(|key| (checkpoint, key)).ok_or(NoteError::Missing)
}

/// When each of the policy's witnesses cosigned the note, by their names in the policy.
fn witness_times<'a>(
    note: &Note,
    policy: &'a TlogPolicy,
) -> Result<BTreeMap<&'a str, CosignatureTimes>, NoteError> {
    let mut times = BTreeMap::new();
    for witness in policy.witnesses() {
        match cosignature_times(note, &witness.key) {
            Ok(time) => {
                times.insert(witness.name.as_str(), time);
            }
            Err(NoteError::Missing) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(times)
}

fn quorum_time(
    policy: &TlogPolicy,
    times: &BTreeMap<&str, CosignatureTimes>,
) -> Result<QuorumTime, NoteError> {
    let proven = policy.quorum_time(&|name| times.get(name).map(|times| times.oldest));
    let fresh = policy.quorum_freshness(&|name| times.get(name).map(|times| times.newest));
    let newest = times.values().map(|times| times.newest).max();
    match (newest, proven, fresh) {
        (Some(newest), Some(proven), Some(fresh)) => Ok(QuorumTime { newest, proven, fresh }),
        _ => Err(NoteError::NoQuorum),
    }
}
