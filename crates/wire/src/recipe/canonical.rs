//! The only encoding of a value: RFC 8785 (JSON Canonicalization Scheme).
//!
//! An id is the hash of bytes, and a signature is over bytes. If two texts meant the same recipe,
//! an author could show one recipe under two ids, and a device that saw both would answer twice. So
//! a decoder encodes the decoded value again and accepts nothing else: repeated names, other
//! orders, spaces, unnecessary escapes, `null` for what is absent, `1.0` and `1e3` all fail here,
//! whatever the parser made of them.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::FormatError;
use crate::limits::MAX_ENTRY_JSON_LEN;

/// Gives a type of log entry its canonical JSON. The type has a method `check_fields`, with every
/// rule of the format except the total length.
macro_rules! canonical_json {
    ($kind:ty) => {
        impl $kind {
            /// Parses a value from its canonical encoding.
            pub fn parse(json: &[u8]) -> Result<Self, $crate::FormatError> {
                $crate::recipe::canonical::parse(json, Self::check_fields)
            }

            /// The canonical encoding. For a value that breaks the rules, this gives bytes that
            /// [`Self::parse`] rejects.
            pub fn to_json(&self) -> Vec<u8> {
                $crate::recipe::canonical::encode(self)
            }

            /// The hash of the canonical encoding.
            pub fn id(&self) -> $crate::EntryId {
                $crate::EntryId::of(&self.to_json())
            }

            /// Whether the value follows the rules of the format; if not, the reason as text.
            pub fn check(&self) -> Result<(), $crate::FormatError> {
                self.check_fields()?;
                $crate::recipe::canonical::check_len(self.to_json().len())
            }
        }
    };
}
pub(super) use canonical_json;

/// Decodes, checks the rules of the type and compares the bytes with the canonical encoding.
pub(super) fn parse<T: DeserializeOwned + Serialize>(
    json: &[u8],
    check: fn(&T) -> Result<(), FormatError>,
) -> Result<T, FormatError> {
    check_len(json.len())?;
    let text = std::str::from_utf8(json).map_err(|_| FormatError::new("the JSON is not UTF-8"))?;
    let value: T =
        serde_json::from_str(text).map_err(|error| FormatError::new(error.to_string()))?;
    check(&value)?;
    let canonical = encode(&value);
    if canonical != json {
        let same = canonical.iter().zip(json).take_while(|(a, b)| a == b).count();
        return Err(FormatError::new(format!(
            "this is not the canonical encoding of what it says: it differs from byte {same} on"
        )));
    }
    Ok(value)
}

/// The canonical encoding.
pub(super) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    // Text, integers and booleans always encode. If that ever changes, empty bytes are not a
    // recipe.
    serde_json_canonicalizer::to_vec(value).unwrap_or_default()
}

/// Whether JSON of this length fits into an entry of the log.
pub(super) fn check_len(len: usize) -> Result<(), FormatError> {
    if len > MAX_ENTRY_JSON_LEN {
        return Err(FormatError::new(format!(
            "the JSON has {len} bytes; at most {MAX_ENTRY_JSON_LEN} fit into an entry of the log"
        )));
    }
    Ok(())
}
