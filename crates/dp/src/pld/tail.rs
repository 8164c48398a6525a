//! From a composed law to delta, and from delta to epsilon.

use super::law::Law;
use super::plan::End;
use crate::math::search::crossing;
use crate::math::{exp, ln};

/// A bound on the relative error of a step's masses: a few dozen roundings each.
const MASS_TRUST: f64 = 2e-14;

/// The delta of a composed law, as a function of epsilon.
pub(super) struct Tail {
    law: Law,
    tilt: f64,
    end: End,
    /// Sums over the losses from `l_j` on, of the masses times `e^(-tilt (l - l_j))`.
    above: Vec<f64>,
    /// The same times `e^-(l - l_j)`.
    shrunk: Vec<f64>,
    ln_scale: f64,
    /// How far delta may be off, at a tilted distance of 0.
    error: f64,
}

impl Tail {
    /// Of the composition of `total` steps.
    pub(super) fn new(law: Law, tilt: f64, total: f64, end: End) -> Self {
        let length = law.mass.len();
        let (mut above, mut shrunk) = (vec![0.0; length], vec![0.0; length]);
        let (decay, faster) = (exp(-tilt * law.step), exp(-(tilt + 1.0) * law.step));
        let (mut a, mut b) = (0.0, 0.0);
        for j in (0..length).rev() {
            a = law.mass[j] + a * decay;
            b = law.mass[j] + b * faster;
            (above[j], shrunk[j]) = (a, b);
        }
        let sign = if end == End::Upper { 1.0 } else { -1.0 };
        // An error of the law moves delta by the largest value of e^(-tilt y) (1 - e^-y).
        let kernel = exp(tilt * ln(tilt / (1.0 + tilt))) / (1.0 + tilt);
        let error = sign * law.error * kernel;
        let ln_scale = law.ln_scale + sign * MASS_TRUST * total;
        Self { law, tilt, end, above, shrunk, ln_scale, error }
    }

    /// `ln` of the delta at `epsilon`, on the side of the wanted end.
    pub(super) fn ln_delta(&self, epsilon: f64) -> f64 {
        let (law, tilt, length) = (&self.law, self.tilt, self.law.mass.len());
        let next = ((epsilon / law.step).floor() as i64).saturating_add(1 - law.first);
        let j = next.clamp(0, length as i64) as usize;
        let (sum, at) = if j < length {
            let at = law.loss(j);
            let sum = self.above[j] - self.shrunk[j] * exp(epsilon - at);
            (sum + self.error * exp(tilt * (at - epsilon)), at)
        } else {
            (self.error, epsilon)
        };
        match self.end {
            // Overflow far from the saddle point says nothing: choose the side that claims less.
            End::Upper if sum.is_nan() => f64::MAX,
            End::Lower | End::JumpsOnly if !(sum > 0.0 && sum.is_finite()) => f64::MIN,
            _ if sum <= 0.0 => f64::MIN,
            _ => self.ln_scale - tilt * at + ln(sum),
        }
    }

    /// The largest loss, and at least one step.
    pub(super) fn top(&self) -> f64 {
        self.law.loss(self.law.mass.len() - 1).max(self.law.step)
    }

    /// The smallest loss.
    pub(super) fn bottom(&self) -> f64 {
        self.law.loss(0)
    }

    /// The smallest epsilon whose delta is at most `delta`.
    pub(super) fn epsilon(&self, delta: f64) -> Option<f64> {
        if !(delta > 0.0) {
            return Some(f64::INFINITY);
        }
        let target = ln(delta);
        let excess = |epsilon: f64| self.ln_delta(epsilon) - target;
        match self.end {
            End::Upper => solve_upper(excess, self.top()),
            End::Lower | End::JumpsOnly => solve_lower(excess, self.bottom(), self.top()),
        }
    }
}

/// A point at which `excess` is not above 0, near the smallest one.
pub(super) fn solve_upper(excess: impl Fn(f64) -> f64, top: f64) -> Option<f64> {
    if excess(0.0) <= 0.0 {
        return Some(0.0);
    }
    // Beyond the law only the error term keeps delta above 0; it shrinks like e^(-tilt epsilon).
    let mut high = top;
    for _ in 0..40 {
        if excess(high) <= 0.0 {
            return Some(crossing(excess, (0.0, 1.0), (high, -1.0), 1e-11, 1e-13).high);
        }
        high *= 1.5;
    }
    None
}

/// A point at which `excess` is above 0, near the largest one; `None` if none was found. Far below
/// the saddle point the error term hides everything, so the search starts from above.
pub(super) fn solve_lower(excess: impl Fn(f64) -> f64, bottom: f64, top: f64) -> Option<f64> {
    const PARTS: u32 = 200;
    let point = |j: u32| top - (top - bottom) * f64::from(j) / f64::from(PARTS);
    let found = (0..=PARTS).find(|j| excess(point(*j)) > 0.0)?;
    if found == 0 {
        return Some(top);
    }
    let (low, high) = ((point(found), 1.0), (point(found - 1), -1.0));
    Some(crossing(excess, low, high, 1e-11, 1e-13).low)
}
