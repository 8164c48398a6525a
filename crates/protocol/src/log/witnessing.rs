//! The log's side of the witness protocol (C2SP `tlog-witness`): what to ask and how to handle the
//! answer.
//!
//! Sending belongs to the host. If a witness has seen a larger tree than the log remembers, the log
//! was rolled back, for example to a backup; if a witness has seen a different tree, the log was
//! copied. Both would fork if they continued, so both halt permanently. But a witness's refusal is
//! not signed, and must not end a log: it is a [`Claim`] until the witness shows a checkpoint that
//! this log's own key signed. Until then, nothing is appended.

use sotto_crypto::note::{self, NoteError, QuorumTime};
use sotto_wire::tlog::witness::parse_tree_size_body;
use sotto_wire::{
    AddCheckpoint, Checkpoint, Note, NoteSignature, TlogPolicy, TreeHash, VerifierKey,
};

use super::misbehaviour::signed_checkpoint;

/// A question to one witness: our signed checkpoint, and the size that the witness should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The size of the checkpoint in question.
    pub size: u64,
    /// The size that we believe the witness knows.
    pub from: u64,
}

/// What to do after a witness answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It cosigned: add this verified signature.
    Cosigned(NoteSignature),
    /// Ask again, with a proof from this size.
    AskFrom(u64),
    /// It says that it has seen a different tree than ours. Fetch the checkpoint that it has
    /// stored, and pass it to [`read_witness_checkpoint`] and [`consume_witness_checkpoint`].
    Inspect(Claim),
    /// Stop the log permanently.
    Halt(Halt),
    /// It says that it has seen a different tree, but does not show it. Append nothing until it
    /// cosigns our tree: it may be right.
    Disputed(Dispute),
    /// No cosignature this time; the reason is for the operator.
    Without(String),
}

/// What a witness says without a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Claim {
    /// It has a larger tree than this log ever signed.
    #[error("it says that it has seen size {seen}, but this log has signed nothing above {signed}")]
    Larger {
        /// The size that it says it has.
        seen: u64,
        /// The size that the log has.
        signed: u64,
    },
    /// It has a different tree of the size that it was asked about.
    #[error("it says that it has seen another tree of size {size}")]
    OtherTree {
        /// The size of both.
        size: u64,
    },
    /// The tree that it was asked about does not extend the one that it has.
    #[error(
        "it says that this log's tree does not extend the tree of size {seen} that it has seen"
    )]
    NotExtended {
        /// The size of the tree that it has.
        seen: u64,
    },
}

impl Claim {
    /// The size of the tree that the witness says it has.
    pub fn seen(&self) -> u64 {
        match self {
            Self::Larger { seen, .. } | Self::NotExtended { seen } => *seen,
            Self::OtherTree { size } => *size,
        }
    }
}

/// A claim, and why it is not proved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{claim}, and does not prove it ({unproved})")]
pub struct Dispute {
    /// What the witness says.
    pub claim: Claim,
    /// What is wrong with the proof that it shows, for the operator.
    pub unproved: String,
}

/// Why a log stops permanently. Each reason was proved by a signature of the log's own key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// A witness has a larger tree than this log ever signed.
    #[error(
        "a witness shows a checkpoint of size {seen} signed by this log, which has signed nothing above \
         {signed} that it knows of: it was set back"
    )]
    SetBack {
        /// What the witness has.
        seen: u64,
        /// What the log has.
        signed: u64,
    },
    /// A witness has a different tree of a size that this log also has.
    #[error(
        "a witness shows another tree of size {size} signed by this log: somebody else signs with its key"
    )]
    Forked {
        /// The size of both.
        size: u64,
    },
}

/// The request that asks a witness to cosign, with the consistency proof from the size it knows.
pub fn produce_add_checkpoint(
    question: &Question,
    proof: Vec<TreeHash>,
    signed: &Note,
) -> AddCheckpoint {
    AddCheckpoint { old_size: question.from, proof, checkpoint: signed.clone() }
}

/// How to handle a witness's answer to [`produce_add_checkpoint`].
pub fn consume_witness_answer(
    question: &Question,
    signed: &Note,
    witness: &VerifierKey,
    status: u16,
    body: &[u8],
) -> Next {
    match status {
        200 => match cosignature(signed, witness, body) {
            Ok(signature) => Next::Cosigned(signature),
            Err(reason) => Next::Without(reason),
        },
        409 => conflict(question, body),
        // Every tree extends the empty one, so there is nothing to inspect.
        422 if question.from > 0 => Next::Inspect(Claim::NotExtended { seen: question.from }),
        _ => Next::Without(format!("the witness answered with status {status}")),
    }
}

/// The witness's cosignature in the body: the first line that is from this witness and verifies.
/// One is enough, and more would only make the checkpoint longer.
fn cosignature(signed: &Note, witness: &VerifierKey, body: &[u8]) -> Result<NoteSignature, String> {
    let lines = NoteSignature::parse_lines(body).map_err(|error| error.to_string())?;
    let bare = Note::new(signed.text()).map_err(|error| error.to_string())?;
    lines
        .into_iter()
        .filter(|line| line.is_by(witness))
        .find(|line| {
            let cosigned = bare.clone().with_signature(line.clone());
            note::cosignature_time(&cosigned, witness).is_ok()
        })
        .ok_or_else(|| "the answer has no valid cosignature by this witness".to_owned())
}

/// The witness knows a different size than we thought.
fn conflict(question: &Question, body: &[u8]) -> Next {
    let Ok(seen) = parse_tree_size_body(body) else {
        // Some witnesses report a different root of the same size as a conflict without a size.
        // That proves nothing, so the log does not stop for it.
        return Next::Without("the witness reports a conflict without a size".to_owned());
    };
    if seen > question.size {
        Next::Inspect(Claim::Larger { seen, signed: question.size })
    } else if seen != question.from {
        Next::AskFrom(seen)
    } else if seen == question.size {
        Next::Inspect(Claim::OtherTree { size: seen })
    } else {
        Next::Without("the witness contradicts itself".to_owned())
    }
}

/// The checkpoint that a witness has stored for this log, as monitors fetch it. It counts only if
/// the log's key signed it. An error says why it does not count.
pub fn read_witness_checkpoint(body: &[u8], log: &VerifierKey) -> Result<Checkpoint, String> {
    signed_checkpoint("its checkpoint", body, log)
}

/// What follows from the checkpoint that a witness shows for its claim. `own_root` is the root of
/// our own tree at the size of `shown`, unless that is above the size in question.
pub fn consume_witness_checkpoint(
    question: &Question,
    claim: Claim,
    shown: &Checkpoint,
    own_root: Option<TreeHash>,
) -> Next {
    let size = shown.size;
    if size > question.size {
        return Next::Halt(Halt::SetBack { seen: size, signed: question.size });
    }
    match own_root {
        Some(root) if root != shown.root => Next::Halt(Halt::Forked { size }),
        // It has seen what we have, whatever it claims.
        Some(_) if size >= claim.seen() => {
            Next::Without(format!("{claim}, but shows this log's own tree of size {size}"))
        }
        // What it shows may come from a cache, and be older than what it has.
        _ => {
            let unproved = format!("it shows a checkpoint of size {size}");
            Next::Disputed(Dispute { claim, unproved })
        }
    }
}

/// A checkpoint with the cosignatures that a policy requires. Only such a checkpoint is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cosigned {
    note: Note,
    checkpoint: Checkpoint,
    time: Option<QuorumTime>,
}

impl Cosigned {
    /// Checks a note against a policy: the log's signature and the quorum.
    pub fn new(note: Note, policy: &TlogPolicy) -> Result<Self, NoteError> {
        let checkpoint = note::verify_log(&note, policy)?;
        // Under `quorum none` no time can be proved.
        let time = match policy.requires_witnesses() {
            true => Some(note::quorum(&note, policy)?),
            false => None,
        };
        Ok(Self { note, checkpoint, time })
    }

    /// The note.
    pub fn note(&self) -> &Note {
        &self.note
    }

    /// What it says.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// What its cosignatures prove about time.
    pub fn time(&self) -> Option<&QuorumTime> {
        self.time.as_ref()
    }
}
