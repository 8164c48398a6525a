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
//!
//! **Sums.** The sum of draws with the variances `u` and `v` is `y` with a probability proportional to
//! `e^(-y^2/(2 (u + v)))` times a sum of `e^(-(z-c)^2/(2 w))` over all whole `z`, `w = u v/(u + v)`
//! and `c` depending on `y`: Poisson's sum again. So it is within the factor `(1+e)/(1-e)` of one
//! draw of variance `u + v`, `e` for the variance `w`. If `n` draws of variance `s^2` are added one by
//! one, `w` is `s^2 k/(k + 1)`, at least `s^2/2`. Convolution keeps a bound on the ratio, so the sum
//! is within that factor to the power of `n - 1` of one draw of variance `n s^2`. (Kairouz, Liu,
//! Steinke 2021 add up the same terms.) For `s = 4` it is `1 + 1e-68`.
//!
//! A draw of a larger variance is nearly a post-processing of less continuous noise just as well: add
//! what is missing, and round. So less than all of the noise may be counted.

use std::f64::consts::PI;

use crate::Error;
use crate::error::{at_least_one, positive};
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
    let sigma = down(sqrt(square - spent), 4.0 * f64::EPSILON);
    Ok(Smoothed { sigma, closeness: up(coordinates * ln_factor(spent), 1e-13) })
}

/// The same for the sum of `parties` independent draws of the parameter `sigma`, of which only
/// `counted` is counted: at most `sigma sqrt(parties)`.
pub fn smoothed_sum(
    sigma: f64,
    parties: u64,
    counted: f64,
    coordinates: f64,
) -> Result<Smoothed, Error> {
    positive("sigma", sigma)?;
    at_least_one("parties", parties)?;
    let found = smoothed(counted, coordinates)?;
    let more = (parties - 1) as f64;
    let summed = if more > 0.0 { coordinates * more * ln_factor(0.5 * sigma * sigma) } else { 0.0 };
    Ok(Smoothed { closeness: up(found.closeness + up(summed, 1e-13), 1e-13), ..found })
}

/// `ln((1 + e)/(1 - e))` for the variance `s^2`, rounded up.
fn ln_factor(variance: f64) -> f64 {
    let x = up(exp(-2.0 * PI * PI * down(variance, 1e-14)), 1e-13);
    // The exponents 1, 4, 9, ... are at least 1, 2, 3, ...
    let e = if x < 1.0 { 2.0 * x / (1.0 - x) } else { 1.0 };
    if e < 1.0 { log1p(2.0 * e / (1.0 - e)) } else { f64::INFINITY }
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
