//! Reads and writes the TLS presentation language (DAP "Conventions and Definitions", RFC 8446 §3).
//!
//! [`Reader`] hands out slices of the received buffer, so decoding a large message copies nothing.
//! The message modules interpret the bytes. Integers are big-endian and every variable-length
//! vector is preceded by its length in bytes.

use thiserror::Error;

/// A message that can be written to the wire.
///
/// Encoding cannot fail: a value that has no encoding cannot be constructed.
pub trait Encode {
    /// Appends the encoding to `out`.
    fn encode(&self, out: &mut impl Sink);

    /// The exact number of bytes that [`encode`](Self::encode) appends.
    fn encoded_len(&self) -> usize {
        length(|out| self.encode(out))
    }

    /// The encoding in a new buffer.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_len());
        self.encode(&mut out);
        out
    }
}

/// Consecutive values, without a length.
impl<T: Encode> Encode for [T] {
    fn encode(&self, out: &mut impl Sink) {
        self.iter().for_each(|value| value.encode(out));
    }
}

/// Where an encoding goes: a buffer, or a counter of its bytes.
pub trait Sink {
    /// Appends bytes.
    fn extend_from_slice(&mut self, bytes: &[u8]);

    /// Appends one byte.
    fn push(&mut self, byte: u8) {
        self.extend_from_slice(&[byte]);
    }
}

impl Sink for Vec<u8> {
    fn extend_from_slice(&mut self, bytes: &[u8]) {
        Self::extend_from_slice(self, bytes);
    }
}

/// Counts bytes without storing them.
pub(crate) struct Length(usize);

impl Sink for Length {
    fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// How many bytes `encode` appends.
pub(crate) fn length(encode: impl FnOnce(&mut Length)) -> usize {
    let mut length = Length(0);
    encode(&mut length);
    length.0
}

/// A message that can be read from the wire.
///
/// Encodings are canonical: decoding and encoding again gives the same bytes.
pub trait Decode<'a>: Sized {
    /// Reads one value from the front of `reader`.
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;

    /// Reads one value that takes up all of `bytes`.
    fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let value = Self::decode(&mut reader)?;
        reader.finish()?;
        Ok(value)
    }
}

/// Why bytes are not a message.
///
/// Contains nothing of the message, so it may be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The input ends inside a value, or a length points past its end.
    #[error("message ends early")]
    UnexpectedEnd,
    /// The value is complete, but more bytes follow.
    #[error("bytes after the end of the message")]
    TrailingBytes,
    /// An enumeration has no such value.
    #[error("{field}: unknown value {value}")]
    UnknownValue {
        /// The name of the enumeration.
        field: &'static str,
        /// The value found.
        value: u8,
    },
    /// Extension types do not strictly increase: they are unsorted, or one occurs twice.
    #[error("extensions out of order")]
    ExtensionsOutOfOrder,
    /// A part of a message breaks the rules of its format.
    #[error("{0}: not allowed by the format")]
    Malformed(&'static str),
    /// A value is readable, but not one that the type allows.
    #[error(transparent)]
    Bounds(BoundsError),
}

impl From<BoundsError> for DecodeError {
    fn from(error: BoundsError) -> Self {
        match error {
            BoundsError::ExtensionsOutOfOrder => Self::ExtensionsOutOfOrder,
            other => Self::Bounds(other),
        }
    }
}

/// Why a value cannot be part of a message, whether it was read or is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BoundsError {
    /// A vector is shorter or longer than its type allows.
    #[error("{0}: length out of range")]
    Length(&'static str),
    /// The end of an interval is past the last representable time.
    #[error("interval ends after the last representable time")]
    IntervalOverflow,
    /// A time precision of zero seconds.
    #[error("time precision is zero")]
    ZeroTimePrecision,
    /// A URL holds a byte other than visible ASCII.
    #[error("URL has a byte other than visible ASCII")]
    UrlCharacter,
    /// Extension types do not strictly increase.
    #[error("extensions out of order")]
    ExtensionsOutOfOrder,
    /// The data of an extension of a known type is not what that type requires.
    #[error("extension {0:#06x}: malformed data")]
    ExtensionData(u16),
    /// Two HPKE configurations of one list share an id.
    #[error("duplicate HPKE configuration id")]
    DuplicateHpkeConfigId,
}

/// A cursor over a received buffer.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    total_len: usize,
}

impl<'a> Reader<'a> {
    /// A cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, total_len: bytes.len() }
    }

    /// Takes the next `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(n).ok_or(DecodeError::UnexpectedEnd)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Takes the next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(DecodeError::UnexpectedEnd)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Takes a `uint8`.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(u8::from_be_bytes)
    }

    /// Takes a `uint16`.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Takes a `uint32`.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Takes a `uint64`.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Takes an `opaque<0..2^8-1>`.
    pub fn opaque_u8(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.u8()?;
        self.bytes(usize::from(len))
    }

    /// Takes an `opaque<0..2^16-1>`.
    pub fn opaque_u16(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.u16()?;
        self.bytes(usize::from(len))
    }

    /// Takes an `opaque<0..2^32-1>`.
    pub fn opaque_u32(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.u32()?;
        self.bytes(usize::try_from(len).map_err(|_| DecodeError::UnexpectedEnd)?)
    }

    /// Takes all bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Whether all bytes have been taken.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// How many bytes have been taken.
    pub fn position(&self) -> usize {
        self.total_len - self.rest.len()
    }

    /// Rejects leftover bytes.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::TrailingBytes) }
    }

    /// Decodes one value and returns it with the bytes that it was decoded from.
    pub(crate) fn with_raw<T: Decode<'a>>(&mut self) -> Result<(T, &'a [u8]), DecodeError> {
        let before = self.rest;
        let value = T::decode(self)?;
        let (raw, _) = before
            .split_at_checked(before.len() - self.rest.len())
            .ok_or(DecodeError::UnexpectedEnd)?;
        Ok((value, raw))
    }

    /// Decodes values until the input ends.
    ///
    /// Capacity is reserved by the size of the first value, since the reports of one task are
    /// alike. At most `remaining / first length` values are reserved, so a small message cannot
    /// claim much memory.
    pub(crate) fn values_to_end<T: Decode<'a>>(&mut self) -> Result<Vec<T>, DecodeError> {
        let mut values = Vec::new();
        if self.is_empty() {
            return Ok(values);
        }
        let before = self.remaining();
        let first = T::decode(self)?;
        let first_len = (before - self.remaining()).max(1);
        values.reserve_exact(before / first_len);
        values.push(first);
        while !self.is_empty() {
            values.push(T::decode(self)?);
        }
        Ok(values)
    }
}

/// Appends `opaque<0..2^8-1>`. The caller has a checked type, so the length is not truncated.
pub(crate) fn put_opaque_u8(out: &mut impl Sink, bytes: &[u8]) {
    debug_assert!(u8::try_from(bytes.len()).is_ok());
    out.push(bytes.len() as u8);
    out.extend_from_slice(bytes);
}

/// Appends `opaque<0..2^16-1>`. The caller has a checked type, so the length is not truncated.
pub(crate) fn put_opaque_u16(out: &mut impl Sink, bytes: &[u8]) {
    debug_assert!(u16::try_from(bytes.len()).is_ok());
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends `opaque<0..2^32-1>`. The caller has a checked type, so the length is not truncated.
pub(crate) fn put_opaque_u32(out: &mut impl Sink, bytes: &[u8]) {
    debug_assert!(u32::try_from(bytes.len()).is_ok());
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_big_endian() {
        let mut reader = Reader::new(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(reader.u8(), Ok(1));
        assert_eq!(reader.u16(), Ok(0x0203));
        assert_eq!(reader.u32(), Ok(0x0405_0607));
        assert_eq!(reader.u64(), Ok(0x0809_0a0b_0c0d_0e0f));
        assert_eq!(reader.position(), 15);
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn a_length_past_the_end_is_refused() {
        assert_eq!(Reader::new(&[2, 0]).opaque_u8(), Err(DecodeError::UnexpectedEnd));
        assert_eq!(Reader::new(&[0, 2, 0]).opaque_u16(), Err(DecodeError::UnexpectedEnd));
        assert_eq!(
            Reader::new(&[0xff, 0xff, 0xff, 0xff, 0]).opaque_u32(),
            Err(DecodeError::UnexpectedEnd)
        );
        assert_eq!(Reader::new(&[0]).u16(), Err(DecodeError::UnexpectedEnd));
    }

    #[test]
    fn a_failed_read_takes_nothing_but_the_length() {
        let mut reader = Reader::new(&[9, 1, 2]);
        assert!(reader.opaque_u8().is_err());
        assert_eq!(reader.position(), 1);
        assert_eq!(reader.rest(), [1, 2]);
        assert!(reader.is_empty());
    }
}
