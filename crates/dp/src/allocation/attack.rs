//! What an attacker certainly learns of a device that takes part in `k` of `t` slots: lower ends.
//!
//! The slots are alike, and the device's value moves each of them by all of the distance. Then any
//! statistic gives a lower end (it is post-processing), and two have a law that is easy to compute:
//!
//! - the *sum* of Gaussian releases: N(k, t sigma^2) with the device, N(0, t sigma^2) without;
//! - the *score*: each slot is worth a whole number of points, which grows with its loss, and the
//!   points are added up. With `f` the law of a slot's points without the device and `g` with it, the
//!   sum has the law `f^(t-k) g^k` (a convolution) with the device, and `f^t` without. Points
//!   proportional to `ln(1 + (k/t)(Y - 1))`, the loss of Poisson sampling, tell nearly everything.

use super::Slot;
use crate::math::{exp, expm1, ln, ln_sampled, log1p, sqrt};
use crate::pld::mixture::Mixture;
use crate::pld::pair::{Atoms, Cell, Pair};

/// The most points that all slots together may have, and one of them.
const POINTS: (u64, u64) = (2_048, 64);

/// No score has a smaller part of the smaller tail beyond it than this: masses are differences of
/// tails.
const THIN: f64 = 1e-2;

/// A bound on the relative error of a score's mass: a few dozen ulps of the tail.
const TRUST: f64 = 64.0 * f64::EPSILON / THIN;

/// The largest score has this probability with the device.
const RARE: f64 = 1e-4;

/// The two directions of the better statistic at `delta`. Each of the `k` slots is used with
/// probability `rate`.
pub(crate) fn best(slot: &Slot, (k, t): (u64, u64), rate: f64, delta: f64) -> [Box<dyn Pair>; 2] {
    let mut found: Vec<[Box<dyn Pair>; 2]> = vec![[nothing(), nothing()]];
    if let (Slot::Gaussian { sigma }, true) = (slot, rate == 1.0) {
        let sigma = sigma * sqrt(t as f64) / k as f64;
        found.push([false, true].map(|reversed| -> Box<dyn Pair> {
            Box::new(Mixture::sampled_gaussian(1.0, sigma, 1.0, reversed))
        }));
    }
    if t <= POINTS.0 {
        found.push(score(&*slot.finite().sampled(rate, false), (k, t)));
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

/// The sum of all points.
fn score(slot: &dyn Pair, (k, t): (u64, u64)) -> [Box<dyn Pair>; 2] {
    let share = k as f64 / t as f64;
    let mut sketch = slot.sketch(1e-12);
    sketch.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut above = 0.0;
    let top = sketch.iter().rev().find(|(_, p)| {
        above += p;
        above > RARE
    });
    let bottom = sketch.iter().find(|(_, p)| *p > 0.0);
    let (Some((bottom, _)), Some((top, _))) = (bottom, top) else { return [nothing(), nothing()] };
    let levels = POINTS.1.min(POINTS.0 / t).max(1);
    let (low, high) = (ln_sampled(share, *bottom), ln_sampled(share, *top));
    // The own loss at which the score is half a point below each whole number of points.
    let bounds: Vec<f64> = (1..=levels)
        .map(|j| low + (high - low) * (j as f64 - 0.5) / levels as f64)
        .map(|score| log1p(expm1(score) / share))
        .collect();
    if !bounds.windows(2).all(|pair| pair[0] < pair[1]) {
        return [nothing(), nothing()];
    }
    let kept = thick(&slot.cells(&bounds));
    let cells = slot.cells(&kept.iter().map(|j| bounds[*j]).collect::<Vec<_>>());
    let (mut with, mut without) = (vec![0.0; bounds.len() + 1], vec![0.0; bounds.len() + 1]);
    for (cell, points) in cells.iter().zip(kept.into_iter().chain([bounds.len()])) {
        (with[points], without[points]) = (cell.p.max(0.0), cell.q.max(0.0));
    }
    let rest = power(&without, t - k);
    let (p, q) = (convolved(&rest, &power(&with, k)), convolved(&rest, &power(&without, k)));
    let trust = TRUST * t as f64;
    let (mut forth, mut back) = (Vec::new(), Vec::new());
    for (p, q) in p.into_iter().zip(q) {
        if p > 1e-280 && q > 1e-280 {
            let loss = ln(p / q);
            forth.push((loss - 2.0 * trust, p * exp(-trust)));
            back.push((-loss - 2.0 * trust, q * exp(-trust)));
        }
    }
    [Box::new(Atoms::new(forth, 0.0)), Box::new(Atoms::new(back, 0.0))]
}

/// The bounds between which there is enough mass of both laws.
fn thick(cells: &[Cell]) -> Vec<usize> {
    let all = cells.iter().fold((0.0, 0.0), |sum, cell| (sum.0 + cell.p, sum.1 + cell.q));
    let (mut kept, mut before, mut sum) = (Vec::new(), (0.0, 0.0), (0.0, 0.0));
    let enough = |before: f64, sum: f64, all: f64| {
        sum > 0.0 && sum >= THIN * (before + sum).min(all - before)
    };
    for (j, cell) in cells.iter().enumerate().take(cells.len() - 1) {
        sum = (sum.0 + cell.p, sum.1 + cell.q);
        if enough(before.0, sum.0, all.0) && enough(before.1, sum.1, all.1) {
            kept.push(j);
            (before, sum) = ((before.0 + sum.0, before.1 + sum.1), (0.0, 0.0));
        }
    }
    kept
}

/// The law of the sum of `times` independent values: all terms are positive, so each mass keeps its
/// relative precision.
fn power(law: &[f64], times: u64) -> Vec<f64> {
    let mut result = vec![1.0];
    let (mut square, mut left) = (law.to_vec(), times);
    while left > 0 {
        if left % 2 == 1 {
            result = convolved(&result, &square);
        }
        left /= 2;
        if left > 0 {
            square = convolved(&square, &square);
        }
    }
    result
}

fn convolved(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; a.len() + b.len() - 1];
    for (j, x) in a.iter().enumerate().filter(|(_, x)| **x > 0.0) {
        for (total, y) in sum[j..].iter_mut().zip(b) {
            *total += x * y;
        }
    }
    sum
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
