//! The mean of the likelihood ratios of all slots, rounded up and down in convex order.

use super::law::{Budget, Cells, End, Law, Sticks};
use crate::math::normal::{density, quantile_of_ln_upper_tail, upper_tail};
use crate::math::search::crossing;
use crate::math::{exp, expm1, ln, sqrt};

/// The part of delta that each trimming may cost; there are fewer than a hundred.
const TRIM: f64 = 1e-7;

/// Roughly how many products one end may take; this sets the number of points.
const WORK: f64 = 1.6e7;

/// The same for more slots than [`MANY`], where errors add up for longer.
const MORE_WORK: f64 = 6e7;

/// See [`MORE_WORK`].
const MANY: u64 = 1 << 14;

/// The fewest and the most points of a law.
const POINTS: (f64, f64) = (700.0, 2_400.0);

/// How many leading bits of the number of slots are kept: more would cost a convolution each, and
/// move epsilon by less than one part in ten thousand.
const BITS: u32 = 12;

/// The upper end counts more slots than this as this many (fewer are worse), and there is no lower
/// end for them.
const MOST_SLOTS: u64 = 1 << 30;

/// `ln(largest value * slots / delta)` and its inverse must stay below this. Products of masses
/// that underflow, at most 1e-308, then lose less than 1e-30 of what trimming does, for ten million
/// of them at the largest value.
const FARTHEST: f64 = 600.0;

/// The largest `sigma sqrt(slots)`: above it, the spread of the mean is lost in the rounding of the
/// grid.
const NARROWEST: f64 = 1e9;

/// Relative error of a cell's mass, in addition to that of the square in the exponent: a few dozen
/// roundings.
const MASS_TRUST: f64 = 1e-14;

/// Error of the logarithm of a sum: four roundings for each of at most 60 convolutions, and the
/// rounding of logarithms up to [`FARTHEST`].
const VALUE_TRUST: f64 = 4e-13;

/// The relative precision to which the trimmed mass is known.
const TRIM_TRUST: f64 = 1e-2;

/// Gauss-Legendre nodes and weights (halved: they sum to 1/2), eight points.
const NODES: [(f64, f64); 4] = [
    (0.183_434_642_495_649_8, 0.181_341_891_689_181),
    (0.525_532_409_916_329, 0.156_853_322_938_943_65),
    (0.796_666_477_413_626_7, 0.111_190_517_226_687_24),
    (0.960_289_856_497_536_3, 0.050_614_268_145_188_13),
];

/// The likelihood ratio `Y` of one slot: `ln Y` is normal with variance `1/sigma^2`, `E Y = 1`.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    sigma: f64,
    /// `ln` of the range outside of which there is almost no mass.
    bottom: f64,
    top: f64,
}

impl Ratio {
    fn new(sigma: f64, slots: f64, delta: f64) -> Self {
        // Below `bottom` with a probability of TRIM delta/slots; above `top`, with Y as a density,
        // of TRIM delta.
        let z = quantile_of_ln_upper_tail(ln(TRIM * delta) - ln(slots));
        let x = quantile_of_ln_upper_tail(ln(TRIM * delta));
        let half = 0.5 / sigma;
        Self { sigma, bottom: -(half + z) / sigma, top: (half + x) / sigma }
    }

    /// The standard normal quantile of the value with this logarithm.
    fn quantile(&self, ln_y: f64) -> f64 {
        ln_y * self.sigma + 0.5 / self.sigma
    }

    /// The law on a grid of about `points` points.
    fn law(&self, end: End, points: f64) -> Law {
        let width = (self.top - self.bottom) / points;
        let first = (self.bottom / width).floor() as i64;
        let last = (self.top / width).ceil() as i64;
        let half = 0.5 * width * self.sigma;
        let growth = expm1(width);
        let cell = |k: i64| {
            let (mut total, mut upper) = (0.0, 0.0);
            let middle = self.quantile((k as f64 + 0.5) * width);
            for (x, weight) in NODES.iter().flat_map(|(x, w)| [(-x, w), (*x, w)]) {
                let p = 2.0 * half * weight * density(middle + half * x);
                total += p;
                upper += p * expm1(0.5 * width * (1.0 + x)) / growth;
            }
            (total, upper)
        };
        let (total, upper) = (first..last).map(cell).unzip();
        let mut law = Cells { width, first, total, upper }.rounded(end);
        // Mass below the first point moves up to it, mass above the last moves down.
        let ends = (first as f64 * width, last as f64 * width);
        let low = upper_tail(-self.quantile(ends.0));
        law.mass[0] += low;
        law.low += low;
        law.lift += low * exp(ends.0);
        if let Some(top) = law.mass.last_mut() {
            *top += upper_tail(self.quantile(ends.1));
        }
        law.cut += upper_tail(self.quantile(ends.1) - 1.0 / self.sigma);
        law
    }
}

/// One end of the law of the mean ratio `L`.
#[derive(Debug)]
pub(super) struct Mean {
    sticks: Sticks,
    end: End,
    /// Relative error of its masses.
    trust: f64,
    delta: f64,
}

impl Mean {
    /// `None` where sigma is too small or too large for the grid.
    pub(super) fn new(slots: u64, sigma: f64, delta: f64, end: End) -> Option<Self> {
        if end == End::Lower && slots > MOST_SLOTS {
            return None;
        }
        let slots = few_bits(slots.min(MOST_SLOTS), end);
        let terms = slots as f64;
        let mut sigma = sigma;
        if sigma * sqrt(terms) > NARROWEST {
            // More noise is post-processing: less noise still gives a valid upper end.
            if end == End::Lower {
                return None;
            }
            sigma = NARROWEST / sqrt(terms);
        }
        let ratio = Ratio::new(sigma, terms, delta);
        let reach = ratio.top.max(-ratio.bottom) - ln(delta) + ln(terms);
        if reach.is_nan() || reach >= FARTHEST {
            return None;
        }
        let rounds = slots.ilog2() + 2 * (slots.count_ones() - 1);
        let work = if slots > MANY { MORE_WORK } else { WORK };
        let points = sqrt(2.0 * work / f64::from(rounds.max(1))).clamp(POINTS.0, POINTS.1).floor();
        let law = sum(ratio.law(end, points), slots, delta, end, (1.1 * points) as usize);
        // A term's mass is off by its own error and that of the square of its quantile; each
        // convolution adds the rounding of sums of `points` positive terms, and doubles the earlier
        // error.
        let quantile = ratio.quantile(ratio.top).max(-ratio.quantile(ratio.bottom));
        let each = MASS_TRUST + f64::EPSILON * (4.0 * quantile * quantile + 2.0 * points);
        Some(Self { sticks: Sticks::new(law, terms), end, trust: expm1(terms * each), delta })
    }

    /// A bound (from this end's side) on the divergence of the allocation from none,
    /// `E(L - e^epsilon)_+`.
    pub(super) fn forward(&self, epsilon: f64) -> f64 {
        let Sticks { law, terms, .. } = &self.sticks;
        let value = self.sticks.forward(epsilon);
        match self.end {
            // Large values that were moved down are missing; small values that were moved up do no
            // harm.
            End::Upper => value * (1.0 + self.trust) + law.cut * (1.0 + TRIM_TRUST) / terms,
            End::Lower => value * (1.0 - self.trust) - law.lift * (1.0 + TRIM_TRUST) / terms,
        }
    }

    /// The same for the divergence of none from the allocation, `E(1 - e^epsilon L)_+`.
    pub(super) fn backward(&self, epsilon: f64) -> f64 {
        let Sticks { law, terms, .. } = &self.sticks;
        let value = self.sticks.backward(epsilon);
        match self.end {
            // The function is at most 1: small values that were moved up cost their probability.
            End::Upper => value * (1.0 + self.trust) + law.low * (1.0 + TRIM_TRUST),
            // The function has the slope e^epsilon.
            End::Lower => {
                let moved = exp(epsilon) * law.cut / terms;
                value * (1.0 - self.trust) - moved * (1.0 + TRIM_TRUST)
            }
        }
    }

    /// The epsilon at which `divergence` (decreasing) is delta, on this end's side, not above
    /// `most`.
    pub(super) fn solve(&self, divergence: impl Fn(f64) -> f64, most: f64) -> f64 {
        let goal = ln(self.delta);
        let excess = |epsilon: f64| {
            let value = divergence(epsilon);
            if value > 0.0 { ln(value) - goal } else { f64::MIN }
        };
        let first = excess(0.0);
        if most <= 0.0 || first <= 0.0 {
            return 0.0;
        }
        let last = excess(most);
        let (low, high) = if last > 0.0 {
            (most, most)
        } else {
            let found = crossing(excess, (0.0, first), (most, last), 1e-11, 1e-15);
            (found.low, found.high)
        };
        match self.end {
            End::Upper => (high + VALUE_TRUST).min(most),
            End::Lower => (low - VALUE_TRUST).max(0.0),
        }
    }

    /// The epsilon of the worse direction.
    pub(super) fn epsilon(&self, most: f64) -> f64 {
        self.solve(|epsilon| self.forward(epsilon).max(self.backward(epsilon)), most)
    }
}

/// The law of the sum of `slots` values of `law`: by doubling, and adding where a bit is set.
fn sum(law: Law, slots: u64, delta: f64, end: End, points: usize) -> Law {
    // Each trimming costs at most TRIM delta in the whole sum, in which a law of n terms is found
    // slots/n times.
    let budget = |terms: u64| {
        let (terms, all) = (terms as f64, slots as f64);
        Budget { low: TRIM * delta * terms / all, cut: TRIM * delta * terms, points }
    };
    let (mut power, mut terms) = (law, 1u64);
    let mut result: Option<(Law, u64)> = None;
    loop {
        if slots & terms != 0 {
            result = Some(match result {
                None => (power.clone(), terms),
                Some((law, n)) => (law.plus(&power, end, budget(n + terms)), n + terms),
            });
        }
        if slots / 2 < terms {
            break;
        }
        power = power.doubled(end, budget(2 * terms));
        terms *= 2;
    }
    result.map_or(power, |(law, _)| law)
}

/// `slots` with few leading bits set. Fewer slots are worse (see [`super::gaussian`]): rounded down
/// for an upper end, up for a lower one.
fn few_bits(slots: u64, end: End) -> u64 {
    let drop = (u64::BITS - slots.leading_zeros()).saturating_sub(BITS);
    match end {
        End::Upper => (slots >> drop) << drop,
        End::Lower => slots.div_ceil(1 << drop) << drop,
    }
}
