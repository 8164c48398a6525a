//! No randomizer: a report carries the exact value. What is unknown is only who took part.
//!
//! This is the estimator of [`super`] with `p = 1` and `s = 0`, so that `A = B = 0`: the noise interval is a point, and the
//! total one comes from sampling alone.

use super::{Estimate, Sample, Variance, check_counts};
use crate::Error;
use crate::error::at_least_one;

const NO_NOISE: Variance = Variance { at_zero: 0.0, slope: 0.0 };

/// How many devices of the population hold each symbol. `reports` took part, each with probability `rate`; intervals
/// hold with probability `level` (0.95 for 95 %).
pub fn estimate(
    counts: &[u64],
    reports: u64,
    rate: f64,
    level: f64,
) -> Result<Vec<Estimate>, Error> {
    check_counts(counts, reports)?;
    let sample = Sample::new(rate, level)?;
    Ok(counts.iter().map(|count| sample.estimate(*count as f64, NO_NOISE, 1.0)).collect())
}

/// The sum of a value between 0 and `max` over the population, from the collected sum.
///
/// The variance from sampling is `(1 - q)/q` times the sum of the squares of the values. The squares are not
/// collected; as none is above `max` times its value, `(1 - q)/q max` times the sum is at least as large.
/// So the total interval is wider than need be unless all values are 0 or `max`.
pub fn estimate_sum(sum: u128, max: u64, rate: f64, level: f64) -> Result<Estimate, Error> {
    at_least_one("max", max)?;
    Ok(Sample::new(rate, level)?.estimate(sum as f64, NO_NOISE, max as f64))
}
