//! Checks files of token test vectors: every value is recomputed from the inputs, and every verdict
//! comes from the code of the party that gives it.
//!
//! The known files are transcripts of rate-limited issuance (`sotto-tokens0004-v1`) and the
//! published vectors of signature key blinding, of RFC 9578 type 0x0002 and of rate-limited
//! issuance, which have older formats. A file is recognized by its content. Intermediate values
//! (scalars, HPKE secrets) are recomputed here from the specifications.

mod hpke;
mod negative;
mod p384;
mod place;
mod points;
mod published;
mod script;
mod steps;
mod transcript;
mod world;

use serde_json::Value;

use self::place::Place;

/// What a passed file contained.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// What the file is about.
    pub about: &'static str,
    /// Values that matched.
    pub values: usize,
    /// What was accepted, as expected.
    pub accepted: usize,
    /// What was refused, as expected.
    pub refused: usize,
}

/// The first wrong value in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Difference {
    place: String,
    what: String,
}

impl Difference {
    /// Where: the transcript and the field.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What was expected, and what was computed.
    pub fn what(&self) -> &str {
        &self.what
    }
}

/// Checks a file. `None` if it is not a file of token vectors.
pub fn check(text: &str) -> Option<Result<Checked, Difference>> {
    let file: Value = serde_json::from_str(text).ok()?;
    let (about, run): (_, Check) = if is_transcripts(&file) {
        ("rate-limited tokens 0x0004", world::check)
    } else if has(&file, "ed25519", "bk") {
        ("signature key blinding", published::key_blinding)
    } else if has(&file, "vectors", "token_challenge") {
        ("tokens of RFC 9578 0x0002", published::rfc9578)
    } else if file.get("origin_name_encryption").or(file.get("issuer_origin_alias")).is_some() {
        ("rate-limited tokens, older forms", published::older_forms)
    } else {
        return None;
    };
    let mut tally = Tally::default();
    Some(run(&Place::root(&file), &mut tally).and_then(|()| tally.checked(about)))
}

type Check = fn(&Place<'_>, &mut Tally) -> Result<(), Difference>;

fn is_transcripts(file: &Value) -> bool {
    file.get("format").and_then(Value::as_str).is_some_and(|name| name == "sotto-tokens0004-v1")
}

/// Whether the first element of this list has this field.
fn has(file: &Value, list: &str, field: &str) -> bool {
    file.get(list).and_then(|list| list.get(0)).is_some_and(|first| first.get(field).is_some())
}

/// What has been compared so far.
#[derive(Default)]
struct Tally {
    values: usize,
    accepted: usize,
    refused: usize,
}

impl Tally {
    fn verdict(&mut self, accepted: bool) {
        if accepted { self.accepted += 1 } else { self.refused += 1 }
    }

    /// A file that checks nothing does not pass.
    fn checked(self, about: &'static str) -> Result<Checked, Difference> {
        let Self { values, accepted, refused } = self;
        if values + accepted + refused == 0 {
            let what = "there is nothing to check".to_owned();
            return Err(Difference { place: "the file".to_owned(), what });
        }
        Ok(Checked { about, values, accepted, refused })
    }
}
