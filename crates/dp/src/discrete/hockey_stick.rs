//! The hockey stick between a discrete Gaussian and its shift.
//!
//! Turned round so that the law of the larger side is centred at 0 and the loss grows with `x`, the
//! loss at `x` is `L(x) = D (D + 2 x)/(2 sigma^2)` for sensitivity `D`, and with `j` the first
//! integer of loss `epsilon` or more `delta = sum over x >= j of p(x) (1 - e^(epsilon - L(x)))`: no
//! term is negative.
//!
//! Write `t = j/sigma`, `h = D/sigma`, `E = e^(epsilon - L(j))` in `(0, 1]`. The summand is
//! `f(x) = p(x) - e^epsilon p(x + D)`, and `e^epsilon p(j + D) = E p(j)`.
//!
//! *Small sigma*: the sum itself. *Large sigma*: Euler-Maclaurin,
//! `sum = integral + f(j)/2 - sum over k <= 8 of B_2k/(2k)! f^(2k-1)(j) + R`,
//! `|R| <= |B_16|/16! integral of |f^(16)|`, where `p^(n) = (-1/sigma)^n He_n(x/sigma) p`. Divided
//! by `phi(t)` the parts are `M(t) - E M(t + h)` (Mills' ratio `M`), `(1 - E)/(2 sigma)` and
//! `B_2k/(2k)! sigma^-2k (He_2k-1(t) - E He_2k-1(t + h))`.
//!
//! The remainder. `He_n(t)` is the mean of `(t + i Z)^n`, so `|He_n(t)| <= (t^2 + n)^(n/2)`; times
//! `phi(t)` this is largest at 0 and falls at least at the rate `t^3/(t^2 + n)` from there on. With
//! `|B_16|/16! < 3.4e-13`, sigma at least 64 and `t + h <= sigma/16`, `|R|` is below 1e-20 of the
//! integral, which is at least `phi(t) h (1 - x M(x))` at `x = t + h`: it disappears in the error
//! that is allowed for anyway.

use crate::closed::{ROUNDING, mean_decay, ratio};
use crate::math::normal::{density, ln_density, upper_tail};
use crate::math::{exp, expm1, ln};

/// From this sigma on, sums near the centre are replaced by the Euler-Maclaurin formula.
const SMOOTH: f64 = 64.0;
/// The Euler-Maclaurin formula is used up to this fraction of sigma.
const NEAR: f64 = 1.0 / 16.0;
/// Above this sigma no sums are used, and `t` and `h` stay below [`APART`].
pub(super) const LARGE: f64 = 1e4;
/// See [`LARGE`]: `2 APART <= NEAR LARGE`.
pub(super) const APART: f64 = 300.0;
/// Epsilon is lowered to this, which only raises delta: squares stay finite.
const FARTHEST: f64 = 1e100;
/// Below this many sigmas the law has almost no mass (`e^-800`).
const LOWEST: f64 = -40.0;
/// Error of `ln delta`, in addition to the terms that grow with `t`; as in the continuous case.
const EVALUATION: f64 = 5e-14;

/// `ln delta` and its possible error, at an epsilon within a relative [`ROUNDING`] of the given
/// one.
pub(super) struct Stick {
    pub(super) ln_delta: f64,
    pub(super) error: f64,
}

/// The hockey stick at `epsilon` for noise `sigma` and a shift by `distance`, a positive integer.
pub(super) fn at(sigma: f64, distance: f64, epsilon: f64) -> Stick {
    let mut epsilon = epsilon.min(FARTHEST);
    let h = distance / sigma;
    if sigma > LARGE {
        epsilon = epsilon.min(h * (APART - 1.0 + 0.5 * h));
    }
    let j = (epsilon / h * sigma - 0.5 * distance).ceil();
    // How far the loss at j is above epsilon: less than one step of the loss.
    let step = h / sigma;
    let over = (h / sigma * (j + 0.5 * distance) - epsilon).clamp(0.0, step);
    let t = j / sigma;
    let ln_delta = if sigma >= SMOOTH && t + h <= NEAR * sigma {
        smooth(sigma, t, h, over)
    } else {
        // A first term of exactly 0 could not serve as the unit for the others.
        let first = if over == 0.0 { j + 1.0 } else { j };
        let first = first.max((LOWEST * sigma).floor());
        summed(sigma, first, step, over + step * (first - j))
    };
    let height = t.max(0.0);
    Stick { ln_delta, error: EVALUATION + ROUNDING * (2.0 + height) * (2.0 + height) }
}

/// The sum, from `j` on, where the loss is `over` above epsilon and grows by `step`.
fn summed(sigma: f64, j: f64, step: f64, over: f64) -> f64 {
    // Weights relative to the largest one, at j or at 0.
    let anchor = j.max(0.0);
    let scale = 0.5 / (sigma * sigma);
    let mut sum = 0.0;
    let mut count = 0.0;
    // At most 40 sigma terms on each side of 0, sigma being at most LARGE.
    loop {
        let x = j + count;
        let exponent = if j >= 0.0 { count * (2.0 * j + count) } else { x * x } * scale;
        let weight = exp(-exponent);
        sum -= weight * expm1(-over - step * count);
        count += 1.0;
        // What follows is at most a geometric series with this ratio.
        if x >= 0.0 {
            let ratio_left = -expm1(-(2.0 * x + 1.0) * scale);
            if weight <= 1e-17 * sum * ratio_left || exponent > 745.0 {
                break;
            }
        }
    }
    -anchor / sigma * (anchor / sigma) * 0.5 - super::ln_normalizer(sigma) + ln(sum)
}

/// `B_2k/(2k)!` for `k` from 1.
const BERNOULLI: [f64; 8] = [
    1.0 / 12.0,
    -1.0 / 720.0,
    1.0 / 30_240.0,
    -1.0 / 1_209_600.0,
    1.0 / 47_900_160.0,
    -691.0 / 1_307_674_368_000.0,
    1.0 / 74_724_249_600.0,
    -3_617.0 / 10_670_622_842_880_000.0,
];

/// The Euler-Maclaurin formula.
fn smooth(sigma: f64, t: f64, h: f64, over: f64) -> f64 {
    // E and 1 - E.
    let (kept, lost) = (exp(-over), -expm1(-over));
    let middle = t + 0.5 * h;
    let far = ratio(t + h).mills;
    let mut edge = 0.5 * lost / sigma;
    let (mut power, square) = (1.0, 1.0 / (sigma * sigma));
    let near_terms = hermite(t);
    let far_terms = hermite(t + h);
    for (k, coefficient) in BERNOULLI.iter().enumerate() {
        power *= square;
        let n = 2 * k + 1;
        // The leading parts of the difference cancel when h is small. That costs nothing that
        // matters: the term is sigma^-2 of the whole, or sigma^-1 of it where h is about 1/sigma.
        edge += coefficient * power * (near_terms[n] - kept * far_terms[n]);
    }
    if t < -1.0 {
        let top = density(t);
        return ln(upper_tail(t) + top * (edge - kept * far));
    }
    let gap = if h <= 1.0 || middle >= 4.0 * h {
        h * mean_decay(middle, 0.5 * h)
    } else {
        ratio(t).mills - far
    };
    ln_density(t) + ln(gap + lost * far + edge)
}

/// The Hermite polynomials `He_0 .. He_15` at `t`.
fn hermite(t: f64) -> [f64; 16] {
    let mut values = [1.0, t, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    for n in 2..16u8 {
        let i = usize::from(n);
        values[i] = t * values[i - 1] - f64::from(n - 1) * values[i - 2];
    }
    values
}
