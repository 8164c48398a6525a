//! The privacy loss distribution: composition by Fourier transform, as a certified bracket.
//!
//! An event becomes pairs of distributions that dominate it ([`event`]). A pair becomes a law of
//! the loss on a lattice, once rounded so that it is at least as bad (connect-the-dots) and once
//! merged so that it is at most as bad ([`lattice`]). Laws are composed in a tilted form that keeps
//! relative precision ([`law`], [`convolve`], [`compose`]). Single releases need none of that:
//! their divergence is a closed form or a sum.

mod allocated;
mod compose;
mod convolve;
pub(crate) mod counts;
mod event;
pub(crate) mod fft;
mod lattice;
pub(crate) mod law;
pub(crate) mod mixture;
pub(crate) mod pair;
mod refusals;
mod tilt;

use compose::{Part, epsilon_lower, epsilon_upper_beside};
pub(crate) use compose::{epsilon, epsilon_upper};
use event::{Context, Leaf, Pairs, leaves, plain_gaussian, share_of_replacement};
use pair::Pair;

use crate::math::ln;
use crate::math::search::crossing;
use crate::{Adjacency, Bracket, Error, Event, Shape, closed};

/// The method for composed events; single events have closed forms or exact sums.
pub(crate) const COMPOSED: &str = "privacy loss distribution, connect-the-dots";

/// The method for single releases whose worst pair is known.
pub(crate) const EXACT: &str = "exact hockey-stick divergence";

/// The epsilon of an event, and the method as text.
pub(crate) fn event_epsilon(
    event: &Event,
    adjacency: Adjacency,
    shape: Shape,
    delta: f64,
) -> Result<(Bracket, &'static str), Error> {
    match Route::of(event, adjacency, shape, delta)? {
        Route::Known(epsilon, method) => Ok((epsilon, method)),
        Route::Composed(composition) => Ok((composition.bracket(delta), COMPOSED)),
    }
}

/// The upper end of [`event_epsilon`] alone.
pub(crate) fn event_epsilon_upper(
    event: &Event,
    adjacency: Adjacency,
    shape: Shape,
    delta: f64,
) -> Result<f64, Error> {
    match Route::of(event, adjacency, shape, delta)? {
        Route::Known(epsilon, _) => Ok(epsilon.upper),
        Route::Composed(composition) => Ok(composition.upper()),
    }
}

/// How an event is counted.
enum Route {
    /// By a closed form, a sum, or a bound specific to the event.
    Known(Bracket, &'static str),
    /// By composing pairs.
    Composed(Composition),
}

impl Route {
    fn of(event: &Event, adjacency: Adjacency, shape: Shape, delta: f64) -> Result<Self, Error> {
        let leaves = leaves(event)?;
        if leaves.is_empty() {
            return Ok(Self::Known(Bracket { lower: 0.0, upper: 0.0 }, "nothing happened"));
        }
        if let Some(sigma) = plain_gaussian(&leaves, adjacency, shape) {
            return Ok(Self::Known(closed::gaussian_epsilon(sigma, delta)?, "analytic Gaussian"));
        }
        let total = leaves.iter().map(|(_, times)| *times).sum();
        let context = Context { adjacency, shape, delta, total };
        if let [(leaf, 1)] = leaves[..]
            && let Some((epsilon, method)) = context.single(leaf)?
        {
            return Ok(Self::Known(epsilon, method));
        }
        if adjacency == Adjacency::Replace && leaves.iter().any(|(leaf, _)| sampled_noise(leaf)) {
            let (epsilon, method) = two_steps(event, &leaves, shape, delta)?;
            return Ok(Self::Known(epsilon, method));
        }
        let mut parts = Vec::new();
        for (leaf, times) in &leaves {
            for (pairs, each) in context.parts(leaf)? {
                parts.push((pairs, times.saturating_mul(each)));
            }
        }
        let outside: f64 = parts.iter().map(|(pair, times)| pair.outside * *times as f64).sum();
        let rest = delta - outside;
        if !(rest > 0.0) {
            return Ok(Self::Known(Bracket { lower: 0.0, upper: f64::INFINITY }, COMPOSED));
        }
        if let [(pair, 1)] = &parts[..] {
            let exact = pair.attained && pair.lower.is_none();
            let method = if exact { EXACT } else { "hockey-stick divergence of a dominating pair" };
            return Ok(Self::Known(single(pair, rest, delta), method));
        }
        Ok(Self::Composed(Composition { parts, rest }))
    }
}

/// Poisson sampling of noise, which has no pair under replacement.
fn sampled_noise(event: &Event) -> bool {
    match event {
        Event::PoissonSampled { of, .. } => !matches!(of.unwrapped(), Event::Shuffled { .. }),
        _ => false,
    }
}

/// Releases.
struct Composition {
    /// The pairs of each, and how often it occurs.
    parts: Vec<(Pairs, u64)>,
    /// What remains of delta after the pairs' own parts are subtracted.
    rest: f64,
}

impl Composition {
    /// The pairs of one direction (0: the device leaves, 1: it joins), for the upper or the lower
    /// end.
    fn parts(&self, direction: usize, lower: bool) -> Vec<Part<'_>> {
        self.parts.iter().map(|(pairs, times)| (pairs.end(direction, lower), *times)).collect()
    }

    fn upper(&self) -> f64 {
        let forward = epsilon_upper(&self.parts(0, false), self.rest);
        forward.max(epsilon_upper_beside(forward, &self.parts(1, false), self.rest))
    }

    fn bracket(&self, delta: f64) -> Bracket {
        let attained = self.parts.iter().all(|(pair, _)| pair.attained);
        if !attained {
            return Bracket { lower: 0.0, upper: self.upper() };
        }
        let one_law = self.parts.iter().all(|(pair, _)| pair.lower.is_none());
        let forward = if one_law {
            epsilon(&self.parts(0, false), self.rest)
        } else {
            let lower = epsilon_lower(&self.parts(0, true), delta);
            Bracket { lower, upper: epsilon_upper(&self.parts(0, false), self.rest) }
        };
        let reverse = epsilon_upper_beside(forward.upper, &self.parts(1, false), self.rest);
        if reverse <= forward.upper {
            // The smaller direction cannot raise the lower end by much.
            return forward;
        }
        let lower = epsilon_lower(&self.parts(1, true), delta);
        forward.or(Bracket { lower, upper: reverse })
    }
}

/// A replacement as two add/remove steps, for releases that have no pair under replacement.
fn two_steps(
    event: &Event,
    leaves: &[Leaf<'_>],
    shape: Shape,
    delta: f64,
) -> Result<(Bracket, &'static str), Error> {
    // Only releases that are defined by their noise mean the same under both.
    let by_noise = |event: &Event| match event {
        Event::Gaussian { .. } | Event::DiscreteGaussian { .. } | Event::Laplace { .. } => true,
        Event::PoissonSampled { of, .. } => {
            matches!(
                of.unwrapped(),
                Event::Gaussian { .. } | Event::DiscreteGaussian { .. } | Event::Laplace { .. }
            )
        }
        _ => false,
    };
    if !leaves.iter().all(|(leaf, _)| by_noise(leaf)) {
        return Err(refusals::POISSON_REPLACE);
    }
    let one = |delta: f64| event_epsilon_upper(event, Adjacency::AddRemove, shape, delta);
    // The share of delta depends on epsilon. An epsilon that is at least what its own share gives
    // is valid; from a valid one, each step leads to a smaller valid one.
    let meets = |epsilon: f64| {
        let share = share_of_replacement(delta, epsilon);
        if share < f64::MIN_POSITIVE { Ok(f64::INFINITY) } else { one(share) }
    };
    let mut epsilon = one(delta)?.max(1e-3);
    while meets(epsilon)? > epsilon {
        epsilon *= 2.0;
        if epsilon > 1e3 {
            return Ok((Bracket { lower: 0.0, upper: f64::INFINITY }, "two add/remove steps"));
        }
    }
    for _ in 0..4 {
        let next = meets(epsilon)?;
        if !(next < epsilon && meets(next)? <= next) {
            break;
        }
        epsilon = next;
    }
    let upper = 2.0 * epsilon;
    Ok((Bracket { lower: 0.0, upper }, "two add/remove steps"))
}

/// The epsilon of one release, directly from its divergence, without a lattice.
fn single(pairs: &Pairs, delta_for_upper: f64, delta_for_lower: f64) -> Bracket {
    let solve = |pair: &dyn Pair, upper: bool| {
        if !(delta_for_upper > 0.0) {
            return if upper { f64::INFINITY } else { 0.0 };
        }
        let target = ln(if upper { delta_for_upper } else { delta_for_lower });
        let excess = |epsilon: f64| {
            let (low, high) = pair.hockey_stick(epsilon);
            ln(if upper { high } else { low }) - target
        };
        let at_zero = excess(0.0);
        if !(at_zero > 0.0) {
            return 0.0;
        }
        let (mut low, mut high) = ((0.0, at_zero), 1.0);
        let mut at_high = excess(high);
        while !(at_high <= 0.0) {
            if high > 1e6 {
                return if upper { f64::INFINITY } else { high };
            }
            low = (high, at_high);
            high *= 2.0;
            at_high = excess(high);
        }
        let found = crossing(excess, low, (high, at_high), 1e-12, 1e-15);
        if upper { found.high } else { found.low }
    };
    let upper = solve(&*pairs.upper[0], true).max(solve(&*pairs.upper[1], true));
    let from = pairs.lower.as_ref().unwrap_or(&pairs.upper);
    let lower =
        if pairs.attained { solve(&*from[0], false).max(solve(&*from[1], false)) } else { 0.0 };
    Bracket { lower: lower.min(upper), upper }
}
