//! The traits of `prio`, so that its proof system runs on [`Goldilocks`].

use std::fmt::{self, Debug, Display, Formatter};
use std::io::{Cursor, Read};
use std::ops::{Div, DivAssign, Neg};

use prio::codec::{CodecError, Decode, Encode};
use prio::field::{FieldElement, FieldElementWithInteger, FieldError, NttFriendlyFieldElement};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::Goldilocks;

/// The largest power of two that divides the order of the multiplicative group.
const ORDER_BITS: u32 = 32;
/// 7 generates the multiplicative group.
const GENERATOR: Goldilocks = Goldilocks(7).power((Goldilocks::MODULUS - 1) >> ORDER_BITS);
const HALF: Goldilocks = Goldilocks((Goldilocks::MODULUS >> 1) + 1);
/// As many roots as `prio` has: the `l`-th has order 2^l.
const ROOTS: [Goldilocks; 21] = roots();

const fn roots() -> [Goldilocks; 21] {
    let mut roots = [Goldilocks::ONE; 21];
    let mut l = 0;
    while l < roots.len() {
        roots[l] = GENERATOR.power(1 << (ORDER_BITS - l as u32));
        l += 1;
    }
    roots
}

impl FieldElement for Goldilocks {
    const ENCODED_SIZE: usize = 8;

    fn inv(&self) -> Self {
        self.power(Self::MODULUS - 2)
    }

    fn half() -> Self {
        HALF
    }

    fn try_from_random(bytes: &[u8]) -> Result<Self, FieldError> {
        Self::try_from(bytes)
    }

    fn zero() -> Self {
        Self::ZERO
    }

    fn one() -> Self {
        Self::ONE
    }
}

impl FieldElementWithInteger for Goldilocks {
    type Integer = u64;

    fn pow(&self, exponent: u64) -> Self {
        self.power(exponent)
    }

    fn modulus() -> u64 {
        Self::MODULUS
    }
}

impl NttFriendlyFieldElement for Goldilocks {
    fn generator_order() -> u64 {
        1 << ORDER_BITS
    }

    fn generator() -> Self {
        GENERATOR
    }

    fn root(l: usize) -> Option<Self> {
        ROOTS.get(l).copied()
    }
}

impl From<u64> for Goldilocks {
    fn from(value: u64) -> Self {
        Self::new(value)
    }
}

impl From<Goldilocks> for u64 {
    fn from(element: Goldilocks) -> Self {
        element.value()
    }
}

impl TryFrom<&[u8]> for Goldilocks {
    type Error = FieldError;

    fn try_from(bytes: &[u8]) -> Result<Self, FieldError> {
        let value = bytes.first_chunk().map(|chunk| u64::from_le_bytes(*chunk));
        match value.ok_or(FieldError::ShortRead)? {
            value if value < Self::MODULUS => Ok(Self(value)),
            _ => Err(FieldError::ModulusOverflow),
        }
    }
}

impl From<Goldilocks> for Vec<u8> {
    fn from(element: Goldilocks) -> Self {
        element.0.to_le_bytes().to_vec()
    }
}

impl Encode for Goldilocks {
    fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
        bytes.extend_from_slice(&self.0.to_le_bytes());
        Ok(())
    }

    fn encoded_len(&self) -> Option<usize> {
        Some(Self::ENCODED_SIZE)
    }
}

impl Decode for Goldilocks {
    fn decode(bytes: &mut Cursor<&[u8]>) -> Result<Self, CodecError> {
        let mut encoded = [0; Self::ENCODED_SIZE];
        bytes.read_exact(&mut encoded)?;
        Self::try_from(encoded.as_slice()).map_err(|error| CodecError::Other(Box::new(error)))
    }
}

impl Serialize for Goldilocks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.to_le_bytes().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Goldilocks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = <[u8; Self::ENCODED_SIZE]>::deserialize(deserializer)?;
        Self::try_from(bytes.as_slice()).map_err(serde::de::Error::custom)
    }
}

impl Debug for Goldilocks {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Display for Goldilocks {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl ConstantTimeEq for Goldilocks {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl ConditionallySelectable for Goldilocks {
    fn conditional_select(a: &Self, b: &Self, choice: Choice) -> Self {
        Self(u64::conditional_select(&a.0, &b.0, choice))
    }
}

impl Neg for &Goldilocks {
    type Output = Goldilocks;

    fn neg(self) -> Goldilocks {
        -*self
    }
}

impl Div for Goldilocks {
    type Output = Self;

    #[allow(clippy::suspicious_arithmetic_impl)] // by the inverse
    fn div(self, other: Self) -> Self {
        self * other.inv()
    }
}

impl DivAssign for Goldilocks {
    fn div_assign(&mut self, other: Self) {
        *self = *self / other;
    }
}
