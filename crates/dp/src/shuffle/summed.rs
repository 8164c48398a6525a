//! RAPPOR when only the sum of the reports is seen: how many have each bit set.
//!
//! Then a report is not seen as a whole, so it cannot be recognized by the bit of another symbol,
//! and the crowd hides far better than in a shuffle. Given the inputs, the columns of the sum are
//! independent. Under two values `x` and `x'` of the device all columns but these two have the same
//! law. Column `x` is `P1` against `P0` of [`binary`], column `x'` is `P0` against
//! `P1`, each with its own crowd. So two independent losses of the worst pair there bound both, for
//! all inputs of the others; and if all others hold `x`, both columns have their worst crowd.
//!
//! **A part of the population.** Let the device be one of the `n` with probability `r`, and else
//! another device `i` take its place, with value `v`. Relative to the law in which the device's bits
//! `x` and `x'` are both noise, its column has the ratio `l`, that of `x'` the ratio `l'`, that of
//! `v` the ratio `m`: independent, and `H(e) = E(r l - e r l' - (e - 1)(1 - r) m)_+`, convex in each,
//! so that each may be replaced by the worst ratio. If `v` is neither `x` nor `x'`, the three are
//! then independent and alike. If it is `x'`, then `m` is `l'`: the coefficients of `(l', m)` are
//! `(-(e r + (e - 1)(1 - r)), 0)` instead of `(-e r, -(e - 1)(1 - r))`, which they majorize, and for
//! exchangeable variables that makes a convex mean larger (Marshall, Olkin). If `v` is `x`, those of
//! `(l, m)` become `(r - (e - 1)(1 - r), 0)`, which `(r, -(e - 1)(1 - r))` majorizes: smaller. So
//! the worst case is `v = x'`: `(1 - r) l' + r l` against `l'`, a sampled pair, and
//! `H(e) = r E(l - e' l')_+` with `e' = 1 + (e - 1)/r`.

use super::binary::{self, Worst};
use super::bounds::upper_end;
use super::{Composed, Crowd, OUTSIDE, Randomizer};
use crate::math::{down, exp, ln, ln_sampled, up};
use crate::notion::Bracket;
use crate::pld::pair::Atoms;

/// Bins of the lower end's loss in one standard deviation.
const BINS: f64 = 48.0;

/// The epsilon of a sum of RAPPOR reports with the deletion parameter `epsilon0`, of which the
/// device's is one with probability `share`.
///
/// `lower` is attained if all others hold the device's first value (its second one for a share below
/// 1).
pub(super) fn epsilon(epsilon0: f64, k: u64, crowd: &Crowd, delta: f64) -> Bracket {
    let Crowd { reports, share, .. } = *crowd;
    let (upper, target) = (upper(epsilon0, k, crowd, delta), (delta / share).min(1.0));
    if !super::amplifies(2.0 * epsilon0, reports.max(2)) {
        return Bracket { lower: 0.0, upper };
    }
    let outside = (OUTSIDE * target).max(super::NEGLIGIBLE);
    let column = binary::extreme(epsilon0, reports - 1, share >= 1.0, outside);
    let lower = ln_sampled(share, lower_end(&column, 2.0 * epsilon0, target));
    Bracket { lower: down(lower, 1e-12).clamp(0.0, upper), upper }
}

/// The upper end alone.
pub(super) fn upper(epsilon0: f64, k: u64, crowd: &Crowd, delta: f64) -> f64 {
    // What is seen of a sum is seen in a shuffle.
    let shuffled = upper_end(Randomizer::Rappor { epsilon0, k }, crowd, delta);
    if !super::amplifies(2.0 * epsilon0, crowd.reports.max(2)) {
        return shuffled;
    }
    by_columns(epsilon0, crowd, delta).min(shuffled)
}

/// The bound by the two columns. That by the shuffle may be smaller if the device is there with a
/// small probability only.
pub(super) fn by_columns(epsilon0: f64, crowd: &Crowd, delta: f64) -> f64 {
    let target = (delta / crowd.share).min(1.0);
    let two = Columns::worst(epsilon0, crowd.reports - 1, OUTSIDE * target);
    up(ln_sampled(crowd.share, two.epsilon(target)), 1e-12)
}

/// The law of the loss of one release, for composition.
pub(super) fn composed(epsilon0: f64, crowd: &Crowd, outside: f64) -> Composed {
    let Crowd { reports, share, .. } = *crowd;
    let two = Columns::worst(epsilon0, reports - 1, outside);
    let lower = (share >= 1.0).then(|| {
        let column = binary::extreme(epsilon0, reports - 1, true, outside);
        product(&column)
    });
    Composed { upper: two.sampled(share), outside: two.outside, lower }
}

/// The loss of both columns, on a lattice around 0.
struct Columns {
    step: f64,
    mass: Vec<f64>,
    infinite: f64,
    outside: f64,
}

impl Columns {
    fn worst(epsilon0: f64, others: u64, outside: f64) -> Self {
        let worst = Worst::new(epsilon0, others, outside);
        let (step, one) = worst.lattice();
        let mut mass = vec![0.0; 2 * one.len() - 1];
        for (j, p) in one.iter().enumerate() {
            for (sum, q) in mass[j..].iter_mut().zip(&one) {
                *sum += p * q;
            }
        }
        let infinite = 2.0 * worst.infinite();
        Self { step, mass, infinite, outside: 2.0 * worst.outside() }
    }

    /// (loss, mass) of the losses above 0.
    fn above(&self) -> impl Iterator<Item = (f64, f64)> {
        let middle = self.mass.len() / 2;
        let loss = |(j, p): (usize, &f64)| ((j + 1) as f64 * self.step, *p);
        self.mass[middle + 1..].iter().enumerate().map(loss)
    }

    fn epsilon(&self, delta: f64) -> f64 {
        let fits = |epsilon: f64| {
            let term = |(l, p): (f64, f64)| p * -libm::expm1(epsilon - l).min(0.0);
            self.above().map(term).sum::<f64>() + self.infinite + self.outside <= delta
        };
        let (mut low, mut high) = (0.0, self.step * (self.mass.len() / 2) as f64);
        if !fits(high) {
            return f64::INFINITY;
        }
        if fits(0.0) {
            return 0.0;
        }
        while high - low > 1e-10 * high {
            let middle = 0.5 * (low + high);
            *(if fits(middle) { &mut high } else { &mut low }) = middle;
        }
        high
    }

    /// The pair that runs with probability `share`, against the other law, in the worse direction at
    /// every epsilon: what it has above 0, and the mirror image of that.
    fn sampled(&self, share: f64) -> Atoms {
        let mut atoms = Vec::with_capacity(self.mass.len());
        let mut rest = 1.0;
        for (l, p) in self.above() {
            let (loss, p) = (ln_sampled(share, l), share * p + (1.0 - share) * p * exp(-l));
            atoms.push((loss, p));
            atoms.push((-loss, p * exp(-loss)));
            rest -= p + p * exp(-loss);
        }
        atoms.push((0.0, rest.max(0.0)));
        Atoms::new(atoms, share * self.infinite)
    }
}

/// A lower bound on the epsilon of two independent columns, each with the outcomes (P, Q) by rising
/// ratio.
fn lower_end(column: &[(f64, f64)], largest: f64, delta: f64) -> f64 {
    let mut tails = vec![(0.0, 0.0); column.len() + 1];
    for (j, (p, q)) in column.iter().enumerate().rev() {
        tails[j] = (tails[j + 1].0 + p, tails[j + 1].1 + q);
    }
    let exceeds = |epsilon: f64| {
        let grown = exp(epsilon);
        let (mut sum, mut size, mut from) = (0.0, 0.0, column.len());
        for (p, q) in column {
            while from > 0 && p * column[from - 1].0 > grown * q * column[from - 1].1 {
                from -= 1;
            }
            sum += p * tails[from].0 - grown * q * tails[from].1;
            size += p * tails[from].0;
        }
        sum - 1e-11 * size > delta
    };
    if !exceeds(0.0) {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, largest);
    while high - low > 1e-10 * high {
        let middle = 0.5 * (low + high);
        *(if exceeds(middle) { &mut low } else { &mut high }) = middle;
    }
    low
}

/// Two columns as one law, with neighbouring losses merged.
fn product(column: &[(f64, f64)]) -> Atoms {
    let losses: Vec<(f64, f64, f64)> = column
        .iter()
        .filter(|(p, q)| *p > 0.0 && *q > 0.0)
        .map(|(p, q)| (ln(p / q), *p, *q))
        .collect();
    let variance: f64 = losses.iter().map(|(l, p, _)| p * l * l).sum();
    let step = (libm::sqrt(variance) / BINS).max(1e-15);
    let one = merged(losses, step);
    let pairs = one.iter().flat_map(|a| one.iter().map(|b| (a.0 + b.0, a.1 * b.1, a.2 * b.2)));
    let both = merged(pairs.collect(), step);
    Atoms::new(both.into_iter().map(|(l, p, _)| (l, p)).collect(), 0.0)
}

/// All outcomes whose losses lie in one bin become one.
fn merged(mut losses: Vec<(f64, f64, f64)>, step: f64) -> Vec<(f64, f64, f64)> {
    losses.sort_by(|a, b| a.0.total_cmp(&b.0));
    let bin = |l: f64| (l / step).floor();
    losses
        .chunk_by(|a, b| bin(a.0) == bin(b.0))
        .map(|chunk| {
            let (p, q) = chunk.iter().fold((0.0, 0.0), |sum, x| (sum.0 + x.1, sum.1 + x.2));
            (ln(p / q), p, q)
        })
        .collect()
}
