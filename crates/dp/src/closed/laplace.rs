//! The Laplace mechanism.
//!
//! One number is the worst case: let a vector move by `(d_1, ..., d_n)` with `sum |d_i| = D`, one
//! coordinate after the other. Each step has the trade-off function
//! `f_i(x) = F(F^-1(1 - x) - |d_i|)` of a shifted Laplace law `F` (log-concave, so the likelihood
//! ratio is monotone). Two steps with trade-off functions `f`, `g` are at least as hard to tell
//! apart as `g(1 - f)` (Dong, Roth, Su 2022, group privacy), and here
//! `g(1 - f)(x) = F(F^-1(1 - x) - |d_1| - |d_2|)`: that of one number that moves by the sum.

use super::ROUNDING;
use crate::error::{
    Error, delta as target, in_range, non_negative, order as check_order, positive,
};
use crate::math::{exp, expm1, ln, log1p, up};

/// The exact epsilon of Laplace noise of `scale` on a value of L1 `sensitivity`, at `delta` (which
/// may be 0): `sensitivity/scale + 2 ln(1 - delta)`, at least 0.
///
/// The hockey stick of two Laplace laws at distance `t` scales is `1 - e^((epsilon - t)/2)` below
/// `t`. The neighbours are those of the sensitivity.
pub fn laplace_epsilon(scale: f64, sensitivity: f64, delta: f64) -> Result<f64, Error> {
    let distance = distance(scale, sensitivity)?;
    if delta != 0.0 {
        target(delta)?;
    }
    let saved = -2.0 * log1p(-delta);
    Ok((distance - saved + ROUNDING * (distance + saved)).clamp(0.0, up(distance, ROUNDING)))
}

/// The exact delta of Laplace noise at `epsilon`, rounded up; 0 from `sensitivity/scale` on.
pub fn laplace_delta(scale: f64, sensitivity: f64, epsilon: f64) -> Result<f64, Error> {
    let distance = distance(scale, sensitivity)?;
    non_negative("epsilon", epsilon)?;
    let missing = distance + ROUNDING * distance - epsilon;
    if missing <= 0.0 {
        return Ok(0.0);
    }
    Ok(up(-expm1(-0.5 * missing), ROUNDING).min(1.0))
}

fn distance(scale: f64, sensitivity: f64) -> Result<f64, Error> {
    positive("scale", scale)?;
    positive("sensitivity", sensitivity)?;
    let distance = sensitivity / scale;
    let range = "large enough that sensitivity/scale is a number";
    in_range("scale", scale, distance.is_finite(), range).map(|_| distance)
}

/// The exact Rényi divergence of Laplace noise at `order`, where `scale` is in units of the L1
/// sensitivity: with `t = 1/scale`, `ln(a/(2a-1) e^((a-1)t) + (a-1)/(2a-1) e^(-a t))/(a-1)`
/// (Mironov 2017, Proposition 6).
pub fn laplace_rdp(scale: f64, order: f64) -> Result<f64, Error> {
    check_order(order)?;
    let t = distance(scale, 1.0)?;
    let above = order - 1.0;
    let (gain, loss) = (above * t, order * t);
    // a/(2a-1) and (a-1)/(2a-1), without 2a.
    let heavy = 1.0 / (1.0 + above / order);
    let light = above / order * heavy;
    let rdp = if gain <= 600.0 {
        // The two weights sum to 1 and the linear parts of the exponentials cancel: leave both out.
        log1p(heavy * beyond_linear(gain) + light * beyond_linear(-loss)) / above
    } else {
        t + (ln(heavy) + log1p(light / heavy * exp(-gain - loss))) / above
    };
    Ok(up(rdp, 8.0 * ROUNDING).min(t))
}

/// `e^x - 1 - x`, which is never negative.
fn beyond_linear(x: f64) -> f64 {
    if x.abs() > 1.0 {
        return expm1(x) - x;
    }
    let mut term = 0.5 * x * x;
    let mut sum = term;
    for k in 3..24 {
        term *= x / f64::from(k);
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remainder_of_the_exponential_is_right_on_both_sides_of_the_switch() {
        for x in [-1.0, 1.0] {
            let (series, direct) = (beyond_linear(x), expm1(x) - x);
            assert!((series / direct - 1.0).abs() < 1e-14);
        }
    }
}
