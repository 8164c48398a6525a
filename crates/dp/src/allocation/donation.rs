//! Donation time: a device waits for one of several releases, chosen at random.
//!
//! **The schedule.** A willing device tosses a coin of probability `q = 1/m` before each of `m`
//! releases, contributes to the first for which it comes up heads, and is then done. It chooses
//! slot `i = 0, 1, ...` with probability `w_i = q (1-q)^i <= 1/m`, and none at all with probability
//! `(1-q)^m`, about `1/e`. Under `Q` its likelihood ratio is `F = 1 + sum_i w_i (Y_i - 1)`, with
//! the `Y_i` of [`super`].
//!
//! **Random allocation is a bound.** There all weights are `1/m`. The terms are independent with
//! mean 0, and `w_i (Y_i - 1)` is a contraction of `(Y_i - 1)/m` towards its mean: smaller in
//! convex order, coordinate by coordinate. So both hockey-stick divergences are smaller too.
//! Queries that depend on earlier releases change nothing, as in [`super`].
//!
//! **Poisson sampling at rate `1/m` is a bound.** From the last release backwards, what is left of
//! the two ratios is `F_i = (1-q) F_(i+1) + q Y_i` and `G_i = (1-q) G_(i+1) + q Y_i G_(i+1)`, both
//! 1 after the last. Suppose `F_(i+1) <= G_(i+1)` in convex order, given all up to release `i`.
//! Given `Y_i = y`, the first is then at most `(1-q) G_(i+1) + q y`, whose distance from its mean
//! `1-q + q y` is `1-q` times that of `G_(i+1)` from 1; the second has the same mean and the factor
//! `1-q + q y`, which is not smaller. So `F_i <= G_i`. All of it holds given the past, so that
//! queries may depend on earlier releases here too.
//!
//! **A lower end.** All `w_i` are at least `v = q (1-q)^(m-1)`, so `F` is at least
//! `1 + m v (L - 1)` in convex order, and `E(F - a)_+ >= m v E(L - 1 - (a - 1)/(m v))_+`. And
//! `w_0 = 1/m`: the one-slot bound of [`super`] holds as well.

use super::Allocation;
use crate::error::{Error, at_least_one, in_range, positive};
use crate::math::{down, exp, expm1, ln, ln_sampled, log1p, sqrt, up};
use crate::pld::mixture::Mixture;
use crate::{Adjacency, Bracket, Event, Shape, closed, pld, rdp};

/// The relative rounding error of the few operations in a closed form.
const ROUNDING: f64 = 1e-14;

/// The noise multipliers, and the most releases, for which the loss distribution is used: outside
/// this range its lattice resolves nothing, and only the Renyi accountant answers.
const LATTICE: (std::ops::RangeInclusive<f64>, u64) = (0.05..=1e7, 1 << 40);

/// What a donation costs, by each method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Donation {
    /// The paper's appendix: sampling amplification for each release, then advanced composition,
    /// `e1 sqrt(2 m ln(1/delta)) + m e1^2/2` with `e1 = ln(1 + (e^epsilon - 1)/m)`.
    pub formula: f64,
    /// The delta that the paper states with it, `(m + 1) delta` (at most 1). In fact `2 delta` is
    /// enough: sampling reduces each release's delta to `delta/m`, and composition adds one
    /// `delta`.
    pub formula_delta: f64,
    /// Poisson sampling at rate `1/m` for each of the releases, composed: the better of the Renyi
    /// accountant and the privacy loss distribution. The bracket is that of Poisson sampling; its
    /// upper end holds for the donation.
    pub poisson: Bracket,
    /// Exactly one of the releases, uniformly. Again its upper end holds for the donation.
    pub random_allocation: Option<Bracket>,
    /// The donation itself: the least of all upper ends, including that of one known release. The
    /// lower end is a true lower bound on the schedule's epsilon.
    pub best: Bracket,
    /// The delta of all of them: twice that of a release.
    pub delta: f64,
    /// The noise multiplier that makes one release `(epsilon, delta)`-differentially private,
    /// rounded up.
    pub sigma: f64,
    /// The probability that a willing device contributes at all.
    pub participation: f64,
    /// Which method gave the upper end of `best`.
    pub method: &'static str,
}

/// The cost of donating to the first of `slots` releases for which a coin of probability `1/slots`
/// comes up heads, where the noise makes each release alone `(epsilon, delta)`-differentially
/// private. All answers hold at `2 delta`.
///
/// Assumed: add/remove neighbours of norm at most 1 in units of the clip, and coins that nobody
/// sees. Queries may depend on earlier releases.
pub fn donation(epsilon: f64, delta: f64, slots: u64) -> Result<Donation, Error> {
    positive("epsilon", epsilon)?;
    at_least_one("slots", slots)?;
    let range = "above 0 and below 1/2: the answer holds at twice as much";
    in_range("delta", delta, delta > 0.0 && delta < 0.5, range)?;
    let m = slots as f64;
    let sigma = closed::gaussian_sigma(epsilon, delta)?;
    let each = ln_sampled(1.0 / m, epsilon);
    let formula = up(each * sqrt(-2.0 * ln(delta) * m) + 0.5 * m * each * each, ROUNDING);
    let twice = 2.0 * delta;
    let poisson = poisson(slots, sigma, twice)?;
    let allocation = Allocation::new(slots, sigma, twice)?;
    let random = allocation.epsilon();
    let candidates = [
        (random.upper, "random allocation"),
        (poisson.upper, "Poisson sampling"),
        (allocation.plain.upper, "one known release"),
        (formula, "formula"),
    ];
    let (upper, method) = candidates
        .into_iter()
        .fold((f64::INFINITY, "none"), |best, next| if next.0 < best.0 { next } else { best });
    let lower = lower_end(&allocation, m).min(upper);
    Ok(Donation {
        formula,
        formula_delta: ((m + 1.0) * delta).min(1.0),
        poisson,
        random_allocation: Some(random),
        best: Bracket { lower, upper },
        delta: twice,
        sigma,
        participation: -expm1(m * log1p(-1.0 / m)),
        method,
    })
}

/// The `slots`-fold composition of Poisson sampling at rate `1/slots`.
fn poisson(slots: u64, sigma: f64, delta: f64) -> Result<Bracket, Error> {
    let gaussian = Event::Gaussian { sigma, sensitivity: 1.0 };
    if slots == 1 {
        return closed::gaussian_epsilon(sigma, delta);
    }
    // A larger rate costs more.
    let rate = up(1.0 / slots as f64, f64::EPSILON);
    let sampled = Event::PoissonSampled { rate, of: Box::new(gaussian) };
    let event = Event::Repeated { times: slots, of: Box::new(sampled) };
    let renyi = rdp::epsilon(&event, Adjacency::AddRemove, Shape::Vector, delta)?.epsilon;
    if !LATTICE.0.contains(&sigma) || slots > LATTICE.1 {
        return Ok(Bracket { lower: 0.0, upper: renyi });
    }
    let forth = Mixture::sampled_gaussian(rate, sigma, 1.0, false);
    let back = Mixture::sampled_gaussian(rate, sigma, 1.0, true);
    let found = pld::epsilon(&[(&forth, slots)], delta).or(pld::epsilon(&[(&back, slots)], delta));
    // The rate is rounded up, so the lower end is lowered by as much.
    let lower = down(found.lower, ROUNDING).min(renyi);
    Ok(Bracket { lower, upper: found.upper.min(renyi) })
}

/// Explained in the module documentation.
fn lower_end(allocation: &Allocation, slots: f64) -> f64 {
    let share = if slots > 1.0 { exp((slots - 1.0) * log1p(-1.0 / slots)) } else { 1.0 };
    let share = down(share, 1e-9);
    let most = allocation.plain.upper;
    let by_mean = allocation.lower.as_ref().map_or(0.0, |mean| {
        mean.solve(|epsilon| share * mean.forward(log1p(expm1(epsilon) / share)), most)
    });
    by_mean.max(allocation.one_slot)
}
