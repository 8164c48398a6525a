//! Quantiles of ordered buckets, from the estimates of a histogram.
//!
//! The quantile `p` is the first bucket `j` with `F_j >= p N`: `F_j` devices hold a bucket up to `j`,
//! and `N` any. `D_j = F_j - p N` is a weighted sum of all buckets, `1 - p` up to `j` and `-p` after
//! it, and is estimated without bias by the same sum of the estimates. (To divide by an estimate of
//! `N` that does not come from the same noise would be less precise.)
//!
//! Because of the noise, the estimated `D_j` need not grow with `j`. The estimate is the middle
//! between the first bucket where it is not negative and the last one before which it is.
//!
//! **Intervals** (Woodruff 1952): from the first `j` with `D_j >= -z sd` to the last one with
//! `D_(j-1) <= z sd`, where `sd` is the standard deviation of `D` at the estimate. The true quantile is
//! before the first only if its own `D`, at least 0 in truth, is below `-z sd`; after the last only if
//! the `D` before it, below 0 in truth, is above `z sd`. So each side fails with probability
//! `(1 - level)/2` at most, and with less where buckets are coarse. If noise makes the number of
//! devices 0 or less, nothing is known: the interval is all buckets.

use super::estimate::Sample;
use super::{Collected, Mechanism};
use crate::Error;
use crate::error::in_range;

/// A quantile, as buckets, the first of which is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// The part of the devices that is in this bucket or before it.
    pub probability: f64,
    /// The bucket.
    pub bucket: u32,
    /// The interval from the noise alone, for those who took part: first and last bucket.
    pub noise: (u32, u32),
    /// The interval from noise and sampling together, for the population.
    pub total: (u32, u32),
}

/// The quantiles of a histogram whose buckets are ordered.
pub fn quantiles(
    mechanism: &Mechanism,
    collected: &Collected<'_>,
    probabilities: &[f64],
) -> Result<Vec<Quantile>, Error> {
    let z = Sample::new(collected.sampling.rate, collected.level)?.z;
    let estimates = mechanism.estimates(collected)?;
    let up_to: Vec<f64> = estimates
        .iter()
        .scan(0.0, |sum, found| {
            *sum += found.value;
            Some(*sum)
        })
        .collect();
    let all = up_to.last().copied().unwrap_or(0.0);
    let quantile = |probability: &f64| {
        let p = *probability;
        in_range("a quantile", p, p > 0.0 && p < 1.0, "above 0 and below 1")?;
        if !(all > 0.0) {
            let most = up_to.len().saturating_sub(1) as u32;
            let anywhere = (0, most);
            return Ok(Quantile {
                probability: p,
                bucket: most / 2,
                noise: anywhere,
                total: anywhere,
            });
        }
        let differences: Vec<f64> = up_to.iter().map(|sum| sum - p * all).collect();
        let (first, last) = around(&differences, 0.0);
        let bucket = first + (last - first) / 2;
        let weight = |j| if j <= bucket { 1.0 - p } else { -p };
        let weights: Vec<f64> = (0..estimates.len()).map(weight).collect();
        let spread = mechanism.spread(&weights, collected)?;
        let buckets = |error: f64| {
            let (low, high) = around(&differences, z * error);
            // Fewer than 2^32, as are the symbols.
            (low.min(bucket) as u32, high.max(bucket) as u32)
        };
        Ok(Quantile {
            probability: p,
            bucket: bucket as u32,
            noise: buckets(spread.noise),
            total: buckets(spread.total),
        })
    };
    probabilities.iter().map(quantile).collect()
}

/// The first bucket where the difference is `-slack` or more, and the last one before which it is
/// `slack` or less (below 0, if there is no slack).
fn around(differences: &[f64], slack: f64) -> (usize, usize) {
    let most = differences.len().saturating_sub(1);
    let first = differences.iter().position(|d| *d >= -slack).unwrap_or(most);
    let before = |d: &f64| *d < 0.0 || (slack > 0.0 && *d <= slack);
    let last = differences.iter().rposition(before).map_or(0, |before| before + 1);
    (first, last.min(most).max(first))
}
