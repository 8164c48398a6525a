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
//! **Its own law** is better than both: the terms are independent, and the sum of the first `2n` is
//! that of the first `n` plus `(1-q)^n` times another one ([`super::law`]). With one coin of
//! probability `r` for the whole series before all that, the ratio is `1 + r (F - 1)`.

use super::{Allocation, Schedule, Slot};
use crate::error::{Error, at_least_one, in_range, positive, rate as probability};
use crate::math::{down, expm1, ln, ln_sampled, log1p, sqrt, up};
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
    pub random_allocation: Bracket,
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

/// The cost of a series to which a device donates with probability `rate`, namely to the first of
/// `slots` releases for which a coin of probability `1/slots` comes up heads. The noise makes each
/// release alone `(epsilon, delta)`-differentially private. All answers hold at `2 delta`.
///
/// Assumed: add/remove neighbours of norm at most 1 in units of the clip, and coins that nobody
/// sees. Queries may depend on earlier releases.
pub fn donation(epsilon: f64, delta: f64, slots: u64, rate: f64) -> Result<Donation, Error> {
    positive("epsilon", epsilon)?;
    at_least_one("slots", slots)?;
    probability("rate", rate)?;
    positive("rate", rate)?;
    let range = "above 0 and below 1/2: the answer holds at twice as much";
    in_range("delta", delta, delta > 0.0 && delta < 0.5, range)?;
    let m = slots as f64;
    let sigma = closed::gaussian_sigma(epsilon, delta)?;
    let each = ln_sampled(1.0 / m, epsilon);
    let formula = up(each * sqrt(-2.0 * ln(delta) * m) + 0.5 * m * each * each, ROUNDING);
    let formula = up(ln_sampled(rate, formula), ROUNDING);
    let twice = 2.0 * delta;
    let poisson = sampled(slots, sigma, twice, rate)?;
    let of = |schedule: Schedule| {
        let law = Allocation::new(Slot::Gaussian { sigma }, schedule.sampled(rate), twice);
        law.epsilon(twice)
    };
    let random = of(Schedule::uniform(slots))?;
    let own = of(Schedule::donation(slots))?;
    let candidates = [
        (own.upper, "exact law of the donation"),
        (random.upper, "random allocation"),
        (poisson.upper, "Poisson sampling"),
        (formula, "formula"),
    ];
    let (upper, method) = candidates
        .into_iter()
        .fold((f64::INFINITY, "none"), |best, next| if next.0 < best.0 { next } else { best });
    Ok(Donation {
        formula,
        formula_delta: ((m + 1.0) * delta).min(1.0),
        poisson,
        random_allocation: random,
        best: Bracket { lower: own.lower.min(upper), upper },
        delta: twice,
        sigma,
        participation: -expm1(m * log1p(-1.0 / m)) * rate,
        method,
    })
}

/// [`poisson`] after a coin of probability `rate` for all of it: `(ln(1 + r (e^eps - 1)), r delta)`
/// for each `(eps, delta)`. The lower end is known for the rate 1 only.
fn sampled(slots: u64, sigma: f64, delta: f64, rate: f64) -> Result<Bracket, Error> {
    if rate == 1.0 {
        return poisson(slots, sigma, delta);
    }
    let own = down(delta / rate, ROUNDING);
    let upper = if own < 1.0 { poisson(slots, sigma, own)?.upper } else { 0.0 };
    Ok(Bracket { lower: 0.0, upper: up(ln_sampled(rate, upper), ROUNDING) })
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
