//! From the collected numbers to the population.
//!
//! **Estimates.** Let `n_v` be the number of devices in the population that hold the symbol `v`.
//! Each of them takes part with probability `q`, on its own; `m_v` of them do. In all there are `m`
//! reports. A report shows the symbol of its device with probability `p`, and each other symbol with
//! probability `s`. The collected count `C_v` is a sum of independent coins, `m_v` of them with mean
//! `p` and `m - m_v` with mean `s`:
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
//! never negative: `M` is from `-m s/d` to `m (1 - s)/d`, and there `A + B M` is `m s p/d^2` and
//! `m (1 - s)(1 - p)/d^2`; and `(1 - q) m s/d` is less than the first, as `p/d >= 1`.
//!
//! **Dummies** hold no symbol: they show each with probability `s`, like the report of another
//! device. So they are in `m`, and nothing else changes. That `m` is not the number of those who
//! took part matters only where that number is asked for ([`super::mean()`], [`remainder`]).
//!
//! **Importance sampling.** The holders of the default value take part at another rate than all
//! others. `q` is the rate of those who hold `v`: each of their reports counts `1/q`.
//!
//! **Noise of servers** is added to the count instead: `p = 1`, `s = 0`, `A` is its variance, `B` is
//! 0 ([`super::server_noise`]).
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

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::interval::{Coins, Holders, Without};
use super::{Collected, Encoding, Variance};
use crate::Error;
use crate::error::in_range;
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

/// Two standard errors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// From the noise alone.
    pub noise: f64,
    /// From noise and sampling together.
    pub total: f64,
}

/// Counts with a variance below this have exact intervals.
pub(super) const FEW: f64 = 100.0;

/// How the participants represent the population, and the confidence of an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) rate: f64,
    /// What may lie outside of an interval on each side.
    pub(super) tail: f64,
    /// How many standard deviations an interval extends to either side.
    pub(super) z: f64,
}

/// No noise at all.
pub(super) const NO_NOISE: Variance = Variance { at_zero: 0.0, slope: 0.0 };

/// What reports show of a symbol.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shows {
    /// `1 - p`: the probability that the report of a holder does not show it.
    pub(super) miss: f64,
    /// `s`: the probability that another report shows it.
    pub(super) lie: f64,
    /// `p - s`.
    pub(super) gap: f64,
    /// `1 - p - s`.
    pub(super) neither: f64,
}

impl Shows {
    /// Every report shows what its device holds.
    pub(super) const TRUTH: Self = Self { miss: 0.0, lie: 0.0, gap: 1.0, neither: 0.0 };

    /// `M`, from a count of so many reports.
    pub(super) fn taken(&self, count: f64, reports: u64) -> f64 {
        (count - reports as f64 * self.lie) / self.gap
    }

    /// How far one report moves an estimate at most: one that shows the symbol.
    pub(super) fn reach(&self) -> f64 {
        (1.0 - self.lie) / self.gap
    }

    /// The variance of the estimate from so many reports.
    pub(super) fn noise(&self, reports: f64) -> Variance {
        let expected = reports * self.lie;
        Variance {
            at_zero: expected * (1.0 - self.lie) / (self.gap * self.gap),
            slope: self.neither / self.gap,
        }
    }
}

impl Sample {
    pub(super) fn new(rate: f64, level: f64) -> Result<Self, Error> {
        in_range("rate", rate, rate > 0.0 && rate <= 1.0, "above 0 and at most 1")?;
        in_range("level", level, level > 0.0 && level < 1.0, "above 0 and below 1")?;
        Ok(Self::of_tail(rate, (1.0 - level) / 2.0))
    }

    /// With so much outside of an interval on each side.
    pub(super) fn of_tail(rate: f64, tail: f64) -> Self {
        Self { rate, tail, z: quantile_of_ln_upper_tail(ln(tail)) }
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

    /// The estimate from a count of so many reports.
    pub(super) fn count(&self, count: u64, reports: u64, shows: Shows) -> Estimate {
        let Shows { miss, lie, gap, .. } = shows;
        let noise = shows.noise(reports as f64);
        let taken = shows.taken(count as f64, reports);
        let mut found = self.estimate(taken, noise, 1.0);
        let coins = Coins { reports, miss, lie };
        let scale = self.rate * gap * gap;
        // The variance of the count at the high end of an interval.
        let few =
            |high: f64, slope: f64| gap * gap * noise.at_zero + scale * slope * high.max(0.0) < FEW;
        if few(found.noise_high, noise.slope) {
            let among = coins.among_participants(count, self.tail);
            (found.noise_low, found.noise_high) = holding(found.value, among, self.rate);
        }
        if self.rate == 1.0 {
            (found.total_low, found.total_high) = (found.noise_low, found.noise_high);
        } else if few(found.total_high, noise.slope + 1.0 - self.rate) {
            let all = coins.in_population(count, self.rate, self.tail, found.total_high);
            (found.total_low, found.total_high) = holding(found.value, all, 1.0);
        }
        found
    }

    /// Standard error and score interval.
    fn spread(&self, taken: f64, variance: Variance) -> (f64, f64, f64) {
        // Below zero only by rounding.
        let here = (variance.at_zero + variance.slope * taken).max(0.0);
        let shift = self.z * variance.slope / 2.0;
        let far = sqrt(here + shift * shift) + shift.abs();
        // z (root - |shift|), without the subtraction.
        let near = if here > 0.0 { here / far } else { 0.0 };
        let (below, above) = if shift < 0.0 { (far, near) } else { (near, far) };
        let (low, high) = (taken - self.z * below, taken + self.z * above);
        (sqrt(here) / self.rate, low / self.rate, high / self.rate)
    }
}

/// An interval of whole numbers of holders, as one that also holds the estimate.
pub(super) fn holding(value: f64, (low, high): Holders, rate: f64) -> (f64, f64) {
    ((low as f64 / rate).min(value), (high as f64 / rate).max(value))
}

/// The estimates from counts of reports that show each symbol, for sums that were checked.
pub(super) fn counted(
    collected: &Collected<'_>,
    encoding: Encoding,
    shows: Shows,
) -> Result<Vec<Estimate>, Error> {
    // A count is at most the number of reports.
    let of = |sample: Sample, sum| sample.count(sum as u64, collected.reports, shows);
    each(collected, encoding, of, |rest| {
        let Shows { miss, lie, gap, .. } = shows;
        let bits = rest.reports.saturating_mul(rest.labels.into());
        let coins = Coins { reports: bits, miss, lie };
        (gap * gap * rest.variance < FEW).then(|| coins.without(&rest))
    })
}

/// What is known of the devices without a label: so much is counted of all labels together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    pub(super) sum: i128,
    pub(super) labels: u32,
    pub(super) reports: u64,
    /// The variance of the sum of all `M_v`.
    pub(super) variance: f64,
    /// The rate of devices without a label, and what may lie outside of an interval on each side.
    pub(super) rate: f64,
    pub(super) tail: f64,
    /// About where the interval for the population ends.
    pub(super) about: f64,
}

/// The estimates from each of the sums. `rest` gives exact intervals for the devices without a label
/// where the noise is small.
pub(super) fn each(
    collected: &Collected<'_>,
    encoding: Encoding,
    estimate: impl Fn(Sample, i128) -> Estimate,
    rest: impl Fn(Rest) -> Option<Without>,
) -> Result<Vec<Estimate>, Error> {
    // Symbols with the same count have the same estimate.
    let mut known = HashMap::new();
    let of = |(sum, rate): (&i128, f64)| {
        let sample = Sample::new(rate, collected.level)?;
        Ok(*known.entry((*sum, rate.to_bits())).or_insert_with(|| estimate(sample, *sum)))
    };
    let found: Result<Vec<_>, Error> =
        collected.sums.iter().zip(collected.rates(encoding)).map(of).collect();
    with_remainder(collected, encoding, found?, rest)
}

/// The standard errors of a weighted sum of estimates whose errors are independent.
pub(super) fn independent(weights: &[f64], estimates: &[Estimate]) -> Spread {
    let root = |error: fn(&Estimate) -> f64| {
        let each = weights.iter().zip(estimates).map(|(weight, found)| weight * error(found));
        sqrt(each.map(|part| part * part).sum())
    };
    Spread { noise: root(|found| found.noise_error), total: root(|found| found.total_error) }
}

/// The standard errors of a weighted sum of estimates, where each report shows one message.
///
/// `weights` are those of the symbols, each divided by the rate of its holders, `shown` is what a
/// message then adds to the weighted sum, `Y`, and `taken` are the `M`. Given who took part, `E Y` of a report is the
/// weight `w` of its device, so the variance of all is the sum of all `E[Y^2] - w^2`; and with the
/// coin of rate `q` the sum of `q E[Y^2] - q^2 w^2` over the population. The squares of what was
/// shown estimate the first sum, and `M` the second, both without bias.
pub(super) fn of_messages(
    collected: &Collected<'_>,
    shown: &[f64],
    taken: impl Iterator<Item = f64>,
    rates: impl Iterator<Item = f64>,
    weights: &[f64],
) -> Spread {
    let squares = collected.sums.iter().zip(shown).map(|(sum, y)| *sum as f64 * y * y);
    let squares: f64 = squares.sum();
    let (mut held, mut sampled) = (0.0, 0.0);
    for ((weight, taken), rate) in weights.iter().zip(taken).zip(rates) {
        let part = weight * weight * taken;
        held += part;
        sampled += rate * part;
    }
    Spread { noise: sqrt((squares - held).max(0.0)), total: sqrt((squares - sampled).max(0.0)) }
}

/// The estimates, that of the default replaced by [`remainder`] where it is sent as no label.
fn with_remainder(
    collected: &Collected<'_>,
    encoding: Encoding,
    mut estimates: Vec<Estimate>,
    exact: impl Fn(Rest) -> Option<Without>,
) -> Result<Vec<Estimate>, Error> {
    let default = collected.sampling.default.map(|symbol| symbol as usize);
    if let (Encoding::Labels { .. }, Some(default)) = (encoding, default) {
        let found = remainder(collected, default, &estimates, exact)?;
        estimates.splice(default..=default, [found]);
    }
    Ok(estimates)
}

/// How many devices hold no label, where each holds one or none.
///
/// With `n` of them and `n_v` holders of each label, `t_0` and `t_1` the probabilities with which
/// they send something, dummies included, `m` reports are `t_0 n + t_1 sum n_v` in the mean. So
/// `(m - t_1 sum M_v/q)/t_0` is unbiased for `n`. Times `t_0`, a device without a label adds a coin of
/// variance `t_0 (1 - t_0)`, one with a label `1 - t_1/q` if it takes part and 1 for a dummy, in the
/// mean nothing, and the noise is that of the sum of all `M_v`.
///
/// Without dummies, the participants without a label are those that are not among the labels' holders,
/// and their number has exact intervals like any other where the noise is small. Dummies cannot be
/// told from them: then there is one interval, that for the population.
fn remainder(
    collected: &Collected<'_>,
    default: usize,
    estimates: &[Estimate],
    exact: impl Fn(Rest) -> Option<Without>,
) -> Result<Estimate, Error> {
    let rates = &collected.sampling;
    let (q, none) = (rates.rate, rates.sending(rates.default_rate));
    let weight = rates.sending(q);
    let (mut others, mut noise, mut sum) = (0.0, 0.0, 0);
    let labels = collected.sums.iter().zip(estimates).enumerate();
    for (_, (counted, found)) in labels.filter(|(symbol, _)| *symbol != default) {
        others += found.value;
        noise += (weight * found.noise_error).powi(2);
        sum += *counted;
    }
    let sample = Sample::new(none, collected.level)?;
    let taken = collected.reports as f64 - weight * others;
    let each = q * (1.0 - weight / q).powi(2) + (1.0 - q) * rates.dummy_rate;
    let sampled = Variance { at_zero: noise + each * others.max(0.0), slope: 0.0 };
    let mut found = sample.estimate(taken, sampled, 1.0);
    if rates.dummy_rate > 0.0 {
        let Estimate { total_error, total_low, total_high, .. } = found;
        (found.noise_error, found.noise_low, found.noise_high) =
            (total_error, total_low, total_high);
        return Ok(found);
    }
    let given = sample.estimate(taken, Variance { at_zero: noise, slope: 0.0 }, 0.0);
    let Estimate { noise_error, noise_low, noise_high, .. } = given;
    found = Estimate { noise_error, noise_low, noise_high, ..found };
    let rest = Rest {
        sum,
        labels: u32::try_from(estimates.len().saturating_sub(1)).unwrap_or(u32::MAX),
        reports: collected.reports,
        variance: noise,
        rate: none,
        tail: sample.tail,
        about: found.total_high.max(0.0),
    };
    let Some(Without { participants, population }) = exact(rest) else { return Ok(found) };
    let (low, high) = participants;
    found.noise_low = (low / none).min(found.value);
    found.noise_high = (high / none).max(found.value);
    if none == 1.0 {
        (found.total_low, found.total_high) = (found.noise_low, found.noise_high);
    } else if noise + none * (1.0 - none) * rest.about < FEW {
        (found.total_low, found.total_high) = holding(found.value, population, 1.0);
    }
    Ok(found)
}
