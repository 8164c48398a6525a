//! The privacy loss distribution: composition by Fourier transform, as a certified bracket.
//!
//! An event becomes pairs of distributions that dominate it ([`event`]), a pair a law of the loss on a lattice, once
//! rounded so that it is at least as bad (connect-the-dots) and once merged so that it is at most as bad
//! ([`lattice`]); laws are composed in a tilted form that keeps relative precision ([`law`], [`convolve`], [`compose`]). Single
//! releases need none of that: their divergence is a closed form or a sum.

mod compose;
mod convolve;
mod counts;
mod event;
pub(crate) mod fft;
mod lattice;
pub(crate) mod law;
pub(crate) mod mixture;
pub(crate) mod pair;
mod tilt;

use compose::{Part, epsilon_lower, epsilon_upper_beside};
pub(crate) use compose::{epsilon, epsilon_upper};
use event::{Context, Leaf, Pairs, leaves, plain_gaussian, share_of_replacement};
use pair::Pair;

use crate::math::ln;
use crate::math::search::crossing;
use crate::{Adjacency, Bracket, Error, Event, Shape, closed, discrete};

/// The method of composed events; single ones have closed forms or exact sums.
pub(crate) const COMPOSED: &str = "privacy loss distribution, connect-the-dots";

/// The method of single releases whose worst pair is known.
const EXACT: &str = "exact hockey-stick divergence";

/// The epsilon of an event, and the method in words.
pub(crate) fn event_epsilon(
    event: &Event,
    adjacency: Adjacency,
    shape: Shape,
    delta: f64,
) -> Result<(Bracket, &'static str), Error> {
    let leaves = leaves(event)?;
    if leaves.is_empty() {
        return Ok((Bracket { lower: 0.0, upper: 0.0 }, "nothing happened"));
    }
    if let Some(sigma) = plain_gaussian(&leaves, adjacency, shape) {
        return Ok((closed::gaussian_epsilon(sigma, delta)?, "analytic Gaussian"));
    }
    let total = leaves.iter().map(|(_, times)| *times).sum();
    let context = Context { adjacency, shape, delta, total };
    if let [(leaf, 1)] = leaves[..] {
        match leaf {
            Event::DiscreteGaussian { sigma, sensitivity } if adjacency != Adjacency::Replace => {
                let epsilon = discrete::epsilon(*sigma, *sensitivity, delta)?;
                return Ok((epsilon, EXACT));
            }
            Event::Shuffled { .. } => return Ok((context.black_box(leaf)?.0, "shuffle bound")),
            Event::PoissonSampled { rate, of } if adjacency == Adjacency::Replace => {
                // Only a shuffle has a bound of its own here.
                if let Event::Shuffled { .. } = of.unwrapped() {
                    let bound = context.without_replacement(*rate, of.unwrapped(), delta)?;
                    return Ok((bound.0, "amplification by sampling"));
                }
            }
            Event::RandomAllocation { .. } => {
                return Ok((context.black_box(leaf)?.0, "random allocation, exact law of the sum"));
            }
            Event::SampledWithoutReplacement { .. } => {
                return Ok((context.black_box(leaf)?.0, "amplification by sampling"));
            }
            _ => {}
        }
    }
    let replaced = |event: &Event| matches!(event, Event::PoissonSampled { of, .. } if !matches!(of.unwrapped(), Event::Shuffled { .. }));
    if adjacency == Adjacency::Replace && leaves.iter().any(|(leaf, _)| replaced(leaf)) {
        return two_steps(event, &leaves, shape, delta);
    }
    let pairs =
        leaves.iter().map(|(leaf, _)| context.pairs(leaf)).collect::<Result<Vec<_>, _>>()?;
    let outside: f64 =
        pairs.iter().zip(&leaves).map(|(pair, (_, times))| pair.outside * *times as f64).sum();
    let rest = delta - outside;
    if !(rest > 0.0) {
        return Ok((Bracket { lower: 0.0, upper: f64::INFINITY }, COMPOSED));
    }
    if let ([pair], [(_, 1)]) = (&pairs[..], &leaves[..]) {
        let exact = pair.attained && pair.lower.is_none();
        let method = if exact { EXACT } else { "hockey-stick divergence of a dominating pair" };
        return Ok((single(pair, rest, delta), method));
    }
    let attained = pairs.iter().all(|pair| pair.attained);
    let one_law = attained && pairs.iter().all(|pair| pair.lower.is_none());
    let forward = parts(&pairs, &leaves, 0, false);
    let mut answer = if one_law {
        epsilon(&forward, rest)
    } else {
        Bracket { lower: 0.0, upper: epsilon_upper(&forward, rest) }
    };
    let reverse = epsilon_upper_beside(answer.upper, &parts(&pairs, &leaves, 1, false), rest);
    // A direction that is the lesser one cannot raise the lower end by much.
    let worse = reverse > answer.upper;
    answer.upper = answer.upper.max(reverse);
    if attained {
        for direction in 0..2 {
            if (direction == 0 && !one_law) || (direction == 1 && worse) {
                let lower = epsilon_lower(&parts(&pairs, &leaves, direction, true), delta);
                answer.lower = answer.lower.max(lower);
            }
        }
    }
    Ok((answer, COMPOSED))
}

/// The upper end of [`event_epsilon`] alone.
pub(crate) fn event_epsilon_upper(
    event: &Event,
    adjacency: Adjacency,
    shape: Shape,
    delta: f64,
) -> Result<f64, Error> {
    let leaves = leaves(event)?;
    let total: u64 = leaves.iter().map(|(_, times)| *times).sum();
    if total <= 1
        || plain_gaussian(&leaves, adjacency, shape).is_some()
        || adjacency == Adjacency::Replace
    {
        return Ok(event_epsilon(event, adjacency, shape, delta)?.0.upper);
    }
    let context = Context { adjacency, shape, delta, total };
    let pairs =
        leaves.iter().map(|(leaf, _)| context.pairs(leaf)).collect::<Result<Vec<_>, _>>()?;
    let outside: f64 =
        pairs.iter().zip(&leaves).map(|(pair, (_, times))| pair.outside * *times as f64).sum();
    let rest = delta - outside;
    if !(rest > 0.0) {
        return Ok(f64::INFINITY);
    }
    let forward = epsilon_upper(&parts(&pairs, &leaves, 0, false), rest);
    Ok(forward.max(epsilon_upper_beside(forward, &parts(&pairs, &leaves, 1, false), rest)))
}

/// A replacement as two steps of add/remove, for what has no pair of its own under replacement.
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
        return Err(event::POISSON_REPLACE);
    }
    let one = |delta: f64| event_epsilon_upper(event, Adjacency::AddRemove, shape, delta);
    // The share of delta depends on epsilon. An epsilon that is at least what its own share gives is good; from one that is,
    // each step leads to a smaller one that is.
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

fn parts<'a>(
    pairs: &'a [Pairs],
    leaves: &[Leaf<'_>],
    direction: usize,
    lower: bool,
) -> Vec<Part<'a>> {
    let pick = |pairs: &'a Pairs| match &pairs.lower {
        Some(pairs) if lower => &*pairs[direction],
        _ => &*pairs.upper[direction],
    };
    pairs.iter().zip(leaves).map(|(pairs, (_, times))| (pick(pairs), *times)).collect()
}

/// The epsilon of one release, straight from its divergence: no lattice.
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
