//! Sums with signs: bytes times signs, added up in lanes.

use std::arch::x86_64::*;

use super::field::{LANES, load as load_elements};
use crate::goldilocks::Goldilocks;
use crate::simd::blocks::{self, Block, ByteSums, LENGTH, PackedSigns, ROWS};

/// See [`crate::simd::add_signed_sums`].
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(in crate::simd) fn add_signed_sums(x: &[Goldilocks], signs: &[u8], sums: &mut [Goldilocks]) {
    let mut unpacked = [[0; LENGTH]; ROWS];
    blocks::add_over_blocks(x, signs, sums, |block, packed, byte_sums| {
        let transposed = transpose(block);
        for (packed, byte_sums) in packed.chunks(ROWS).zip(byte_sums.chunks_mut(ROWS)) {
            for (packed, unpacked) in packed.iter().zip(&mut unpacked) {
                unpack(packed, unpacked);
            }
            add_rows(&transposed, &unpacked, byte_sums);
        }
    });
}

/// The elements of a block, eight by eight: first the lowest bytes of all eight, then the next.
#[target_feature(enable = "avx512f,avx512bw")]
fn transpose(block: &Block) -> [[u8; 64]; LENGTH / LANES] {
    // First the bytes of two elements are interleaved, then the pairs of bytes of four such twos
    // are brought together.
    let interleave =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
    let gather = _mm512_set_epi16(
        31, 23, 15, 7, 30, 22, 14, 6, 29, 21, 13, 5, 28, 20, 12, 4, //
        27, 19, 11, 3, 26, 18, 10, 2, 25, 17, 9, 1, 24, 16, 8, 0,
    );
    let mut transposed = [[0; 64]; LENGTH / LANES];
    for (elements, transposed) in block.as_chunks::<LANES>().0.iter().zip(&mut transposed) {
        let pairs = _mm512_shuffle_epi8(load_elements(elements), interleave);
        store(transposed, _mm512_permutexvar_epi16(gather, pairs));
    }
    transposed
}

/// One byte for each sign: -1, 0 or 1.
#[target_feature(enable = "avx512f,avx512bw")]
fn unpack(packed: &PackedSigns, signs: &mut [i8; LENGTH]) {
    // Every byte four times; then the two bits of each sign, in their places.
    let repeat = _mm512_set_epi32(
        0x0f0f_0f0f,
        0x0e0e_0e0e,
        0x0d0d_0d0d,
        0x0c0c_0c0c,
        0x0b0b_0b0b,
        0x0a0a_0a0a,
        0x0909_0909,
        0x0808_0808,
        0x0707_0707,
        0x0606_0606,
        0x0505_0505,
        0x0404_0404,
        0x0303_0303,
        0x0202_0202,
        0x0101_0101,
        0,
    );
    let places = _mm512_set1_epi32(0xc0_30_0c_03_u32 as i32);
    for (packed, signs) in packed.as_chunks().0.iter().zip(signs.as_chunks_mut().0) {
        let bytes = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(load_16(packed)), repeat);
        let plus = _mm512_cmpeq_epi8_mask(_mm512_and_si512(bytes, places), places);
        let minus = _mm512_testn_epi8_mask(bytes, places);
        let ones = _mm512_maskz_set1_epi8(plus, 1);
        store_signs(signs, _mm512_mask_set1_epi8(ones, minus, -1));
    }
}

/// Adds the sums of one block, for at most [`ROWS`] rows.
#[target_feature(enable = "avx512f,avx512vnni")]
fn add_rows(
    transposed: &[[u8; 64]; LENGTH / LANES],
    signs: &[[i8; LENGTH]; ROWS],
    byte_sums: &mut [ByteSums],
) {
    let mut sums = [_mm512_setzero_si512(); ROWS];
    for (index, bytes) in transposed.iter().enumerate() {
        let bytes = load(bytes);
        for (sum, signs) in sums.iter_mut().zip(signs) {
            // The same eight signs for each of the eight bytes.
            let eight = signs.as_chunks::<LANES>().0[index].map(|sign| sign as u8);
            let signs = _mm512_set1_epi64(i64::from_le_bytes(eight));
            *sum = _mm512_dpbusd_epi32(*sum, bytes, signs);
        }
    }
    for (byte_sums, sum) in byte_sums.iter_mut().zip(sums) {
        let halves = to_integers(sum);
        for (byte_sum, halves) in byte_sums.iter_mut().zip(halves.as_chunks::<2>().0) {
            *byte_sum += i64::from(halves[0]) + i64::from(halves[1]);
        }
    }
}

#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: the array is 64 readable bytes, and this load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
fn load_16(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: the array is 16 readable bytes, and this load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
fn store(bytes: &mut [u8; 64], vector: __m512i) {
    // SAFETY: the array is 64 writable bytes, and this store needs no alignment.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) }
}

#[target_feature(enable = "avx512f")]
fn store_signs(bytes: &mut [i8; 64], vector: __m512i) {
    // SAFETY: the array is 64 writable bytes, and this store needs no alignment.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) }
}

#[target_feature(enable = "avx512f")]
fn to_integers(vector: __m512i) -> [i32; 16] {
    let mut integers = [0; 16];
    // SAFETY: the array is 64 writable bytes, and this store needs no alignment.
    unsafe { _mm512_storeu_si512(integers.as_mut_ptr().cast(), vector) };
    integers
}
