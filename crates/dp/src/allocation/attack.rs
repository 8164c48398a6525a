//! What an attacker certainly learns of a device that takes part in `k` of `t` slots: lower ends.
//!
//! The slots are alike, and the device's value moves each of them by all of the distance. Two
//! statistics have a law in closed form. The *sum* of Gaussian releases is N(k, t sigma^2) with the
//! device, N(0, t sigma^2) without. The *number of large losses* is Bin(t - k, p) + Bin(k, p') with
//! the device, Bin(t, p) without, where `p` and `p'` are a slot's probabilities of a loss above a
//! threshold. Whatever follows from a statistic is post-processing.

use super::Slot;
use crate::math::{binomial, ln, sqrt};
use crate::pld::mixture::Mixture;
use crate::pld::pair::{Atoms, Pair};

/// Atoms are computed to this relative precision.
const TRUST: f64 = 1e-11;

/// How many thresholds are looked at, and how many of them in earnest.
const THRESHOLDS: (usize, usize) = (48, 3);

/// The most products for one threshold.
const WORK: u64 = 1 << 19;

/// The two directions of the better statistic at `delta`. Each of the `k` slots is used with
/// probability `rate`.
pub(crate) fn best(slot: &Slot, (k, t): (u64, u64), rate: f64, delta: f64) -> [Box<dyn Pair>; 2] {
    let mut found: Vec<[Box<dyn Pair>; 2]> = Vec::new();
    if let (Slot::Gaussian { sigma }, true) = (slot, rate == 1.0) {
        let sigma = sigma * sqrt(t as f64) / k as f64;
        found.push([false, true].map(|reversed| -> Box<dyn Pair> {
            Box::new(Mixture::sampled_gaussian(1.0, sigma, 1.0, reversed))
        }));
    }
    let pair = slot.sampled(rate, false);
    let sketch = pair.sketch(1e-12);
    let mut losses: Vec<f64> = sketch.into_iter().filter(|x| x.1 > 0.0).map(|x| x.0).collect();
    losses.sort_by(f64::total_cmp);
    let stride = losses.len().div_ceil(THRESHOLDS.0).max(1);
    // Just below each: a loss may have much of the mass.
    let losses: Vec<f64> = losses.iter().step_by(stride).map(|l| l - 1e-9 * l.abs()).collect();
    let above = pair.cells(&losses);
    let mut chances = Vec::new();
    let (mut p, mut q) = (0.0, 0.0);
    for cell in above.iter().skip(1).rev() {
        (p, q) = (p + cell.p, q + cell.q);
        let signal = k as f64 * (p - q) / sqrt(t as f64 * q * (1.0 - q) + 1.0);
        if q > 0.0 && q < 1.0 && p > q && p < 1.0 {
            chances.push((signal, q, p));
        }
    }
    chances.sort_by(|a, b| b.0.total_cmp(&a.0));
    for &(_, q, p) in chances.iter().take(THRESHOLDS.1) {
        found.extend(number((k, t), (q, p), 1e-6 * delta));
    }
    let strength = |pairs: &[Box<dyn Pair>; 2]| {
        pairs.iter().map(|pair| reached(&**pair, delta)).fold(0.0, f64::max)
    };
    let best = found.into_iter().max_by(|a, b| strength(a).total_cmp(&strength(b)));
    best.unwrap_or_else(|| [nothing(), nothing()])
}

/// A pair that tells nothing.
pub(crate) fn nothing() -> Box<dyn Pair> {
    Box::new(Atoms::new(vec![(0.0, 1.0)], 0.0))
}

/// The number of large losses, with outcomes of mass `outside` left out; `None` if it takes too
/// many values.
fn number((k, t): (u64, u64), (q, p): (f64, f64), outside: f64) -> Option<[Box<dyn Pair>; 2]> {
    // The probabilities are good to about 1e-13; with more in the first and less in the second the
    // two laws are closer.
    let (q, p) = (q * (1.0 + 1e-12), p * (1.0 - 1e-12));
    let own = binomial::bulk(k, p, outside);
    let (first, last) = binomial::bulk(t, q, outside);
    let last = (last + own.1).min(t);
    if (last - first + 1).saturating_mul(own.1 - own.0 + 1) > WORK {
        return None;
    }
    let own: Vec<(u64, f64)> = (own.0..=own.1).map(|j| (j, binomial::pmf(k, j, p))).collect();
    let rest: Vec<f64> = (0..=last.min(t - k)).map(|c| binomial::pmf(t - k, c, q)).collect();
    let (mut forth, mut back) = (Vec::new(), Vec::new());
    for c in first..=last {
        let with: f64 = own
            .iter()
            .filter(|(j, _)| *j <= c)
            .map(|(j, mass)| mass * rest.get((c - j) as usize).copied().unwrap_or(0.0))
            .sum();
        let without = binomial::pmf(t, c, q);
        // For the other direction what is left out is added: the device then tells less.
        let more = with + outside;
        if with > 1e-280 && without > 1e-280 {
            forth.push((ln(with / without) - TRUST, with * (1.0 - TRUST)));
            back.push((ln(without / more) - TRUST, without * (1.0 - TRUST)));
        }
    }
    Some([Box::new(Atoms::new(forth, 0.0)), Box::new(Atoms::new(back, 0.0))])
}

/// About the epsilon that a pair certainly has at `delta`; to choose by, not to report.
fn reached(pair: &dyn Pair, delta: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while pair.hockey_stick(high).0 > delta && high < 1e3 {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..12 {
        let middle = 0.5 * (low + high);
        *(if pair.hockey_stick(middle).0 > delta { &mut low } else { &mut high }) = middle;
    }
    low
}
