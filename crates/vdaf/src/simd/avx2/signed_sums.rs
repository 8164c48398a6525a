//! Sums with signs: bytes times signs, added up in lanes.

use std::arch::x86_64::*;

use super::field::{LANES, load as load_elements};
use crate::goldilocks::Goldilocks;
use crate::simd::blocks::{self, Block, ByteSums, LENGTH, PackedSigns, ROWS};

/// Vectors after which sums of 16 bits are widened: 64 * 2 * 255 is below 2^15.
const STEPS: usize = 64;

/// See [`crate::simd::add_signed_sums`].
#[target_feature(enable = "avx2")]
pub(in crate::simd) fn add_signed_sums(x: &[Goldilocks], signs: &[u8], sums: &mut [Goldilocks]) {
    let mut unpacked = [[0; LENGTH]; ROWS];
    blocks::add_over_blocks(x, signs, sums, |block, packed, byte_sums| {
        let pairs = byte_pairs(block);
        for (packed, byte_sums) in packed.chunks(ROWS).zip(byte_sums.chunks_mut(ROWS)) {
            for (packed, unpacked) in packed.iter().zip(&mut unpacked) {
                unpack(packed, unpacked);
            }
            add_rows(&pairs, &unpacked, byte_sums);
        }
    });
}

/// The elements of a block, with the bytes of each pair of elements interleaved: first the lowest
/// byte of both, then the next one.
#[target_feature(enable = "avx2")]
fn byte_pairs(block: &Block) -> [[u8; 32]; LENGTH / LANES] {
    let interleave = _mm256_setr_epi8(
        0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15, //
        0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15,
    );
    let mut pairs = [[0; 32]; LENGTH / LANES];
    for (elements, pairs) in block.as_chunks::<LANES>().0.iter().zip(&mut pairs) {
        store(pairs, _mm256_shuffle_epi8(load_elements(elements), interleave));
    }
    pairs
}

/// One byte for each sign: -1, 0 or 1.
#[target_feature(enable = "avx2")]
fn unpack(packed: &PackedSigns, signs: &mut [i8; LENGTH]) {
    // Every byte four times; then the two bits of each sign, in their places.
    let repeat = _mm256_setr_epi8(
        0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, //
        4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7,
    );
    let places = _mm256_set1_epi32(0xc0_30_0c_03_u32 as i32);
    for (packed, signs) in packed.as_chunks().0.iter().zip(signs.as_chunks_mut().0) {
        let bytes = _mm256_set1_epi64x(i64::from_le_bytes(*packed));
        let bits = _mm256_and_si256(_mm256_shuffle_epi8(bytes, repeat), places);
        let minus = _mm256_cmpeq_epi8(bits, _mm256_setzero_si256());
        // A comparison that holds is -1.
        store_signs(signs, _mm256_sub_epi8(minus, _mm256_cmpeq_epi8(bits, places)));
    }
}

/// Adds the sums of one block, for at most [`ROWS`] rows.
#[target_feature(enable = "avx2")]
fn add_rows(
    pairs: &[[u8; 32]; LENGTH / LANES],
    signs: &[[i8; LENGTH]; ROWS],
    byte_sums: &mut [ByteSums],
) {
    // The signs of the first pair of elements in one half, of the second pair in the other.
    let spread = _mm256_setr_epi8(
        0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, //
        2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3,
    );
    let mut even = [_mm256_setzero_si256(); ROWS];
    let mut odd = [_mm256_setzero_si256(); ROWS];
    for (step, pairs) in pairs.chunks_exact(STEPS).enumerate() {
        let mut narrow = [_mm256_setzero_si256(); ROWS];
        for (index, pair) in pairs.iter().enumerate() {
            let (pair, first) = (load(pair), (step * STEPS + index) * LANES);
            for (sum, signs) in narrow.iter_mut().zip(signs) {
                let four = &signs.as_chunks::<LANES>().0[first / LANES];
                let four = _mm256_set1_epi32(i32::from_le_bytes(four.map(|sign| sign as u8)));
                let spread = _mm256_shuffle_epi8(four, spread);
                *sum = _mm256_add_epi16(*sum, _mm256_maddubs_epi16(pair, spread));
            }
        }
        for ((narrow, even), odd) in narrow.into_iter().zip(&mut even).zip(&mut odd) {
            let low = _mm256_srai_epi32::<16>(_mm256_slli_epi32::<16>(narrow));
            *even = _mm256_add_epi32(*even, low);
            *odd = _mm256_add_epi32(*odd, _mm256_srai_epi32::<16>(narrow));
        }
    }
    for ((sums, even), odd) in byte_sums.iter_mut().zip(even).zip(odd) {
        let (even, odd) = (to_integers(even), to_integers(odd));
        for byte in 0..4 {
            sums[2 * byte] += i64::from(even[byte]) + i64::from(even[byte + 4]);
            sums[2 * byte + 1] += i64::from(odd[byte]) + i64::from(odd[byte + 4]);
        }
    }
}

#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: the array is 32 readable bytes, and this load needs no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
fn store(bytes: &mut [u8; 32], vector: __m256i) {
    // SAFETY: the array is 32 writable bytes, and this store needs no alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
}

#[target_feature(enable = "avx2")]
fn store_signs(bytes: &mut [i8; 32], vector: __m256i) {
    // SAFETY: the array is 32 writable bytes, and this store needs no alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
}

#[target_feature(enable = "avx2")]
fn to_integers(vector: __m256i) -> [i32; 8] {
    let mut integers = [0; 8];
    // SAFETY: the array is 32 writable bytes, and this store needs no alignment.
    unsafe { _mm256_storeu_si256(integers.as_mut_ptr().cast(), vector) };
    integers
}
