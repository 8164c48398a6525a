//! The log's side of the witness protocol (C2SP `tlog-witness`): what to ask and what to do with the
//! answer.
//!
//! Sending belongs to the host. A log that a witness has seen larger than the log itself remembers was
//! set back, to a backup for instance; one that a witness has seen with another tree was copied. Both
//! would fork if they went on, so both halt for good.

use sotto_crypto::note::{self, NoteError, QuorumTime};
use sotto_wire::tlog::witness::parse_tree_size_body;
use sotto_wire::{
    AddCheckpoint, Checkpoint, Note, NoteSignature, TlogPolicy, TreeHash, VerifierKey,
};

/// A question to one witness: our signed checkpoint, from the size that it should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The size of the checkpoint in question.
    pub size: u64,
    /// The size that the witness is taken to know.
    pub from: u64,
}

/// What to do after a witness answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It cosigned: add this verified signature.
    Cosigned(NoteSignature),
    /// Ask again, with a proof from this size.
    AskFrom(u64),
    /// Stop the log for good.
    Halt(Halt),
    /// No cosignature this time; the reason is for the operator.
    Without(String),
}

/// Why a log stops for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// A witness has a larger tree than this log ever signed.
    #[error(
        "a witness has seen size {seen}, but this log has signed nothing above {signed}: it was set back"
    )]
    SetBack {
        /// What the witness has.
        seen: u64,
        /// What the log has.
        signed: u64,
    },
    /// A witness has another tree of the same size.
    #[error(
        "a witness has seen another tree of size {size}: somebody else signs with this log's key"
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

/// What to do with a witness's answer to [`produce_add_checkpoint`].
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
        _ => Next::Without(format!("the witness answered with status {status}")),
    }
}

/// The witness's cosignature in the body: the first line that is its own and verifies. One is enough,
/// and more would only make the checkpoint longer.
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

/// The witness knows another size than we thought.
fn conflict(question: &Question, body: &[u8]) -> Next {
    let Ok(seen) = parse_tree_size_body(body) else {
        // A conflict without a size is how some witnesses answer to another root of the same size.
        // It proves nothing, so the log does not stop for it.
        return Next::Without("the witness reports a conflict without a size".to_owned());
    };
    if seen > question.size {
        Next::Halt(Halt::SetBack { seen, signed: question.size })
    } else if seen != question.from {
        Next::AskFrom(seen)
    } else if seen == question.size {
        Next::Halt(Halt::Forked { size: seen })
    } else {
        Next::Without("the witness contradicts itself".to_owned())
    }
}

/// A checkpoint with the cosignatures that a policy asks for. Only such a one is published.
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
        // Under `quorum none` there is no time to prove.
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
