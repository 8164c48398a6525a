//! Byte strings with a 16-bit length.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use crate::codec::{BoundsError, Decode, DecodeError, Encode, Reader, put_opaque_u16};

/// An `opaque<1..2^16-1>`, borrowed from the received buffer or owned. `Debug` shows only the
/// length.
#[derive(Clone, PartialEq, Eq)]
pub struct ShortOpaque<'a>(Cow<'a, [u8]>);

impl<'a> ShortOpaque<'a> {
    /// Checks the length of `bytes`.
    pub fn new(bytes: impl Into<Cow<'a, [u8]>>) -> Result<Self, BoundsError> {
        let bytes = bytes.into();
        if bytes.is_empty() || u16::try_from(bytes.len()).is_err() {
            return Err(BoundsError::Length("opaque"));
        }
        Ok(Self(bytes))
    }

    /// The bytes, without their length prefix.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same bytes, independent of the received buffer.
    pub fn into_owned(self) -> ShortOpaque<'static> {
        ShortOpaque(Cow::Owned(self.0.into_owned()))
    }
}

impl Deref for ShortOpaque<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for ShortOpaque<'_> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ShortOpaque<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShortOpaque({} bytes)", self.0.len())
    }
}

impl Encode for ShortOpaque<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_opaque_u16(out, &self.0);
    }

    fn encoded_len(&self) -> usize {
        2 + self.0.len()
    }
}

impl<'a> Decode<'a> for ShortOpaque<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self::new(reader.opaque_u16()?)?)
    }
}
