//! Amplification by sampling a subset of fixed size (Wang, Balle, Kasiviswanathan, "Subsampled
//! Renyi differential privacy and analytical moments accountant", 2019, theorem 9).

use super::log_sum::{LogSum, ln_one_plus_exp};
use super::sampled_gaussian::MARGIN;
use crate::Error;
use crate::math::{expm1, ln, up};

/// The bound needs as many inner divergences as the order; above this it is not worth it.
pub(super) const LARGEST_ORDER: f64 = 2048.0;

/// The most inner divergences of single releases that one bound may need.
pub(super) const MOST_INNER: f64 = 65_536.0;

/// The divergence at `order` (at most 2048) of a mechanism over a uniform subset, `fraction` of the
/// population, under replacement; `inner` is the mechanism's own divergence, at infinity its pure
/// epsilon. For an integer order `n`,
///
/// ```text
/// A_n - 1 <= f^2 C(n,2) min{4 (e^{D_2} - 1), e^{D_2} m_2}
///          + sum over 3 <= j <= n of f^j C(n,j) e^{(j-1) D_j} m_j,
/// m_j = min{2, (e^{D_infinity} - 1)^j};
/// ```
///
/// between integers the chord of `ln A`, which is convex.
pub(super) fn amplified(
    fraction: f64,
    order: f64,
    inner: impl Fn(f64) -> Result<f64, Error>,
) -> Result<f64, Error> {
    let below = order.floor() as u32;
    let ln_factor = ln(expm1(inner(f64::INFINITY)?.min(700.0)));
    let low = if below < 2 { 0.0 } else { ln_moment(fraction, below, ln_factor, &inner)? };
    let whole = f64::from(below);
    if whole == order {
        return Ok(up(low / (order - 1.0), MARGIN));
    }
    let high = ln_moment(fraction, below + 1, ln_factor, &inner)?;
    if high == f64::INFINITY {
        return Ok(high);
    }
    Ok(up((low + (order - whole) * (high - low)) / (order - 1.0), MARGIN))
}

fn ln_moment(
    fraction: f64,
    n: u32,
    ln_factor: f64,
    inner: &impl Fn(f64) -> Result<f64, Error>,
) -> Result<f64, Error> {
    let size = f64::from(n);
    let ln_fraction = ln(fraction);
    let ln_two = std::f64::consts::LN_2;
    let second = inner(2.0)?;
    let square = ln(4.0 * expm1(second)).min(second + ln_two.min(2.0 * ln_factor));
    let mut weight = ln(0.5 * size * (size - 1.0)) + 2.0 * ln_fraction;
    let mut sum = LogSum::new();
    sum.add(1.0, weight + square);
    for j in 3..=n {
        let j = f64::from(j);
        weight += ln((size - j + 1.0) / j) + ln_fraction;
        let own = inner(j)?;
        if own == f64::INFINITY {
            return Ok(own);
        }
        sum.add(1.0, weight + (j - 1.0) * own + ln_two.min(j * ln_factor));
    }
    Ok(ln_one_plus_exp(sum.ln()))
}
