//! The law of the privacy loss of a crowd, for composition: at least as bad, or at most as bad.
//!
//! With `u = n0 - n1` and `B = b + a S/2` the densities of [`Pair`] are `(B + a u/2)/norm` and
//! `(B - a u/2)/norm`: linear in `(u, B)`. So a law of `(u, B)` that is larger in convex order is at
//! least as bad at every epsilon, and stays so under composition. Given `S = s`, `u` is a sum of `s`
//! signs and `B` is linear in `s`.
//!
//! Neighbouring `s`, of which there may be thousands, make up a cell.
//!
//! - *At least as bad*: `u` gets the signs of the largest `s` of the cell (further signs have mean
//!   0), after which it does not depend on `s`, and `B` goes to the two ends of the cell with its
//!   mean kept.
//! - *At most as bad*: `u` gets the signs of the smallest `s` only, and `B` its mean: the mean of
//!   both given those signs.
//!
//! The losses are then sorted into the gaps of a lattice. What falls into a gap goes to its two ends
//! with the mean of the ratio kept (connect-the-dots), or is merged into one outcome. The pair is
//! symmetric: `-u` has the masses of `u`, exchanged.
//!
//! (A cell has more than one `s` only above 4,000, where no table of signs reaches `u = s`: its
//! entries there would be 2^-4000. So no density becomes negative.)

use super::halves::{Pair, Part};
use super::weights::Weights;
use crate::math::{down, exp, expm1, ln, up};
use crate::pld::pair::Atoms;

/// Gaps of the lattice in one standard deviation of the loss.
const FINENESS: f64 = 64.0;

/// Where reports in the two sets are rare, the deviation is far less than the loss of one of them,
/// of which it is then taken to be this part at least.
const RARE: f64 = 0.1;

/// The most gaps; losses above them count as infinite.
const MOST_GAPS: usize = 1 << 16;

/// Covers the roundings of the masses: products of ratios along two tables. Relative.
const MARGIN: f64 = 1e-10;

/// The largest width of a cell relative to `s`.
const CELL: f64 = 5e-4;

/// The law of the loss, and the mass that it leaves out, which is to be added to delta.
pub(crate) struct Losses {
    pub(crate) atoms: Atoms,
    pub(crate) outside: f64,
}

/// The gaps from 0 on: the masses of P and Q in each. The first one also has the ratio 1.
struct Gaps {
    step: f64,
    /// `e^(i step)`, the upper end of gap i - 1.
    ratios: Vec<f64>,
    masses: Vec<(f64, f64)>,
    /// P-mass above the last gap.
    above: f64,
}

impl Losses {
    /// At least as bad as `pair`.
    pub(super) fn upper(pair: &Pair, outside: f64) -> Self {
        let mut gaps = Gaps::new(pair);
        gaps.fill(pair, outside, true);
        let left_out = pair.outside() + gaps.above + 2.0 * outside;
        let (width, length) = (-expm1(-gaps.step), gaps.masses.len());
        // P-masses at the points; those of the points below 0 follow by symmetry.
        let mut points = vec![0.0; length + 1];
        for (i, (p, q)) in gaps.masses.iter().enumerate() {
            let above = ((p - gaps.ratios[i] * q) / width + 8.0 * f64::EPSILON * p).clamp(0.0, *p);
            points[i] += up(p - above, MARGIN);
            points[i + 1] += up(above, MARGIN);
        }
        let mut atoms = Vec::with_capacity(2 * length + 1);
        // Half of what has the loss 0 is its own mirror image.
        atoms.push((0.0, 2.0 * points[0]));
        for (i, p) in points.iter().enumerate().skip(1) {
            let loss = i as f64 * gaps.step;
            atoms.push((loss, *p));
            atoms.push((-loss, p * exp(-loss)));
        }
        Self { atoms: Atoms::new(atoms, 0.0), outside: left_out }
    }

    /// At most as bad as `pair`.
    pub(super) fn lower(pair: &Pair, outside: f64) -> Atoms {
        let mut gaps = Gaps::new(pair);
        gaps.fill(pair, outside, false);
        let mut atoms = Vec::with_capacity(2 * gaps.masses.len());
        for (p, q) in gaps.masses {
            if p > 0.0 && q > 0.0 {
                let loss = ln(p / q);
                atoms.push((loss, down(p, MARGIN)));
                atoms.push((-loss, down(q, MARGIN)));
            }
        }
        Atoms::new(atoms, 0.0)
    }
}

impl Gaps {
    fn new(pair: &Pair) -> Self {
        let (a, norm) = pair.scale();
        let one = RARE * (a / norm).min(1.0);
        let step = (pair.deviation().max(one) / FINENESS).max(1e-15);
        Self { step, ratios: vec![1.0], masses: Vec::new(), above: 0.0 }
    }

    /// Sorts the outcomes with `u >= 0` in; those with `u = 0` with half of their mass.
    fn fill(&mut self, pair: &Pair, outside: f64, upper: bool) {
        let (a, norm) = pair.scale();
        for (parts, table) in pair.by_table() {
            let stride = ((CELL * table.mean) as usize).max(1);
            for (j, cell) in table.values.chunks(stride).enumerate() {
                let first = table.first + (j * stride) as u64;
                let mass: f64 = cell.iter().sum();
                let place = |(i, w): (usize, &f64)| w * i as f64;
                let mean = cell.iter().enumerate().map(place).sum::<f64>() / mass;
                let count = if upper { first + cell.len() as u64 - 1 } else { first };
                let signs = Signs { count, weights: Weights::new(count, 0.5, 0.5, outside) };
                for part in parts {
                    for (base, share) in bases(part, a, (first, cell.len()), mean, upper) {
                        let scale = part.mass * mass * share / norm;
                        self.walk(&signs, scale, base, 0.5 * a);
                    }
                }
            }
        }
    }

    /// All `u >= 0` of a sum of signs.
    fn walk(&mut self, signs: &Signs, scale: f64, base: f64, slope: f64) {
        let (mut gap, first) = (0, signs.weights.first);
        for n0 in signs.count.div_ceil(2).max(first)..=signs.weights.last() {
            let u = (2 * n0 - signs.count) as f64;
            let weight = scale * signs.weights.values[(n0 - first) as usize];
            let weight = if u > 0.0 { weight } else { 0.5 * weight };
            let (p, q) = (base + slope * u, base - slope * u);
            while p > self.ratio(gap + 1) * q && gap < MOST_GAPS {
                gap += 1;
            }
            if gap == MOST_GAPS {
                self.above += weight * p;
                continue;
            }
            let masses = &mut self.masses[gap];
            masses.0 += weight * p;
            masses.1 += weight * q;
        }
    }

    /// `e^(i step)`; makes room for the gaps below it.
    fn ratio(&mut self, i: usize) -> f64 {
        while self.ratios.len() <= i {
            self.ratios.push(exp(self.ratios.len() as f64 * self.step));
            self.masses.push((0.0, 0.0));
        }
        self.ratios[i]
    }
}

/// A sum of so many signs, by the number of those that are positive.
struct Signs {
    count: u64,
    weights: Weights,
}

/// The values of `B` that a cell of `s` gets, with their shares.
fn bases(
    part: &Part,
    a: f64,
    (first, length): (u64, usize),
    mean: f64,
    upper: bool,
) -> impl Iterator<Item = (f64, f64)> {
    let base = |s: f64| (1.0 + 0.5 * a) * s + part.rest(s);
    let (low, last) = (first as f64, (length - 1) as f64);
    let share = if upper && length > 1 { mean / last } else { 1.0 };
    let high = if upper { low + last } else { low + mean };
    [(base(low), 1.0 - share), (base(high), share)].into_iter().filter(|(_, share)| *share > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pld::pair::Pair as _;
    use crate::shuffle::halves::Among;
    use crate::shuffle::randomizer::Randomizer;

    /// The two laws enclose the divergence of the pair, and are close to it.
    #[test]
    fn the_losses_enclose_the_pair() {
        for (randomizer, reports) in [
            (Randomizer::Any { epsilon0: 2.0 }, 40),
            (Randomizer::Any { epsilon0: 0.5 }, 60_000),
            (Randomizer::Response { epsilon0: 1.0, k: 3 }, 30_000),
            (Randomizer::Rappor { epsilon0: 2.0, k: 5 }, 500),
        ] {
            let (classes, among) = (randomizer.classes(), Among { reports, share: 1.0 });
            let pair = Pair::for_losses(&classes, among, 1e-18);
            let upper = Losses::upper(&pair, 1e-18);
            let lower = Losses::lower(&pair, 1e-18);
            for deviations in [0.0, 1.0, 3.0, 6.0] {
                let epsilon = (deviations * pair.deviation()).min(0.9 * classes.ln_weight);
                let truth = pair.estimate(epsilon);
                let (above, below) =
                    (upper.atoms.hockey_stick(epsilon), lower.hockey_stick(epsilon));
                let what =
                    format!("{randomizer:?} {reports} {epsilon}: {truth:?} {above:?} {below:?}");
                assert!(above.1 + upper.outside >= truth.lower(), "{what}");
                assert!(below.0 <= truth.upper() + 1e-15, "{what}");
                assert!(above.1 <= 1.05 * truth.value + 1e-15, "{what}");
                assert!(below.0 >= 0.95 * truth.value - 1e-15, "{what}");
            }
            // All of the mass, and symmetric.
            let all = upper.atoms.cells(&[0.0]);
            let total: f64 = all.iter().map(|cell| cell.p).sum();
            assert!((total - 1.0).abs() < 1e-9, "{randomizer:?}: {total}");
        }
    }
}
