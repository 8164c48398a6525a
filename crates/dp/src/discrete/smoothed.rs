//! Discrete Gaussian noise as continuous noise that was rounded, in any dimension.
//!
//! Take a continuous Gaussian of variance `sigma^2 - s^2` around a whole number `a`, and round its
//! outcome `c` at random: to the whole number `y` with probability `e^(-(y-c)^2/(2 s^2))/Z(c)`. By
//! Poisson summation `Z(c)` is `s sqrt(2 pi)` times a number between `1 - e` and `1 + e`, with
//! `e = 2 (x + x^4 + x^9 + ...)`, `x = e^(-2 pi^2 s^2)`. If it were constant, the result would be
//! proportional to `e^(-(y-a)^2/(2 sigma^2))`; and the normalizer of the discrete Gaussian, too, is
//! `sigma sqrt(2 pi)` times a number between 1 and `1 + e`. So the discrete Gaussian around `a` is
//! within a factor `(1+e)/(1-e)`, at every whole number, of a post-processing of the continuous one
//! around `a`. Coordinates are independent, and the factors multiply; mixtures keep them.
//!
//! So with `t` the logarithm of all factors together, whatever is (epsilon, delta)-private with the
//! continuous noise is `(epsilon + 2 t, e^t delta)`-private with the discrete one, sampling and
//! composition included. Coordinates that are the same for both neighbours do not count.

use std::f64::consts::PI;

use crate::Error;
use crate::error::positive;
use crate::math::{down, exp, ln, log1p, sqrt, up};

/// The factors that are aimed at, all together, as a logarithm. It enters epsilon twice.
const CLOSE: f64 = 1e-10;

/// Continuous noise of which discrete noise is nearly a post-processing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Smoothed {
    /// Standard deviation of the continuous noise, a little below the discrete one's parameter.
    pub sigma: f64,
    /// `t` above, for all coordinates together; infinite if the noise is too small for this.
    pub closeness: f64,
}

/// The continuous noise for discrete Gaussian noise of the parameter `sigma`, in integer units, on
/// `coordinates` numbers in all: of all rounds, and only those that the neighbours can differ in.
pub fn smoothed(sigma: f64, coordinates: f64) -> Result<Smoothed, Error> {
    positive("sigma", sigma)?;
    positive("coordinates", coordinates)?;
    let square = sigma * sigma;
    // 4 x coordinates is CLOSE, but at most a quarter of the variance is spent on it.
    let spent = (ln(4.0 * coordinates / CLOSE) / (2.0 * PI * PI)).clamp(0.0, 0.25 * square);
    let x = up(exp(-2.0 * PI * PI * spent), 1e-13);
    // The exponents 1, 4, 9, ... are at least 1, 2, 3, ...
    let e = if x < 1.0 { 2.0 * x / (1.0 - x) } else { 1.0 };
    let each = if e < 1.0 { log1p(2.0 * e / (1.0 - e)) } else { f64::INFINITY };
    let sigma = down(sqrt(square - spent), 4.0 * f64::EPSILON);
    Ok(Smoothed { sigma, closeness: up(coordinates * each, 1e-13) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The post-processing itself, summed: its law is as close to the discrete Gaussian as promised.
    #[test]
    fn rounding_at_random_gives_nearly_the_discrete_law() {
        for (sigma, spent) in [(1.0f64, 0.25f64), (1.3, 0.4), (2.0, 1.0), (4.0, 1.2)] {
            let x = (-2.0 * PI * PI * spent).exp();
            let promised = (2.0 * x / (1.0 - x)).ln_1p() - (-2.0 * x / (1.0 - x)).ln_1p();
            let inner = (sigma * sigma - spent).sqrt();
            let weight = |d: f64, variance: f64| (-d * d / (2.0 * variance)).exp();
            let reach = (9.0 * sigma) as i64;
            let normalizer: f64 = (-60..=60).map(|y| weight(f64::from(y), sigma * sigma)).sum();
            let step = 1.0 / 512.0;
            for y in -reach / 3..=reach / 3 {
                let mut mass = 0.0;
                for j in -reach * 512..=reach * 512 {
                    let c = j as f64 * step;
                    let here = c.floor() as i64;
                    let all: f64 =
                        (here - 40..=here + 40).map(|z| weight(z as f64 - c, spent)).sum();
                    let density = weight(c, inner * inner) / (inner * (2.0 * PI).sqrt());
                    mass += step * density * weight(y as f64 - c, spent) / all;
                }
                let exact = weight(y as f64, sigma * sigma) / normalizer;
                let off = (mass / exact).ln().abs();
                assert!(off <= promised + 1e-9, "{sigma} {spent} {y}: {off} {promised}");
            }
        }
    }

    #[test]
    fn more_coordinates_cost_more_and_much_noise_costs_little() {
        let mut last = Smoothed { sigma: f64::INFINITY, closeness: 0.0 };
        for coordinates in [1.0, 2.0, 1e3, 1e6, 1e12] {
            let found = smoothed(20.0, coordinates).unwrap();
            assert!(found.sigma < last.sigma && found.sigma > 19.9, "{found:?}");
            assert!(found.closeness > 0.9e-10 && found.closeness < 1.1e-10, "{found:?}");
            last = found;
        }
        assert!(smoothed(1.0, 1.0).unwrap().closeness < 0.04);
        assert_eq!(smoothed(0.1, 1.0).unwrap().closeness, f64::INFINITY);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(smoothed(bad, 1.0).is_err() && smoothed(1.0, bad).is_err());
        }
    }
}
