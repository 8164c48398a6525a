//! The likelihood ratio of one release: with the device against without it, under the law without
//! it. Its mean is 1, but for outcomes that only the device makes possible.

use super::law::{Cells, End, Law};
use crate::math::normal::{density, quantile_of_ln_upper_tail, upper_tail};
use crate::math::{binomial, down, exp, expm1, ln, ln_sampled, log1p, up};
use crate::pld::mixture::Mixture;
use crate::pld::pair::{Atoms, Laplace, Pair, Sampled};
use crate::{Bracket, Error, closed};

/// The part of delta that each trimming may cost; there are fewer than a hundred.
pub(super) const TRIM: f64 = 1e-5;

/// Relative error of a cell's mass, in addition to that of the square in the exponent: a few dozen
/// roundings.
const MASS_TRUST: f64 = 1e-14;

/// The same for masses that were given.
const GIVEN_TRUST: f64 = 2e-13;

/// The relative rounding error of the few operations in a closed form.
const ROUNDING: f64 = 1e-14;

/// Gauss-Legendre nodes and weights (halved: they sum to 1/2), eight points.
const NODES: [(f64, f64); 4] = [
    (0.183_434_642_495_649_8, 0.181_341_891_689_181),
    (0.525_532_409_916_329, 0.156_853_322_938_943_65),
    (0.796_666_477_413_626_7, 0.111_190_517_226_687_24),
    (0.960_289_856_497_536_3, 0.050_614_268_145_188_13),
];

/// What a release does.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    /// Gaussian noise of `sigma` times the distance: `ln Y` is normal with variance `1/sigma^2`.
    Gaussian {
        /// In units of the distance.
        sigma: f64,
    },
    /// Laplace noise; `ratio` is the distance over the scale, and the largest loss.
    Laplace {
        /// In units of the scale.
        ratio: f64,
    },
    /// Finitely many losses.
    Atoms(Outcomes),
}

/// The outcomes of a release with finitely many losses.
#[derive(Clone, Debug)]
pub(crate) struct Outcomes {
    /// (loss, probability without the device).
    pub(crate) atoms: Vec<(f64, f64)>,
    /// All losses are multiples of this.
    pub(crate) unit: f64,
    /// The probability without the device of what the device makes impossible, or of outcomes that
    /// are left out.
    pub(crate) zero: f64,
    /// The probability with the device of what only the device makes possible, or of outcomes that
    /// are left out.
    pub(crate) alone: f64,
}

impl Outcomes {
    /// Anything that is `(epsilon, delta)`-differentially private: the worst pair has four outcomes
    /// (Kairouz, Oh, Viswanath 2015).
    pub(crate) fn claim(epsilon: f64, delta: f64) -> Self {
        // The grid needs more than one loss.
        let epsilon = epsilon.max(1e-9);
        let (yes, no) = (1.0 / (1.0 + exp(epsilon)), 1.0 / (1.0 + exp(-epsilon)));
        let rest = 1.0 - delta;
        Self {
            atoms: vec![(-epsilon, rest * no), (epsilon, rest * yes)],
            unit: epsilon,
            zero: delta,
            alone: delta,
        }
    }
}

/// A ratio of mean 1 that is put on a grid.
pub(super) trait Ratio {
    /// `ln` of the smallest and the largest ratio, but for almost no mass.
    fn range(&self, terms: f64, delta: f64) -> (f64, f64);

    /// The relative error of the masses of [`Ratio::law`].
    fn trust(&self, range: (f64, f64)) -> f64;

    /// The law on a grid of about `points` points.
    fn law(&self, range: (f64, f64), points: f64, end: End) -> Law;
}

impl Slot {
    /// The epsilon of one release at `delta`; the upper end may be infinite.
    pub(super) fn plain(&self, delta: f64) -> Result<Bracket, Error> {
        match self {
            Self::Gaussian { sigma } => closed::gaussian_epsilon(*sigma, delta),
            Self::Laplace { ratio } => {
                let upper = closed::laplace_epsilon(1.0, *ratio, delta)?;
                Ok(Bracket { lower: down(upper, 4.0 * ROUNDING).max(0.0), upper })
            }
            Self::Atoms(outcomes) if outcomes.alone > 0.0 || outcomes.zero > 0.0 => {
                Ok(Bracket { lower: 0.0, upper: f64::INFINITY })
            }
            Self::Atoms(_) => Ok(Bracket { lower: 0.0, upper: self.range(1.0, delta).1 }),
        }
    }

    /// The same without outcomes that only one of the two laws has, for lower ends.
    pub(super) fn finite(&self) -> Self {
        match self {
            Self::Atoms(of) => Self::Atoms(Outcomes { zero: 0.0, alone: 0.0, ..of.clone() }),
            other => other.clone(),
        }
    }

    /// One release in which the device takes part with probability `rate`, as a pair.
    pub(super) fn sampled(&self, rate: f64, reversed: bool) -> Box<dyn Pair> {
        match self {
            Self::Gaussian { sigma } => {
                Box::new(Mixture::sampled_gaussian(rate, *sigma, 1.0, reversed))
            }
            Self::Laplace { ratio } => {
                Box::new(Sampled { rate, of: Laplace { ratio: *ratio }, reversed })
            }
            Self::Atoms(outcomes) => Box::new(outcomes.sampled(rate, reversed)),
        }
    }
}

impl Ratio for Slot {
    fn range(&self, terms: f64, delta: f64) -> (f64, f64) {
        match self {
            Self::Gaussian { sigma } => {
                // Below the bottom with a probability of TRIM delta/slots; above the top, with Y as
                // a density, of TRIM delta.
                let z = quantile_of_ln_upper_tail(ln(TRIM * delta) - ln(terms));
                let x = quantile_of_ln_upper_tail(ln(TRIM * delta));
                let half = 0.5 / sigma;
                (-(half + z) / sigma, (half + x) / sigma)
            }
            Self::Laplace { ratio } => (-ratio, *ratio),
            Self::Atoms(Outcomes { atoms, .. }) => {
                let fold = |start: f64, f: fn(f64, f64) -> f64| {
                    atoms.iter().fold(start, |end, (loss, _)| f(end, *loss))
                };
                (fold(f64::INFINITY, f64::min), fold(f64::NEG_INFINITY, f64::max))
            }
        }
    }

    fn trust(&self, (bottom, top): (f64, f64)) -> f64 {
        match self {
            Self::Gaussian { sigma } => {
                let quantile = |ln_y: f64| (ln_y * sigma + 0.5 / sigma).abs();
                let farthest = quantile(top).max(quantile(bottom));
                MASS_TRUST + f64::EPSILON * 4.0 * farthest * farthest
            }
            Self::Laplace { .. } => MASS_TRUST,
            Self::Atoms(_) => GIVEN_TRUST,
        }
    }

    fn law(&self, (bottom, top): (f64, f64), points: f64, end: End) -> Law {
        match self {
            Self::Gaussian { sigma } => gaussian(*sigma, (bottom, top), points, end),
            Self::Laplace { ratio } => laplace(*ratio, points, end),
            Self::Atoms(outcomes) => outcomes.law((bottom, top), points, end),
        }
    }
}

fn gaussian(sigma: f64, (bottom, top): (f64, f64), points: f64, end: End) -> Law {
    // The standard normal quantile of the value with this logarithm.
    let quantile = |ln_y: f64| ln_y * sigma + 0.5 / sigma;
    let width = (top - bottom) / points;
    let first = (bottom / width).floor() as i64;
    let last = (top / width).ceil() as i64;
    let half = 0.5 * width * sigma;
    let growth = expm1(width);
    let parts = NODES.map(|(x, weight)| {
        let upper = |x: f64| expm1(0.5 * width * (1.0 + x)) / growth;
        (half * x, 2.0 * half * weight, upper(-x), upper(x))
    });
    let cell = |k: i64| {
        let (mut total, mut upper) = (0.0, 0.0);
        let middle = quantile((k as f64 + 0.5) * width);
        for (x, weight, left, right) in parts {
            let (p, q) = (weight * density(middle - x), weight * density(middle + x));
            total += p + q;
            upper += p * left + q * right;
        }
        (total, upper)
    };
    let (total, upper) = (first..last).map(cell).unzip();
    let mut law = Cells { width, origin: 0.0, first, total, upper, zero: 0.0 }.rounded(end);
    // Beyond the ends: masses, and how far their means are from the law's own ends.
    let ends = (quantile(first as f64 * width), quantile(last as f64 * width));
    let (below, above) = (upper_tail(-ends.0), upper_tail(ends.1));
    let own = (upper_tail(1.0 / sigma - ends.0), upper_tail(ends.1 - 1.0 / sigma));
    let lack = (below - own.0 * exp(-law.ln_point(0))).max(0.0);
    let excess = match end {
        End::Upper => own.1,
        End::Lower => (own.1 - above * exp(law.ln_point(law.mass.len() - 1))).max(0.0),
    };
    law.fold_ends((below, lack), (above, excess), end);
    law
}

/// The loss is `ratio` with probability `e^-ratio/2` without the device, `-ratio` with probability
/// 1/2, and has the density `e^(-(l + ratio)/2)/4` in between. The ends are points of the grid.
fn laplace(ratio: f64, points: f64, end: End) -> Law {
    let half = (0.5 * points).floor().max(2.0);
    let (width, first) = (ratio / half, -half as i64);
    let quarter = libm::sinh(0.25 * width);
    let (growth, shrink) = (expm1(width), -expm1(-0.5 * width));
    let cell = |k: i64| {
        let start = 0.5 * exp(-0.5 * (k as f64 * width + ratio));
        (start * shrink, start * 4.0 * quarter * quarter / growth)
    };
    let (mut total, mut upper): (Vec<f64>, Vec<f64>) = (first..-first).map(cell).unzip();
    let last = total.len() - 1;
    total[0] += 0.5;
    total[last] += 0.5 * exp(-ratio);
    upper[last] += 0.5 * exp(-ratio);
    Cells { width, origin: 0.0, first, total, upper, zero: 0.0 }.rounded(end)
}

impl Outcomes {
    /// As [`Slot::sampled`].
    fn sampled(&self, rate: f64, reversed: bool) -> Atoms {
        let turned = |loss: f64, q: f64| {
            if reversed { (-loss, q) } else { (loss, q * exp(loss)) }
        };
        let whole = |loss: f64| if rate < 1.0 { ln_sampled(rate, loss) } else { loss };
        let mut atoms: Vec<_> =
            self.atoms.iter().map(|&(loss, q)| turned(whole(loss), q)).collect();
        let mut infinite = if reversed { 0.0 } else { rate * self.alone };
        if rate < 1.0 {
            atoms.push(turned(log1p(-rate), self.zero));
        } else if reversed {
            infinite += self.zero;
        }
        Atoms::new(atoms, infinite)
    }

    fn law(&self, (bottom, top): (f64, f64), points: f64, end: End) -> Law {
        let raw = ((top - bottom) / points).max(f64::MIN_POSITIVE);
        // On the grid, or at least some of them.
        let width = if self.unit > raw {
            self.unit / (self.unit / raw).ceil()
        } else {
            self.unit * (raw / self.unit).floor()
        };
        let first = (bottom / width).round() as i64 - 1;
        let last = (top / width).round() as i64 + 1;
        let (growth, length) = (expm1(width), (last - first) as usize);
        let (mut total, mut upper) = (vec![0.0; length], vec![0.0; length]);
        for &(loss, mass) in &self.atoms {
            let at = loss / width;
            let near = at.round();
            // Rounding must not push a point of the grid below itself.
            let whole = if (at - near).abs() <= 1e-15 * at.abs() { near } else { at.floor() };
            let part = (expm1((at - whole) * width) / growth).clamp(0.0, 1.0);
            let cell = (whole as i64 - first) as usize;
            total[cell] += mass;
            upper[cell] += mass * part;
        }
        let cells = Cells { width, origin: 0.0, first, total, upper, zero: 0.0 };
        let mut law = cells.rounded(end);
        if end == End::Upper {
            law.zero += self.zero;
            law.cut += up(self.alone, 1e-9);
        }
        law
    }
}

/// The ratio of one slot times the number of contributions to it, over its mean: the ratio of a
/// slot whose count is seen.
#[derive(Debug)]
pub(super) struct Counted<'a> {
    pub(super) slot: &'a Slot,
    /// How many contributions there are in all.
    pub(super) total: u64,
    pub(super) slots: u64,
}

impl Counted<'_> {
    /// The counts that occur but for a probability of `outside`.
    fn bulk(&self, outside: f64) -> (u64, u64) {
        binomial::bulk(self.total, 1.0 / self.slots as f64, outside)
    }

    fn ln_over_mean(&self, count: u64) -> f64 {
        ln(count as f64) + ln(self.slots as f64) - ln(self.total as f64)
    }
}

/// The probability of the counts of a slot that are not looked at one by one.
const COUNTS_OUTSIDE: f64 = 1e-20;

impl Ratio for Counted<'_> {
    fn range(&self, terms: f64, delta: f64) -> (f64, f64) {
        let (bottom, top) = self.slot.range(terms, delta);
        let (first, last) = self.bulk(COUNTS_OUTSIDE);
        (bottom + self.ln_over_mean(first.max(1)), top + self.ln_over_mean(last))
    }

    fn trust(&self, range: (f64, f64)) -> f64 {
        self.slot.trust(range) + GIVEN_TRUST
    }

    /// An upper end only.
    fn law(&self, (bottom, top): (f64, f64), points: f64, end: End) -> Law {
        let (first, last) = self.bulk(COUNTS_OUTSIDE);
        let (low, high) = (self.ln_over_mean(first.max(1)), self.ln_over_mean(last));
        let own = (bottom - low, top - high);
        let one = self.slot.law(own, (points * (own.1 - own.0) / (top - bottom)).max(16.0), end);
        let growth = expm1(one.width);
        let (from, to) = ((low / one.width).floor(), (high / one.width).ceil() + 1.0);
        let mut counts = vec![0.0; (to - from) as usize + 1];
        let p = 1.0 / self.slots as f64;
        for count in first.max(1)..=last {
            let mass = binomial::pmf(self.total, count, p);
            let at = self.ln_over_mean(count) / one.width - from;
            let part = (expm1((at - at.floor()) * one.width) / growth).clamp(0.0, 1.0);
            counts[at as usize] += mass * (1.0 - part);
            counts[at as usize + 1] += mass * part;
        }
        let mut mass = vec![0.0; one.mass.len() + counts.len()];
        for (j, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            for (total, y) in mass[j..].iter_mut().zip(&one.mass) {
                *total += count * y;
            }
        }
        // Counts below the first move to 0, those above the last to it: either lowers the mean.
        let top = counts.len() - 1;
        let beyond = binomial::upper_tail(self.total, p, last + 1);
        for (total, y) in mass[top..].iter_mut().zip(&one.mass) {
            *total += beyond * y;
        }
        let missing = binomial::lower_tail(self.total, p, first) * exp(low)
            + binomial::upper_tail(self.total.saturating_sub(1), p, last);
        let none = binomial::lower_tail(self.total, p, first.max(1));
        let zero = none + one.zero * (1.0 - none);
        let cut = one.cut + missing;
        Law { width: one.width, origin: 0.0, first: one.first + from as i64, mass, zero, cut }
    }
}
