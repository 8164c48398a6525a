//! Notes: text signed by one or more keys (C2SP signed-note).
//!
//! This is only the format. `sotto-crypto` verifies signatures, and the caller decides whose
//! signature counts: a parsed note proves nothing. Signatures of any type and key are kept
//! unchanged, so that a note passes through unaltered.

mod key;

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

pub use key::{KeyName, KeyType, VerifierKey};

use crate::format::FormatError;
use crate::limits::{MAX_NOTE_LEN, MAX_NOTE_SIGNATURES};

/// How a signature line starts: an em dash and a space.
const SIGNATURE_START: &str = "\u{2014} ";

/// A note: its text and the signatures below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    text: String,
    signatures: Vec<NoteSignature>,
}

impl Note {
    /// An unsigned note, to be signed. Fails unless the text ends in a newline, has no other
    /// control characters and is at most [`MAX_NOTE_LEN`] bytes long.
    pub fn new(text: impl Into<String>) -> Result<Self, FormatError> {
        let text = text.into();
        check_characters(&text)?;
        if !text.ends_with('\n') {
            return Err(FormatError::new("the text does not end in a newline"));
        }
        Ok(Self { text, signatures: Vec::new() })
    }

    /// The note with one more signature below the others.
    #[must_use]
    pub fn with_signature(mut self, signature: NoteSignature) -> Self {
        self.signatures.push(signature);
        self
    }

    /// Reads a signed note. Each note has exactly one encoding, so [`to_bytes`](Self::to_bytes)
    /// gives the same bytes again.
    ///
    /// Not every note that can be built can be read: there must be at least one signature and at
    /// most [`MAX_NOTE_SIGNATURES`].
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        if bytes.len() > MAX_NOTE_LEN {
            return Err(FormatError::new("the note is too long"));
        }
        let note =
            std::str::from_utf8(bytes).map_err(|_| FormatError::new("the note is not UTF-8"))?;
        check_characters(note)?;
        // The text may contain empty lines: the last one is the separator.
        let end = note.rfind("\n\n").ok_or(FormatError::new("no empty line before signatures"))?;
        let (text, rest) = note.split_at(end + 1);
        let lines = rest.get(1..).unwrap_or_default();
        let first_line = text.matches('\n').count() + 2;
        let signatures = parse_lines(lines, first_line)?;
        Ok(Self { text: text.to_owned(), signatures })
    }

    /// The signed text, with the newline at its end.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The signatures, in order.
    pub fn signatures(&self) -> &[NoteSignature] {
        &self.signatures
    }

    /// The encoded note.
    pub fn to_bytes(&self) -> Vec<u8> {
        let lines: usize = self.signatures.iter().map(NoteSignature::line_len).sum();
        let mut out = String::with_capacity(self.text.len() + 1 + lines);
        out.push_str(&self.text);
        out.push('\n');
        self.signatures.iter().for_each(|signature| signature.push_line(&mut out));
        out.into_bytes()
    }
}

/// A signature below a note, of any type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteSignature {
    /// The name of the key.
    pub name: KeyName,
    /// The short identifier of the key and its type. It proves nothing.
    pub key_id: [u8; 4],
    /// The bytes after the key identifier; at least one.
    pub signature: Vec<u8>,
}

impl NoteSignature {
    /// Reads only signature lines, as a witness returns them: one or more, each ending in a
    /// newline.
    pub fn parse_lines(bytes: &[u8]) -> Result<Vec<Self>, FormatError> {
        if bytes.len() > MAX_NOTE_LEN {
            return Err(FormatError::new("the signature lines are too long"));
        }
        let lines = std::str::from_utf8(bytes)
            .map_err(|_| FormatError::new("the signature lines are not UTF-8"))?;
        check_characters(lines)?;
        parse_lines(lines, 1)
    }

    /// Signature lines, as they appear below a note.
    pub fn to_lines(signatures: &[Self]) -> Vec<u8> {
        let mut out = String::new();
        signatures.iter().for_each(|signature| signature.push_line(&mut out));
        out.into_bytes()
    }

    /// Whether the name and identifier are those of this key.
    pub fn is_by(&self, key: &VerifierKey) -> bool {
        self.key_id == key.key_id() && self.name == *key.name()
    }

    fn parse_line(line: &str) -> Result<Self, FormatError> {
        let line = line
            .strip_prefix(SIGNATURE_START)
            .ok_or(FormatError::new("a signature line must start with an em dash and a space"))?;
        let (name, encoded) =
            line.split_once(' ').ok_or(FormatError::new("the signature line is incomplete"))?;
        let name = name.parse()?;
        let bytes = STANDARD
            .decode(encoded)
            .map_err(|_| FormatError::new("the signature is not canonical base64"))?;
        match bytes.split_first_chunk::<4>() {
            Some((key_id, signature)) if !signature.is_empty() => {
                Ok(Self { name, key_id: *key_id, signature: signature.to_vec() })
            }
            _ => Err(FormatError::new("the signature is too short")),
        }
    }

    fn line_len(&self) -> usize {
        let encoded = (4 + self.signature.len()).div_ceil(3) * 4;
        SIGNATURE_START.len() + self.name.as_str().len() + 1 + encoded + 1
    }

    fn push_line(&self, out: &mut String) {
        out.push_str(SIGNATURE_START);
        out.push_str(self.name.as_str());
        out.push(' ');
        STANDARD.encode_string([&self.key_id[..], &self.signature].concat(), out);
        out.push('\n');
    }
}

impl fmt::Display for NoteSignature {
    /// The signature line without its newline.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::with_capacity(self.line_len());
        self.push_line(&mut line);
        f.write_str(line.trim_end_matches('\n'))
    }
}

/// Reads signature lines. The first one is line `first_line` of the whole text.
fn parse_lines(lines: &str, first_line: usize) -> Result<Vec<NoteSignature>, FormatError> {
    let lines = lines
        .strip_suffix('\n')
        .ok_or(FormatError::new("there are no signature lines, or the last one is cut off"))?;
    let mut signatures = Vec::new();
    for (index, line) in lines.split('\n').enumerate() {
        // Each signature by a known key costs a verification.
        if index == MAX_NOTE_SIGNATURES {
            return Err(FormatError::new("there are too many signatures"));
        }
        let signature = NoteSignature::parse_line(line);
        signatures.push(signature.map_err(|error| error.at_line(first_line + index))?);
    }
    Ok(signatures)
}

fn check_characters(text: &str) -> Result<(), FormatError> {
    if text.len() > MAX_NOTE_LEN {
        return Err(FormatError::new("the text is too long"));
    }
    match text.bytes().any(|byte| byte < 0x20 && byte != b'\n') {
        true => Err(FormatError::new("there is a control character")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
