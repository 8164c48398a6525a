//! Random allocation: a device contributes to some of several releases, and nobody knows to which.
//!
//! Feldman, Shenfeld 2025 ("Privacy amplification by random allocation") and 2026 ("Efficient
//! privacy loss accounting for subsampling and random allocation"). Let `Y_i` be the likelihood
//! ratio of release `i` with the device against without it. Under absence the `Y_i` are independent
//! with mean 1, and the ratio of "in one of `m` slots" is the mean `L = (Y_1 + ... + Y_m)/m`. So the
//! two hockey-stick divergences are `E(L - e^epsilon)_+` and `E(1 - e^epsilon L)_+`: expectations of
//! convex functions. Everything here follows from *convex order* (`A <= B` if `E f(A) <= E f(B)` for
//! every convex `f`):
//!
//! - rounding the law of a sum to a grid by spreading raises it in that order, by merging lowers it
//!   (`law`, `ends`), so that each rounded law is a pair that dominates, or is dominated, and
//!   composes like every other pair;
//! - `E[L_m | L_(m+1)] = L_(m+1)`, so more slots are never worse, and one known slot is the worst
//!   case;
//! - `E[L | Y_1] = 1 + (Y_1 - 1)/m`, so one slot of `m` is never worse than the allocation: a
//!   closed lower end;
//! - a coin of probability `q` for each slot, or one for all of them, makes `1 + q (L - 1)` of `L`.
//!
//! **Several slots.** A uniform subset of `k` of `t` slots is: a random partition of the slots into
//! `k` blocks, then one slot of each. (Permuting the slots shows that all subsets are equally
//! likely, whatever the sizes of the blocks.) The divergence is jointly convex, so it is at most
//! that of the worst partition: `k` independent allocations, to one of `floor(t/k)` or
//! `ceil(t/k)` slots, composed.
//!
//! **Queries that depend on earlier releases** change nothing. Given the past, a release answers
//! the same query with and without the device, so the ratio of "in slot `i` only" to "absent" is
//! still the ratio `Y_i` of that one release, which given the past is at most that of the release's
//! dominating pair in convex order. Replace the `Y_i` by independent ones of that pair from the
//! last to the first: the ratio of the whole is affine in each `Y_i`, so each time the function of
//! the rest stays convex and its expectation grows.
//!
//! Assumed: add/remove (or zero-out) neighbours, and a choice of slots that nobody sees.

mod attack;
mod counts;
mod donation;
mod ends;
mod law;
mod one_way;
mod schedule;
mod slot;
mod sticks;

use std::rc::Rc;

pub(crate) use attack::{best as best_attack, nothing};
pub(crate) use counts::Crowd;
use ends::Mean;
use law::End;
use one_way::OneWay;
pub(crate) use schedule::Schedule;
pub(crate) use slot::{Outcomes, Slot};

pub use donation::{Donation, donation};

use crate::error::{Error, at_least_one, delta as target};
use crate::math::{down, ln_sampled, up};
use crate::pld::pair::Pair;
use crate::{Bracket, closed};

/// The relative rounding error of the few operations in a closed form.
const ROUNDING: f64 = 1e-14;

/// The epsilon at `delta` of random allocation to one of `slots` Gaussian releases, each with the
/// noise multiplier `sigma`: the worse of the two directions, as a certified bracket.
///
/// The law of the sum of the likelihood ratios is computed on a geometric grid: the ends differ by
/// 1e-4 (few slots) to 5e-3 (many, or sigma near 1) of their value. Where that is out of reach
/// (sigma below about 0.05, or delta near the smallest numbers) the upper end is that of one known
/// slot, and the lower that of one slot of `slots`. Adding slots or noise never raises the true
/// epsilon.
pub fn gaussian(slots: u64, sigma: f64, delta: f64) -> Result<Bracket, Error> {
    at_least_one("slots", slots)?;
    target(delta)?;
    // For the error if there is no such noise.
    closed::gaussian_epsilon(sigma, delta)?;
    Allocation::new(Slot::Gaussian { sigma }, Schedule::uniform(slots), delta).epsilon(delta)
}

/// Both ends of the law of the ratio of a schedule.
pub(crate) struct Allocation {
    slot: Slot,
    schedule: Schedule,
    upper: Option<Rc<Mean>>,
    lower: Option<Rc<Mean>>,
}

impl Allocation {
    /// The laws, for a composition in which this may be wrong by `delta`.
    pub(crate) fn new(slot: Slot, schedule: Schedule, delta: f64) -> Self {
        let end = |end| Mean::of(&slot, schedule, delta, end).map(Rc::new);
        let (upper, lower) = (end(End::Upper), end(End::Lower));
        Self { slot, schedule, upper, lower }
    }

    /// Whether [`Allocation::epsilon`] is as good as the pairs are: there is a law, or a closed form
    /// of one release.
    pub(crate) fn has_own_bound(&self) -> bool {
        self.upper.is_some() || !matches!(self.slot, Slot::Atoms(_))
    }

    /// The epsilon of the worse direction.
    pub(crate) fn epsilon(&self, delta: f64) -> Result<Bracket, Error> {
        let rate = self.schedule.rate;
        let most = self.alone(rate, delta)?;
        let upper = self.upper.as_ref().map_or(most.upper, |mean| mean.epsilon(delta, most.upper));
        if self.schedule.slots == 1 {
            return Ok(Bracket { lower: most.lower.min(upper), upper });
        }
        let lower = self.lower.as_ref().map_or(0.0, |mean| mean.epsilon(delta, most.upper));
        let one_slot = self.alone(self.schedule.most(), delta)?.lower;
        Ok(Bracket { lower: lower.max(one_slot).min(upper), upper })
    }

    /// One release, with the device in it with probability `rate`:
    /// `E(1 + q (Y - 1) - a)_+ = q E(Y - b)_+` with `b = 1 + (a - 1)/q`. So with the epsilon of one
    /// plain release at `delta/q`, `ln b`, this has `ln(1 + q (b - 1))`. (For the other direction
    /// that is an upper bound: Balle, Barthe, Gaboardi 2018.)
    fn alone(&self, rate: f64, delta: f64) -> Result<Bracket, Error> {
        if rate == 1.0 {
            return self.slot.plain(delta);
        }
        let end = |own: f64, sign: f64| {
            if own >= 1.0 {
                return Ok(0.0);
            }
            let plain = self.slot.plain(own)?;
            let own = if sign > 0.0 { plain.upper } else { plain.lower };
            Ok(ln_sampled(rate, own))
        };
        let own = delta / rate;
        let (lower, upper) = (end(up(own, ROUNDING), -1.0)?, end(down(own, ROUNDING), 1.0)?);
        Ok(Bracket { lower: down(lower, ROUNDING).max(0.0), upper: up(upper, ROUNDING) })
    }

    /// The two directions, at least and at most as bad.
    pub(crate) fn pairs(&self) -> [[Box<dyn Pair>; 2]; 2] {
        let Self { slot, schedule, upper, lower } = self;
        let alone = if schedule.slots == 1 { schedule.rate } else { schedule.most() };
        let upper = directions(upper.as_ref(), slot, schedule.rate);
        [upper, directions(lower.as_ref(), &slot.finite(), alone)]
    }

    /// The two directions, at least as bad.
    pub(crate) fn upper(slot: &Slot, schedule: Schedule, delta: f64) -> [Box<dyn Pair>; 2] {
        let mean = Mean::of(slot, schedule, delta, End::Upper).map(Rc::new);
        directions(mean.as_ref(), slot, schedule.rate)
    }
}

/// The two directions of a law, or of one release with the device in it with probability `rate`.
fn directions(mean: Option<&Rc<Mean>>, slot: &Slot, rate: f64) -> [Box<dyn Pair>; 2] {
    [false, true].map(|reversed| -> Box<dyn Pair> {
        match mean {
            Some(mean) => Box::new(OneWay { mean: Rc::clone(mean), reversed }),
            None => slot.sampled(rate, reversed),
        }
    })
}
