//! Eight elements of the field at once.

use std::arch::x86_64::*;

use crate::goldilocks::Goldilocks;
use crate::simd::scalar;

pub(super) const LANES: usize = 8;

/// See [`crate::simd::add_multiple`].
#[target_feature(enable = "avx512f")]
pub(in crate::simd) fn add_multiple(sums: &mut [Goldilocks], x: &[Goldilocks], factor: Goldilocks) {
    let (sums, last_sums) = sums.as_chunks_mut::<LANES>();
    let (x, last_x) = x.as_chunks::<LANES>();
    for (sums, x) in sums.iter_mut().zip(x) {
        store(sums, add(load(sums), mul(load(x), broadcast(factor))));
    }
    scalar::add_multiple(last_sums, last_x, factor);
}

/// See [`crate::simd::scale`].
#[target_feature(enable = "avx512f")]
pub(in crate::simd) fn scale(x: &mut [Goldilocks], factor: Goldilocks) {
    let (x, last_x) = x.as_chunks_mut::<LANES>();
    for x in x {
        store(x, mul(load(x), broadcast(factor)));
    }
    scalar::scale(last_x, factor);
}

/// See [`crate::simd::mix_and_scale`].
#[target_feature(enable = "avx512f")]
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
#[target_feature(enable = "avx512f")]
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

#[target_feature(enable = "avx512f")]
fn add(a: __m512i, b: __m512i) -> __m512i {
    let modulus = _mm512_set1_epi64(Goldilocks::MODULUS as i64);
    sub(a, _mm512_sub_epi64(modulus, b))
}

/// `b` may be the modulus.
#[target_feature(enable = "avx512f")]
fn sub(a: __m512i, b: __m512i) -> __m512i {
    let modulus = _mm512_set1_epi64(Goldilocks::MODULUS as i64);
    let borrow = _mm512_cmplt_epu64_mask(a, b);
    let difference = _mm512_sub_epi64(a, b);
    _mm512_mask_add_epi64(difference, borrow, difference, modulus)
}

/// As [`Goldilocks::from_u128`] does it, on products of 32 bits.
#[target_feature(enable = "avx512f")]
fn mul(a: __m512i, b: __m512i) -> __m512i {
    let low_half = _mm512_set1_epi64(0xffff_ffff);
    let modulus = _mm512_set1_epi64(Goldilocks::MODULUS as i64);
    let (a_high, b_high) = (_mm512_srli_epi64::<32>(a), _mm512_srli_epi64::<32>(b));
    let low_low = _mm512_mul_epu32(a, b);
    // Neither sum overflows: (2^32 - 1)^2 + 2^32 - 1 is below 2^64.
    let first = _mm512_mul_epu32(a_high, b);
    let first = _mm512_add_epi64(first, _mm512_srli_epi64::<32>(low_low));
    let second = _mm512_mul_epu32(a, b_high);
    let second = _mm512_add_epi64(second, _mm512_and_si512(first, low_half));
    let high = _mm512_mul_epu32(a_high, b_high);
    let high = _mm512_add_epi64(high, _mm512_srli_epi64::<32>(first));
    let high = _mm512_add_epi64(high, _mm512_srli_epi64::<32>(second));
    let low = _mm512_mask_shuffle_epi32::<0b10_10_00_00>(low_low, 0xaaaa, second);

    let (middle, top) = (_mm512_and_si512(high, low_half), _mm512_srli_epi64::<32>(high));
    let borrow = _mm512_cmplt_epu64_mask(low, top);
    let difference = _mm512_sub_epi64(low, top);
    let difference = _mm512_mask_sub_epi64(difference, borrow, difference, low_half);
    let middle = _mm512_sub_epi64(_mm512_slli_epi64::<32>(middle), middle);
    let sum = _mm512_add_epi64(difference, middle);
    let carry = _mm512_cmplt_epu64_mask(sum, middle);
    let sum = _mm512_mask_add_epi64(sum, carry, sum, low_half);
    // One of the two is below the modulus, and the other one is larger.
    _mm512_min_epu64(sum, _mm512_sub_epi64(sum, modulus))
}

#[target_feature(enable = "avx512f")]
fn broadcast(element: Goldilocks) -> __m512i {
    _mm512_set1_epi64(element.value() as i64)
}

#[target_feature(enable = "avx512f")]
pub(super) fn load(elements: &[Goldilocks; LANES]) -> __m512i {
    // SAFETY: the array is 64 readable bytes, and this load needs no alignment.
    unsafe { _mm512_loadu_si512(elements.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
fn store(elements: &mut [Goldilocks; LANES], vector: __m512i) {
    // SAFETY: the array is 64 writable bytes, the store needs no alignment, and each lane is below
    // the modulus, because all functions of this module return such lanes.
    unsafe { _mm512_storeu_si512(elements.as_mut_ptr().cast(), vector) }
}
