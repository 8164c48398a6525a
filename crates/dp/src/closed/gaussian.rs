//! The Gaussian mechanism: any of epsilon, delta and sigma from the other two.
//!
//! Balle and Wang 2018, Theorem 8: noise of standard deviation `sigma` times the distance of the
//! neighbours is `(epsilon, delta)`-differentially private if and only if
//! `delta >= Q(a) - e^epsilon Q(b)`, with `Q` the normal upper tail, `h = 1/sigma`,
//! `m = epsilon sigma`, `a = m - h/2`, `b = m + h/2`. Since `e^epsilon phi(b) = phi(a)`, this is
//! `phi(a) (M(a) - M(b))` with Mills' ratio `M = Q/phi`, and `M(a) - M(b)` is the integral from `a`
//! to `b` of `1 - x M(x)`, which is positive: with that, nothing cancels however small `h` or
//! `delta` are.
//!
//! Shape, for the searches. At fixed `h`, `delta(m)` is the integral from `m` on of
//! `h e^(h x) Q(x + h/2)`; at fixed epsilon it is the integral from 0 to `h` of
//! `phi(epsilon/u - u/2) du`. Both integrands are log-concave (the second also in `ln u`), hence so
//! is delta, and `ln delta` lies below its tangents: Newton's method stays on the safe side of the
//! root once it is there.

use std::f64::consts::PI;

use super::ROUNDING;
use super::composition::exp_up;
use crate::Bracket;
use crate::error::{Error, delta as target, in_range, non_negative, positive};
use crate::math::normal::{density, ln_density, mills, upper_tail};
use crate::math::{exp, ln, sqrt, up};

/// The smallest and largest noise multipliers accepted: beyond them squares overflow or underflow.
const SIGMA: (f64, f64) = (1e-150, 1e300);
/// `m` above this is lowered to it (delta is then below `e^-1e303`): that only raises delta.
const FARTHEST: f64 = 1e152;
/// Error of one evaluation of `ln delta`, in addition to the terms that grow with `a`: the tail's
/// 1e-15, magnified by `1/(1 - x M(x))`, at most 12 where that difference is taken, with some to
/// spare.
const EVALUATION: f64 = 4e-14;

/// Mills' ratio `M(x)` and `1 - x M(x)`, which is minus its derivative.
pub(crate) struct Ratio {
    pub(crate) mills: f64,
    pub(crate) decay: f64,
}

/// Both to full relative precision, for `x > -30`.
pub(crate) fn ratio(x: f64) -> Ratio {
    if x < 3.0 {
        let mills = mills(x);
        return Ratio { mills, decay: 1.0 - x * mills };
    }
    // Laplace's continued fraction M = 1/(x + k), k = 1/(x + 2/(x + 3/(x + ...))), and 1 - x M =
    // k/(x + k) without a difference. The number of levels leaves 1e-17 of k, found with 40 digits.
    let levels = 5 + ((110.0 + 200.0 / x) / x) as u32;
    let mut value = x;
    for level in (2..=levels).rev() {
        value = x + f64::from(level) / value;
    }
    let k = 1.0 / value;
    let mills = 1.0 / (x + k);
    Ratio { mills, decay: k * mills }
}

/// Gauss-Legendre nodes and weights (halved: they sum to 1/2), eight points.
const NODES: [(f64, f64); 4] = [
    (0.183_434_642_495_649_8, 0.181_341_891_689_181),
    (0.525_532_409_916_329, 0.156_853_322_938_943_65),
    (0.796_666_477_413_626_7, 0.111_190_517_226_687_24),
    (0.960_289_856_497_536_3, 0.050_614_268_145_188_13),
];

/// The mean of `1 - x M(x)` over `middle - half .. middle + half`, where `half <= 1/2` or
/// `half <= middle/8`, and `middle` is not far below 0. The derivatives of the integrand are
/// moments of `t e^(-m t - t^2/2)`: the relative error of eight points is below 2e-16 in the first
/// case and 2e-18 in the second.
pub(crate) fn mean_decay(middle: f64, half: f64) -> f64 {
    NODES
        .iter()
        .map(|(x, w)| w * (ratio(middle - half * x).decay + ratio(middle + half * x).decay))
        .sum()
}

/// `ln delta` at `(m, h)` and its derivatives.
struct Point {
    ln_delta: f64,
    /// Minus its derivative by `m`, with `h` fixed.
    by_m: f64,
    /// Its derivative by `ln h`, with epsilon fixed.
    by_ln_h: f64,
    /// How far `ln_delta` may be from the true value at an `m` within [`shift`] of the given one.
    error: f64,
}

/// How much the rounding of `m -+ h/2` may move `m`.
fn shift(m: f64, h: f64) -> f64 {
    ROUNDING * (m + 0.5 * h)
}

fn point(m: f64, h: f64) -> Point {
    let half = 0.5 * h;
    let (a, b) = (m - half, m + half);
    let last = ratio(b).mills;
    let (ln_delta, by_m, by_ln_h) = if h <= 1.0 || m >= 4.0 * h {
        let mean = mean_decay(m, half);
        (ln_density(a) + ln(h) + ln(mean), last / mean, 1.0 / mean)
    } else if a > 0.0 {
        let gap = ratio(a).mills - last;
        (ln_density(a) + ln(gap), h * last / gap, h / gap)
    } else {
        let top = density(a);
        let delta = upper_tail(a) - top * last;
        (ln(delta), h * top * last / delta, h * top / delta)
    };
    let height = a.max(0.0);
    let error = EVALUATION + ROUNDING * (height * height + by_ln_h);
    Point { ln_delta, by_m, by_ln_h, error }
}

/// An upper bound on a normal quantile: `P(Z > x) <= delta` at the result, since
/// `P(Z > x) <= e^(-x^2/2)/2`.
fn quantile_above(ln_delta: f64) -> f64 {
    up(sqrt((-2.0 * (ln_delta + std::f64::consts::LN_2)).max(0.0)), ROUNDING)
}

fn noise(sigma: f64) -> Result<f64, Error> {
    positive("sigma", sigma)?;
    let holds = (SIGMA.0..=SIGMA.1).contains(&sigma);
    Ok(1.0 / in_range("sigma", sigma, holds, "between 1e-150 and 1e300")?)
}

/// The epsilon of Gaussian noise of `sigma` times the distance of the neighbours, at `delta`;
/// exact: the bracket is about 1e-13 wide in relative terms. 0 where `delta` is the total variation
/// distance or more.
///
/// Balle, Wang 2018 (the analytic Gaussian mechanism). The adjacency is the one that defines the
/// distance.
pub fn gaussian_epsilon(sigma: f64, delta: f64) -> Result<Bracket, Error> {
    let h = noise(sigma)?;
    let goal = ln(target(delta)?);
    let total_variation = point(0.0, h);
    if total_variation.ln_delta + total_variation.error <= goal {
        return Ok(Bracket { lower: 0.0, upper: 0.0 });
    }
    // delta <= Q(a): the root is not beyond the quantile.
    let start = up(0.5 * h + quantile_above(goal), ROUNDING);
    let mut m = start;
    let mut here = point(m, h);
    for _ in 0..100 {
        let next = (m + (here.ln_delta - goal) / here.by_m).max(0.0);
        // From above the steps only go down; rounding stops them.
        let settled = next >= m - ROUNDING * m;
        if settled || next.is_nan() {
            break;
        }
        m = next;
        here = point(m, h);
    }
    let goal_error = f64::EPSILON * goal.abs();
    let error = here.error + goal_error;
    let above = ((here.ln_delta - goal).max(0.0) + error) / here.by_m + shift(m, h);
    let highest = if m + above < start { m + above } else { start };
    let mut below = ((here.ln_delta - goal).abs() + 2.0 * error) / here.by_m + shift(m, h);
    let mut lowest = 0.0;
    for _ in 0..40 {
        let low = m - below;
        if low <= 0.0 || low.is_nan() {
            break;
        }
        let there = point(low, h);
        if there.ln_delta - there.error - goal_error >= goal {
            lowest = (low - shift(low, h)).max(0.0);
            break;
        }
        below *= 4.0;
    }
    Ok(Bracket { lower: (lowest / sigma) * (1.0 - ROUNDING), upper: up(highest / sigma, ROUNDING) })
}

/// `ln` of the delta of Gaussian noise at `epsilon`, rounded up. Works even where delta itself
/// underflows.
pub fn gaussian_ln_delta(sigma: f64, epsilon: f64) -> Result<f64, Error> {
    let h = noise(sigma)?;
    non_negative("epsilon", epsilon)?;
    let m = (epsilon * sigma).min(FARTHEST);
    let here = point((m - shift(m, h)).max(0.0), h);
    Ok((here.ln_delta + here.error).min(0.0))
}

/// The delta of Gaussian noise of `sigma` times the distance, at `epsilon`, rounded up (never 0).
pub fn gaussian_delta(sigma: f64, epsilon: f64) -> Result<f64, Error> {
    Ok(exp_up(gaussian_ln_delta(sigma, epsilon)?))
}

/// The least noise multiplier that gives `(epsilon, delta)`, rounded up. `epsilon` may be 0.
pub fn gaussian_sigma(epsilon: f64, delta: f64) -> Result<f64, Error> {
    // A smaller epsilon needs more noise, so cutting at 1e280 is safe.
    let epsilon = non_negative("epsilon", epsilon)?.min(1e280);
    let goal = ln(target(delta)?);
    // Two values of h that are small enough: delta <= Q(a), and delta <= erf(h/sqrt 8) <= h/sqrt(2
    // pi).
    let a = quantile_above(goal);
    let by_tail = 2.0 * epsilon / (a + sqrt(a * a + 2.0 * epsilon));
    let by_variation = delta * sqrt(2.0 * PI);
    let start = (1.0 - 4.0 * ROUNDING)
        * if by_tail.is_nan() { by_variation } else { by_tail.max(by_variation) };
    if start < 1.0 / SIGMA.1 {
        let hint = "delta is too small for epsilon 0: the noise would leave the range of numbers";
        return Err(Error::Unreachable { name: "sigma", hint });
    }
    if epsilon / start + start >= 1e12 {
        // m -+ h/2 loses its digits there, and the start is already right to 1e-10.
        return Ok(up(1.0 / start, ROUNDING));
    }
    let mut h = start;
    let mut here = point(epsilon / h, h);
    for _ in 0..100 {
        // From below the steps only go up; close to delta = 1 a step can go anywhere.
        let step = (goal - here.ln_delta) / here.by_ln_h;
        let next = h * exp(step);
        if !(step > ROUNDING && next < 1e14) {
            break;
        }
        h = next;
        here = point(epsilon / h, h);
    }
    let moved = here.by_m * shift(epsilon / h, h) + f64::EPSILON * goal.abs();
    let back = ((here.ln_delta - goal).max(0.0) + here.error + moved) / here.by_ln_h;
    let h = (h * exp(-back)).max(start);
    Ok(up(1.0 / h, ROUNDING))
}

/// The classic formula `sqrt(2 ln(1.25/delta))/epsilon` for the noise multiplier.
///
/// Dwork, Roth 2014, Theorem A.1. The theorem needs `epsilon <= 1`; above that this is an error.
pub fn classic_gaussian_sigma(epsilon: f64, delta: f64) -> Result<f64, Error> {
    positive("epsilon", epsilon)?;
    target(delta)?;
    let range = "at most 1 for the classic theorem (the analytic Gaussian has no such limit)";
    in_range("epsilon", epsilon, epsilon <= 1.0, range)?;
    let sigma = up(classic(delta) / epsilon, ROUNDING);
    if sigma.is_finite() {
        return Ok(sigma);
    }
    let hint = "epsilon is too small: the noise would leave the range of numbers";
    Err(Error::Unreachable { name: "sigma", hint })
}

/// The classic formula solved for epsilon. An error if the result would be above 1: the theorem
/// says nothing there.
pub fn classic_gaussian_epsilon(sigma: f64, delta: f64) -> Result<f64, Error> {
    positive("sigma", sigma)?;
    target(delta)?;
    let epsilon = classic(delta) / sigma;
    let range = "sqrt(2 ln(1.25/delta)) or more for the classic theorem, which ends at epsilon 1";
    in_range("sigma", sigma, epsilon <= 1.0, range)?;
    Ok(up(epsilon, ROUNDING))
}

fn classic(delta: f64) -> f64 {
    sqrt(2.0 * (ln(1.25) - ln(delta)))
}
