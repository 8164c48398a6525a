//! The messages between a log and a witness (C2SP tlog-witness).
//!
//! The response with cosignatures consists of signature lines only: [`NoteSignature::parse_lines`]
//! and [`NoteSignature::to_lines`](crate::NoteSignature::to_lines).
//!
//! [`NoteSignature::parse_lines`]: crate::NoteSignature::parse_lines

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::format::FormatError;
use crate::limits::MAX_ADD_CHECKPOINT_LEN;
use crate::note::Note;
use crate::tlog::{Checkpoint, TreeHash, parse_decimal, take_hashes, take_line};

/// The media type of the response with the size that a witness has.
pub const TREE_SIZE_MEDIA_TYPE: &str = "text/x.tlog.size";

/// The most hashes in a request.
const MAX_HASHES: usize = 63;

/// The request for a cosignature: `add-checkpoint`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddCheckpoint {
    /// The size of the witness's checkpoint, as far as the log knows.
    pub old_size: u64,
    /// The consistency proof from the old size; at most 63 hashes.
    pub proof: Vec<TreeHash>,
    /// The checkpoint to cosign, signed by the log.
    pub checkpoint: Note,
}

impl AddCheckpoint {
    /// Parses a request. Its note has the form of a checkpoint. Nothing is verified, not even the
    /// order of the sizes, for which the protocol defines its own responses. Each request has
    /// exactly one encoding.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        if bytes.len() > MAX_ADD_CHECKPOINT_LEN {
            return Err(FormatError::new("the request is too long"));
        }
        let mut rest =
            std::str::from_utf8(bytes).map_err(|_| FormatError::new("the request is not UTF-8"))?;
        let old_size = take_line(&mut rest)
            .and_then(|line| line.strip_prefix("old "))
            .ok_or(FormatError::new("the old size is missing").at_line(1))?;
        let old_size = parse_decimal(old_size).map_err(|error| error.at_line(1))?;
        let proof = take_hashes(&mut rest, 2, MAX_HASHES)?;
        let checkpoint = Note::parse(rest.as_bytes())?;
        Checkpoint::parse(checkpoint.text())?;
        Ok(Self { old_size, proof, checkpoint })
    }

    /// The encoded request.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = format!("old {}\n", self.old_size);
        for hash in &self.proof {
            STANDARD.encode_string(hash, &mut out);
            out.push('\n');
        }
        out.push('\n');
        let mut out = out.into_bytes();
        out.extend_from_slice(&self.checkpoint.to_bytes());
        out
    }
}

/// The response of a witness whose size differs from what the log assumed.
pub fn tree_size_body(size: u64) -> String {
    format!("{size}\n")
}

/// Parses that response.
pub fn parse_tree_size_body(bytes: &[u8]) -> Result<u64, FormatError> {
    let text = std::str::from_utf8(bytes).ok().and_then(|text| text.strip_suffix('\n'));
    parse_decimal(text.ok_or(FormatError::new("the size does not end in a newline"))?)
}
