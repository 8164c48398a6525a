//! Conversions between Rényi, zero-concentrated, pure and approximate differential privacy.

use super::ROUNDING;
use crate::error::{Error, delta as target, non_negative, order as check_order};
use crate::math::{exp, expm1, ln, log1p, sqrt, up};

/// The epsilon that `(order, rdp)`-Rényi differential privacy gives at `delta`:
/// `rdp + ln((a-1)/a) - (ln delta + ln a)/(a-1)` with `a` the order, at least 0.
///
/// Canonne, Kamath, Steinke 2020 (also Asoodeh et al. 2021): never worse than
/// Mironov's. Any adjacency. `delta` may be 1 here; an infinite `rdp` gives an infinite epsilon.
pub fn rdp_to_epsilon(order: f64, rdp: f64, delta: f64) -> Result<f64, Error> {
    check_order(order)?;
    if rdp != f64::INFINITY {
        non_negative("rdp", rdp)?;
    }
    if delta != 1.0 {
        target(delta)?;
    }
    Ok(convert(order - 1.0, rdp, ln(delta)))
}

/// The conversion at order `1 + above`, rounded up.
fn convert(above: f64, rdp: f64, ln_delta: f64) -> f64 {
    let shrink = log1p(1.0 / above);
    let (spread, order) = (-ln_delta / above, log1p(above) / above);
    let slack = ROUNDING * (rdp + shrink + spread + order);
    // Where the terms overflow (an order close to 1) the bound says nothing.
    let epsilon = rdp - shrink + spread - order + slack;
    if epsilon.is_nan() { f64::INFINITY } else { epsilon.max(0.0) }
}

/// The epsilon that `rho`-zCDP gives at `delta`: the conversion of [`rdp_to_epsilon`] at the best
/// order.
///
/// With `u = order - 1` its derivative is `rho + (ln delta + ln(1 + u))/u^2`, which has one zero:
/// where `rho u^2 + ln(1 + u) = ln(1/delta)`. In `w = ln(1 + u)` the left side is convex and
/// increasing, so Newton's method from above always converges. Every order is valid: a search error
/// costs tightness, not safety.
pub fn zcdp_epsilon(rho: f64, delta: f64) -> Result<f64, Error> {
    non_negative("rho", rho)?;
    target(delta)?;
    if rho == 0.0 {
        return Ok(0.0);
    }
    let ln_delta = ln(delta);
    let goal = -ln_delta;
    let mut w = goal.min(log1p(sqrt(goal / rho)));
    for _ in 0..100 {
        let u = expm1(w);
        let excess = rho * u * u + w - goal;
        let step = excess / (2.0 * rho * u * exp(w) + 1.0);
        w -= step;
        if step.abs() <= 1e-12 * w {
            break;
        }
    }
    let u = expm1(w).max(f64::MIN_POSITIVE);
    Ok(convert(u, rho * (1.0 + u), ln_delta).min(zcdp_epsilon_simple(rho, delta)?))
}

/// The simple form `rho + 2 sqrt(rho ln(1/delta))` (Bun, Steinke 2016, Proposition 1.3).
pub fn zcdp_epsilon_simple(rho: f64, delta: f64) -> Result<f64, Error> {
    non_negative("rho", rho)?;
    target(delta)?;
    Ok(up(rho + 2.0 * sqrt(rho) * sqrt(-ln(delta)), 2.0 * ROUNDING))
}

/// The largest Rényi divergence of any `epsilon`-differentially private mechanism at `order`;
/// tight.
///
/// Every such pair of laws is a post-processing of binary randomized response (Kairouz, Oh,
/// Viswanath 2015), whose divergence is `ln(cosh((a - 1/2) epsilon)/cosh(epsilon/2))/(a - 1)`.
pub fn pure_to_rdp(epsilon: f64, order: f64) -> Result<f64, Error> {
    non_negative("epsilon", epsilon)?;
    check_order(order)?;
    let above = order - 1.0;
    let rdp = if order * epsilon <= 600.0 {
        // cosh A / cosh B = 1 + 2 sinh((A+B)/2) sinh((A-B)/2) / cosh B: nothing cancels.
        let (sum, difference) = (0.5 * order * epsilon, 0.5 * above * epsilon);
        log1p(2.0 * libm::sinh(sum) / libm::cosh(0.5 * epsilon) * libm::sinh(difference)) / above
    } else if epsilon > 40.0 {
        epsilon
    } else {
        // The same with e^(A-B) taken out; the order is above 15 here.
        epsilon - (log1p(exp(-epsilon)) - log1p(exp(-epsilon - 2.0 * above * epsilon))) / above
    };
    Ok(up(rdp, 4.0 * ROUNDING).min(epsilon))
}

/// The simple form `epsilon^2 order / 2`: `epsilon`-DP implies `epsilon^2/2`-zCDP (Bun, Steinke
/// 2016, Proposition 1.4). Looser than [`pure_to_rdp`].
pub fn pure_to_rdp_simple(epsilon: f64, order: f64) -> Result<f64, Error> {
    non_negative("epsilon", epsilon)?;
    check_order(order)?;
    Ok(up(0.5 * epsilon * epsilon * order, ROUNDING))
}
