//! Four elements of the field at once.

use std::arch::x86_64::*;

use crate::goldilocks::Goldilocks;
use crate::simd::scalar;

pub(super) const LANES: usize = 4;

/// See [`crate::simd::add_multiple`].
#[target_feature(enable = "avx2")]
pub(in crate::simd) fn add_multiple(sums: &mut [Goldilocks], x: &[Goldilocks], factor: Goldilocks) {
    let (sums, last_sums) = sums.as_chunks_mut::<LANES>();
    let (x, last_x) = x.as_chunks::<LANES>();
    for (sums, x) in sums.iter_mut().zip(x) {
        store(sums, add(load(sums), mul(load(x), broadcast(factor))));
    }
    scalar::add_multiple(last_sums, last_x, factor);
}

/// See [`crate::simd::scale`].
#[target_feature(enable = "avx2")]
pub(in crate::simd) fn scale(x: &mut [Goldilocks], factor: Goldilocks) {
    let (x, last_x) = x.as_chunks_mut::<LANES>();
    for x in x {
        store(x, mul(load(x), broadcast(factor)));
    }
    scalar::scale(last_x, factor);
}

/// See [`crate::simd::mix_and_scale`].
#[target_feature(enable = "avx2")]
pub(in crate::simd) fn mix_and_scale(
    a: &mut [Goldilocks],
    b: &mut [Goldilocks],
    factor: Goldilocks,
) {
    let (a, last_a) = a.as_chunks_mut::<LANES>();
    let (b, last_b) = b.as_chunks_mut::<LANES>();
    for (a, b) in a.iter_mut().zip(b) {
        let (u, v) = (load(a), load(b));
        store(a, add(u, v));
        store(b, mul(sub(u, v), broadcast(factor)));
    }
    scalar::mix_and_scale(last_a, last_b, factor);
}

/// See [`crate::simd::scale_and_mix`].
#[target_feature(enable = "avx2")]
pub(in crate::simd) fn scale_and_mix(
    a: &mut [Goldilocks],
    b: &mut [Goldilocks],
    factor: Goldilocks,
) {
    let (a, last_a) = a.as_chunks_mut::<LANES>();
    let (b, last_b) = b.as_chunks_mut::<LANES>();
    for (a, b) in a.iter_mut().zip(b) {
        let (u, v) = (load(a), mul(load(b), broadcast(factor)));
        store(a, add(u, v));
        store(b, sub(u, v));
    }
    scalar::scale_and_mix(last_a, last_b, factor);
}

#[target_feature(enable = "avx2")]
fn add(a: __m256i, b: __m256i) -> __m256i {
    let modulus = _mm256_set1_epi64x(Goldilocks::MODULUS as i64);
    sub(a, _mm256_sub_epi64(modulus, b))
}

/// `b` may be the modulus.
#[target_feature(enable = "avx2")]
fn sub(a: __m256i, b: __m256i) -> __m256i {
    let modulus = _mm256_set1_epi64x(Goldilocks::MODULUS as i64);
    let borrow = _mm256_and_si256(less(a, b), modulus);
    _mm256_add_epi64(_mm256_sub_epi64(a, b), borrow)
}

/// As [`Goldilocks::from_u128`] does it, on products of 32 bits.
#[target_feature(enable = "avx2")]
fn mul(a: __m256i, b: __m256i) -> __m256i {
    let low_half = _mm256_set1_epi64x(0xffff_ffff);
    let (a_high, b_high) = (_mm256_srli_epi64::<32>(a), _mm256_srli_epi64::<32>(b));
    let low_low = _mm256_mul_epu32(a, b);
    // Neither sum overflows: (2^32 - 1)^2 + 2^32 - 1 is below 2^64.
    let first = _mm256_mul_epu32(a_high, b);
    let first = _mm256_add_epi64(first, _mm256_srli_epi64::<32>(low_low));
    let second = _mm256_mul_epu32(a, b_high);
    let second = _mm256_add_epi64(second, _mm256_and_si256(first, low_half));
    let high = _mm256_mul_epu32(a_high, b_high);
    let high = _mm256_add_epi64(high, _mm256_srli_epi64::<32>(first));
    let high = _mm256_add_epi64(high, _mm256_srli_epi64::<32>(second));
    let low = _mm256_blend_epi32::<0b1010_1010>(low_low, _mm256_slli_epi64::<32>(second));

    let (middle, top) = (_mm256_and_si256(high, low_half), _mm256_srli_epi64::<32>(high));
    let borrow = _mm256_and_si256(less(low, top), low_half);
    let difference = _mm256_sub_epi64(_mm256_sub_epi64(low, top), borrow);
    let middle = _mm256_sub_epi64(_mm256_slli_epi64::<32>(middle), middle);
    let sum = _mm256_add_epi64(difference, middle);
    let carry = _mm256_and_si256(less(sum, middle), low_half);
    let sum = _mm256_add_epi64(sum, carry);
    // At least the modulus: more than the modulus less one.
    let largest = _mm256_set1_epi64x((Goldilocks::MODULUS - 1) as i64);
    _mm256_add_epi64(sum, _mm256_and_si256(less(largest, sum), low_half))
}

/// All ones in the lanes in which `a` is less than `b`, as unsigned integers.
#[target_feature(enable = "avx2")]
fn less(a: __m256i, b: __m256i) -> __m256i {
    let sign = _mm256_set1_epi64x(i64::MIN);
    _mm256_cmpgt_epi64(_mm256_xor_si256(b, sign), _mm256_xor_si256(a, sign))
}

#[target_feature(enable = "avx2")]
fn broadcast(element: Goldilocks) -> __m256i {
    _mm256_set1_epi64x(element.value() as i64)
}

#[target_feature(enable = "avx2")]
pub(super) fn load(elements: &[Goldilocks; LANES]) -> __m256i {
    // SAFETY: the array is 32 readable bytes, and this load needs no alignment.
    unsafe { _mm256_loadu_si256(elements.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
fn store(elements: &mut [Goldilocks; LANES], vector: __m256i) {
    // SAFETY: the array is 32 writable bytes, the store needs no alignment, and each lane is below
    // the modulus, because all functions of this module return such lanes.
    unsafe { _mm256_storeu_si256(elements.as_mut_ptr().cast(), vector) }
}
