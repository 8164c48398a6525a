//! QUIC's variable-length integers (RFC 9000 §16): the two highest bits say whether there are 1, 2,
//! 4 or 8 bytes.

use crate::codec::{DecodeError, Reader, Sink};

/// Takes an integer. It may use more bytes than needed.
pub(super) fn varint(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let first = reader.u8()?;
    let mut value = u64::from(first & 0x3f);
    for byte in reader.bytes((1 << (first >> 6)) - 1)? {
        value = value << 8 | u64::from(*byte);
    }
    Ok(value)
}

/// Takes bytes with a length prefix.
pub(super) fn opaque<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    let len = varint(reader)?;
    reader.bytes(usize::try_from(len).map_err(|_| DecodeError::UnexpectedEnd)?)
}

/// Appends an integer in as few bytes as possible. The length of anything in memory is below 2^62.
pub(super) fn put_varint(out: &mut impl Sink, value: u64) {
    debug_assert!(value < 1 << 62);
    let len = varint_len(value);
    let tagged = value | u64::from(len.ilog2()) << (8 * len - 2);
    out.extend_from_slice(&tagged.to_be_bytes()[8 - len..]);
}

/// The number of bytes that [`put_varint`] appends.
pub(super) fn varint_len(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Appends bytes with a length prefix.
pub(super) fn put_opaque(out: &mut impl Sink, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The number of bytes that [`put_opaque`] appends for `len` bytes.
pub(super) fn opaque_len(len: usize) -> usize {
    varint_len(len as u64) + len
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 9000 §A.1; the fourth uses one byte more than needed.
    #[test]
    fn published_examples() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x40, 0x25], 37),
            (&[0x25], 37),
        ] {
            assert_eq!(varint(&mut Reader::new(bytes)), Ok(value));
        }
    }

    #[test]
    fn every_width_comes_back_in_as_few_bytes_as_hold_it() {
        for (value, len) in [
            (0, 1),
            (63, 1),
            (64, 2),
            (0x3fff, 2),
            (0x4000, 4),
            (0x3fff_ffff, 4),
            (0x4000_0000, 8),
            ((1 << 62) - 1, 8),
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!((out.len(), varint_len(value)), (len, len));
            let mut reader = Reader::new(&out);
            assert_eq!(varint(&mut reader), Ok(value));
            assert!(reader.is_empty());
            for cut in 0..out.len() {
                let cut = varint(&mut Reader::new(&out[..cut]));
                assert_eq!(cut, Err(DecodeError::UnexpectedEnd));
            }
        }
    }

    #[test]
    fn a_length_past_the_end_is_refused() {
        for bytes in [&[2, 0][..], &[0xff; 8], &[0x80, 0, 0, 2, 0]] {
            assert_eq!(opaque(&mut Reader::new(bytes)), Err(DecodeError::UnexpectedEnd));
        }
    }
}
