//! Arithmetic on whole vectors of a field. `prio`'s fields do it element by element; [`Goldilocks`]
//! has [`crate::simd`].

mod lanes;

use prio::field::{Field64, Field128, NttFriendlyFieldElement};

use crate::goldilocks::Goldilocks;
use crate::simd::{self, Instructions};

/// The vectors of a call have equal lengths. Nothing here has a branch or an index that depends on
/// an element.
pub(crate) trait VectorField:
    NttFriendlyFieldElement<Integer: From<u64> + Into<u128>>
{
    /// Adds to each of `sums` the sum of the elements `x`, each times the sign that its row of
    /// `signs` has for it.
    ///
    /// A row is `x.len().div_ceil(4)` bytes. A sign is two bits, the lowest of a byte first: `00` is
    /// -1, `11` is 1, and the others are 0. Bits after the last sign mean nothing.
    fn add_signed_sums(_: Instructions, x: &[Self], signs: &[u8], sums: &mut [Self]) {
        lanes::add_signed_sums(x, signs, sums);
    }

    /// `sums[i] += factor * x[i]`.
    fn add_multiple(_: Instructions, sums: &mut [Self], x: &[Self], factor: Self) {
        for (sum, x) in sums.iter_mut().zip(x) {
            *sum += *x * factor;
        }
    }

    /// `x[i] *= factor`.
    fn scale(_: Instructions, x: &mut [Self], factor: Self) {
        x.iter_mut().for_each(|x| *x *= factor);
    }

    /// `(a[i], b[i]) = (a[i] + b[i], factor * (a[i] - b[i]))`.
    fn mix_and_scale(_: Instructions, a: &mut [Self], b: &mut [Self], factor: Self) {
        for (a, b) in a.iter_mut().zip(b) {
            (*a, *b) = (*a + *b, factor * (*a - *b));
        }
    }

    /// `(a[i], b[i]) = (a[i] + factor * b[i], a[i] - factor * b[i])`.
    fn scale_and_mix(_: Instructions, a: &mut [Self], b: &mut [Self], factor: Self) {
        for (a, b) in a.iter_mut().zip(b) {
            let scaled = factor * *b;
            (*a, *b) = (*a + scaled, *a - scaled);
        }
    }
}

impl VectorField for Field64 {}
impl VectorField for Field128 {}
impl VectorField for Goldilocks {
    fn add_signed_sums(instructions: Instructions, x: &[Self], signs: &[u8], sums: &mut [Self]) {
        simd::add_signed_sums(instructions, x, signs, sums);
    }

    fn add_multiple(instructions: Instructions, sums: &mut [Self], x: &[Self], factor: Self) {
        simd::add_multiple(instructions, sums, x, factor);
    }

    fn scale(instructions: Instructions, x: &mut [Self], factor: Self) {
        simd::scale(instructions, x, factor);
    }

    fn mix_and_scale(instructions: Instructions, a: &mut [Self], b: &mut [Self], factor: Self) {
        simd::mix_and_scale(instructions, a, b, factor);
    }

    fn scale_and_mix(instructions: Instructions, a: &mut [Self], b: &mut [Self], factor: Self) {
        simd::scale_and_mix(instructions, a, b, factor);
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::*;

    /// Those of [`Goldilocks`] are tested with `simd`.
    fn check_signed_sums<F: VectorField>() {
        let mut rng = ChaCha20Rng::seed_from_u64(4);
        for length in [0_usize, 1, 2, 3, 4, 5, 8, 30, 1_001] {
            let element = |integer: u64| F::from(F::Integer::from(integer));
            let mut x: Vec<F> = (0..length).map(|_| element(rng.next_u64() >> 1)).collect();
            // The largest element is among them.
            x.iter_mut().take(1).for_each(|x| *x = F::zero() - F::one());
            let mut signs = vec![0; 3 * length.div_ceil(4)];
            rng.fill_bytes(&mut signs);
            let sum = |row: &[u8]| {
                x.iter().enumerate().fold(F::one(), |sum, (at, element)| {
                    match row[at / 4] >> (2 * (at % 4)) & 3 {
                        0 => sum - *element,
                        3 => sum + *element,
                        _ => sum,
                    }
                })
            };
            let rows = signs.chunks(length.div_ceil(4).max(1));
            let expected: Vec<F> =
                rows.map(sum).chain(std::iter::repeat(F::one())).take(3).collect();
            let mut sums = [F::one(); 3];
            F::add_signed_sums(Instructions::SCALAR, &x, &signs, &mut sums);
            assert_eq!(sums.as_slice(), expected, "{length}");
        }
    }

    #[test]
    fn signed_sums() {
        check_signed_sums::<Field64>();
        check_signed_sums::<Field128>();
    }
}
