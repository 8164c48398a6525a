//! From the collected numbers to the population.
//!
//! **Estimates.** Let `n_v` be the number of devices in the population that hold the symbol `v`.
//! Each device takes part with probability `q`, on its own; `m_v` of those that take part hold `v`,
//! and `m` take part in all. A report shows the symbol of its device with probability `p`, and each
//! other symbol with probability `s`. The collected count `C_v` is a sum of independent coins,
//! `m_v` of them with mean `p` and `m - m_v` with mean `s`:
//!
//! ```text
//! E[C_v | m_v]   = m s + m_v d,                              d = p - s
//! Var[C_v | m_v] = m_v p (1 - p) + (m - m_v) s (1 - s)
//!                = m s (1 - s) + m_v d (1 - p - s)
//! ```
//!
//! So `M = (C_v - m s)/d` is unbiased for `m_v`, whoever took part, and `M/q` is unbiased for
//! `n_v`, since `m_v` is binomial with mean `q n_v` and variance `q n_v (1 - q)`. Given who took
//! part, and by the law of total variance over who takes part:
//!
//! ```text
//! Var[M | m_v] = A + B m_v,               A = m s (1 - s)/d^2,  B = (1 - p - s)/d
//! Var[M]       = E[A] + (B + 1 - q) q n_v
//! ```
//!
//! Both are linear in the estimated value. With `M` substituted for it (and the observed `m` for
//! its mean) they are unbiased, and their roots divided by `q` are the standard errors. They are
//! never negative: `M >= -m s/d`, and there `A + B M = m s p/d^2`, while `(1 - q) m s/d` is less,
//! as `p/d >= 1`.
//!
//! **Intervals** are score intervals: all `x` from which `M` is at most `z` of *its* standard
//! deviations away,
//!
//! ```text
//! (M - x)^2 <= z^2 (A + B x)   <=>   x = M + z^2 B/2 +- z sqrt(A + B M + z^2 B^2/4)
//! ```
//!
//! with `B + 1 - q` in place of `B` for the total. Unlike `M +- z` standard errors they do not
//! shrink to a point at a count of zero. The noise interval is for `m_v/q`, the truth about the
//! devices that took part; the total interval is for `n_v`. Each holds for one symbol at a time.
//!
//! They rest on the normal approximation of sums of coins. Where the count varies little (few lies
//! are expected, or few holders take part), that fails: the probability of `|C - E C| <= z sd` jumps
//! up and down by about `0.06/sd`. So where the variance of the count is below [`FEW`], at the upper
//! end of the score interval, the interval is exact instead ([`super::interval`]).
//!
//! Nothing is rounded or clamped: an estimate may be negative, and an interval always holds it.
//! Clamping at zero would bias sums and averages of estimates.

use serde::{Deserialize, Serialize};

use super::interval::{Coins, Holders};
use crate::Error;
use crate::error::{at_least_one, in_range};
use crate::math::normal::quantile_of_ln_upper_tail;
use crate::math::{ln, sqrt};

/// What the collected reports say about the whole population.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The unbiased estimate. It may be negative.
    pub value: f64,
    /// Standard error from the noise alone, given who took part.
    pub noise_error: f64,
    /// Low end of the interval from the noise alone.
    pub noise_low: f64,
    /// High end of the interval from the noise alone.
    pub noise_high: f64,
    /// Standard error from noise and sampling together.
    pub total_error: f64,
    /// Low end of the interval from noise and sampling together.
    pub total_low: f64,
    /// High end of the interval from noise and sampling together.
    pub total_high: f64,
}

/// Counts with a variance below this have exact intervals.
const FEW: f64 = 100.0;

/// How the participants represent the population, and the confidence of an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    rate: f64,
    /// What may lie outside of an interval on each side.
    tail: f64,
    /// How many standard deviations an interval extends to either side.
    z: f64,
}

/// The variance `at_zero + slope * x` of an estimate of `x`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variance {
    pub(super) at_zero: f64,
    pub(super) slope: f64,
}

impl Sample {
    pub(super) fn new(rate: f64, level: f64) -> Result<Self, Error> {
        in_range("rate", rate, rate > 0.0 && rate <= 1.0, "above 0 and at most 1")?;
        in_range("level", level, level > 0.0 && level < 1.0, "above 0 and below 1")?;
        let tail = (1.0 - level) / 2.0;
        Ok(Self { rate, tail, z: quantile_of_ln_upper_tail(ln(tail)) })
    }

    /// The estimate for the population, from the estimate `taken` for the participants and the
    /// variance of its noise. `unit` is what one device counts, or an upper bound on it.
    pub(super) fn estimate(&self, taken: f64, noise: Variance, unit: f64) -> Estimate {
        let total = Variance { slope: noise.slope + (1.0 - self.rate) * unit, ..noise };
        let (noise_error, noise_low, noise_high) = self.spread(taken, noise);
        let (total_error, total_low, total_high) = self.spread(taken, total);
        Estimate {
            value: taken / self.rate,
            noise_error,
            noise_low,
            noise_high,
            total_error,
            total_low,
            total_high,
        }
    }

    /// The estimate from a count of reports. `gap` is how much likelier a holder's report shows the
    /// symbol than another one.
    pub(super) fn count(&self, count: u64, coins: Coins, gap: f64, noise: Variance) -> Estimate {
        let taken = (count as f64 - coins.reports as f64 * coins.lie) / gap;
        let found = self.estimate(taken, noise, 1.0);
        let scale = self.rate * gap * gap;
        // The variance of the count at the high end of an interval.
        let few =
            |high: f64, slope: f64| gap * gap * noise.at_zero + scale * slope * high.max(0.0) < FEW;
        let holding = |(low, high): Holders, rate: f64| {
            ((low as f64 / rate).min(found.value), (high as f64 / rate).max(found.value))
        };
        let mut found = found;
        if few(found.noise_high, noise.slope) {
            let among = coins.among_participants(count, self.tail);
            (found.noise_low, found.noise_high) = holding(among, self.rate);
        }
        if self.rate == 1.0 {
            (found.total_low, found.total_high) = (found.noise_low, found.noise_high);
        } else if few(found.total_high, noise.slope + 1.0 - self.rate) {
            let all = coins.in_population(count, self.rate, self.tail, found.total_high);
            (found.total_low, found.total_high) = holding(all, 1.0);
        }
        found
    }

    /// Standard error and score interval.
    fn spread(&self, taken: f64, variance: Variance) -> (f64, f64, f64) {
        // Below zero only by rounding.
        let here = (variance.at_zero + variance.slope * taken).max(0.0);
        let shift = self.z * variance.slope / 2.0;
        let root = sqrt(here + shift * shift);
        // z (root - shift), without the subtraction.
        let below = if here > 0.0 { self.z * here / (root + shift) } else { 0.0 };
        let above = self.z * (root + shift);
        (sqrt(here) / self.rate, (taken - below) / self.rate, (taken + above) / self.rate)
    }
}

/// Checks that the counts of all symbols come from `reports` reports of one symbol each.
pub(super) fn check_counts(counts: &[u128], reports: u64) -> Result<(), Error> {
    at_least_one("the number of symbols", counts.len() as u64)?;
    let sum = counts.iter().fold(0_u128, |sum, count| sum.saturating_add(*count));
    let range = "the number of reports, as each report counts once";
    in_range("the sum of the counts", sum as f64, sum == u128::from(reports), range)?;
    Ok(())
}
