//! Attacks: exact deltas of real crowds, which are lower bounds on the worst case.

use super::bounds::seen;
use super::halves::Pair;
use super::randomizer::Randomizer;
use super::search::{COARSE, Estimate, FINE, Side, root};
use super::weights::{self, Weights};
use super::{Crowd, NEGLIGIBLE, OUTSIDE, amplifies};
use crate::math::{down, exp, log1p, sqrt};

/// Relative rounding of the terms.
const ROUNDING: f64 = 1e-12;

/// Only the number of reports of one class is considered: one for each of `others` with probability
/// `p`, and the device's own with one of two probabilities.
struct OneClass {
    others: u64,
    /// The device's probabilities, `likely` and `rare`, each with what is left of 1.
    likely: (f64, f64),
    rare: (f64, f64),
    weights: Weights,
}

impl OneClass {
    /// The divergence of the likely case from the rare one, or the reverse.
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

/// A lower bound on the epsilon of a crowd with the worst inputs of the others: the best of three
/// attacks. Each sums only a part of the true divergence, minus the rounding. This function does not
/// use any upper bound, so the two ends check each other.
///
/// - All others hold a third value, and the reports in the first set only and in the second only
///   are counted ([`Randomizer::third_value`]).
/// - All others hold the device's second value, and the reports in the first set only are counted,
///   in both directions.
pub(super) fn lower_end(randomizer: Randomizer, crowd: &Crowd, delta: f64) -> f64 {
    if let Randomizer::Any { epsilon0 } = randomizer {
        // Randomized response is one of them.
        let of = |k| lower_end(Randomizer::Response { epsilon0, k }, crowd, delta);
        return of(2).max(of(3));
    }
    let randomizer = randomizer.rounded_down();
    let Crowd { reports: n, rate, share } = *crowd;
    if n == 1 {
        return if share < 1.0 { 0.0 } else { alone(randomizer, rate, delta) };
    }
    let (classes, among) = seen(randomizer, crowd);
    if !amplifies(classes.ln_weight, n) || among.reports < n {
        return 0.0;
    }
    let (ceiling, outside) = (classes.ln_weight, (OUTSIDE * delta).max(NEGLIGIBLE));
    let mut best = 0.0;
    if let Some(third) = randomizer.third_value() {
        let pair = Pair::real(&third.sampled(rate), among, outside);
        best = root(|x| pair.estimate(x), delta, ceiling, pair.guess(delta), Side::Lower, COARSE);
    }
    // Of the device's own reports, the share that is not there is an other's.
    let (rare, likely) = (classes.apart, exp(classes.ln_weight) * classes.apart);
    let likely = (1.0 - share) * rare + share * likely;
    let one = OneClass {
        others: n - 1,
        likely: (likely, 1.0 - likely),
        rare: (rare, 1.0 - rare),
        weights: Weights::new(n - 1, rare, 1.0 - rare, outside),
    };
    let distance = (likely - rare) / sqrt((n - 1) as f64 * rare * (1.0 - rare));
    for backwards in [false, true] {
        if one.estimate(best, backwards).lower() > delta {
            let start = weights::guess(distance, delta).max(best);
            let estimate = |x| one.estimate(x, backwards);
            best = root(estimate, delta, ceiling, start, Side::Lower, FINE).max(best);
        }
    }
    best
}

/// The exact epsilon of one report alone, rounded down. Its delta is
/// `(w - e^epsilon) P(in the second set only)`.
fn alone(randomizer: Randomizer, rate: f64, delta: f64) -> f64 {
    let classes = randomizer.classes();
    let part = delta / (rate * classes.apart * exp(classes.ln_weight));
    if part < 1.0 { down(classes.ln_weight + log1p(-part), ROUNDING).max(0.0) } else { 0.0 }
}
