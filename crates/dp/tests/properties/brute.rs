//! Hockey-stick divergences `H(epsilon) = integral of (p - e^epsilon q)_+`, computed another way
//! than the crate does: Gauss-Legendre quadrature with the sign change cut out by halving, exact
//! sums, and nested expectations. Nothing here is shared with the crate.

use std::f64::consts::PI;
use std::sync::OnceLock;

/// Points of the quadrature rule.
const POINTS: usize = 16;

/// How often an interval with a sign change is halved.
const DEPTH: u32 = 36;

/// How often a panel is halved for precision.
const REFINED: u32 = 10;

/// An absolute error of an integral that is too small to matter: deltas are 1e-10 or more, to be
/// known to 1e-9.
const FLOOR: f64 = 1e-21;

/// The Gauss-Legendre rule on [-1, 1] as (node, weight), by Newton's method on the Legendre
/// polynomial.
fn rule() -> &'static [(f64, f64)] {
    static RULE: OnceLock<Vec<(f64, f64)>> = OnceLock::new();
    RULE.get_or_init(|| {
        let node = |i: usize| {
            let n = POINTS as f64;
            let mut x = (PI * (i as f64 + 0.75) / (n + 0.5)).cos();
            let mut slope = 1.0;
            for _ in 0..60 {
                let (mut before, mut value) = (1.0, x);
                for j in 2..=POINTS {
                    let j = j as f64;
                    (before, value) =
                        (value, ((2.0 * j - 1.0) * x * value - (j - 1.0) * before) / j);
                }
                slope = n * (x * value - before) / (x * x - 1.0);
                x -= value / slope;
            }
            (x, 2.0 / ((1.0 - x * x) * slope * slope))
        };
        (0..POINTS).map(node).collect()
    })
}

/// The integral of `f` over one panel.
fn panel(f: &impl Fn(f64) -> f64, low: f64, high: f64) -> f64 {
    let (middle, half) = (0.5 * (low + high), 0.5 * (high - low));
    rule().iter().map(|(x, w)| w * f(middle + half * x)).sum::<f64>() * half
}

/// The integral of `f` over `[low, high]`, first in panels of about `width`, which are then halved
/// until the whole is good to `tolerance` (relative).
pub(crate) fn integral(
    f: impl Fn(f64) -> f64,
    (low, high): (f64, f64),
    width: f64,
    tolerance: f64,
) -> f64 {
    let panels = ((high - low) / width).ceil().max(1.0) as u32;
    let step = (high - low) / f64::from(panels);
    let ends = |j: u32| (low + step * f64::from(j), low + step * f64::from(j + 1));
    let rough: Vec<_> = (0..panels).map(|j| panel(&f, ends(j).0, ends(j).1)).collect();
    let allowed = (tolerance * rough.iter().sum::<f64>()).max(FLOOR);
    (0..panels).zip(rough).map(|(j, rough)| refined(&f, ends(j), rough, allowed, REFINED)).sum()
}

fn refined(
    f: &impl Fn(f64) -> f64,
    (low, high): (f64, f64),
    rough: f64,
    allowed: f64,
    depth: u32,
) -> f64 {
    // A panel that holds less than is allowed needs no second look.
    if rough.abs() <= 0.1 * allowed {
        return rough;
    }
    let middle = 0.5 * (low + high);
    let (left, right) = (panel(f, low, middle), panel(f, middle, high));
    if (left + right - rough).abs() <= allowed || depth == 0 {
        return left + right;
    }
    refined(f, (low, middle), left, allowed, depth - 1)
        + refined(f, (middle, high), right, allowed, depth - 1)
}

/// The integral of the positive part of `f` over one panel.
fn positive(f: &impl Fn(f64) -> f64, low: f64, high: f64, depth: u32) -> f64 {
    let (middle, half) = (0.5 * (low + high), 0.5 * (high - low));
    let (mut sum, mut above, mut below) = (0.0, false, false);
    for (x, w) in rule() {
        let value = f(middle + half * x);
        (above, below) = (above || value > 0.0, below || value < 0.0);
        sum += w * value;
    }
    for value in [f(low), f(high)] {
        (above, below) = (above || value > 0.0, below || value < 0.0);
    }
    match (above, below) {
        (false, _) => 0.0,
        (true, false) => sum * half,
        (true, true) if depth == 0 => 0.0,
        _ => positive(f, low, middle, depth - 1) + positive(f, middle, high, depth - 1),
    }
}

/// The divergence of two densities, given together; smooth between neighbouring `breaks`, which
/// hold all of the mass.
pub(crate) fn stick(
    densities: impl Fn(f64) -> (f64, f64),
    epsilon: f64,
    breaks: &[f64],
    width: f64,
) -> f64 {
    let ratio = epsilon.exp();
    let excess = |x: f64| {
        let (p, q) = densities(x);
        // Where Q has nothing, no ratio makes it something.
        let rest = if q > 0.0 { ratio * q } else { 0.0 };
        // Where the two differ by rounding alone, the sign would change everywhere.
        if (p - rest).abs() <= 8.0 * f64::EPSILON * p { 0.0 } else { p - rest }
    };
    let mut sum = 0.0;
    for ends in breaks.windows(2) {
        let panels = ((ends[1] - ends[0]) / width).ceil().max(1.0) as u32;
        let step = (ends[1] - ends[0]) / f64::from(panels);
        for j in 0..panels {
            let low = ends[0] + step * f64::from(j);
            sum += positive(&excess, low, low + step, DEPTH);
        }
    }
    sum
}

/// The larger of the divergences of the two directions.
pub(crate) fn both_ways(
    densities: impl Fn(f64) -> (f64, f64),
    epsilon: f64,
    breaks: &[f64],
    width: f64,
) -> f64 {
    let back = |x: f64| {
        let (p, q) = densities(x);
        (q, p)
    };
    stick(&densities, epsilon, breaks, width).max(stick(back, epsilon, breaks, width))
}

pub(crate) fn normal(x: f64, sigma: f64) -> f64 {
    let z = x / sigma;
    (-0.5 * z * z).exp() / (sigma * (2.0 * PI).sqrt())
}

fn upper_tail(z: f64) -> f64 {
    0.5 * libm::erfc(z / 2f64.sqrt())
}

/// Without the device `base N(0, s^2)`; with it
/// `base (1 - gone) N(0, s^2) + moved N(distance, s^2)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) base: f64,
    pub(crate) gone: f64,
    pub(crate) moved: f64,
    pub(crate) distance: f64,
    pub(crate) sigma: f64,
}

impl Step {
    /// The Poisson-sampled Gaussian.
    pub(crate) fn sampled(rate: f64, sigma: f64) -> Self {
        Self { base: 1.0, gone: rate, moved: rate, distance: 1.0, sigma }
    }

    /// With against without, for any sign of `epsilon`; the textbook formula.
    pub(crate) fn leaves(&self, epsilon: f64) -> f64 {
        let Self { base, gone, moved, distance, sigma } = *self;
        let rest = base * (epsilon.exp_m1() + gone);
        if rest <= 0.0 {
            return moved - rest;
        }
        if moved <= 0.0 {
            return 0.0;
        }
        let x = 0.5 * distance + sigma * sigma / distance * (rest / moved).ln();
        (moved * upper_tail((x - distance) / sigma) - rest * upper_tail(x / sigma)).max(0.0)
    }

    /// Without against with.
    pub(crate) fn comes(&self, epsilon: f64) -> f64 {
        let Self { base, gone, moved, distance, sigma } = *self;
        let (rest, moved) =
            (base * (epsilon.exp() * gone - epsilon.exp_m1()), epsilon.exp() * moved);
        if rest <= 0.0 {
            return 0.0;
        }
        if moved <= 0.0 {
            return rest;
        }
        let x = 0.5 * distance + sigma * sigma / distance * (rest / moved).ln();
        (rest * upper_tail(-x / sigma) - moved * upper_tail((distance - x) / sigma)).max(0.0)
    }

    /// The loss of with against without, at `x`.
    fn loss(&self, x: f64) -> f64 {
        let growth =
            ((x - 0.5 * self.distance) * self.distance / (self.sigma * self.sigma)).exp_m1();
        (self.moved / self.base * growth).ln_1p()
    }
}

/// The divergence of a composition of sampled Gaussians: the expectation over the first step's loss
/// `l` of the divergence of the rest at `epsilon - l`. Panels are at first `width` deviations wide.
pub(crate) fn composed(steps: &[Step], epsilon: f64, leaves: bool, width: f64) -> f64 {
    let Some((first, rest)) = steps.split_first() else { return (-epsilon.exp_m1()).max(0.0) };
    if rest.is_empty() {
        return if leaves { first.leaves(epsilon) } else { first.comes(epsilon) };
    }
    let (s, d, q) = (first.sigma, first.distance, first.moved);
    let density = |x: f64| {
        if leaves { (1.0 - q) * normal(x, s) + q * normal(x - d, s) } else { normal(x, s) }
    };
    let inner = |x: f64| {
        let p = density(x);
        if p < 1e-24 {
            return 0.0;
        }
        let loss = if leaves { first.loss(x) } else { -first.loss(x) };
        p * composed(rest, epsilon - loss, leaves, width)
    };
    // The rest must be better than what stands on it.
    let tolerance = if steps.len() > 2 { 1e-11 } else { 1e-12 };
    integral(inner, (-9.5 * s, d + 9.5 * s), width * s, tolerance)
}

/// Outcomes of a discrete pair: (p, q).
pub(crate) type Outcomes = Vec<(f64, f64)>;

/// All pairs of outcomes.
pub(crate) fn product(a: &Outcomes, b: &Outcomes) -> Outcomes {
    let pairs = a.iter().flat_map(|x| b.iter().map(move |y| (x.0 * y.0, x.1 * y.1)));
    pairs.filter(|(p, q)| *p > 1e-22 || *q > 1e-22).collect()
}

/// The larger of the divergences of the two directions of a discrete pair.
pub(crate) fn enumerated(outcomes: &Outcomes, epsilon: f64) -> f64 {
    let ratio = epsilon.exp();
    let forth: f64 = outcomes.iter().map(|(p, q)| (p - ratio * q).max(0.0)).sum();
    let back: f64 = outcomes.iter().map(|(p, q)| (q - ratio * p).max(0.0)).sum();
    forth.max(back)
}

/// The binomial law by its recurrence from Pascal's triangle: all non-negative additions.
pub(crate) fn binomial(n: u64, p: f64) -> Vec<f64> {
    let mut law = vec![1.0];
    for _ in 0..n {
        let mut next = vec![0.0; law.len() + 1];
        for (k, mass) in law.iter().enumerate() {
            next[k] += mass * (1.0 - p);
            next[k + 1] += mass * p;
        }
        law = next;
    }
    law
}
