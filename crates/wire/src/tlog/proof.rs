//! Proofs that an entry is in a log, for offline verification (C2SP tlog-proof).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::format::FormatError;
use crate::limits::MAX_TLOG_PROOF_LEN;
use crate::note::Note;
use crate::tlog::{Checkpoint, TreeHash, parse_decimal, take_hashes, take_line};

const HEADER: &str = "c2sp.org/tlog-proof@v1";

/// The longest path from a leaf to the root, in a tree of fewer than 2^64 leaves.
const MAX_HASHES: usize = 64;

/// An inclusion proof with the checkpoint that it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlogProof {
    /// Application data. It is not authenticated.
    pub extra: Option<Vec<u8>>,
    /// The index of the entry in the log.
    pub index: u64,
    /// The siblings on the path from the leaf to the root.
    pub hashes: Vec<TreeHash>,
    /// The checkpoint with its signatures.
    pub checkpoint: Note,
}

impl TlogProof {
    /// Parses a proof. Its note has the form of a checkpoint; nothing is verified. Each proof has
    /// exactly one encoding.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        if bytes.len() > MAX_TLOG_PROOF_LEN {
            return Err(FormatError::new("the proof is too long"));
        }
        let mut rest =
            std::str::from_utf8(bytes).map_err(|_| FormatError::new("the proof is not UTF-8"))?;
        if take_line(&mut rest) != Some(HEADER) {
            return Err(FormatError::new("not a proof of this version").at_line(1));
        }
        let mut number = 2;
        let mut line = take_line(&mut rest);
        let mut extra = None;
        if let Some(encoded) = line.and_then(|line| line.strip_prefix("extra ")) {
            let decoded = STANDARD.decode(encoded);
            let error = |_| FormatError::new("the extra data is not base64").at_line(number);
            extra = Some(decoded.map_err(error)?);
            line = take_line(&mut rest);
            number += 1;
        }
        let index = line
            .and_then(|line| line.strip_prefix("index "))
            .ok_or(FormatError::new("the index is missing").at_line(number))?;
        let index = parse_decimal(index).map_err(|error| error.at_line(number))?;
        let hashes = take_hashes(&mut rest, number + 1, MAX_HASHES)?;
        let checkpoint = Note::parse(rest.as_bytes())?;
        Checkpoint::parse(checkpoint.text())?;
        Ok(Self { extra, index, hashes, checkpoint })
    }

    /// The encoded proof.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = String::from(HEADER);
        if let Some(extra) = &self.extra {
            out.push_str("\nextra ");
            STANDARD.encode_string(extra, &mut out);
        }
        out.push_str(&format!("\nindex {}\n", self.index));
        for hash in &self.hashes {
            STANDARD.encode_string(hash, &mut out);
            out.push('\n');
        }
        out.push('\n');
        let mut out = out.into_bytes();
        out.extend_from_slice(&self.checkpoint.to_bytes());
        out
    }
}
