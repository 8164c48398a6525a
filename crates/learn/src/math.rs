//! Sums in a fixed order.

pub(crate) use libm::{exp, log as ln, log1p, sqrt, tanh};

/// How many partial sums a dot product has, so that the compiler can use vector instructions
/// without changing the order.
const LANES: usize = 8;

/// The dot product, of the length of the shorter one.
pub(crate) fn dot<X: Copy + Into<f64>>(a: &[f64], b: &[X]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (mut a_blocks, mut b_blocks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    for (a, b) in a_blocks.by_ref().zip(b_blocks.by_ref()) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a * (*b).into();
        }
    }
    let rest = a_blocks.remainder().iter().zip(b_blocks.remainder());
    let rest = rest.fold(0.0, |sum, (a, b)| sum + a * (*b).into());
    lanes.iter().fold(rest, |sum, lane| sum + lane)
}

/// Adds `factor * vector` to `sum`.
pub(crate) fn add_scaled<X: Copy + Into<f64>>(sum: &mut [f64], factor: f64, vector: &[X]) {
    for (sum, x) in sum.iter_mut().zip(vector) {
        *sum += factor * (*x).into();
    }
}

/// The Euclidean norm.
pub(crate) fn norm(vector: &[f64]) -> f64 {
    sqrt(dot(vector, vector))
}

/// The place of the largest number, the first of several.
pub(crate) fn argmax(values: &[f64]) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (place, value) in values.iter().enumerate() {
        if *value > best.1 {
            best = (place, *value);
        }
    }
    best.0
}

/// A number from 0 to below 1, of 53 random bits.
pub(crate) fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / 9_007_199_254_740_992.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_products_of_every_length() {
        for length in 0..40_u32 {
            let a: Vec<f64> = (0..length).map(f64::from).collect();
            let b: Vec<f32> = (0..length).map(|i| i as f32 + 1.0).collect();
            let expected: u32 = (0..length).map(|i| i * (i + 1)).sum();
            assert_eq!(dot(&a, &b), f64::from(expected));
        }
    }

    #[test]
    fn the_first_of_the_largest() {
        assert_eq!(argmax(&[1.0, 3.0, 3.0, f64::NAN]), 1);
        assert_eq!((unit(0), unit(u64::MAX) < 1.0), (0.0, true));
    }
}
