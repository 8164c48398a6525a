//! The Renyi divergence of the Poisson-sampled Gaussian.
//!
//! One device takes part with probability `q`: the sum follows
//! `mix = (1-q) N(0, s^2) + q N(1, s^2)` with it and `base = N(0, s^2)` without it. With the
//! likelihood ratio `1 + u`, `u = q (e^{(2x-1)/2s^2} - 1)`,
//!
//! ```text
//! D_a(mix || base) = ln A_a / (a - 1),   A_a = E_base (1 + u)^a.
//! ```
//!
//! The other direction is never larger: `D_a(base || mix) <= D_a(mix || base)` (Mironov, Talwar,
//! Zhang, "Renyi differential privacy of the sampled Gaussian mechanism", 2019, theorem 5), so this
//! one number covers add/remove both ways. Both methods below sum terms that are not negative and
//! add up to `A_a - 1`, so the result keeps its relative precision however close to 1 the moment
//! is.

use std::f64::consts::PI;

use super::log_sum::{LogSum, ln_one_plus_exp};
use crate::error::{Error, order as check_order, positive, rate};
use crate::math::binomial::ln_pmf;
use crate::math::{exp, expm1, ln, ln_sampled, log1p, sqrt, up};

/// A relative margin added to every divergence. The two methods are accurate to a few parts in 1e13
/// (rounding of exponents, terms left out below 1e-17 of the sum on each side, quadrature error
/// `e^-40`).
pub(super) const MARGIN: f64 = 2e-12;

/// Above this order the bound of the mechanism without sampling is used. It always holds, and such
/// large orders matter only where epsilon is below `ln(1/delta) / 1e6`.
pub(super) const MAX_ORDER: f64 = 1_048_576.0;

/// Above this `a^2/2s^2` the effect of sampling is lost in the rounding of the exponent, so no
/// sampling is assumed.
const MAX_EXPONENT: f64 = 1e12;

/// What each side of a sum may leave out, relative to the sum.
const LEFT_OUT: f64 = 1e-17;

/// The trapezoidal rule aims at an error of `e^-40`.
const QUADRATURE_EXPONENT: f64 = 40.0;

/// How far beyond the centres of its bumps the integrand is followed, in standard deviations.
const REACH: f64 = 10.0;

/// If more nodes than this were needed, a fractional order is bounded from its integer neighbours
/// instead. That takes a sigma below about 0.1 or an order above several thousand.
const MAX_NODES: f64 = 8192.0;

/// The Renyi divergence of order `order` of one step of the Gaussian mechanism of standard
/// deviation `sigma` (sensitivity 1) over a Poisson sample of rate `rate`, for add/remove
/// neighbours, both directions.
///
/// Exact up to rounding (and rounded up) at integer and fractional orders. Only if a fractional
/// order would need too large a quadrature (`sigma` below about 0.1) is it an upper bound by
/// convexity: `ln A_a` is convex in `a`, so the chord between the neighbouring integers lies above
/// it.
pub fn sampled_gaussian(q: f64, sigma: f64, order: f64) -> Result<f64, Error> {
    rate("rate", q)?;
    positive("sigma", sigma)?;
    check_order(order)?;
    Ok(divergence(q, sigma, order))
}

/// [`sampled_gaussian`] for parameters that have been checked.
pub(super) fn divergence(q: f64, sigma: f64, order: f64) -> f64 {
    let plain = 0.5 * order / (sigma * sigma);
    if q == 0.0 {
        return 0.0;
    }
    if q == 1.0 || order > MAX_ORDER || plain * order > MAX_EXPONENT {
        return up(plain, MARGIN).max(f64::MIN_POSITIVE);
    }
    let exact = ln_moment(q, sigma, order) / (order - 1.0);
    // A true value that underflows must not become 0.
    up(exact.min(plain), MARGIN).max(f64::MIN_POSITIVE)
}

/// `ln A_a`, for `0 < q < 1` and an order up to [`MAX_ORDER`].
fn ln_moment(q: f64, sigma: f64, order: f64) -> f64 {
    if order == order.floor() {
        return ln_one_plus_exp(ln_integer_excess(q, sigma, order as u64));
    }
    let step = step(sigma);
    let nodes = (order / sigma + 2.0 * REACH) / step;
    if nodes <= MAX_NODES {
        return ln_one_plus_exp(ln_fractional_excess(q, sigma, order, step));
    }
    chord(order, |n| ln_one_plus_exp(ln_integer_excess(q, sigma, n)))
}

/// Divergence at integer orders, and the chord of `ln A` between them: for mechanisms whose moments
/// are known only at integers.
pub(super) fn divergence_from_integers(q: f64, sigma: f64, order: f64) -> f64 {
    let plain = 0.5 * order / (sigma * sigma);
    if q == 0.0 {
        return 0.0;
    }
    if q == 1.0 || order > MAX_ORDER || plain * order > MAX_EXPONENT {
        return up(plain, MARGIN).max(f64::MIN_POSITIVE);
    }
    let moment = chord(order, |n| ln_one_plus_exp(ln_integer_excess(q, sigma, n)));
    up((moment / (order - 1.0)).min(plain), MARGIN).max(f64::MIN_POSITIVE)
}

/// The value at `order` of the chord through the neighbouring integers of a convex `ln_moment`
/// (which is 0 at 1).
pub(super) fn chord(order: f64, ln_moment: impl Fn(u64) -> f64) -> f64 {
    let below = order.floor();
    let low = if below <= 1.0 { 0.0 } else { ln_moment(below as u64) };
    if below == order {
        return low;
    }
    let high = ln_moment(below as u64 + 1);
    if high == f64::INFINITY { high } else { low + (order - below) * (high - low) }
}

/// `ln(A_n - 1)` for an integer `n >= 2`, from
/// `A_n - 1 = sum over k >= 2 of C(n,k) (1-q)^(n-k) q^k (e^{k(k-1)/2s^2} - 1)`: binomially,
/// `E_base r^k = e^{k(k-1)/2s^2}` for `r` the ratio of the two Gaussians, and the weights add up to
/// 1.
///
/// Not all `k` are visited. Let `s_k` be the term with `e^x` in place of `e^x - 1`, and
/// `ln(s_{k+1}/s_k) = rise(k)`. Its derivative `1/s^2 - (n+1)/((n-k)(k+1))` is positive on one
/// (perhaps empty) interval `(bottom, top)` only, so `rise` falls, rises, falls, and `s` has at
/// most two peaks: one below `bottom`, one above `top`. Each is followed downwards and upwards
/// until what is left on that side, at most (number of terms) x (`s` at the end), is below
/// [`LEFT_OUT`] of the sum; between the two peaks `s` falls and then rises, so the same bound holds
/// there.
fn ln_integer_excess(q: f64, sigma: f64, n: u64) -> f64 {
    let terms = Terms::new(q, sigma, n);
    let (low, high) = terms.peaks();
    let mut sum = LogSum::new();
    let first = low.or(high).unwrap_or(n).max(2);
    terms.follow_down(&mut sum, first, 1);
    let reached = terms.follow_up(&mut sum, first + 1, n);
    if let (Some(_), Some(second)) = (low, high)
        && second > reached
    {
        terms.follow_down(&mut sum, second, reached);
        terms.follow_up(&mut sum, second + 1, n);
    }
    sum.ln()
}

/// The terms of the integer sum.
struct Terms {
    n: u64,
    q: f64,
    /// `ln(q / (1-q))`.
    odds: f64,
    /// `1 / 2 s^2`.
    half: f64,
}

impl Terms {
    fn new(q: f64, sigma: f64, n: u64) -> Self {
        Self { n, q, odds: ln(q) - log1p(-q), half: 0.5 / (sigma * sigma) }
    }

    /// `ln(s_{k+1} / s_k)`, for real `k`.
    fn rise(&self, k: f64) -> f64 {
        ln((self.n as f64 - k) / (k + 1.0)) + self.odds + 2.0 * self.half * k
    }

    /// Where `s` has its one or two local maxima.
    fn peaks(&self) -> (Option<u64>, Option<u64>) {
        let size = self.n as f64;
        let last = size - 1.0;
        let quarter = 0.25 * (size + 1.0) * (size + 1.0);
        let discriminant = quarter - (size + 1.0) * 0.5 / self.half;
        if discriminant <= 0.0 {
            return (Some(self.descent(0.0, last)), None);
        }
        let root = sqrt(discriminant);
        let bottom = (0.5 * last - root).clamp(0.0, last);
        let top = (0.5 * last + root).clamp(0.0, last);
        let low = (self.rise(bottom) < 0.0).then(|| self.descent(0.0, bottom));
        let high = (self.rise(top) > 0.0).then(|| self.descent(top, last));
        (low, high)
    }

    /// The peak on `from..=to`, where `rise` falls: the last place that is still reached by a rise.
    fn descent(&self, from: f64, to: f64) -> u64 {
        if self.rise(from) <= 0.0 {
            return from.ceil() as u64;
        }
        if self.rise(to) >= 0.0 {
            return (to.floor() as u64 + 1).min(self.n);
        }
        let (mut low, mut high) = (from, to);
        while high - low > 0.5 {
            let middle = 0.5 * (low + high);
            if self.rise(middle) > 0.0 {
                low = middle;
            } else {
                high = middle;
            }
        }
        (high.ceil() as u64).min(self.n)
    }

    /// `ln` of the binomial weight of `k`.
    fn ln_weight(&self, k: u64) -> f64 {
        if k == 2 {
            let size = self.n as f64;
            return ln(0.5 * size * (size - 1.0))
                + 2.0 * ln(self.q)
                + (size - 2.0) * log1p(-self.q);
        }
        ln_pmf(self.n, k, self.q)
    }

    /// Adds the term of `k`, given the logarithm of its weight; returns `ln s_k`.
    fn add(&self, sum: &mut LogSum, k: u64, weight: f64) -> f64 {
        let k = k as f64;
        let x = self.half * k * (k - 1.0);
        if x < 1.0 {
            sum.add(expm1(x), weight);
        } else {
            sum.add(-expm1(-x), weight + x);
        }
        weight + x
    }

    /// Adds the terms `from, from - 1, ...` above `floor`, while they matter.
    fn follow_down(&self, sum: &mut LogSum, from: u64, floor: u64) {
        let mut weight = Compensated::new(self.ln_weight(from));
        let mut k = from;
        while k > floor {
            let term = self.add(sum, k, weight.value());
            let below = (k - 1) as f64;
            let rise = self.rise(below);
            if rise > 0.0 && sum.dwarfs(term + ln(k as f64), LEFT_OUT) {
                return;
            }
            weight.add(2.0 * self.half * below - rise);
            k -= 1;
        }
    }

    /// Adds the terms `from, from + 1, ..., to` while they matter; returns the last one that was
    /// examined.
    fn follow_up(&self, sum: &mut LogSum, from: u64, to: u64) -> u64 {
        if from > to {
            return to;
        }
        let mut weight = Compensated::new(self.ln_weight(from));
        let mut k = from;
        loop {
            let term = self.add(sum, k, weight.value());
            if k == to {
                return k;
            }
            let here = k as f64;
            let rise = self.rise(here);
            if rise < 0.0 && sum.dwarfs(term + ln((self.n - k) as f64), LEFT_OUT) {
                return k;
            }
            weight.add(rise - 2.0 * self.half * here);
            k += 1;
        }
    }
}

/// A sum with a separate rounding error (Neumaier).
struct Compensated {
    sum: f64,
    error: f64,
}

impl Compensated {
    fn new(sum: f64) -> Self {
        Self { sum, error: 0.0 }
    }

    fn add(&mut self, x: f64) {
        let next = self.sum + x;
        self.error +=
            if self.sum.abs() >= x.abs() { (self.sum - next) + x } else { (x - next) + self.sum };
        self.sum = next;
    }

    fn value(&self) -> f64 {
        self.sum + self.error
    }
}

/// The step of the trapezoidal rule. With `x = s z` the integrand is analytic for `|Im z| < pi s`
/// (there `1 + u` vanishes), and moving the line of integration by `d` multiplies the Gaussian by
/// `e^{d^2/2}`, so the error is about `e^{d^2/2 - 2 pi d / h}`: best at `d = 2 pi / h` if that is
/// inside, else at `d = pi s`.
fn step(sigma: f64) -> f64 {
    let free = sqrt(2.0 * PI * PI / QUADRATURE_EXPONENT);
    if sigma * free >= 2.0 {
        return free;
    }
    2.0 * PI * PI * sigma / (QUADRATURE_EXPONENT + 0.5 * PI * PI * sigma * sigma)
}

/// `ln(A_a - 1)` for any order by quadrature of `phi(z) ((1+u)^a - 1 - a u)`, which is not negative
/// (Bernoulli) and has the integral `A_a - 1` because `E_base u = 0`.
///
/// To the left of `-REACH` the bracket is bounded by its value at `u = -q`; the logarithm of
/// `phi (1+u)^a` has slope at most `a/s - z`, so to the right of `a/s + REACH` the integrand falls
/// faster than a Gaussian tail of ten standard deviations: what is left out is below 1e-20 of the
/// whole.
fn ln_fractional_excess(q: f64, sigma: f64, order: f64, step: f64) -> f64 {
    let half = 0.5 / (sigma * sigma);
    let nodes = ((order / sigma + 2.0 * REACH) / step) as u64 + 1;
    let mut sum = LogSum::new();
    for node in 0..=nodes {
        let z = libm::fma(node as f64, step, -REACH);
        let (bracket, scale) = bracket(order, q, z / sigma - half);
        sum.add(bracket, scale - 0.5 * z * z);
    }
    sum.ln() + ln(step / sqrt(2.0 * PI))
}

/// `(1+u)^a - 1 - a u` with `u = q (e^l - 1)`, as a number times `e^scale`.
fn bracket(order: f64, q: f64, l: f64) -> (f64, f64) {
    if l > 700.0 {
        return (1.0, order * ln_sampled(q, l));
    }
    let u = q * expm1(l);
    if u.abs() * order.max(2.0) < 0.25 {
        return (bracket_series(order, u), 0.0);
    }
    let power = log1p(u);
    let less = order - 1.0;
    if order * power < 600.0 {
        let value = (1.0 + u) * expm1(less * power) - less * u;
        return (value.max(0.0), 0.0);
    }
    (1.0 - exp(log1p(order * u) - order * power), order * power)
}

/// The binomial series from its quadratic term on.
fn bracket_series(order: f64, u: f64) -> f64 {
    let mut term = 0.5 * order * (order - 1.0) * u * u;
    let mut sum = term;
    for k in 2..60 {
        let k = f64::from(k);
        term *= (order - k) / (k + 1.0) * u;
        let next = sum + term;
        if next == sum {
            break;
        }
        sum = next;
    }
    sum
}
