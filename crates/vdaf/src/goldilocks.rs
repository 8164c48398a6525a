//! The field of `prio`'s `Field64` in plain form: integers below p = 2^64 - 2^32 + 1, the Goldilocks
//! prime.
//!
//! `prio` keeps elements in Montgomery form, so every byte of a share costs a multiplication on its
//! way in and another one on its way out. Here the encoding is the element, a product is reduced by
//! 2^64 = 2^32 - 1 and 2^96 = -1, and [`crate::simd`] works on the same memory. [`self::prio`]
//! implements `prio`'s traits, so that its proof system runs on both types with the same bytes.
//!
//! Elements are secret shares: no operation has a branch or an index that depends on one. So there
//! is no comparison either. A compiler that sees `if a < b` or a mask that is made from it may well
//! choose a branch, and did. Carries and borrows are computed from the bits instead. Division and
//! `pow` are for public exponents, as in `prio`.

mod prio;

use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// 2^64 modulo p, and 2^64 - p.
const EPSILON: u64 = 0xffff_ffff;

/// An element of GF(2^64 - 2^32 + 1), always below the modulus.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub(crate) struct Goldilocks(u64);

impl Goldilocks {
    pub(crate) const MODULUS: u64 = 0xffff_ffff_0000_0001;
    pub(crate) const ZERO: Self = Self(0);
    pub(crate) const ONE: Self = Self(1);

    /// The element that is congruent to `value`.
    pub(crate) const fn new(value: u64) -> Self {
        Self(reduce_once(value))
    }

    /// The element that is congruent to `value`, which may be negative.
    pub(crate) const fn from_i128(value: i128) -> Self {
        // |value| < 2^127 < p 2^64, and p 2^64 is congruent to zero.
        Self::from_u128((value as u128).wrapping_add(
            // Added only to a negative number: all ones, or nothing.
            ((value >> 127) as u128) & ((Self::MODULUS as u128) << 64),
        ))
    }

    /// The element that is congruent to `value`.
    pub(crate) const fn from_u128(value: u128) -> Self {
        let (low, high) = (value as u64, (value >> 64) as u64);
        // value = low + 2^64 * middle + 2^96 * top
        let (middle, top) = (high & EPSILON, high >> 32);
        let difference = low.wrapping_sub(top);
        // After a borrow the difference is at least 2^64 - 2^32 + 1, so this does not wrap again.
        let difference = difference.wrapping_sub(borrow(low, top, difference));
        let middle = (middle << 32) - middle;
        let sum = difference.wrapping_add(middle);
        // After a carry the sum is at most 2^64 - 2^33, so this does not wrap either.
        Self(reduce_once(sum.wrapping_add(carry(difference, middle, sum))))
    }

    /// The integer below the modulus.
    pub(crate) const fn value(self) -> u64 {
        self.0
    }

    const fn power(self, mut exponent: u64) -> Self {
        let (mut result, mut base) = (Self::ONE, self);
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = result.times(base);
            }
            base = base.times(base);
            exponent >>= 1;
        }
        result
    }

    const fn times(self, other: Self) -> Self {
        Self::from_u128(self.0 as u128 * other.0 as u128)
    }
}

/// What `a + b` lost, modulo p, if `sum` is what is left of it: 2^64 or nothing.
#[inline(always)]
const fn carry(a: u64, b: u64, sum: u64) -> u64 {
    if_highest((a & b) | ((a | b) & !sum))
}

/// What `a - b` gained, modulo p, if `difference` is what came of it: 2^64 or nothing.
#[inline(always)]
const fn borrow(a: u64, b: u64, difference: u64) -> u64 {
    if_highest((!a & b) | (!(a ^ b) & difference))
}

/// 2^64 modulo p if the highest bit is set, and otherwise zero.
#[inline(always)]
const fn if_highest(bits: u64) -> u64 {
    ((bits as i64) >> 63) as u64 & EPSILON
}

/// Subtracts the modulus if the value is not below it. Any 64-bit integer is below twice the
/// modulus.
#[inline(always)]
const fn reduce_once(value: u64) -> u64 {
    let reduced = value.wrapping_add(EPSILON);
    value.wrapping_add(carry(value, EPSILON, reduced))
}

impl Add for Goldilocks {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self - Self(Self::MODULUS - other.0)
    }
}

impl Sub for Goldilocks {
    type Output = Self;

    /// `other` may be the modulus.
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let difference = self.0.wrapping_sub(other.0);
        Self(difference.wrapping_sub(borrow(self.0, other.0, difference)))
    }
}

impl Mul for Goldilocks {
    type Output = Self;

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.times(other)
    }
}

impl Neg for Goldilocks {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        Self::ZERO - self
    }
}

impl AddAssign for Goldilocks {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Goldilocks {
    #[inline(always)]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl MulAssign for Goldilocks {
    #[inline(always)]
    fn mul_assign(&mut self, other: Self) {
        *self = *self * other;
    }
}

#[cfg(test)]
mod tests;
