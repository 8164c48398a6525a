//! The discrete Gaussian `N_Z(0, sigma^2)`: integers with probability proportional to
//! `e^(-x^2/(2 sigma^2))` (Canonne, Kamath, Steinke 2020), and the sum of many of them.
//!
//! Epsilon is that of the exact hockey stick between the law and its shift by the sensitivity; both
//! directions are mirror images. The adjacency is the one that defines the sensitivity.

mod distributed;
mod hockey_stick;
mod smoothed;

use std::f64::consts::PI;

use crate::Bracket;
use crate::closed::{ROUNDING, zcdp_epsilon};
use crate::error::{Error, delta as target, in_range, non_negative, positive};
use crate::math::{exp, ln, log1p, sqrt, up};

pub use distributed::{as_gaussian, curvature};
pub use smoothed::{Smoothed, smoothed, smoothed_sum};

/// The range of sigma: outside it squares overflow or underflow.
const SIGMA: (f64, f64) = (1e-100, 1e100);
/// Sensitivities above this are not exact as floating-point numbers.
const SENSITIVITY: u64 = 1 << 52;
/// The largest radius that `masses` accepts.
const RADIUS: u64 = 10_000_000;

fn noise(sigma: f64) -> Result<f64, Error> {
    positive("sigma", sigma)?;
    let holds = (SIGMA.0..=SIGMA.1).contains(&sigma);
    in_range("sigma", sigma, holds, "between 1e-100 and 1e100")
}

fn distance(sigma: f64, sensitivity: u64) -> Result<f64, Error> {
    let value = sensitivity as f64;
    let holds = (1..=SENSITIVITY).contains(&sensitivity);
    in_range("sensitivity", value, holds, "a whole number from 1 to 2^52")?;
    let holds = sigma <= hockey_stick::LARGE || value <= hockey_stick::APART * sigma;
    in_range("sensitivity", value, holds, "at most 300 sigma (epsilon is 45,000 there)")
}

/// `ln` of the sum of `e^(-x^2/(2 sigma^2))` over the integers, to full precision.
fn ln_normalizer(sigma: f64) -> f64 {
    let mut sum = 0.0;
    if sigma >= 1.0 {
        // Poisson summation: sigma sqrt(2 pi) (1 + 2 sum of e^(-2 pi^2 sigma^2 k^2)).
        for k in 1..4 {
            sum += exp(-2.0 * PI * PI * sigma * sigma * f64::from(k * k));
        }
        return ln(sigma * sqrt(2.0 * PI)) + log1p(2.0 * sum);
    }
    for x in (1..10).rev() {
        let x = f64::from(x) / sigma;
        sum += exp(-0.5 * x * x);
    }
    log1p(2.0 * sum)
}

/// The variance. It is below `sigma^2`: far below for sigma under 1/2, by less than a rounding
/// error from 2 on.
pub fn variance(sigma: f64) -> Result<f64, Error> {
    noise(sigma)?;
    let square = sigma * sigma;
    if sigma > 6.0 {
        return Ok(square);
    }
    let (mut sum, mut weighted) = (0.0, 0.0);
    if sigma >= 1.0 {
        // The derivative of the logarithm of Poisson's form.
        for k in 1..4 {
            let weight = exp(-2.0 * PI * PI * square * f64::from(k * k));
            sum += weight;
            weighted += f64::from(k * k) * weight;
        }
        let correction = 8.0 * PI * PI * square * square * weighted / (1.0 + 2.0 * sum);
        return Ok(square - correction);
    }
    for x in (1..10).rev() {
        let scaled = f64::from(x) / sigma;
        let weight = exp(-0.5 * scaled * scaled);
        sum += weight;
        weighted += f64::from(x * x) * weight;
    }
    Ok(2.0 * weighted / (1.0 + 2.0 * sum))
}

/// `ln P(X = x)`, with an absolute error of about 1e-15 times its own size.
pub fn ln_mass(sigma: f64, x: i64) -> Result<f64, Error> {
    noise(sigma)?;
    let scaled = x as f64 / sigma;
    Ok(-0.5 * scaled * scaled - ln_normalizer(sigma))
}

/// The probabilities of `-radius ..= radius`, each to a relative 1e-13 while it is a normal number.
/// A numerical accountant starts from these. `radius` is at most 10,000,000.
pub fn masses(sigma: f64, radius: u64) -> Result<Vec<f64>, Error> {
    noise(sigma)?;
    in_range("radius", radius as f64, radius <= RADIUS, "at most 10,000,000")?;
    let scale = exp(-ln_normalizer(sigma));
    let half: Vec<f64> = (0..=radius)
        .map(|x| {
            let scaled = x as f64 / sigma;
            let square = scaled * scaled;
            let rest = libm::fma(scaled, scaled, -square);
            if square < 1500.0 { scale * exp(-0.5 * square) * (1.0 - 0.5 * rest) } else { 0.0 }
        })
        .collect();
    Ok(half.iter().skip(1).rev().chain(&half).copied().collect())
}

/// `ln` of the exact delta at `epsilon`, rounded up. Works even where delta underflows. For sigma
/// above 10,000 a delta below `e^-45000` is reported as about that.
pub fn ln_delta(sigma: f64, sensitivity: u64, epsilon: f64) -> Result<f64, Error> {
    let distance = distance(noise(sigma)?, sensitivity)?;
    non_negative("epsilon", epsilon)?;
    let stick = hockey_stick::at(sigma, distance, epsilon * (1.0 - ROUNDING));
    Ok((stick.ln_delta + stick.error).min(0.0))
}

/// The exact delta at `epsilon`, rounded up (never 0).
pub fn delta(sigma: f64, sensitivity: u64, epsilon: f64) -> Result<f64, Error> {
    Ok(up(exp(ln_delta(sigma, sensitivity, epsilon)?), ROUNDING).next_up().min(1.0))
}

/// The exact epsilon of adding `N_Z(0, sigma^2)` to an integer that moves by at most `sensitivity`,
/// at `delta`: a bracket about 1e-12 wide in relative terms.
///
/// This does not cover a vector of integers: for those use the Rényi divergence
/// `order (L2 norm)^2 / (2 sigma^2)`.
pub fn epsilon(sigma: f64, sensitivity: u64, delta: f64) -> Result<Bracket, Error> {
    let distance = distance(noise(sigma)?, sensitivity)?;
    let goal = ln(target(delta)?);
    let goal_error = f64::EPSILON * goal.abs();
    let excess = |epsilon: f64| {
        let stick = hockey_stick::at(sigma, distance, epsilon * (1.0 - ROUNDING));
        stick.ln_delta + stick.error + goal_error - goal
    };
    let at_zero = excess(0.0);
    if at_zero <= 0.0 {
        return Ok(Bracket { lower: 0.0, upper: 0.0 });
    }
    // The law is (distance/sigma)^2/2-zCDP (CKS20), so this epsilon holds in any case.
    let scaled = distance / sigma;
    let proven = up(zcdp_epsilon(up(0.5 * scaled * scaled, ROUNDING), delta)?, ROUNDING);
    let at_proven = excess(proven);
    let mut upper = proven;
    if at_proven <= 0.0 {
        let ends = ((0.0, at_zero), (proven, at_proven));
        upper = crate::math::search::crossing(excess, ends.0, ends.1, 2e-13, 0.0).high;
    }
    let mut gap = 5e-13 * upper;
    let mut lower = 0.0;
    while gap < upper {
        let low = upper - gap;
        let stick = hockey_stick::at(sigma, distance, low * (1.0 + ROUNDING));
        if stick.ln_delta - stick.error - goal_error >= goal {
            lower = low;
            break;
        }
        gap *= 4.0;
    }
    Ok(Bracket { lower, upper })
}
