//! Attacks: exact deltas of real crowds, which are lower bounds on the worst case.

use super::halves::Pair;
use super::search::{Estimate, FINE, Side, root};
use super::weights::{self, Weights};
use super::{NEGLIGIBLE, OUTSIDE, amplifies};
use crate::math::{down, exp, expm1, log1p, sqrt};

/// Relative rounding of the terms.
const ROUNDING: f64 = 1e-12;

/// The largest standard deviation of a count that is considered; larger crowds get no lower end.
const DEVIATION: f64 = 32_768.0;

/// k-ary randomized response where all others hold something other than `x0`, and only the number
/// of reports of `x0` is considered: `Bin(n - 1, p)` plus the device's own, which is `x0` with
/// probability `e^epsilon0 p` or `p`.
struct OneSymbol {
    /// `p` and `1 - p`; `e^epsilon0 p` and `1 - e^epsilon0 p`.
    rare: (f64, f64),
    likely: (f64, f64),
    others: u64,
    weights: Weights,
}

impl OneSymbol {
    /// The divergence of "holds `x0`" from "holds another", or the reverse.
    fn estimate(&self, epsilon: f64, backwards: bool) -> Estimate {
        let grown = exp(epsilon);
        let (first, second) =
            if backwards { (self.rare, self.likely) } else { (self.likely, self.rare) };
        let (mut value, mut other, mut size) = (0.0, 0.0, 0.0);
        let mut add = |without: f64, with: f64| {
            // Neither sum cancels; their difference is positive, so its error is relative to
            // `mine`.
            let mine = first.0 * without + first.1 * with;
            let theirs = second.0 * without + second.1 * with;
            let excess = mine - grown * theirs;
            if excess > 0.0 {
                value += excess;
                other += theirs;
                size += mine;
            }
        };
        // `j` reports come from `j - 1` of the others and the device's, or from `j` of the others.
        // At the ends of the table one of the two is missing: those terms are left out, which
        // lowers the sum, unless the table ends where the law does.
        let values = &self.weights.values;
        for pair in values.windows(2) {
            add(pair[0], pair[1]);
        }
        if let (0, Some(edge)) = (self.weights.first, values.first()) {
            add(0.0, *edge);
        }
        if let (true, Some(edge)) = (self.weights.last() == self.others, values.last()) {
            add(*edge, 0.0);
        }
        let error = 2.0 * (ROUNDING + weights::drift(self.weights.values.len())) * size;
        Estimate { value, error, slope: -grown * other }
    }
}

/// A lower bound on the epsilon of `n` shuffled reports of k-ary randomized response with the worst
/// inputs of the others: the best of three attacks. Each sums only a part of the true divergence,
/// minus the rounding. This function does not use any upper bound, so the two ends check each
/// other.
pub(super) fn lower_end(epsilon0: f64, k: u64, n: u64, delta: f64) -> f64 {
    if n == 1 {
        return alone(epsilon0, k, delta);
    }
    if !amplifies(epsilon0, n) {
        return 0.0;
    }
    let a = expm1(epsilon0);
    let (k, p) = (k as f64, 1.0 / (a + k as f64));
    let crowd = |q: f64| weights::crowd(n, q, 1.0 - q, DEVIATION);
    if crowd(p) < n || crowd(2.0 * p) < n {
        return 0.0;
    }
    let outside = (OUTSIDE * delta).max(NEGLIGIBLE);
    let mut best = 0.0;
    if k > 2.0 {
        // All others hold a third symbol.
        let kappa = (k - 2.0) / (a + k - 2.0);
        let rest = (a + k - 2.0) * p;
        let pair = Pair::new(epsilon0, n, (2.0 * p, rest), kappa, outside);
        best = root(|x| pair.estimate(x), delta, epsilon0, pair.guess(delta), Side::Lower, FINE);
    }
    let rest = (a + k - 1.0) * p;
    let one = OneSymbol {
        rare: (p, rest),
        likely: ((a + 1.0) * p, (k - 1.0) * p),
        others: n - 1,
        weights: Weights::new(n - 1, p, rest, outside),
    };
    let distance = a * p / sqrt((n - 1) as f64 * p * rest);
    for backwards in [false, true] {
        if one.estimate(best, backwards).lower() > delta {
            let start = weights::guess(distance, delta).max(best);
            let estimate = |x| one.estimate(x, backwards);
            best = root(estimate, delta, epsilon0, start, Side::Lower, FINE).max(best);
        }
    }
    best
}

/// The exact epsilon of one report alone, rounded down: `(e^epsilon0 - e^epsilon) p = delta`.
fn alone(epsilon0: f64, k: u64, delta: f64) -> f64 {
    let part = delta * (1.0 + (k as f64 - 1.0) * exp(-epsilon0));
    if part < 1.0 { down(epsilon0 + log1p(-part), ROUNDING).max(0.0) } else { 0.0 }
}
