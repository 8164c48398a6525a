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
mod noise;
mod opposed;
pub(crate) mod pair;
mod plan;
mod rare;
mod refusals;
mod seen;
mod sides;
mod symmetric;
mod table;
mod tail;
mod tilt;

use compose::{Part, epsilon_lower, epsilon_upper_beside};
pub(crate) use compose::{epsilon, epsilon_upper};
use event::{Context, Pairs, leaves, plain_gaussian};
use pair::Pair;
use table::Table;

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
        if let Some((sigma, exact)) = plain_gaussian(&leaves, adjacency, shape) {
            let found = closed::gaussian_epsilon(sigma, delta)?;
            let lower = if exact { found.lower } else { 0.0 };
            return Ok(Self::Known(Bracket { lower, ..found }, "analytic Gaussian"));
        }
        let total = leaves.iter().map(|(_, times)| *times).sum();
        let context = Context { adjacency, shape, delta, total, kinds: leaves.len() as u64 };
        if let [(leaf, 1)] = leaves[..]
            && let Some((epsilon, method)) = context.single(leaf)?
        {
            return Ok(Self::Known(epsilon, method));
        }
        let mut parts = Vec::with_capacity(leaves.len());
        let mut outcomes = 0;
        for (leaf, times) in &leaves {
            for (pairs, each) in context.parts(leaf)? {
                outcomes += pairs.upper.iter().map(|pair| pair.outcomes()).sum::<usize>();
                if outcomes > MOST_OUTCOMES {
                    return Err(refusals::MANY_OUTCOMES);
                }
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
        let parts = tabulated(parts, 1e-7 * rest / total as f64)?;
        Ok(Self::Composed(Composition { parts, rest }))
    }
}

/// The same with a table in place of each pair that is costly to evaluate. `outside` is the mass that
/// each may lack.
fn tabulated(parts: Vec<(Pairs, u64)>, outside: f64) -> Result<Vec<(Pairs, u64)>, Error> {
    let work = |pair: &Pairs| {
        let lower = pair.lower.as_ref().map_or(0.0, |lower| lower[0].work());
        pair.upper[0].work().max(lower)
    };
    let all = parts.iter().map(|(pair, _)| work(pair));
    let all: f64 = all.filter(|work| *work >= COSTLY).sum();
    let coarseness = (all / MOST_WORK).max(1.0);
    if coarseness > table::COARSEST {
        return Err(refusals::MANY_GROUPS);
    }
    let table = |of: &[Box<dyn Pair>; 2], make: fn(&dyn Pair, f64, f64) -> Table| {
        [0, 1].map(|j| -> Box<dyn Pair> { Box::new(make(&*of[j], outside, coarseness)) })
    };
    let each = |pair: Pairs| {
        if work(&pair) < COSTLY {
            return pair;
        }
        let at_most = pair.lower.as_ref().unwrap_or(&pair.upper);
        let lower = pair.attained.then(|| table(at_most, Table::optimistic));
        Pairs { upper: table(&pair.upper, Table::pessimistic), lower, ..pair }
    };
    Ok(parts.into_iter().map(|(pair, times)| (each(pair), times)).collect())
}

/// The most outcomes that all pairs together hold in memory: 64 MB, if both ends differ.
const MOST_OUTCOMES: usize = 1 << 21;

/// From this work for one cell on, a pair becomes a table.
const COSTLY: f64 = 4.0;

/// The work for one cell of all pairs at which tables become coarser.
const MOST_WORK: f64 = 512.0;

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

/// The epsilon of one release, directly from its divergence, without a lattice.
fn single(pairs: &Pairs, delta_for_upper: f64, delta_for_lower: f64) -> Bracket {
    let upper = |pair: &dyn Pair| solve(pair, delta_for_upper, true);
    let lower = |pair: &dyn Pair| solve(pair, delta_for_lower, false);
    let from = pairs.lower.as_ref().unwrap_or(&pairs.upper);
    let upper = upper(&*pairs.upper[0]).max(upper(&*pairs.upper[1]));
    let lower = if pairs.attained { lower(&*from[0]).max(lower(&*from[1])) } else { 0.0 };
    Bracket { lower: lower.min(upper), upper }
}

/// The epsilon of a pair at `delta`, as an upper or a lower end.
fn solve(pair: &dyn Pair, delta: f64, upper: bool) -> f64 {
    if !(delta > 0.0) {
        return if upper { f64::INFINITY } else { 0.0 };
    }
    let target = ln(delta);
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
}
