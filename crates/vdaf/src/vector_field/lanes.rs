//! Sums with signs in any field, by integers.

use zeroize::Zeroize;

use super::VectorField;

/// See [`VectorField::add_signed_sums`].
pub(super) fn add_signed_sums<F: VectorField>(x: &[F], signs: &[u8], sums: &mut [F]) {
    // A sign is the number of its bits that are set, less one. So a sum is one with the weights 0,
    // 1 and 2, less the sum of all elements.
    let lanes = Lanes::new(x);
    let all = x.iter().fold(F::zero(), |sum, element| sum + *element);
    for (sum, row) in sums.iter_mut().zip(signs.chunks_exact(x.len().div_ceil(4).max(1))) {
        *sum += lanes.weighted_sum::<F>(row) - all;
    }
}

/// Integers in digits of 32 bits, one vector per digit, so that sums need no reduction.
struct Lanes(Vec<Vec<u32>>);

impl Lanes {
    fn new<F: VectorField>(vector: &[F]) -> Self {
        let mut lanes = vec![Vec::with_capacity(vector.len()); F::ENCODED_SIZE / 4];
        for element in vector {
            let mut integer: u128 = <F::Integer as From<F>>::from(*element).into();
            for lane in &mut lanes {
                lane.push(integer as u32);
                integer >>= 32;
            }
        }
        Self(lanes)
    }

    fn weighted_sum<F: VectorField>(&self, signs: &[u8]) -> F {
        let element = |integer: u64| F::from(F::Integer::from(integer));
        let digit = element(1 << 32);
        let sums = self.0.iter().rev().map(|lane| element(lane_sum(lane, signs)));
        sums.fold(F::zero(), |sum, lane| sum * digit + lane)
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Below 2^33 per element, and a vector has at most 2^20 elements: no overflow.
fn lane_sum(lane: &[u32], signs: &[u8]) -> u64 {
    let mut sums = [0u64; 4];
    let (fours, rest) = lane.as_chunks::<4>();
    for (digits, byte) in fours.iter().zip(signs) {
        let weights = weights(*byte);
        for (at, sum) in sums.iter_mut().enumerate() {
            *sum += u64::from(digits[at]) * u64::from(weights >> (2 * at) & 3);
        }
    }
    let last = weights(signs.get(fours.len()).copied().unwrap_or(0));
    for (at, digit) in rest.iter().enumerate() {
        sums[0] += u64::from(*digit) * u64::from(last >> (2 * at) & 3);
    }
    sums.iter().sum()
}

/// The sums of neighbouring bits: four numbers of 0 to 2, in two bits each.
fn weights(byte: u8) -> u8 {
    (byte & 0x55) + (byte >> 1 & 0x55)
}
