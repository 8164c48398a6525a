//! Random allocation: a device contributes to exactly one of several Gaussian releases, and nobody
//! knows which.
//!
//! Feldman, Shenfeld 2025 ("Privacy amplification by random allocation"). With `m` slots the pair
//! is `P = (1/m) sum_i N(e_i, sigma^2 I_m)` against `Q = N(0, sigma^2 I_m)`. Under `Q` the
//! likelihood ratio is the mean `L = (Y_1 + ... + Y_m)/m` of independent lognormal ratios with
//! `E Y = 1`, so that the two hockey-stick divergences are `E(L - e^epsilon)_+` and
//! `E(1 - e^epsilon L)_+`: expectations of convex functions. Everything here follows from *convex
//! order* (`A <= B` if `E f(A) <= E f(B)` for every convex `f`):
//!
//! - rounding the law of a sum to a grid by spreading raises it in that order, by merging lowers it
//!   (`law`, `ends`);
//! - `E[L_m | L_(m+1)] = L_(m+1)`, so more slots are never worse, and one known slot is the worst
//!   case;
//! - `E[L | Y_1] = 1 + (Y_1 - 1)/m`, so one slot of `m` is never worse than the allocation: a
//!   closed lower end.
//!
//! **Queries that depend on earlier releases** change nothing. Given the past, a release answers
//! the same query with and without the device, so the ratio of "in slot `i` only" to "absent" is
//! still the ratio `Y_i` of that one release, which given the past is lognormal for a contribution
//! of norm 1, and smaller in convex order for a shorter one (less signal is post-processing).
//! Replace the `Y_i` by independent ones of norm 1 from the last to the first: each time the
//! function of the rest stays convex and its expectation grows. The lower end is attained by
//! contributions of norm 1.
//!
//! Assumed: add/remove (or zero-out) neighbours of norm at most 1 in units of the clip, and a
//! choice of slot that nobody sees.

mod donation;
mod ends;
mod law;

use ends::Mean;
use law::End;

pub use donation::{Donation, donation};

use crate::error::{Error, at_least_one, delta as target};
use crate::math::{down, ln_sampled};
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
    Ok(Allocation::new(slots, sigma, delta)?.epsilon())
}

/// Both ends of the law of `L`, and the bounds that need no law.
struct Allocation {
    /// One known slot: never better. By joint convexity of the divergence, or since `L_1` is the
    /// largest in convex order.
    plain: Bracket,
    /// One of the slots, alone: never worse.
    one_slot: f64,
    upper: Option<Mean>,
    lower: Option<Mean>,
}

impl Allocation {
    fn new(slots: u64, sigma: f64, delta: f64) -> Result<Self, Error> {
        at_least_one("slots", slots)?;
        target(delta)?;
        let plain = closed::gaussian_epsilon(sigma, delta)?;
        if slots == 1 || plain.upper <= 0.0 {
            return Ok(Self { plain, one_slot: plain.lower, upper: None, lower: None });
        }
        Ok(Self {
            plain,
            one_slot: one_slot(slots, sigma, delta)?,
            upper: Mean::new(slots, sigma, delta, End::Upper),
            lower: Mean::new(slots, sigma, delta, End::Lower),
        })
    }

    fn epsilon(&self) -> Bracket {
        let most = self.plain.upper;
        let upper = self.upper.as_ref().map_or(most, |mean| mean.epsilon(most));
        let lower = self.lower.as_ref().map_or(0.0, |mean| mean.epsilon(most));
        Bracket { lower: lower.max(self.one_slot).min(upper), upper }
    }
}

/// A lower end: `E(L - a)_+ >= E(1 + (Y - 1)/m - a)_+ = (1/m) E(Y - b)_+` with `b = 1 + m (a - 1)`.
/// So with the epsilon of one plain release at `m delta`, `ln b`, the allocation's is at least
/// `ln(1 + (b - 1)/m)`.
fn one_slot(slots: u64, sigma: f64, delta: f64) -> Result<f64, Error> {
    let slots = slots as f64;
    let each = slots * delta * (1.0 + ROUNDING);
    if each >= 1.0 {
        return Ok(0.0);
    }
    let release = closed::gaussian_epsilon(sigma, each)?.lower;
    Ok(down(ln_sampled(1.0 / slots, release), ROUNDING).max(0.0))
}
