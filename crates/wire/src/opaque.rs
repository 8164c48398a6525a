//! Byte strings with a length: shares, payloads, aggregation parameters, parts of token requests.
//!
//! Others interpret the bytes.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use crate::codec::{
    BoundsError, Decode, DecodeError, Encode, Reader, Sink, put_opaque_u16, put_opaque_u32,
};

/// An `opaque<MIN..MAX>` whose length takes `PREFIX` bytes, 2 or 4. Borrowed from the received
/// buffer or owned.
///
/// `Debug` shows only the length, because the bytes may be a share.
#[derive(Clone, PartialEq, Eq)]
pub struct Opaque<'a, const MIN: usize, const PREFIX: u32 = 4>(Cow<'a, [u8]>);

/// The public share of a report, `opaque<0..2^32-1>`.
pub type PublicShare<'a> = Opaque<'a, 0>;

/// An aggregation parameter, `opaque<0..2^32-1>`. Empty for all Prio3 variants.
pub type AggParam<'a> = Opaque<'a, 0>;

/// An input share or a verification message, `opaque<1..2^32-1>`.
pub type Payload<'a> = Opaque<'a, 1>;

/// An `opaque<1..2^16-1>`.
pub type ShortOpaque<'a> = Opaque<'a, 1, 2>;

impl<'a, const MIN: usize, const PREFIX: u32> Opaque<'a, MIN, PREFIX> {
    /// Checks the length of `bytes`.
    pub fn new(bytes: impl Into<Cow<'a, [u8]>>) -> Result<Self, BoundsError> {
        let bytes = bytes.into();
        let max = u64::MAX >> (64 - 8 * PREFIX);
        if bytes.len() < MIN || bytes.len() as u64 > max {
            return Err(BoundsError::Length("opaque"));
        }
        Ok(Self(bytes))
    }

    /// The bytes, without their length prefix.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as a vector, copied if they were borrowed.
    pub fn into_vec(self) -> Vec<u8> {
        self.0.into_owned()
    }

    /// The same bytes, independent of the received buffer.
    pub fn into_owned(self) -> Opaque<'static, MIN, PREFIX> {
        Opaque(Cow::Owned(self.0.into_owned()))
    }
}

impl Default for Opaque<'_, 0> {
    fn default() -> Self {
        Self(Cow::Borrowed(&[]))
    }
}

impl<const MIN: usize, const PREFIX: u32> Deref for Opaque<'_, MIN, PREFIX> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<const MIN: usize, const PREFIX: u32> AsRef<[u8]> for Opaque<'_, MIN, PREFIX> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<const MIN: usize, const PREFIX: u32> fmt::Debug for Opaque<'_, MIN, PREFIX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opaque({} bytes)", self.0.len())
    }
}

impl<const MIN: usize, const PREFIX: u32> Encode for Opaque<'_, MIN, PREFIX> {
    fn encode(&self, out: &mut impl Sink) {
        match PREFIX {
            2 => put_opaque_u16(out, &self.0),
            _ => put_opaque_u32(out, &self.0),
        }
    }
}

impl<'a, const MIN: usize, const PREFIX: u32> Decode<'a> for Opaque<'a, MIN, PREFIX> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let bytes = match PREFIX {
            2 => reader.opaque_u16()?,
            _ => reader.opaque_u32()?,
        };
        Ok(Self::new(bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_payload_is_refused() {
        assert!(Payload::new(Vec::new()).is_err());
        assert!(Payload::from_bytes(&[0, 0, 0, 0]).is_err());
        assert_eq!(PublicShare::from_bytes(&[0, 0, 0, 0]), Ok(PublicShare::default()));
    }

    #[test]
    fn debug_hides_the_bytes() {
        let payload = Payload::new(vec![0xab; 3]).unwrap();
        assert_eq!(format!("{payload:?}"), "Opaque(3 bytes)");
    }
}
