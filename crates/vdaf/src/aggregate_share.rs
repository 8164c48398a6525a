//! An aggregate share: one aggregator's additive share of a sum of measurements.

use std::fmt;

use prio::field::{Field64, Field128, FieldElement, NttFriendlyFieldElement};
use subtle::ConstantTimeEq;

/// A vector of field elements, summed from output shares.
///
/// Zeroed on drop. Either share alone is uniformly random; together they are the result.
#[derive(Clone)]
pub struct AggregateShare {
    elements: Elements,
}

#[derive(Clone)]
pub(crate) enum Elements {
    Field64(Vec<Field64>),
    Field128(Vec<Field128>),
}

/// Why bytes are not an aggregate share, or two shares do not belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AggregateShareError {
    /// Not the number of bytes that the VDAF's shares have.
    #[error("aggregate share of {actual} bytes, expected {expected}")]
    Length {
        /// Bytes given.
        actual: usize,
        /// Bytes that the VDAF's shares have.
        expected: usize,
    },
    /// An element is not below the modulus.
    #[error("aggregate share with an element outside the field")]
    Element,
    /// The shares differ in field or length.
    #[error("aggregate shares of different shapes")]
    Shape,
    /// Stored bytes in a format that this version does not write.
    #[error("stored aggregate share with an unknown format")]
    Format,
}

/// First byte of the store encoding.
const STORE_TAG_FIELD64: u8 = 1;
const STORE_TAG_FIELD128: u8 = 2;

impl AggregateShare {
    pub(crate) fn zero<F: ShareField>(length: usize) -> Self {
        Self { elements: F::wrap(vec![F::zero(); length]) }
    }

    pub(crate) fn from_elements<F: ShareField>(elements: Vec<F>) -> Self {
        Self { elements: F::wrap(elements) }
    }

    /// The number of field elements.
    pub fn len(&self) -> usize {
        match &self.elements {
            Elements::Field64(v) => v.len(),
            Elements::Field128(v) => v.len(),
        }
    }

    /// Whether there are no elements. No VDAF has such shares.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds `other` to this share.
    pub fn merge(&mut self, other: &Self) -> Result<(), AggregateShareError> {
        match (&mut self.elements, &other.elements) {
            (Elements::Field64(a), Elements::Field64(b)) => add_assign(a, b),
            (Elements::Field128(a), Elements::Field128(b)) => add_assign(a, b),
            _ => Err(AggregateShareError::Shape),
        }
    }

    /// Adds one number to each element, modulo the field: whatever `next` gives, element after
    /// element. So noise is added without a copy of it anywhere.
    pub fn add_each(&mut self, next: impl FnMut() -> i64) {
        match &mut self.elements {
            Elements::Field64(v) => add_numbers(v, next),
            Elements::Field128(v) => add_numbers(v, next),
        }
    }

    /// The wire encoding: what is encrypted to the collector.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_len());
        self.encode_into(&mut bytes);
        bytes
    }

    /// The encoding for a store: a byte that names the field, then the wire encoding.
    pub fn to_store_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(1 + self.encoded_len());
        bytes.push(match self.elements {
            Elements::Field64(_) => STORE_TAG_FIELD64,
            Elements::Field128(_) => STORE_TAG_FIELD128,
        });
        self.encode_into(&mut bytes);
        bytes
    }

    /// Reads what [`to_store_bytes`](Self::to_store_bytes) wrote.
    pub fn from_store_bytes(bytes: &[u8]) -> Result<Self, AggregateShareError> {
        match bytes.split_first() {
            Some((&STORE_TAG_FIELD64, rest)) => Self::decode_any::<Field64>(rest),
            Some((&STORE_TAG_FIELD128, rest)) => Self::decode_any::<Field128>(rest),
            _ => Err(AggregateShareError::Format),
        }
    }

    /// Decodes exactly `length` elements.
    pub(crate) fn decode<F: ShareField>(
        bytes: &[u8],
        length: usize,
    ) -> Result<Self, AggregateShareError> {
        let expected = length * F::ENCODED_SIZE;
        if bytes.len() != expected {
            return Err(AggregateShareError::Length { actual: bytes.len(), expected });
        }
        Self::decode_any::<F>(bytes)
    }

    /// The elements, if this share has `length` elements of field `F`.
    pub(crate) fn elements<F: ShareField>(
        &self,
        length: usize,
    ) -> Result<&[F], AggregateShareError> {
        F::elements(&self.elements)
            .filter(|elements| elements.len() == length)
            .ok_or(AggregateShareError::Shape)
    }

    /// The elements, if this share has `length` elements of field `F`.
    pub(crate) fn elements_mut<F: ShareField>(
        &mut self,
        length: usize,
    ) -> Result<&mut [F], AggregateShareError> {
        F::elements_mut(&mut self.elements)
            .filter(|elements| elements.len() == length)
            .ok_or(AggregateShareError::Shape)
    }

    fn decode_any<F: ShareField>(bytes: &[u8]) -> Result<Self, AggregateShareError> {
        let elements = decode_elements::<F>(bytes).ok_or(AggregateShareError::Element)?;
        Ok(Self { elements: F::wrap(elements) })
    }

    fn encoded_len(&self) -> usize {
        match &self.elements {
            Elements::Field64(v) => v.len() * Field64::ENCODED_SIZE,
            Elements::Field128(v) => v.len() * Field128::ENCODED_SIZE,
        }
    }

    fn encode_into(&self, bytes: &mut Vec<u8>) {
        match &self.elements {
            Elements::Field64(v) => encode_elements(v, bytes),
            Elements::Field128(v) => encode_elements(v, bytes),
        }
    }
}

impl PartialEq for AggregateShare {
    /// In time that depends only on the shapes.
    fn eq(&self, other: &Self) -> bool {
        match (&self.elements, &other.elements) {
            (Elements::Field64(a), Elements::Field64(b)) => a.ct_eq(b).into(),
            (Elements::Field128(a), Elements::Field128(b)) => a.ct_eq(b).into(),
            _ => false,
        }
    }
}

impl Eq for AggregateShare {}

impl fmt::Debug for AggregateShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AggregateShare").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Drop for AggregateShare {
    fn drop(&mut self) {
        match &mut self.elements {
            Elements::Field64(v) => wipe(v),
            Elements::Field128(v) => wipe(v),
        }
    }
}

/// A field that shares are made of.
pub(crate) trait ShareField:
    NttFriendlyFieldElement<Integer: From<u64> + Into<u128> + Send + Sync> + Send + Sync
{
    /// A number below the modulus.
    fn from_number(number: u128) -> Self;
    fn to_number(self) -> u128;
    fn wrap(elements: Vec<Self>) -> Elements;
    fn elements(elements: &Elements) -> Option<&[Self]>;
    fn elements_mut(elements: &mut Elements) -> Option<&mut [Self]>;
}

impl ShareField for Field64 {
    fn from_number(number: u128) -> Self {
        debug_assert!(u64::try_from(number).is_ok());
        Self::from(number as u64)
    }

    fn to_number(self) -> u128 {
        u64::from(self).into()
    }

    fn wrap(elements: Vec<Self>) -> Elements {
        Elements::Field64(elements)
    }

    fn elements(elements: &Elements) -> Option<&[Self]> {
        match elements {
            Elements::Field64(v) => Some(v),
            Elements::Field128(_) => None,
        }
    }

    fn elements_mut(elements: &mut Elements) -> Option<&mut [Self]> {
        match elements {
            Elements::Field64(v) => Some(v),
            Elements::Field128(_) => None,
        }
    }
}

impl ShareField for Field128 {
    fn from_number(number: u128) -> Self {
        Self::from(number)
    }

    fn to_number(self) -> u128 {
        self.into()
    }

    fn wrap(elements: Vec<Self>) -> Elements {
        Elements::Field128(elements)
    }

    fn elements(elements: &Elements) -> Option<&[Self]> {
        match elements {
            Elements::Field128(v) => Some(v),
            Elements::Field64(_) => None,
        }
    }

    fn elements_mut(elements: &mut Elements) -> Option<&mut [Self]> {
        match elements {
            Elements::Field128(v) => Some(v),
            Elements::Field64(_) => None,
        }
    }
}

/// Decodes all of `bytes`; `None` if they are not a whole number of elements or one is not
/// canonical.
pub(crate) fn decode_elements<F: FieldElement>(bytes: &[u8]) -> Option<Vec<F>> {
    let mut elements = Vec::with_capacity(bytes.len() / F::ENCODED_SIZE);
    for chunk in bytes.chunks(F::ENCODED_SIZE) {
        elements.push(F::try_from(chunk).ok()?);
    }
    Some(elements)
}

/// Overwrites secret elements. `prio`'s field types do not implement `Zeroize`.
pub(crate) fn wipe<F: FieldElement>(elements: &mut [F]) {
    elements.fill(F::zero());
    zeroize::optimization_barrier(elements);
}

fn add_assign<F: FieldElement>(a: &mut [F], b: &[F]) -> Result<(), AggregateShareError> {
    if a.len() != b.len() {
        return Err(AggregateShareError::Shape);
    }
    for (x, y) in a.iter_mut().zip(b) {
        *x += *y;
    }
    Ok(())
}

fn add_numbers<F: ShareField>(elements: &mut [F], mut next: impl FnMut() -> i64) {
    for element in elements {
        let number = next();
        let magnitude = F::from(F::Integer::from(number.unsigned_abs()));
        if number < 0 {
            *element -= magnitude;
        } else {
            *element += magnitude;
        }
    }
}

pub(crate) fn encode_elements<F: FieldElement>(elements: &[F], bytes: &mut Vec<u8>) {
    for element in elements {
        // Encoding a field element cannot fail: the trait returns `Result` for the sake of other
        // types.
        let encoded = element.encode(bytes);
        debug_assert!(encoded.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share<F: ShareField>(values: &[u64]) -> AggregateShare {
        let elements = values.iter().map(|value| F::from(F::Integer::from(*value))).collect();
        AggregateShare { elements: F::wrap(elements) }
    }

    #[test]
    fn store_bytes_round_trip_and_name_the_field() {
        for share in [share::<Field64>(&[1, u64::MAX >> 1]), share::<Field128>(&[7])] {
            let bytes = share.to_store_bytes();
            assert_eq!(bytes[1..], share.encode());
            assert_eq!(AggregateShare::from_store_bytes(&bytes).unwrap(), share);
        }
        assert_eq!(share::<Field64>(&[1]).to_store_bytes(), [1, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(share::<Field128>(&[1]).to_store_bytes()[..3], [2, 1, 0]);
    }

    /// A negative number is its distance from the modulus, also if it is larger than the element.
    #[test]
    fn numbers_are_added_modulo_the_field() {
        fn check<F: ShareField>() {
            let numbers = [5, -3, -4, 0, i64::MAX, i64::MIN];
            let mut added = share::<F>(&[1, 3, 3, 7, 0, 0]);
            let mut next = numbers.into_iter();
            added.add_each(|| next.next().unwrap());
            assert_eq!(next.next(), None, "one number for each element");
            let lowest = share::<F>(&[6, 0, 0, 7, i64::MAX as u64, 0]);
            let one = F::one();
            let below = F::from(F::Integer::from(1 << 63));
            let mut expected = lowest;
            let elements = expected.elements_mut::<F>(6).unwrap();
            elements[2] = F::zero() - one;
            elements[5] = F::zero() - below;
            assert_eq!(added, expected);
            // What was added can be taken away again.
            let mut next = numbers[..5].iter().map(|number| -number).chain([i64::MAX]);
            added.add_each(|| next.next().unwrap());
            added.elements_mut::<F>(6).unwrap()[5] += one;
            assert_eq!(added, share::<F>(&[1, 3, 3, 7, 0, 0]));
        }
        check::<Field64>();
        check::<Field128>();
    }

    #[test]
    fn foreign_store_bytes_are_refused() {
        for (bytes, error) in [
            (&[][..], AggregateShareError::Format),
            (&[0; 9], AggregateShareError::Format),
            (&[3; 17], AggregateShareError::Format),
            (&[1; 8], AggregateShareError::Element),
            (&[2; 9], AggregateShareError::Element),
            (&[1, 255, 255, 255, 255, 255, 255, 255, 255], AggregateShareError::Element),
        ] {
            assert_eq!(AggregateShare::from_store_bytes(bytes), Err(error), "{bytes:?}");
        }
    }

    #[test]
    fn merging_adds_in_the_field() {
        let mut sum = share::<Field64>(&[1, 2]);
        sum.merge(&share::<Field64>(&[10, 20])).unwrap();
        assert_eq!(sum, share::<Field64>(&[11, 22]));
        let minus_one = share::<Field64>(&[u64::MAX - (1 << 32) + 1, 0]);
        sum.merge(&minus_one).unwrap();
        assert_eq!(sum, share::<Field64>(&[10, 22]));
    }

    #[test]
    fn merging_other_shapes_is_an_error_and_changes_nothing() {
        let mut sum = share::<Field64>(&[1, 2]);
        for other in [share::<Field64>(&[1]), share::<Field128>(&[1, 2]), share::<Field64>(&[])] {
            assert_eq!(sum.merge(&other), Err(AggregateShareError::Shape));
            assert_ne!(sum, other);
        }
        assert_eq!(sum, share::<Field64>(&[1, 2]));
    }

    #[test]
    fn debug_shows_no_elements() {
        assert_eq!(format!("{:?}", share::<Field64>(&[4711])), "AggregateShare { len: 1, .. }");
    }

    #[test]
    fn wiping_leaves_zeros() {
        let mut elements = [Field128::from(5), Field128::from(6)];
        wipe(&mut elements);
        assert_eq!(elements, [Field128::zero(); 2]);
    }
}
