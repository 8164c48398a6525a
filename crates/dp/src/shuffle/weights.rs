//! A binomial law as a table over its bulk, by ratios of neighbours from the mode outwards.

use crate::math::sqrt;

/// Crowds are cut to at most this many reports (a smaller crowd never hides better, so bounds stay
/// bounds).
const LARGEST_CROWD: u64 = 1 << 36;

/// The bulk of `Bin(n, p)`.
#[derive(Debug)]
pub(super) struct Weights {
    /// The count of the first entry.
    pub(super) first: u64,
    /// Probabilities of the counts from `first` on, not below the true ones except for rounding.
    /// They sum to 1.
    pub(super) values: Vec<f64>,
    /// A bound on the sum of `P(s) (1 + s / mean)` over all counts `s` that are not in the table.
    pub(super) outside: f64,
    /// `n p`.
    pub(super) mean: f64,
}

impl Weights {
    /// The table of `Bin(n, p)`, `q = 1 - p`, leaving out about `outside`.
    ///
    /// Ratios of neighbours decrease away from the mode, so what lies beyond the last entry is at
    /// most a geometric series. Entries are relative to the mode's, hence the sum is above 1 before
    /// it is divided out and the stated bound holds a fortiori after.
    pub(super) fn new(n: u64, p: f64, q: f64, outside: f64) -> Self {
        let size = n as f64;
        let mean = size * p;
        if mean <= 0.0 {
            return Self { first: 0, values: vec![1.0], outside: 0.0, mean };
        }
        let mode = (((size + 1.0) * p) as u64).min(n);
        let half = 0.5 * outside;
        let mut left_out = 0.0;

        let mut below = Vec::new();
        let (mut weight, mut s) = (1.0, mode);
        while s > 0 {
            let ratio = s as f64 * q / ((n - s + 1) as f64 * p);
            if may_end(ratio, weight, half) {
                // Counts below the mode are below the mean, so 1 + s / mean is at most 2.
                let beyond = 2.0 * weight * ratio / (1.0 - ratio);
                if beyond <= half {
                    left_out += beyond;
                    break;
                }
            }
            weight *= ratio;
            s -= 1;
            below.push(weight);
        }
        let first = s;

        let mut values = below;
        values.reverse();
        values.push(1.0);
        (weight, s) = (1.0, mode);
        while s < n {
            let ratio = (n - s) as f64 * p / ((s + 1) as f64 * q);
            if may_end(ratio, weight, half) {
                // s P(s) falls by this ratio or a smaller one, P(s) faster still.
                let moment_ratio = ratio * (s + 1) as f64 / (s.max(1)) as f64;
                let beyond =
                    weight * (1.0 + s.max(1) as f64 / mean) * moment_ratio / (1.0 - moment_ratio);
                if moment_ratio < 1.0 && beyond <= half {
                    left_out += beyond;
                    break;
                }
            }
            weight *= ratio;
            s += 1;
            values.push(weight);
        }

        let sum: f64 = values.iter().sum();
        let scale = 1.0 / sum;
        for value in &mut values {
            *value *= scale;
        }
        Self { first, values, outside: left_out, mean }
    }

    /// The counts with their probabilities.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, f64)> {
        (self.first..).zip(self.values.iter().copied())
    }

    /// The count of the last entry.
    pub(super) fn last(&self) -> u64 {
        self.first + self.values.len() as u64 - 1
    }
}

/// Whether what lies beyond an entry may be as little as `half`. Saves a few divisions.
fn may_end(ratio: f64, weight: f64, half: f64) -> bool {
    ratio < 0.5 || (ratio < 1.0 && weight <= half)
}

/// How many of `n` reports are considered so that a binomial count of probability `p` (`q = 1 - p`)
/// among them has a standard deviation of at most `deviation`: this bounds time and memory for any
/// `n`.
pub(super) fn crowd(n: u64, p: f64, q: f64, deviation: f64) -> u64 {
    let largest = deviation * deviation / (p * q);
    n.min(LARGEST_CROWD).min(largest.max(1.0) as u64)
}

/// A bound on the relative error of a product of ratios along a table: of its entries (2 ulps a
/// factor), and of the point probabilities that a pass over it carries along (1.5 ulps).
pub(super) fn drift(entries: usize) -> f64 {
    1e-14 + 8.0 * f64::EPSILON * entries as f64
}

/// Where a Gaussian pair at distance `mu` has about this `delta`: only the start of a search.
pub(super) fn guess(mu: f64, delta: f64) -> f64 {
    let mut t = 3.0;
    for _ in 0..4 {
        let square = 2.0 * crate::math::ln(0.4 * mu / (delta * (t * t + 1.5)));
        t = sqrt(square.max(0.01));
    }
    mu * t
}
