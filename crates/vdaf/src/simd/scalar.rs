//! The definition of every function, in plain Rust.

use crate::goldilocks::Goldilocks;

/// See [`super::add_signed_sums`].
pub(super) fn add_signed_sums(x: &[Goldilocks], signs: &[u8], sums: &mut [Goldilocks]) {
    // A sign is the number of its bits that are set, less one.
    let all = x.iter().fold(Goldilocks::ZERO, |sum, element| sum + *element);
    let rows = signs.chunks_exact(x.len().div_ceil(4).max(1));
    for (sum, row) in sums.iter_mut().zip(rows) {
        *sum += weighted_sum(x, row) - all;
    }
}

/// The sum of the elements, each times the number of bits that are set in its sign.
fn weighted_sum(x: &[Goldilocks], row: &[u8]) -> Goldilocks {
    // The halves of an element are below 2^32 and the weights at most 2: no sum of a vector that
    // fits into memory reaches 2^64.
    let (mut low, mut high) = (0_u64, 0_u64);
    let mut add = |element: Goldilocks, sign: u8| {
        let weight = u64::from((sign & 1) + (sign >> 1 & 1));
        low += weight * (element.value() & 0xffff_ffff);
        high += weight * (element.value() >> 32);
    };
    let (whole, rest) = x.as_chunks::<4>();
    for (elements, byte) in whole.iter().zip(row) {
        for (index, element) in elements.iter().enumerate() {
            add(*element, byte >> (2 * index));
        }
    }
    for (index, element) in rest.iter().enumerate() {
        add(*element, row.last().map_or(0, |byte| byte >> (2 * index)));
    }
    Goldilocks::from_u128(u128::from(low) + (u128::from(high) << 32))
}

/// See [`super::add_multiple`].
pub(super) fn add_multiple(sums: &mut [Goldilocks], x: &[Goldilocks], factor: Goldilocks) {
    for (sum, x) in sums.iter_mut().zip(x) {
        *sum += *x * factor;
    }
}

/// See [`super::scale`].
pub(super) fn scale(x: &mut [Goldilocks], factor: Goldilocks) {
    x.iter_mut().for_each(|x| *x *= factor);
}

/// See [`super::mix_and_scale`].
pub(super) fn mix_and_scale(a: &mut [Goldilocks], b: &mut [Goldilocks], factor: Goldilocks) {
    for (a, b) in a.iter_mut().zip(b) {
        (*a, *b) = (*a + *b, factor * (*a - *b));
    }
}

/// See [`super::scale_and_mix`].
pub(super) fn scale_and_mix(a: &mut [Goldilocks], b: &mut [Goldilocks], factor: Goldilocks) {
    for (a, b) in a.iter_mut().zip(b) {
        let scaled = factor * *b;
        (*a, *b) = (*a + scaled, *a - scaled);
    }
}
