//! Identifiers: fixed-size byte strings, displayed and parsed as unpadded base64url (DAP "Resource
//! URIs").
//!
//! The caller chooses the bytes: the layers below the programs have no randomness.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use thiserror::Error;

use crate::codec::{Decode, DecodeError, Encode, Reader, Sink};

/// The text is not the unpadded base64url form of an identifier of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not an identifier: wrong length or not unpadded base64url")]
pub struct ParseIdError;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $len:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $len]);

        impl $name {
            /// The length in bytes.
            pub const LEN: usize = $len;

            /// The identifier made of these bytes.
            pub const fn new(bytes: [u8; $len]) -> Self {
                Self(bytes)
            }

            /// The bytes.
            pub const fn as_bytes(&self) -> &[u8; $len] {
                &self.0
            }
        }

        impl From<[u8; $len]> for $name {
            fn from(bytes: [u8; $len]) -> Self {
                Self(bytes)
            }
        }

        impl AsRef<[u8]> for $name {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                parse(text).map(Self)
            }
        }

        impl Encode for $name {
            fn encode(&self, out: &mut impl Sink) {
                out.extend_from_slice(&self.0);
            }
        }

        impl Decode<'_> for $name {
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                reader.array().map(Self)
            }
        }
    };
}

macro_rules! shown_in_debug {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    )*};
}

id!(
    /// Identifies a task. Both aggregators, all clients and the collector know it.
    TaskId, 32
);
id!(
    /// Identifies a report, and is the nonce of its VDAF shares.
    ///
    /// `Debug` hides it: a report id in log output would link it to a device's upload.
    ReportId, 16
);
id!(
    /// Identifies a batch of a task in leader-selected mode.
    BatchId, 32
);
id!(
    /// Identifies an aggregation job at the helper, which chose it.
    AggregationJobId, 32
);
id!(
    /// Identifies a collection job at the leader, which chose it.
    CollectionJobId, 32
);
id!(
    /// Identifies an aggregate share at the helper, which chose it.
    AggregateShareId, 32
);

shown_in_debug!(TaskId, BatchId, AggregationJobId, CollectionJobId, AggregateShareId);

impl fmt::Debug for ReportId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReportId(redacted)")
    }
}

/// Strict: no padding, no whitespace, no bits set after the last byte. No two texts mean the same
/// id.
fn parse<const N: usize>(text: &str) -> Result<[u8; N], ParseIdError> {
    // The buffer may be larger than needed: the decoder needs room for whole groups of three bytes.
    let mut buffer = [0u8; 48];
    if text.len() != N.div_ceil(3) * 4 - (3 - N % 3) % 3 {
        return Err(ParseIdError);
    }
    let len = URL_SAFE_NO_PAD.decode_slice(text, &mut buffer).map_err(|_| ParseIdError)?;
    match buffer.first_chunk() {
        Some(bytes) if len == N => Ok(*bytes),
        _ => Err(ParseIdError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_is_unpadded_base64url() {
        let id = TaskId::new([0xff; 32]);
        let text = id.to_string();
        assert_eq!(text.len(), 43);
        assert_eq!(text, format!("{}8", "_".repeat(42)));
        assert_eq!(text.parse(), Ok(id));
        let id = ReportId::new(*b"0123456789abcdef");
        assert_eq!(id.to_string(), "MDEyMzQ1Njc4OWFiY2RlZg");
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn other_spellings_are_refused() {
        let good = TaskId::new([0xff; 32]).to_string();
        let last_bits = format!("{}9", &good[..42]);
        let standard_alphabet = good.replace('_', "/");
        for bad in [
            "",
            "A",
            &good[..42],
            &format!("{good}="),
            &format!("{good}A"),
            &last_bits,
            &standard_alphabet,
            &format!(" {}", &good[..42]),
            &"é".repeat(22)[..44],
        ] {
            assert_eq!(bad.parse::<TaskId>(), Err(ParseIdError), "{bad}");
        }
        assert_eq!("A".repeat(43).parse::<ReportId>(), Err(ParseIdError));
    }

    #[test]
    fn debug_hides_report_ids_only() {
        assert_eq!(format!("{:?}", ReportId::new([7; 16])), "ReportId(redacted)");
        assert!(format!("{:?}", BatchId::new([0; 32])).starts_with("BatchId(AAAA"));
    }
}
