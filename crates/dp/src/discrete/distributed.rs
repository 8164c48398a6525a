//! The sum of many discrete Gaussians, one per party: which continuous Gaussian is at least as bad.
//!
//! Let `p` be the law of the sum of `n` independent `N_Z(0, sigma^2)`. Unlike in the continuous
//! case it is not a discrete Gaussian of the summed variance. But its *curvature*
//! `L = max over x of 2 ln p(x) - ln p(x - 1) - ln p(x + 1)` is known exactly, and it is enough.
//!
//! **The curvature is largest at 0**: `L = 2 ln(p(0)/p(1))`. Up to a constant `p(x)` is the sum of
//! `e^(-|z|^2/(2 sigma^2))` over the integer vectors `z` whose coordinates add up to `x`: the
//! Gaussian mass `rho(A + x e)` of a shifted lattice. For every lattice and all shifts
//! `rho(A + x)^2 rho(A + y)^2 <= rho(A)^2 rho(A + x + y) rho(A + x - y)` (Regev,
//! Stephens-Davidowitz, "An inequality for Gaussians on lattices", 2017); take `y = e`.
//!
//! **A continuous Gaussian dominates.** Let `a` solve `1/a^2 - 1/(12 a^4) = L`. Then for every whole
//! `s` the pair `(p, p shifted by s)` is no worse than `N(0, a^2)` and its shift by `s`, at every
//! epsilon at once:
//!
//! - The masses `r_c(x)` of `N(c, a^2)` in the unit intervals around the integers have a curvature
//!   of at least `L`. The second derivative of the logarithm of such a mass, in the centre of the
//!   interval, is `-1/a^2 + Var/a^4`, where `Var` is the variance inside of the interval. That is
//!   at most 1/12: a log-concave density on a unit interval is below that of the exponential
//!   density with the same mean in convex order (their difference changes its sign twice), and the
//!   latter's variance is `(1/x^2 - 1/sinh^2 x)/4 <= 1/12`, `x` half of its rate.
//! - So `ln(p/r_c)` is convex for every `c`, and `p - r_c` has the signs `+ - +`. For a given `x`
//!   choose `c` so that both laws have the same mass up to `x`. Then on the left of `x` the signs
//!   are `+ -`, and up to `x - s` the law `p` has at least the mass of `r_c`. In terms of its
//!   distribution function `F`: `F(x - s) >= Phi(Phi^-1(F(x)) - s/a)`.
//! - `p` is log-concave, as a convolution of such laws, so the best tests of the pair are thresholds
//!   `x`. Their errors `(1 - F(x), F(x - s))` are the corners of its trade-off function, which is
//!   linear in between. They lie on or above the Gaussian one, which is convex.
//!
//! **Vectors.** The coordinates are independent, so a shift by an integer vector `s` is no worse
//! than the composition of Gaussians at the distances `s_i/a`: one Gaussian at the distance `|s|/a`.
//! Neither the number of coordinates nor the direction matters.

use std::f64::consts::PI;

use crate::error::{Error, at_least_one, in_range, positive};
use crate::math::{down, exp, ln, log1p, sqrt, up};

/// Covers the roundings of sums of a few dozen positive terms, and all that the sums leave out.
/// Relative.
const MARGIN: f64 = 1e-12;

/// From this sigma on, `L` is `1/(n sigma^2)` but for less than 1e-15 of it: by Poisson summation
/// the rest is `2 ln` of a ratio of sums that both are `1 + O(n e^(-2 pi^2 sigma^2 (n-1)/n))`.
const SMOOTH: f64 = 2.0;

/// Terms of a spectrum below `e^-45` of the first, all together, are left out.
const LN_NEGLIGIBLE: f64 = -45.0;

/// The curvature `L` of the sum of `parties` independent `N_Z(0, sigma^2)`, rounded up; see the
/// module documentation. Infinite if the noise cannot be told from none.
pub fn curvature(sigma: f64, parties: u64) -> Result<f64, Error> {
    positive("sigma", sigma)?;
    at_least_one("parties", parties)?;
    let parties = parties as f64;
    if sigma >= SMOOTH || parties == 1.0 {
        return Ok(up(1.0 / sigma / sigma / parties, MARGIN));
    }
    let spectrum = Spectrum::new(sigma);
    // p(0) and p(0) - p(1) by the trapezoidal rule on an odd number of points of the unit circle. It
    // adds the masses at all multiples of that number, ten standard deviations away or more.
    let half = (5.0 * sqrt(parties * spectrum.variance())).ceil() + 16.0;
    let points = 2.0 * half + 1.0;
    let enough = LN_NEGLIGIBLE - ln(points);
    let (mut sum, mut gap) = (0.5, 0.0);
    let mut j = 1.0;
    while j <= half {
        let t = 2.0 * PI * j / points;
        let exponent = parties * log1p(-spectrum.missing(t));
        if exponent < enough {
            break;
        }
        sum += exp(exponent);
        gap += exp(exponent) * one_minus_cos(t);
        j += 1.0;
    }
    let lost = up(gap / sum, 0.1 * MARGIN).min(1.0);
    Ok(up(-2.0 * log1p(-lost), MARGIN))
}

/// The standard deviation, rounded down, of a continuous Gaussian that is at least as bad as the sum
/// of `parties` independent `N_Z(0, sigma^2)`, for integer vectors of any dimension that move by an
/// integer vector; see the module documentation. `parties` counts those whose noise is in the sum
/// under both neighbours: honest ones.
///
/// An error if the noise of all together is below about 0.58 units: nothing is known then.
pub fn as_gaussian(sigma: f64, parties: u64) -> Result<f64, Error> {
    let curvature = curvature(sigma, parties)?;
    // u = 1/a^2 solves u - u^2/12 = L: u = 2 L/(1 + sqrt(1 - L/3)).
    let rest = 1.0 - curvature / 3.0;
    let range =
        "so large that all parties together have noise above 0.58 units: scale the values up";
    in_range("sigma", sigma, rest > 0.0, range)?;
    Ok(down(sqrt(0.5 * (1.0 + sqrt(rest)) / curvature), MARGIN))
}

/// The characteristic function of `N_Z(0, sigma^2)`, for sigma below [`SMOOTH`].
struct Spectrum {
    /// The probabilities of 1, 2, ...
    masses: Vec<f64>,
}

impl Spectrum {
    fn new(sigma: f64) -> Self {
        let weight = |x: u32| {
            let scaled = f64::from(x) / sigma;
            exp(-0.5 * scaled * scaled)
        };
        let weights: Vec<f64> = (1..24).map(weight).take_while(|w| *w > 1e-40).collect();
        let total = 1.0 + 2.0 * weights.iter().rev().sum::<f64>();
        Self { masses: weights.iter().map(|w| w / total).collect() }
    }

    fn variance(&self) -> f64 {
        self.sum(|x| x * x)
    }

    /// One minus the characteristic function at `t`.
    fn missing(&self, t: f64) -> f64 {
        self.sum(|x| one_minus_cos(t * x)).min(1.0)
    }

    /// The mean of an even function that is 0 at 0.
    fn sum(&self, f: impl Fn(f64) -> f64) -> f64 {
        let terms = self.masses.iter().enumerate().rev();
        2.0 * terms.map(|(j, mass)| mass * f(j as f64 + 1.0)).sum::<f64>()
    }
}

fn one_minus_cos(t: f64) -> f64 {
    let half = libm::sin(0.5 * t);
    2.0 * half * half
}
