//! The sum of many discrete Gaussians, one per party.
//!
//! Unlike in the continuous case it is not a discrete Gaussian of the summed variance, only close
//! to one (Kairouz, Liu, Steinke 2021). Why, and how close: the convolution of `N_Z(0, s^2)` and
//! `N_Z(0, r^2)` is, at `z`, `e^(-z^2/(2(s^2 + r^2)))` times a sum over the integers of
//! `e^(-(x - c z)^2/(2 v^2))` with `1/v^2 = 1/s^2 + 1/r^2`, up to constants. By Poisson summation
//! that sum is `v sqrt(2 pi) (1 + 2 sum of cos(2 pi k c z) q^(k^2))`, `q = e^(-2 pi^2 v^2)`:
//! between its values for all cosines `(-1)^k` and all cosines 1. The ratio to `N_Z(0, s^2 + r^2)`
//! has mean 1 under that law, so its logarithm is, in absolute value, at most that of the quotient
//! of the two extremes: `4 q + O(q^3)`, and below `10 q` (the theorem's constant) for every `q` up
//! to 0.6. Adding the parties one by one has `v^2 = sigma^2 k/(k+1)` at step `k`, and convolution
//! with one more law keeps a bound on the pointwise ratio.

use std::f64::consts::PI;

use crate::closed::ROUNDING;
use crate::error::{Error, at_least_one, in_range, order as check_order, positive};
use crate::math::{exp, up};

/// How many steps are added one by one; the rest is added in blocks.
const SINGLE: u64 = 4096;
/// The length of a block is its first index divided by this.
const BLOCK: u64 = 64;

/// The sum of `parties` independent `N_Z(0, sigma^2)` has, at every integer, a probability within a
/// factor `e^tau` or `e^-tau` of that of `N_Z(0, parties sigma^2)`; this is `tau`, rounded up:
/// `10 sum over k from 1 to parties - 1 of e^(-2 pi^2 sigma^2 k/(k+1))`.
///
/// Kairouz, Liu, Steinke 2021 (the distributed discrete Gaussian mechanism). `sigma` must be at
/// least 1/2. Takes at most a few thousand operations, whatever the number of parties.
pub fn closeness(sigma: f64, parties: u64) -> Result<f64, Error> {
    positive("sigma", sigma)?;
    at_least_one("parties", parties)?;
    let range = "1/2 or more, in integer units: scale the values up";
    in_range("sigma", sigma, sigma >= 0.5, range)?;
    let exponent = -2.0 * PI * PI * sigma * sigma;
    // The terms decrease with k: the first of a block bounds the others. None is 0, although it may
    // underflow.
    let term = |k: u64| exp(exponent * (k as f64 / (k as f64 + 1.0))).max(f64::MIN_POSITIVE);
    let steps = parties - 1;
    let mut sum: f64 = (1..=steps.min(SINGLE)).rev().map(term).sum();
    let mut k = SINGLE + 1;
    while k <= steps {
        let length = (k / BLOCK).min(steps - k + 1);
        sum += length as f64 * term(k);
        k = match k.checked_add(length) {
            Some(next) => next,
            None => break,
        };
    }
    // The rounding error of the exponent is a few units in its last place.
    let margin = 1e-12 + 4.0 * f64::EPSILON * exponent.abs().min(800.0);
    Ok(up(10.0 * sum, margin))
}

/// The Rényi divergence at `order` of a sum in which each of `parties` contributions carries
/// `N_Z(0, sigma^2)` noise in each of `dimension` coordinates, when the sum of the values moves by
/// an integer vector of L2 norm `sensitivity` at most:
/// `order sensitivity^2/(2 parties sigma^2) + tau dimension (2 order - 1)/(order - 1)`.
///
/// With `P <= e^(tau d) Q` and `P' >= e^(-tau d) Q'` ([`closeness`], coordinate by coordinate), the
/// sum of `P^a P'^(1-a)` is at most `e^(tau d (2a - 1))` times that of `Q^a Q'^(1-a)`, and `N_Z` is
/// `sensitivity^2/(2 parties sigma^2)`-zCDP (Canonne, Kamath, Steinke 2020). `parties` counts those
/// whose noise is in the sum under both neighbours: honest ones.
pub fn distributed_rdp(
    sigma: f64,
    parties: u64,
    dimension: u64,
    sensitivity: f64,
    order: f64,
) -> Result<f64, Error> {
    let tau = closeness(sigma, parties)?;
    at_least_one("dimension", dimension)?;
    positive("sensitivity", sensitivity)?;
    check_order(order)?;
    let scaled = sensitivity / sigma;
    let centre = 0.5 * order * scaled * scaled / parties as f64;
    let closeness = tau * dimension as f64 * (1.0 + order / (order - 1.0));
    Ok(up(centre + closeness, 2.0 * ROUNDING))
}
