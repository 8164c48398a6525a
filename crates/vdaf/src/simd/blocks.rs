//! What the versions of [`super::add_signed_sums`] with AVX2 and AVX-512 share: vectors in blocks.
//!
//! Eight bytes make an element. For each of them, the products of that byte (0 to 255) with the
//! sign (-1, 0 or 1), over all elements of a block, add up to an integer of 32 bits, so that one
//! instruction multiplies and adds 32 or 64 bytes at once. Only in the end are the eight integers
//! put together and reduced. Where the last block has no elements it has zeros, and then it does
//! not matter what the signs are.

use crate::goldilocks::Goldilocks;

/// Rows that are worked on at once. Their sums stay in registers, of which AVX2 has 16.
pub(crate) const ROWS: usize = 10;
/// Elements of a block. With the sign, a sum over a block is below 255 * 1024 in absolute value.
pub(super) const LENGTH: usize = 1024;
/// The bytes of the signs of a block.
pub(super) const SIGN_BYTES: usize = LENGTH / 4;

/// The elements of a block.
pub(super) type Block = [Goldilocks; LENGTH];
/// Two bits for each element.
pub(super) type PackedSigns = [u8; SIGN_BYTES];
/// The sum of one row for each byte of the elements, the least significant byte first.
pub(super) type ByteSums = [i64; 8];

/// Calls `work` for each block of `x`, with one array of packed signs per row. It adds to the sums
/// of each row.
pub(super) fn add_over_blocks(
    x: &[Goldilocks],
    signs: &[u8],
    sums: &mut [Goldilocks],
    mut work: impl FnMut(&Block, &[PackedSigns], &mut [ByteSums]),
) {
    let row_length = x.len().div_ceil(4);
    if row_length == 0 {
        return;
    }
    let rows = sums.len();
    let mut byte_sums = vec![[0; 8]; rows];
    let mut packed = vec![[0; SIGN_BYTES]; rows];
    let mut block = [Goldilocks::ZERO; LENGTH];
    for (index, elements) in x.chunks(LENGTH).enumerate() {
        block[..elements.len()].copy_from_slice(elements);
        block[elements.len()..].fill(Goldilocks::ZERO);
        let bytes = elements.len().div_ceil(4);
        for (packed, row) in packed.iter_mut().zip(signs.chunks_exact(row_length)) {
            let start = index * SIGN_BYTES;
            packed[..bytes].copy_from_slice(&row[start..start + bytes]);
        }
        work(&block, &packed, &mut byte_sums);
    }
    for (sum, byte_sums) in sums.iter_mut().zip(&byte_sums) {
        // Each is below 2^8 times the number of elements, in absolute value.
        let wide = (0..)
            .zip(byte_sums)
            .fold(0, |wide: i128, (index, byte_sum)| wide + (i128::from(*byte_sum) << (8 * index)));
        *sum += Goldilocks::from_i128(wide);
    }
}
