//! The arithmetic over whole vectors, where PINE's time goes. Everything here is a pure function of
//! plain slices, so that it can be replaced by a faster one.
//!
//! No branch and no address depends on an element. Signs are public.

use zeroize::Zeroize;

use crate::aggregate_share::ShareField;

/// The dot products of `vector` with `checks` vectors of random signs.
///
/// For each dot product, `signs` is asked once for ceil(length / 4) bytes: two bits per element,
/// the lowest first. 00 is -1, 01 and 10 are 0, and 11 is +1. Unused bits of the last byte are
/// ignored.
pub(super) fn ternary_dots<F: ShareField>(
    vector: &[F],
    checks: usize,
    mut signs: impl FnMut(&mut [u8]),
) -> Vec<F> {
    // A sign is the sum of its two bits, less 1. So a dot product is a sum with the weights 0, 1
    // and 2, less the sum of the vector.
    let lanes = Lanes::new(vector);
    let sum = vector.iter().fold(F::zero(), |sum, element| sum + *element);
    let mut bytes = vec![0; vector.len().div_ceil(4)];
    let dot = |_| {
        signs(&mut bytes);
        lanes.weighted_sum::<F>(&bytes) - sum
    };
    (0..checks).map(dot).collect()
}

/// Integers in digits of 32 bits, one vector per digit, so that sums need no reduction.
struct Lanes(Vec<Vec<u32>>);

impl Lanes {
    fn new<F: ShareField>(vector: &[F]) -> Self {
        let mut lanes = vec![Vec::with_capacity(vector.len()); F::ENCODED_SIZE / 4];
        for element in vector {
            let mut integer = element.to_number();
            for lane in &mut lanes {
                lane.push(integer as u32);
                integer >>= 32;
            }
        }
        Self(lanes)
    }

    fn weighted_sum<F: ShareField>(&self, signs: &[u8]) -> F {
        let digit = F::from_number(1 << 32);
        self.0
            .iter()
            .rev()
            .fold(F::zero(), |sum, lane| sum * digit + F::from_number(lane_sum(lane, signs).into()))
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
