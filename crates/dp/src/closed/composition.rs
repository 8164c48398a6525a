//! Sampling and composition of `(epsilon, delta)` pairs.

use super::ROUNDING;
use crate::error::{Error, at_least_one, in_range, non_negative, rate as probability};
use crate::math::{exp, expm1, ln, ln_sampled, sqrt, up};

/// Amplification by Poisson sampling: an `(epsilon, delta)` mechanism that each device joins with
/// probability `rate`, in secret, is `(ln(1 + rate (e^epsilon - 1)), rate delta)`.
///
/// Add/remove (or zero-out) neighbours; the adversary sees neither the members nor their number
/// (Li, Qardaji, Su 2012; Balle, Barthe, Gaboardi 2018, Theorem 8). `delta` may be 0.
pub fn sampled(epsilon: f64, delta: f64, rate: f64) -> Result<(f64, f64), Error> {
    non_negative("epsilon", epsilon)?;
    probability("delta", delta)?;
    probability("rate", rate)?;
    if rate == 0.0 {
        return Ok((0.0, 0.0));
    }
    let amplified = ln_sampled(rate, epsilon);
    // Above 700 the answer is a difference of numbers as large as epsilon.
    let slack = if epsilon > 700.0 { epsilon } else { amplified } * ROUNDING;
    let product = if delta == 0.0 { 0.0 } else { (rate * delta).next_up().min(delta) };
    Ok(((amplified + slack).clamp(0.0, epsilon), product))
}

/// Advanced composition: `times` adaptive uses of `(epsilon, delta)` mechanisms are together
/// `(epsilon sqrt(2 times ln(1/slack)) + times epsilon (e^epsilon - 1), times delta + slack)`.
///
/// Dwork, Rothblum, Vadhan 2010, Theorem III.3, for any adjacency (the same for all uses). The
/// result is the theorem's, even where adding the epsilons is better.
pub fn advanced_composition(
    epsilon: f64,
    delta: f64,
    times: u64,
    slack: f64,
) -> Result<(f64, f64), Error> {
    non_negative("epsilon", epsilon)?;
    probability("delta", delta)?;
    at_least_one("times", times)?;
    in_range("slack", slack, slack > 0.0 && slack < 1.0, "above 0 and below 1")?;
    let times = times as f64;
    let total = epsilon * sqrt(2.0 * times * -ln(slack)) + times * epsilon * expm1(epsilon);
    let range = "small enough that e^epsilon is a number (else add the epsilons up)";
    in_range("epsilon", epsilon, total.is_finite(), range)?;
    let delta = up(times * delta + slack, ROUNDING).min(1.0);
    Ok((up(total, 2.0 * ROUNDING), delta))
}

/// `e^x` rounded up, never 0: a possible event is never reported as impossible.
pub(super) fn exp_up(x: f64) -> f64 {
    up(exp(x), ROUNDING).next_up().min(1.0)
}
