//! The pair of laws behind all bounds of this module, and its hockey-stick divergence as one pass
//! over a binomial's bulk with a constant number of operations per count.
//!
//! **The pair.** Of `n` reports `S ~ Bin(n, rho)` fall on one of the two symbols `x0, x1` that the
//! device may hold, and `n0 ~ Bin(S, 1/2)` of them on `x0`, `n1 = S - n0` on `x1`: this is the
//! reference law. With `a = e^epsilon0 - 1` and `0 <= kappa <= 1`, the laws of `(n0, n1)` when the
//! device holds `x0` and `x1` have the densities
//!
//! ```text
//! P: (a n0 + S + kappa (n - S)) / norm        Q: (a n1 + S + kappa (n - S)) / norm
//! norm = n (rho (1 + a/2) + kappa (1 - rho))
//! ```
//!
//! - The generic bound: `rho = 2/(e^epsilon0 + 1)`, `kappa = 0`. (For `P = (A + D, C - A + 1 - D)`,
//!   `C ~ Bin(n - 1, rho)`, `A ~ Bin(C, 1/2)`, `D ~ Bern(e^epsilon0 rho / 2)`, count which of the
//!   `C + 1` is the device's.)
//! - k-ary randomized response when all others hold a third symbol, `p = 1/(e^epsilon0 + k - 1)`:
//!   `rho = 2p`, `kappa = (k - 2)/(e^epsilon0 + k - 3)`.
//! - The blanket of k-ary randomized response, `n` uniform reports one of which is the device's:
//!   `rho = 2/k`, `kappa = 1`.
//!
//! **The sum.** Let `E = e^epsilon - 1`, `g = e^epsilon0 - e^epsilon`,
//! `b = P(Bin(s-1, 1/2) = m-1)`, `T = P(Bin(s-1, 1/2) >= m)`. Given `S = s`, `P - e^epsilon Q` is
//! positive where `n1 < (g s - kappa E (n - s)) / (a (e^epsilon + 1))`, a line in `s`. (Stated for
//! `n1`, which may have to be 0, it does not suffer from an `epsilon` near `epsilon0`, or from
//! large ones.) With `s - m` the largest such `n1`, and
//! `n0 P(Bin(s, 1/2) = n0) = (s/2) P(Bin(s-1, 1/2) = n0-1)`, the sum over `n0 >= m` is
//!
//! ```text
//! ( (g s - kappa E (n - s)) b / 2 - E (kappa (n - s) + (1 + a/2) s) T ) / norm
//! ```
//!
//! As `s` falls by one, `m` falls by one or stays (the line's slope is between 0 and 1/2), and
//! Pascal's triangle updates `b` and `T`. Any `m` other than the best would only make the sum
//! smaller.

use super::search::Estimate;
use super::weights::{self, Weights};
use crate::math::{binomial, exp, expm1};

/// Relative rounding of the terms and of the place of the line. A misplaced `m` costs the
/// difference of the densities at the line, zero but for rounding: some ulps of the terms, times
/// `e^epsilon / g` at most. Where that is large, the line is at `n1 >= 1` only for `s` above it,
/// and `2^-s` vanishes beyond 1,100.
const ROUNDING: f64 = 4e-12;

/// Absolute error that stands for anything lost to underflow.
const UNDERFLOW: f64 = 1e-300;

/// A common factor is taken out of `b`, `T` and the sums when `b` grows beyond this (2^400).
const BIG: f64 = 2.582_249_878_086_909e120;
const LN_BIG: f64 = 400.0 * std::f64::consts::LN_2;

/// The pair, as defined in the module documentation.
#[derive(Debug)]
pub(super) struct Pair {
    epsilon0: f64,
    kappa: f64,
    reports: f64,
    norm: f64,
    distance: f64,
    weights: Weights,
}

/// Sums over `s` of the weight times `s` (`near`) or `n - s` (`far`) times `b`, `T` and the error
/// of `T`.
#[derive(Default)]
struct Sums {
    near: [f64; 3],
    far: [f64; 3],
    /// The logarithm of the factor by which all of them are to be multiplied.
    ln_scale: f64,
    /// Relative error of the scale.
    drift: f64,
}

impl Pair {
    /// The pair with its binomial's bulk; `rest = 1 - rho`; about `outside` of `P` is left out of
    /// the sums and added.
    pub(super) fn new(
        epsilon0: f64,
        reports: u64,
        (rho, rest): (f64, f64),
        kappa: f64,
        outside: f64,
    ) -> Self {
        let n = reports as f64;
        let a = expm1(epsilon0);
        let norm = n * (rho * (1.0 + 0.5 * a) + kappa * rest);
        let weights = Weights::new(reports, rho, rest, outside);
        // The standard deviation of the privacy loss to first order.
        let distance = a * crate::math::sqrt(n * rho) / norm;
        Self { epsilon0, kappa, reports: n, norm, distance, weights }
    }

    /// The hockey-stick divergence at `epsilon`, in `0..epsilon0`. The two directions are mirror
    /// images.
    ///
    /// What the table leaves out counts in full: its share of `P` is at most the sum of
    /// `P(s) (s / (n rho) + 1)`, since `kappa n <= norm`.
    pub(super) fn estimate(&self, epsilon: f64) -> Estimate {
        let grown = exp(epsilon);
        let excess = expm1(epsilon);
        let gap = grown * expm1(self.epsilon0 - epsilon);
        let a = expm1(self.epsilon0);
        if gap <= 0.0 {
            return Estimate::default();
        }
        let (kappa, n) = (self.kappa, self.reports);
        let scale = a * (grown + 1.0);
        let sums = self.sums((gap + kappa * excess) / scale, kappa * excess * n / scale);

        let heavy = 1.0 + 0.5 * a;
        let [near_b, near_t, near_error] = sums.near;
        let [far_b, far_t, far_error] = sums.far;
        let gain = 0.5 * gap * near_b;
        let loss = 0.5 * kappa * excess * far_b + excess * (kappa * far_t + heavy * near_t);
        let error = excess * (kappa * far_error + heavy * near_error);
        let falling = 0.5 * (near_b + kappa * far_b) + kappa * far_t + heavy * near_t;
        // Two factors, since the sums may be as large as their common factor is small.
        let root = exp(0.5 * sums.ln_scale);
        let scaled = |x: f64| x * root / self.norm * root;
        let entries = self.weights.values.len();
        let rounding = ROUNDING + 4.0 * f64::EPSILON * entries as f64;
        let value = scaled(gain - loss).max(0.0);
        Estimate {
            value,
            error: scaled(error + rounding * (gain + loss))
                + (sums.drift + weights::drift(entries)) * value
                + self.weights.outside
                + UNDERFLOW,
            slope: -grown * scaled(falling),
        }
    }

    /// The starting point for a search.
    pub(super) fn guess(&self, delta: f64) -> f64 {
        weights::guess(self.distance, delta)
    }

    /// One pass from the largest `s` down, where the outcomes with `n1 < slope * s - offset` count.
    /// In that direction `T` mostly grows, so that its rounding errors fade; where it does not,
    /// they are carried along. The relative error of `b` drifts by 1.5 ulps a step; relative to
    /// that, a step adds at most two ulps of what it touches to `T`. The drift itself is common to
    /// both (see [`weights::drift`]).
    fn sums(&self, slope: f64, offset: f64) -> Sums {
        let mut sums = Sums::default();
        let last = self.weights.last();
        let limit = slope * last as f64 - offset;
        if last == 0 || limit <= 0.0 {
            return sums;
        }
        // The largest n1 that counts; m = s - n1.
        let mut n1 = (limit.ceil() - 1.0).max(0.0);
        let m = last as f64 - n1;
        let ln_b = binomial::ln_pmf(last - 1, m as u64 - 1, 0.5);
        let mut b = 1.0;
        let mut tail = tail_over_point(last as f64 - 1.0, m);
        let mut error = 4.0 * f64::EPSILON * tail;
        sums.ln_scale = ln_b;
        sums.drift = 1e-13 - 8e-15 * ln_b;

        let mut s = last as f64;
        for weight in self.weights.values.iter().rev() {
            let (near, far) = (weight * s, weight * (self.reports - s));
            sums.near[0] += near * b;
            sums.near[1] += near * tail;
            sums.near[2] += near * error;
            sums.far[0] += far * b;
            sums.far[1] += far * tail;
            sums.far[2] += far * error;
            s -= 1.0;
            if s < 1.0 {
                break;
            }
            // From Bin(s, 1/2) at m - 1 and from m on, to Bin(s - 1, 1/2).
            let factor = b * (2.0 / s);
            let middle = factor * n1;
            if n1 < slope * s - offset {
                // n1 stays, m falls.
                tail += 0.5 * middle;
                b = factor * (s - n1);
            } else if n1 > 0.0 {
                tail = (tail - 0.5 * middle).max(0.0);
                b = middle;
                n1 -= 1.0;
            } else {
                // No outcome counts, here or further down.
                break;
            }
            error += 2.0 * f64::EPSILON * (tail + middle);
            if b > BIG {
                for x in sums.near.iter_mut().chain(&mut sums.far) {
                    *x /= BIG;
                }
                (b, tail, error) = (b / BIG, tail / BIG, error / BIG);
                sums.ln_scale += LN_BIG;
            }
        }
        sums
    }
}

/// `P(Bin(c, 1/2) >= m) / P(Bin(c, 1/2) = m - 1)` for `m > c/2`: a series of falling ratios.
fn tail_over_point(c: f64, m: f64) -> f64 {
    let (mut term, mut sum, mut j) = (1.0, 0.0, m);
    while j <= c {
        term *= (c - j + 1.0) / j;
        sum += term;
        // The rest is at most geometric.
        if term * (c - j) <= f64::EPSILON * sum * (2.0 * j + 1.0 - c) {
            break;
        }
        j += 1.0;
    }
    sum
}
