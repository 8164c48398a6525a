//! The witness: cosigns only what extends what it cosigned before (C2SP `tlog-witness`).
//!
//! Pure. The host loads the stored checkpoint of the origin, calls [`consume_add_checkpoint`],
//! makes the new checkpoint durable and only then answers. Load and commit happen under one lock,
//! or two concurrent requests could roll a log back.

use sotto_crypto::merkle::{empty_root, verify_consistency};
use sotto_crypto::note::{self, NoteKey};
use sotto_wire::tlog::witness::{TREE_SIZE_MEDIA_TYPE, tree_size_body};
use sotto_wire::{
    AddCheckpoint, Checkpoint, FormatError, Note, NoteSignature, TlogPolicy, TreeHash,
};

use crate::Moment;

/// Why a witness does not cosign. Each reason has its own HTTP status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WitnessRefusal {
    /// The request is malformed.
    #[error("the request cannot be read: {0}")]
    Malformed(#[from] FormatError),
    /// The old size is above the new one.
    #[error("the old size is above the checkpoint's")]
    OldAboveNew,
    /// No key is known for the origin.
    #[error("this witness does not know the log")]
    UnknownLog,
    /// No known key of the log signed it.
    #[error("the checkpoint has no valid signature by a known key of the log")]
    Unsigned,
    /// The old size is not what this witness cosigned last, or the tree of that size is a different
    /// one.
    #[error("this witness has cosigned size {stored}")]
    Conflict {
        /// The size that it cosigned last; 0 if none.
        stored: u64,
    },
    /// The proof does not lead from the stored tree to the new one.
    #[error("the consistency proof does not hold")]
    BadProof,
}

impl WitnessRefusal {
    /// The HTTP status of the answer.
    pub fn status(&self) -> u16 {
        match self {
            Self::Malformed(_) | Self::OldAboveNew => 400,
            Self::Unsigned => 403,
            Self::UnknownLog => 404,
            Self::Conflict { .. } => 409,
            Self::BadProof => 422,
        }
    }

    /// The media type of the answer's body.
    pub fn media_type(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => TREE_SIZE_MEDIA_TYPE,
            _ => "text/plain; charset=utf-8",
        }
    }

    /// The body of the answer: for a conflict the size that this witness knows, otherwise a text.
    pub fn body(&self) -> String {
        match self {
            Self::Conflict { stored } => tree_size_body(*stored),
            other => format!("{other}\n"),
        }
    }
}

/// A request that a known log has signed. The remaining checks depend on the stored checkpoint.
#[derive(Clone, Debug)]
pub struct KnownCheckpoint {
    old_size: u64,
    proof: Vec<TreeHash>,
    checkpoint: Checkpoint,
    /// With one signature of each known key of the log. Anybody may add others to a request.
    note: Note,
}

impl KnownCheckpoint {
    /// The origin under which the last checkpoint is stored.
    pub fn origin(&self) -> &str {
        &self.checkpoint.origin
    }
}

/// What a witness stores, and its answer.
#[derive(Clone, Debug)]
pub struct Cosignature {
    /// To be made durable before answering: the checkpoint with the log's signatures and ours.
    pub stored: Note,
    /// The body of the answer, for status 200.
    pub body: Vec<u8>,
}

/// Reads a request and makes the checks that do not need the stored checkpoint. `logs` lists the
/// logs that this witness serves.
pub fn read_add_checkpoint(
    body: &[u8],
    logs: &TlogPolicy,
) -> Result<KnownCheckpoint, WitnessRefusal> {
    let request = AddCheckpoint::parse(body)?;
    let checkpoint = Checkpoint::parse(request.checkpoint.text())?;
    if logs.log_keys(&checkpoint.origin).next().is_none() {
        return Err(WitnessRefusal::UnknownLog);
    }
    note::verify_log(&request.checkpoint, logs).map_err(|_| WitnessRefusal::Unsigned)?;
    if request.old_size > checkpoint.size {
        return Err(WitnessRefusal::OldAboveNew);
    }
    let mut note = Note::new(request.checkpoint.text())?;
    for key in logs.log_keys(&checkpoint.origin) {
        if let Some(line) = request.checkpoint.signatures().iter().find(|line| line.is_by(key)) {
            note = note.with_signature(line.clone());
        }
    }
    Ok(KnownCheckpoint { old_size: request.old_size, proof: request.proof, checkpoint, note })
}

/// Decides about a request. `stored` is what this witness cosigned last for the origin.
pub fn consume_add_checkpoint(
    known: &KnownCheckpoint,
    stored: Option<&Checkpoint>,
    key: &NoteKey,
    now: Moment,
) -> Result<Cosignature, WitnessRefusal> {
    let new = &known.checkpoint;
    let (old_size, old_root) =
        stored.map_or_else(|| (0, empty_root()), |stored| (stored.size, stored.root));
    let conflict = WitnessRefusal::Conflict { stored: old_size };
    if known.old_size != old_size {
        return Err(conflict);
    }
    if new.size == old_size && new.root != old_root {
        return Err(conflict);
    }
    // Every tree extends the empty one, and the proof of that is empty.
    let proved = if old_size == 0 {
        known.proof.is_empty()
    } else {
        verify_consistency(old_size, &old_root, new.size, &new.root, &known.proof).is_ok()
    };
    if !proved {
        return Err(WitnessRefusal::BadProof);
    }
    let signature = key.cosign(known.note.text(), now.0);
    let body = NoteSignature::to_lines(std::slice::from_ref(&signature));
    Ok(Cosignature { stored: known.note.clone().with_signature(signature), body })
}
