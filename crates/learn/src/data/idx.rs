//! The format IDX, in which MNIST is distributed: arrays of bytes.
//!
//! Two zero bytes, the type of an element (8: an unsigned byte, the only one that is read here), the
//! number of dimensions, each dimension as 32 bits in network order, then the elements.

use crate::Error;

/// An array of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array<'a> {
    /// Its dimensions, the slowest first.
    pub dimensions: Vec<usize>,
    /// The elements.
    pub elements: &'a [u8],
}

/// The type of unsigned bytes.
const UNSIGNED_BYTE: u8 = 8;

/// Reads an array, which must be all that there is.
pub fn parse(bytes: &[u8]) -> Result<Array<'_>, Error> {
    let malformed = |reason| Error::Malformed { format: "an IDX file", reason };
    let (head, rest) = bytes.split_first_chunk().ok_or(malformed("it has no head"))?;
    let [0, 0, kind, count] = *head else {
        return Err(malformed("it does not begin with two zero bytes"));
    };
    if kind != UNSIGNED_BYTE {
        return Err(malformed("its elements are not unsigned bytes"));
    }
    let (dimensions, elements) = rest
        .split_at_checked(4 * usize::from(count))
        .ok_or(malformed("its dimensions are cut off"))?;
    let (dimensions, _) = dimensions.as_chunks::<4>();
    let dimensions: Vec<usize> =
        dimensions.iter().map(|bytes| u32::from_be_bytes(*bytes) as usize).collect();
    let total = dimensions.iter().try_fold(1_usize, |total, one| total.checked_mul(*one));
    if total != Some(elements.len()) {
        return Err(malformed("it has more or fewer elements than its dimensions say"));
    }
    Ok(Array { dimensions, elements })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_read_and_everything_else_refused() {
        let bytes = [0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6];
        let array = parse(&bytes).unwrap();
        assert_eq!((&array.dimensions[..], array.elements), (&[2, 3][..], &[1, 2, 3, 4, 5, 6][..]));
        // Cut off anywhere, or longer.
        for end in 0..bytes.len() {
            assert!(parse(&bytes[..end]).is_err(), "{end}");
        }
        assert!(parse(&[&bytes[..], &[0]].concat()).is_err());
        // Any other byte in the head, including dimensions whose product overflows.
        for place in 0..12 {
            for value in (0..=u8::MAX).filter(|value| *value != bytes[place]) {
                let mut changed = bytes;
                changed[place] = value;
                assert!(parse(&changed).is_err(), "{place} {value}");
            }
        }
        let huge = [0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255];
        assert!(parse(&huge).is_err());
        // No dimensions: one element.
        assert_eq!(parse(&[0, 0, 8, 0, 7]).unwrap().elements, [7]);
    }
}
