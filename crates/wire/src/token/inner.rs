//! The part of a token request that only the issuer reads, and the padding of the origin's name in
//! it (rate-limited issuance, "Encrypting Origin Names").

use std::fmt;

use super::{NK, ShortOpaque};
use crate::codec::{BoundsError, Decode, DecodeError, Encode, Reader, Sink};

/// The length of a padded name is a multiple of this.
const PADDED_TO: usize = 32;

/// The sealed part of a [`TokenRequest`](super::TokenRequest).
#[derive(Clone, PartialEq, Eq)]
pub struct InnerTokenRequest {
    /// The last byte of the token key's id.
    pub token_key_id: u8,
    /// The blinded message.
    pub blinded_msg: [u8; NK],
    /// The origin's name, padded with zeros.
    pub padded_origin_name: ShortOpaque<'static>,
}

impl InnerTokenRequest {
    /// A name in its sealed form: padded with zeros to a multiple of 32 bytes. A name is not empty
    /// and does not end in a zero.
    pub fn pad_origin_name(name: &str) -> Result<ShortOpaque<'static>, BoundsError> {
        if name.is_empty() || name.ends_with('\0') {
            return Err(BoundsError::Length("origin_name"));
        }
        let mut padded = name.as_bytes().to_vec();
        padded.resize(name.len().next_multiple_of(PADDED_TO), 0);
        ShortOpaque::new(padded)
    }

    /// The name without its padding. Each name has exactly one padding: otherwise two requests for
    /// the same origin could differ.
    pub fn origin_name(&self) -> Result<String, DecodeError> {
        let padded = self.padded_origin_name.as_bytes();
        let end = padded.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let malformed = DecodeError::Malformed("padded_origin_name");
        if end == 0 || padded.len() != end.next_multiple_of(PADDED_TO) {
            return Err(malformed);
        }
        let name = padded.get(..end).ok_or(malformed)?;
        String::from_utf8(name.to_vec()).map_err(|_| malformed)
    }
}

impl fmt::Debug for InnerTokenRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InnerTokenRequest([redacted])")
    }
}

impl Encode for InnerTokenRequest {
    fn encode(&self, out: &mut impl Sink) {
        out.push(self.token_key_id);
        out.extend_from_slice(&self.blinded_msg);
        self.padded_origin_name.encode(out);
    }
}

impl Decode<'_> for InnerTokenRequest {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            token_key_id: reader.u8()?,
            blinded_msg: reader.array()?,
            padded_origin_name: ShortOpaque::new(reader.opaque_u16()?.to_vec())?,
        })
    }
}
