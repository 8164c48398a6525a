//! The pair of laws behind all bounds of this module, and its hockey-stick divergence as passes
//! over a binomial's bulk with a constant number of operations per count.
//!
//! **The pair.** Let `n` devices be alike: each of their reports falls into the first class (of
//! which the device's value is the likelier cause by the factor `w = 1 + a`), the second (the same
//! for the other value), or another one, by the probabilities of [`Classes`]. That is the reference
//! law. With `n0` and `n1` the counts of the first two and `S = n0 + n1`, the laws when the device
//! is one of the `n` and holds the one or the other value have the densities
//!
//! ```text
//! P: (a n0 + b) / norm        Q: (a n1 + b) / norm
//! b = n0 + n1 + w n_both + n_plain + v n_known + still        norm = n + still
//! ```
//!
//! because each of the `n` can be the one in question: with the weight `w` in its own class, `v` in
//! the class *known* (0 for bounds, where the adversary is shown that they are others), and 1
//! elsewhere. (`still` is 0, or `n (1 - r)/r` if the
//! device is one of the `n` with probability `r` only.) Given `S`, `n0 ~ Bin(S, 1/2)`.
//!
//! **`b` is random.** The divergence is the mean of a convex function of `b` and of `(n0, n1)`, so
//! there are three ways to treat it:
//!
//! - *Merged*: `b` at its mean given `S`, `S + kappa (n - S) + still`. This is the law of `(n0, n1)`
//!   alone, so at most as bad; where the other classes do not exist, it is exact.
//! - *Exact*: for every number of known reports and of reports in both classes, which fix `b`, and
//!   leave a binomial for `S`.
//! - *Spread*, for large crowds. Given `S`, `b` is its mean plus two centred binomials of `n - S`
//!   trials (for the second, given the first). More trials make a centred binomial larger in convex
//!   order, so both may have the trials of the smallest `S`: then they do not depend on `S`. And the
//!   counts between two nodes may be split between them with their mean kept. So the whole is an
//!   average over few nodes, each a constant added to `b`.
//!
//! **The sum.** Let `E = e^epsilon - 1`, `g = w - e^epsilon`, `b = s + F`,
//! `B = P(Bin(s-1, 1/2) = m-1)`, `T = P(Bin(s-1, 1/2) >= m)`. Given `S = s`, `P - e^epsilon Q` is
//! positive where `n1 < (a s - E b) / (a (e^epsilon + 1))`, a line in `s`. (Stated for `n1`, which
//! may have to be 0, it does not suffer from an `epsilon` near `ln w`, or from large ones.) With
//! `s - m` the largest such `n1`, and `n0 P(Bin(s, 1/2) = n0) = (s/2) P(Bin(s-1, 1/2) = n0-1)`, the
//! sum over `n0 >= m` is
//!
//! ```text
//! ( (g s - E F) B / 2 - E (F + (1 + a/2) s) T ) / norm
//! ```
//!
//! As `s` falls by one, `m` falls by one or stays (the line's slope is between 0 and 1/2), and
//! Pascal's triangle updates `B` and `T`. Any `m` other than the best would only make the sum
//! smaller.

use super::randomizer::Classes;
use super::search::Estimate;
use super::weights::{self, Weights};
use crate::math::{binomial, exp, expm1, sqrt};

/// Relative rounding of the terms and of the place of the line. A misplaced `m` costs the
/// difference of the densities at the line, zero but for rounding: some ulps of the terms, times
/// `e^epsilon / g` at most. Where that is large, the line is at `n1 >= 1` only for `s` above it,
/// and `2^-s` vanishes beyond 1,100.
const ROUNDING: f64 = 4e-12;

/// Absolute error that stands for anything lost to underflow.
const UNDERFLOW: f64 = 1e-300;

/// A common factor is taken out of `B`, `T` and the sums when `B` grows beyond this (2^400).
const BIG: f64 = 2.582_249_878_086_909e120;
const LN_BIG: f64 = 400.0 * std::f64::consts::LN_2;

/// The most operations of one pass over all parts for which the counts are exact.
const EXACT: f64 = 30_000.0;

/// By how much the distance between nodes may raise the variance, relative to it.
const SPREAD: f64 = 1e-6;

/// The same for composition, where every node costs a law.
const COMPOSED_SPREAD: f64 = 2e-4;

/// The most operations of one pass over all nodes.
const MOST_WORK: f64 = 200_000.0;

/// The most outcomes for composition.
const COMPOSED_WORK: f64 = 2e6;

/// What is seen: `reports` devices, of which the one in question is one with probability `share`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Among {
    pub(super) reports: u64,
    pub(super) share: f64,
}

impl Among {
    /// `n (1 - r)/r`, rounded down.
    fn still(self) -> f64 {
        (self.reports as f64 * ((1.0 - self.share) / self.share)) * (1.0 - 4.0 * f64::EPSILON)
    }
}

/// The pair, as defined in the module documentation.
#[derive(Debug)]
pub(super) struct Pair {
    ln_weight: f64,
    norm: f64,
    distance: f64,
    tables: Vec<Weights>,
    parts: Vec<Part>,
    /// What lies outside the tables of the classes that make `b` random, as a part of P.
    outside: f64,
}

/// With probability `mass`, `b = s + kappa (reports - s) + offset`, and `s` has the law of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) mass: f64,
    pub(super) table: usize,
    pub(super) reports: f64,
    pub(super) kappa: f64,
    pub(super) offset: f64,
}

impl Part {
    /// `b - s`.
    pub(super) fn rest(&self, s: f64) -> f64 {
        self.kappa * (self.reports - s) + self.offset
    }
}

/// Sums over `s` of the weight times `s` (`near`) or `F` (`far`) times `B`, `T` and the error of
/// `T`.
#[derive(Default)]
struct Sums {
    near: [f64; 3],
    far: [f64; 3],
    /// The logarithm of the factor by which all of them are to be multiplied.
    ln_scale: f64,
    /// Relative error of the scale.
    drift: f64,
}

/// `epsilon` in the forms in which the sum needs it.
struct At {
    grown: f64,
    excess: f64,
    gap: f64,
    /// `a (e^epsilon + 1)`.
    scale: f64,
}

impl Pair {
    /// The law of the first two classes alone.
    pub(super) fn merged(classes: &Classes, among: Among, outside: f64) -> Self {
        let (n, two) = (among.reports as f64, 2.0 * classes.apart);
        let weight = exp(classes.ln_weight);
        let others = weight * classes.both + classes.plain + classes.known_weight * classes.known;
        let kappa = others / (1.0 - two);
        let still = among.still();
        let part = Part { mass: 1.0, table: 0, reports: n, kappa, offset: still };
        let table = Weights::new(among.reports, two, 1.0 - two, outside);
        Self::new(classes, among, vec![table], vec![part], 0.0)
    }

    /// At least as bad as what is seen, and close to it around `epsilon`. About `outside` of P is
    /// left out of the sums and added.
    pub(super) fn full(classes: &Classes, among: Among, epsilon: f64, outside: f64) -> Self {
        let outside = 0.25 * outside;
        if classes.is_fixed() {
            return Self::merged(classes, among, outside);
        }
        if work(classes, among) <= EXACT {
            Self::exact(classes, among, outside)
        } else {
            Self::spread(classes, among, epsilon, (SPREAD, MOST_WORK), outside)
        }
    }

    /// At most as bad as what is seen, and exact if the crowd is small.
    pub(super) fn real(classes: &Classes, among: Among, outside: f64) -> Self {
        if work(classes, among) <= 3.0 * EXACT {
            Self::exact(classes, among, outside)
        } else {
            Self::merged(classes, among, outside)
        }
    }

    /// At least as bad as what is seen, in fewer parts than [`Self::full`].
    pub(super) fn for_losses(classes: &Classes, among: Among, outside: f64) -> Self {
        if classes.is_fixed() {
            return Self::merged(classes, among, outside);
        }
        // Each count of a table is a sum of as many signs.
        let signs = 13.0 * sqrt(among.reports as f64 * 2.0 * classes.apart) + 1.0;
        if work(classes, among) * signs <= COMPOSED_WORK {
            return Self::exact(classes, among, outside);
        }
        // Composed losses are mostly within a few deviations of each release.
        let merged = Self::merged(classes, among, outside);
        let epsilon = (4.0 * merged.distance).min(classes.ln_weight);
        let limits = (COMPOSED_SPREAD, COMPOSED_WORK / signs);
        Self::spread(classes, among, epsilon, limits, outside)
    }

    /// All counts one by one.
    fn exact(classes: &Classes, among: Among, outside: f64) -> Self {
        let Classes { ln_weight, apart, both, plain, known, known_weight } = *classes;
        let (weight, unknown) = (exp(ln_weight), 2.0 * apart + both + plain);
        let rare = both / unknown;
        let two = 2.0 * apart / (2.0 * apart + plain);
        let all = Weights::new(among.reports, unknown, known, outside);
        let (mut tables, mut parts, mut left_out) = (Vec::new(), Vec::new(), all.outside);
        for (count, mass) in all.entries() {
            let shared = Weights::new(count, rare, 1.0 - rare, outside);
            left_out += mass * shared.outside * (count as f64 / all.mean).max(1.0);
            for (in_both, part) in shared.entries() {
                let reports = count - in_both;
                let seen = known_weight * (among.reports - count) as f64;
                let offset = weight * in_both as f64 + seen + among.still();
                let (table, reports_f) = (tables.len(), reports as f64);
                tables.push(Weights::new(reports, two, plain / (2.0 * apart + plain), outside));
                let (mass, kappa) = (mass * part, 1.0);
                parts.push(Part { mass, table, reports: reports_f, kappa, offset });
            }
        }
        Self::new(classes, among, tables, parts, left_out)
    }

    /// Few nodes, `tolerance` of the variance apart, or as far as `most` operations of one pass
    /// allow. For bounds only, where known reports have no weight.
    fn spread(
        classes: &Classes,
        among: Among,
        epsilon: f64,
        (tolerance, most): (f64, f64),
        outside: f64,
    ) -> Self {
        let mut pair = Self::merged(classes, among, outside);
        let (n, first) = (among.reports, pair.tables[0].first);
        let (trials, others) = (n - first, 1.0 - 2.0 * classes.apart);
        let a = expm1(classes.ln_weight);
        // The probabilities given that the class is neither of the first two; the second one also
        // given that it is not both.
        let rare = classes.both / others;
        let known = classes.known / (others - classes.both);
        let shared = Weights::new(trials, rare, 1.0 - rare, outside);
        let seen = Weights::new(trials, known, 1.0 - known, outside);
        // A node's distance in b against the deviation of a (n0 - e^epsilon n1).
        let deviation = a * (exp(epsilon) + 1.0) * sqrt(n as f64 * 2.0 * classes.apart);
        let mut distance = sqrt(tolerance) * deviation / expm1(epsilon).max(1e-12);
        let strides =
            |distance: f64| (shared.stride(distance / (a + known)), seen.stride(distance));
        let length = pair.tables[0].values.len() as f64;
        let work = |(x, y): (usize, usize)| {
            shared.values.len().div_ceil(x) as f64 * seen.values.len().div_ceil(y) as f64 * length
        };
        while work(strides(distance)) > most && strides(distance) != strides(f64::INFINITY) {
            distance *= 1.5;
        }
        let strides = strides(distance);
        let base = pair.parts[0];
        pair.parts.clear();
        pair.outside = 2.0 * (shared.outside + seen.outside);
        for (in_both, mass) in shared.nodes(strides.0) {
            for (count, part) in seen.nodes(strides.1) {
                let moved = (a + known) * (in_both - shared.mean) - (count - seen.mean);
                let part = Part { mass: mass * part, offset: base.offset + moved, ..base };
                // As s grows, so does b, since kappa is at most 1.
                let least = part.rest(first as f64) + first as f64;
                if least > 0.0 {
                    pair.parts.push(part);
                } else {
                    // Far below the mean, where the dominating law is not a possible one. It has at
                    // most (a n0 - (e^epsilon - 1) b)/norm, and e^epsilon is at most w.
                    pair.outside += part.mass * (1.0 - a * least / pair.norm);
                }
            }
        }
        pair
    }

    fn new(
        classes: &Classes,
        among: Among,
        tables: Vec<Weights>,
        parts: Vec<Part>,
        outside: f64,
    ) -> Self {
        let norm = among.reports as f64 + among.still();
        // The standard deviation of the privacy loss to first order.
        let spread = sqrt(among.reports as f64 * 2.0 * classes.apart);
        let distance = expm1(classes.ln_weight) * spread / norm;
        Self { ln_weight: classes.ln_weight, norm, distance, tables, parts, outside }
    }

    /// The parts that have the same law of `s`, with that law.
    pub(super) fn by_table(&self) -> impl Iterator<Item = (&[Part], &Weights)> {
        let groups = self.parts.chunk_by(|a, b| a.table == b.table);
        groups.map(|parts| (parts, &self.tables[parts[0].table]))
    }

    fn parts(&self) -> impl Iterator<Item = (&Part, &Weights)> {
        self.parts.iter().map(|part| (part, &self.tables[part.table]))
    }

    /// `a`, and the divisor of the densities.
    pub(super) fn scale(&self) -> (f64, f64) {
        (expm1(self.ln_weight), self.norm)
    }

    /// The standard deviation of the privacy loss to first order.
    pub(super) fn deviation(&self) -> f64 {
        self.distance
    }

    /// A bound on the part of P that lies outside the tables.
    pub(super) fn outside(&self) -> f64 {
        let part = |(part, table): (&Part, &Weights)| part.mass * self.left_out(part, table);
        self.outside + self.parts().map(part).sum::<f64>()
    }

    /// What a table leaves out counts in full: `(a s/2 + b)/norm` is at most linear in `s`.
    fn left_out(&self, part: &Part, table: &Weights) -> f64 {
        let near = (1.0 + 0.5 * expm1(self.ln_weight)) * table.mean;
        let far = part.kappa * part.reports + part.offset;
        table.outside * near.max(far) / self.norm
    }

    /// The hockey-stick divergence at `epsilon`, in `0..ln w`. The two directions are mirror
    /// images.
    pub(super) fn estimate(&self, epsilon: f64) -> Estimate {
        let grown = exp(epsilon);
        let gap = grown * expm1(self.ln_weight - epsilon);
        if gap <= 0.0 {
            return Estimate::default();
        }
        let scale = expm1(self.ln_weight) * (grown + 1.0);
        let at = At { grown, excess: expm1(epsilon), gap, scale };
        let mut sum = Estimate { error: self.outside + UNDERFLOW, ..Estimate::default() };
        for (part, table) in self.parts() {
            let found = self.part(part, table, &at);
            sum.value += part.mass * found.value;
            sum.error += part.mass * (found.error + self.left_out(part, table));
            sum.slope += part.mass * found.slope;
        }
        sum.error += weights::drift(self.parts.len()) * sum.value;
        sum
    }

    fn part(&self, part: &Part, table: &Weights, at: &At) -> Estimate {
        let heavy = 1.0 + 0.5 * expm1(self.ln_weight);
        let slope = (at.gap + part.kappa * at.excess) / at.scale;
        let line = at.excess * (part.kappa * part.reports + part.offset) / at.scale;
        let sums = sums(part, table, slope, line);
        let [near_b, near_t, near_error] = sums.near;
        let [far_b, far_t, far_error] = sums.far;
        let gain = 0.5 * at.gap * near_b;
        let loss = 0.5 * at.excess * far_b + at.excess * (far_t + heavy * near_t);
        let error = at.excess * (far_error + heavy * near_error);
        let falling = 0.5 * (near_b + far_b) + far_t + heavy * near_t;
        // Two factors, since the sums may be as large as their common factor is small.
        let root = exp(0.5 * sums.ln_scale);
        let scaled = |x: f64| x * root / self.norm * root;
        let entries = table.values.len();
        let rounding = ROUNDING + 4.0 * f64::EPSILON * entries as f64;
        let value = scaled(gain - loss).max(0.0);
        Estimate {
            value,
            // F may be as low as -s.
            error: scaled(error + rounding * (gain + loss + 2.0 * at.excess * (near_b + near_t)))
                + (sums.drift + weights::drift(entries)) * value,
            slope: -at.grown * scaled(falling),
        }
    }

    /// The starting point for a search.
    pub(super) fn guess(&self, delta: f64) -> f64 {
        weights::guess(self.distance, delta)
    }
}

/// One pass from the largest `s` down, where the outcomes with `n1 < slope * s - line` count. In
/// that direction `T` mostly grows, so that its rounding errors fade; where it does not, they are
/// carried along. The relative error of `B` drifts by 1.5 ulps a step; relative to that, a step adds
/// at most two ulps of what it touches to `T`. The drift itself is common to both (see
/// [`weights::drift`]).
fn sums(part: &Part, table: &Weights, slope: f64, line: f64) -> Sums {
    let mut sums = Sums::default();
    let last = table.last();
    let limit = slope * last as f64 - line;
    if last == 0 || limit <= 0.0 {
        return sums;
    }
    // The largest n1 that counts; m = s - n1.
    let mut n1 = (limit.ceil() - 1.0).max(0.0);
    let m = last as f64 - n1;
    let ln_b = binomial::ln_pmf(last - 1, m as u64 - 1, 0.5);
    let mut b = 1.0;
    let mut tail = tail_over_point(last as f64 - 1.0, m);
    let mut error = 4.0 * f64::EPSILON * tail;
    sums.ln_scale = ln_b;
    sums.drift = 1e-13 - 8e-15 * ln_b;

    let mut s = last as f64;
    for weight in table.values.iter().rev() {
        let (near, far) = (weight * s, weight * part.rest(s));
        sums.near[0] += near * b;
        sums.near[1] += near * tail;
        sums.near[2] += near * error;
        sums.far[0] += far * b;
        sums.far[1] += far * tail;
        sums.far[2] += far.abs() * error;
        s -= 1.0;
        if s < 1.0 {
            break;
        }
        // From Bin(s, 1/2) at m - 1 and from m on, to Bin(s - 1, 1/2).
        let factor = b * (2.0 / s);
        let middle = factor * n1;
        if n1 < slope * s - line {
            // n1 stays, m falls.
            tail += 0.5 * middle;
            b = factor * (s - n1);
        } else if n1 > 0.0 {
            tail = (tail - 0.5 * middle).max(0.0);
            b = middle;
            n1 -= 1.0;
        } else {
            // No outcome counts, here or further down.
            break;
        }
        error += 2.0 * f64::EPSILON * (tail + middle);
        if b > BIG {
            for x in sums.near.iter_mut().chain(&mut sums.far) {
                *x /= BIG;
            }
            (b, tail, error) = (b / BIG, tail / BIG, error / BIG);
            sums.ln_scale += LN_BIG;
        }
    }
    sums
}

/// `P(Bin(c, 1/2) >= m) / P(Bin(c, 1/2) = m - 1)` for `m > c/2`: a series of falling ratios.
fn tail_over_point(c: f64, m: f64) -> f64 {
    let (mut term, mut sum, mut j) = (1.0, 0.0, m);
    while j <= c {
        term *= (c - j + 1.0) / j;
        sum += term;
        // The rest is at most geometric.
        if term * (c - j) <= f64::EPSILON * sum * (2.0 * j + 1.0 - c) {
            break;
        }
        j += 1.0;
    }
    sum
}

/// Operations of one pass if all counts are looked at: of a table, seven deviations on each side.
fn work(classes: &Classes, among: Among) -> f64 {
    let n = among.reports as f64;
    let length = |p: f64| {
        let reach = 7.0 * sqrt(n * p * (1.0 - p)) + 8.0;
        reach.min(n * p + 1.0) + reach.min(n * (1.0 - p))
    };
    let both = if classes.both > 0.0 { length(classes.both) } else { 1.0 };
    length(2.0 * classes.apart) * length(classes.known) * both
}

impl Weights {
    /// How many counts are about `distance`.
    fn stride(&self, distance: f64) -> usize {
        (distance.min(self.values.len() as f64) as usize).max(1)
    }

    /// The counts as (count, mass) at every `stride`-th one: those in between are split between
    /// their neighbours with the mean kept.
    fn nodes(&self, stride: usize) -> Vec<(f64, f64)> {
        let length = self.values.len();
        let mut nodes: Vec<(f64, f64)> = Vec::new();
        let mut at = 0;
        while at < length {
            nodes.push(((self.first + at as u64) as f64, 0.0));
            at = if at + 1 == length { length } else { (at + stride).min(length - 1) };
        }
        for (j, mass) in self.values.iter().enumerate() {
            let (node, between) = (j / stride, j % stride);
            if between == 0 {
                nodes[node].1 += mass;
                continue;
            }
            // The last node may be less than a stride away from the one before.
            let up = between as f64 / (nodes[node + 1].0 - nodes[node].0);
            nodes[node].1 += mass * (1.0 - up);
            nodes[node + 1].1 += mass * up;
        }
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shuffle::randomizer::Randomizer;

    const RANDOMIZERS: [Randomizer; 4] = [
        Randomizer::Response { epsilon0: 2.0, k: 3 },
        Randomizer::Response { epsilon0: 3.0, k: 40 },
        Randomizer::Rappor { epsilon0: 1.5, k: 9 },
        Randomizer::Projective { ln_weight: 3.5, least: 3.5, order: 11, dimension: 3 },
    ];

    /// The nodes of large crowds are at least as bad as all counts one by one, and close to them;
    /// the law of the two classes alone is at most as bad.
    #[test]
    fn nodes_enclose_the_exact_counts() {
        for randomizer in RANDOMIZERS {
            for (reports, rate, share) in [(2_000, 1.0, 1.0), (9_000, 0.1, 1.0), (2_000, 1.0, 0.05)]
            {
                let classes = randomizer.classes().sampled(rate);
                let among = Among { reports, share };
                let merged = Pair::merged(&classes, among, 1e-20);
                let exact = Pair::exact(&classes, among, 1e-20);
                for deviations in [1.0, 4.0, 6.0] {
                    let epsilon = (deviations * merged.distance).min(0.9 * classes.ln_weight);
                    let spread = |tolerance: f64, most: f64| {
                        let limits = (tolerance, most);
                        Pair::spread(&classes, among, epsilon, limits, 1e-20).estimate(epsilon)
                    };
                    let truth = exact.estimate(epsilon);
                    let (fine, rough) = (spread(1e-8, 1e9), spread(1e-2, 1e9));
                    let few = spread(1e-8, 2_000.0);
                    let what = format!("{randomizer:?} {reports} {rate} {share} {epsilon}");
                    assert!(merged.estimate(epsilon).lower() <= truth.upper(), "{what}");
                    for found in [fine, rough, few] {
                        assert!(found.upper() >= truth.lower(), "{what}: {found:?} {truth:?}");
                    }
                    // Six percent of delta are a part in 400 of epsilon.
                    assert!(
                        fine.upper() <= truth.value * 1.06 + 1e-19,
                        "{what}: {fine:?} {truth:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn nodes_keep_mass_and_mean() {
        let table = Weights::new(1_000, 0.3, 0.7, 1e-12);
        for stride in [1, 2, 7, 50, 10_000] {
            let nodes = table.nodes(stride);
            let mass: f64 = nodes.iter().map(|(_, m)| m).sum();
            let mean: f64 = nodes.iter().map(|(count, m)| count * m).sum();
            assert!((mass - 1.0).abs() < 1e-12 && (mean - 300.0).abs() < 1e-8, "{stride}");
            assert_eq!(nodes[nodes.len() - 1].0, table.last() as f64);
        }
    }
}
