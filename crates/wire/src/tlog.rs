//! Formats of transparency logs (C2SP tlog-checkpoint, tlog-tiles, tlog-proof, tlog-policy,
//! tlog-witness).
//!
//! Only the formats: hashing, proofs and signatures are in `sotto-crypto`, and reading a log is in
//! `sotto-protocol`. Text formats have one encoding per value, except that a policy may have
//! comments and free spacing.

mod checkpoint;
mod hash;
pub mod policy;
mod proof;
pub mod tile;
pub mod witness;

pub use checkpoint::Checkpoint;
pub use hash::TreeHash;
pub use policy::TlogPolicy;
pub use proof::TlogProof;
pub use tile::{BundlePath, EntryBundle, TILE_WIDTH, TilePath};
pub use witness::AddCheckpoint;

use crate::format::FormatError;

/// A decimal number without sign or leading zeroes.
fn parse_decimal(text: &str) -> Result<u64, FormatError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = digits && (text == "0" || !text.starts_with('0'));
    match text.parse() {
        Ok(number) if canonical => Ok(number),
        _ => Err(FormatError::new("not a decimal number without leading zeroes, or too large")),
    }
}

/// Takes the next line off `rest`, without its newline. `None` if there is no complete line.
fn take_line<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let (line, after) = rest.split_once('\n')?;
    *rest = after;
    Some(line)
}

/// Takes lines of one hash each off `rest`, up to and including an empty line, and at most `most`
/// of them. The first is line `first_line` of the whole text.
fn take_hashes(
    rest: &mut &str,
    first_line: usize,
    most: usize,
) -> Result<Vec<TreeHash>, FormatError> {
    let mut hashes = Vec::new();
    loop {
        let number = first_line + hashes.len();
        match take_line(rest) {
            None => return Err(FormatError::new("no empty line after the hashes")),
            Some("") => return Ok(hashes),
            Some(_) if hashes.len() == most => {
                return Err(FormatError::new("there are too many hashes").at_line(number));
            }
            Some(line) => hashes.push(line.parse().map_err(|e: FormatError| e.at_line(number))?),
        }
    }
}

#[cfg(test)]
mod tests;
