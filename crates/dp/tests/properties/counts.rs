//! The count seen, dummies, and a leader that stops.

use super::brute::{self, Step, binomial, normal};
use super::stream::Stream;
use super::{Adjacency, Event, Shape, Tally, schedules};

fn shape(stream: &mut Stream) -> Shape {
    if stream.whole(0, 1) == 0 { Shape::OneHot } else { Shape::Vector }
}

/// One round with the count seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) rate: f64,
    pub(crate) others: u64,
    pub(crate) dummy_rate: f64,
    pub(crate) sigma: f64,
    pub(crate) shape: Shape,
}

impl Round {
    pub(crate) fn event(&self) -> Event {
        let Self { rate, others: population, dummy_rate, sigma, shape } = *self;
        Event::SampledCountSeen { rate, population, dummy_rate, sigma, shape }
    }

    pub(crate) fn sending(&self) -> f64 {
        self.rate + (1.0 - self.rate) * self.dummy_rate
    }

    /// (b(k), b(k-1)) for each count `k` of contributions.
    pub(crate) fn counts(&self) -> Vec<(f64, f64)> {
        let law = binomial(self.others, self.sending());
        let at = |k: usize| law.get(k).copied().unwrap_or(0.0);
        (0..=law.len()).map(|k| (at(k), if k == 0 { 0.0 } else { at(k - 1) })).collect()
    }

    /// The divergence of a real population given one count, by quadrature; (the device leaves, the
    /// device comes). The others hold the value farthest from the device's, or zeros if there are
    /// dummies.
    pub(crate) fn at_count(&self, (base, before): (f64, f64), epsilon: f64) -> (f64, f64) {
        let Self { rate, dummy_rate, sigma, .. } = *self;
        let distance = if dummy_rate > 0.0 { 1.0 } else { self.shape.replacement_distance() };
        let dummy = (1.0 - rate) * dummy_rate;
        let stay = 1.0 - self.sending();
        let with = |x: f64| {
            let moved = rate * normal(x - distance, sigma) + dummy * normal(x, sigma);
            stay * base * normal(x, sigma) + before * moved
        };
        let without = |x: f64| base * normal(x, sigma);
        let breaks = [-9.0 * sigma, distance + 9.0 * sigma];
        (
            brute::stick(|x| (with(x), without(x)), epsilon, &breaks, 0.75 * sigma),
            brute::stick(|x| (without(x), with(x)), epsilon, &breaks, 0.75 * sigma),
        )
    }

    fn divergence(&self, epsilon: f64) -> f64 {
        let (mut leaves, mut comes) = (0.0, 0.0);
        for (base, before) in self.counts() {
            // What is left out is less than 1e-18 in all.
            if base.max(before) > 1e-20 {
                let (a, b) = self.at_count((base, before), epsilon);
                (leaves, comes) = (leaves + a, comes + b);
            }
        }
        leaves.max(comes)
    }

    /// A real attack: all others hold `theirs`, the device holds 1, in one dimension. Given the
    /// count, who sent a dummy is hidden.
    fn attack(&self, theirs: f64, epsilon: f64) -> f64 {
        let Self { rate, dummy_rate, sigma, .. } = *self;
        let (sending, dummy) = (self.sending(), (1.0 - rate) * dummy_rate);
        let real = if sending > 0.0 { rate / sending } else { 0.0 };
        let (mut leaves, mut comes) = (0.0, 0.0);
        for (k, (base, before)) in self.counts().into_iter().enumerate() {
            if base.max(before) <= 1e-20 {
                continue;
            }
            let values = binomial(k as u64, real);
            let fewer = binomial((k as u64).saturating_sub(1), real);
            let sum = |law: &[f64], x: f64| -> f64 {
                law.iter().enumerate().map(|(j, m)| m * normal(x - j as f64 * theirs, sigma)).sum()
            };
            let with = |x: f64| {
                let moved = rate * sum(&fewer, x - 1.0) + dummy * sum(&fewer, x);
                (1.0 - sending) * base * sum(&values, x) + before * moved
            };
            let without = |x: f64| base * sum(&values, x);
            let (low, high) = ((k as f64 * theirs).min(0.0), (k as f64 * theirs).max(0.0) + 1.0);
            let breaks = [low - 9.0 * sigma, high + 9.0 * sigma];
            leaves += brute::stick(|x| (with(x), without(x)), epsilon, &breaks, 0.75 * sigma);
            comes += brute::stick(|x| (without(x), with(x)), epsilon, &breaks, 0.75 * sigma);
        }
        leaves.max(comes)
    }
}

#[test]
fn the_count_seen() {
    let (mut stream, mut tally) = (Stream::new(8), Tally::default());
    for _ in 0..140 {
        let (rate, others) = (stream.spread(1e-3, 1.0), stream.whole(1, 40));
        let (sigma, delta) = (stream.spread(0.4, 6.0), stream.spread(1e-10, 0.02));
        let round = Round { rate, others, dummy_rate: 0.0, sigma, shape: shape(&mut stream) };
        let ask = (&round.event(), Adjacency::AddRemove, round.shape);
        tally.check(ask, delta, |epsilon| round.divergence(epsilon));
    }
    tally.done(140);
}

/// The divergence of two rounds.
fn two_rounds(round: &Round, epsilon: f64, leaves: bool) -> f64 {
    let (gone, distance, sigma) =
        (round.sending(), round.shape.replacement_distance(), round.sigma);
    let step = |(base, before): (f64, f64)| {
        let moved = gone * before;
        Step { base, gone, moved, distance, sigma }
    };
    let large = |step: &Step| step.base.max(step.moved) > 1e-20;
    let steps: Vec<_> = round.counts().into_iter().map(step).filter(large).collect();
    let second = |epsilon: f64| -> f64 {
        steps.iter().map(|s| if leaves { s.leaves(epsilon) } else { s.comes(epsilon) }).sum()
    };
    schedules::two_rounds(&steps, |loss| second(epsilon - loss), leaves)
}

#[test]
fn two_rounds_with_the_count_seen() {
    let (mut stream, mut tally) = (Stream::new(16), Tally::default());
    for _ in 0..18 {
        let (rate, others) = (stream.spread(5e-3, 0.6), stream.whole(1, 60));
        let (sigma, delta) = (stream.spread(0.7, 8.0), stream.spread(1e-7, 1e-4));
        let round = Round { rate, others, dummy_rate: 0.0, sigma, shape: shape(&mut stream) };
        let event = Event::Repeated { times: 2, of: Box::new(round.event()) };
        let truth = |epsilon: f64| {
            two_rounds(&round, epsilon, true).max(two_rounds(&round, epsilon, false))
        };
        tally.check((&event, Adjacency::AddRemove, round.shape), delta, truth);
    }
    // Both ends are close.
    assert!(tally.tight == 18, "{} of 18 are tight", tally.tight);
    tally.done(18);
}

#[test]
fn the_count_seen_with_dummies() {
    let (mut stream, mut tally) = (Stream::new(9), Tally::default());
    for _ in 0..80 {
        let (rate, others) = (stream.spread(1e-2, 1.0), stream.whole(1, 30));
        let (sigma, delta) = (stream.spread(0.4, 6.0), stream.spread(1e-9, 0.02));
        let dummy_rate = stream.between(0.0, 1.0);
        let round = Round { rate, others, dummy_rate, sigma, shape: shape(&mut stream) };
        let ask = (&round.event(), Adjacency::AddRemove, round.shape);
        tally.check(ask, delta, |epsilon| round.divergence(epsilon));
    }
    tally.done(80);
}

/// The count alone, once and twice: sums over all counts.
#[test]
fn the_count_alone() {
    let (mut stream, mut tally) = (Stream::new(17), Tally::default());
    for case in 0..120 {
        let (rate, population) = (stream.spread(1e-3, 1.0), stream.whole(0, 60));
        let delta = stream.spread(1e-10, 0.02);
        let (without, with) = (binomial(population, rate), binomial(population + 1, rate));
        let at = |law: &[f64], k: usize| law.get(k).copied().unwrap_or(0.0);
        let once: Vec<_> = (0..with.len()).map(|k| [with[k], at(&without, k)]).collect();
        let twice = || once.iter().flat_map(|a| once.iter().map(|b| [a[0] * b[0], a[1] * b[1]]));
        let (times, law) = if case % 3 == 0 { (2, twice().collect()) } else { (1, once.clone()) };
        let truth = |epsilon: f64| {
            let way = |p: usize, q: usize| -> f64 {
                // Where Q has nothing, no ratio makes it something.
                let theirs = |q: f64| if q > 0.0 { epsilon.exp() * q } else { 0.0 };
                law.iter().map(|both| (both[p] - theirs(both[q])).max(0.0)).sum()
            };
            way(0, 1).max(way(1, 0))
        };
        let of = Box::new(Event::CountOnly { rate, population });
        let event = Event::Repeated { times, of };
        tally.check((&event, Adjacency::AddRemove, Shape::Vector), delta, truth);
        // Whether a device holds one value or another, the count is the same.
        for adjacency in [Adjacency::Replace, Adjacency::ZeroOut] {
            tally.check((&event, adjacency, Shape::Vector), delta, |_| 0.0);
        }
    }
    tally.done(360);
}

/// Attacks in which the others' values are mixed with their dummies: no worse than the pair.
#[test]
fn no_values_of_the_others_are_worse() {
    let (mut stream, mut tally) = (Stream::new(10), Tally::default());
    for case in 0..60 {
        let (rate, others) = (stream.spread(2e-2, 1.0), stream.whole(1, 8));
        let (sigma, delta) = (stream.spread(0.5, 4.0), stream.spread(1e-7, 0.02));
        let dummy_rate = if case % 4 == 0 { 0.0 } else { stream.between(0.0, 1.0) };
        let round = Round { rate, others, dummy_rate, sigma, shape: Shape::Vector };
        let ask = (&round.event(), Adjacency::AddRemove, round.shape);
        let theirs = [-1.0, 0.0, 1.0, stream.between(-1.0, 1.0)];
        let worst = |epsilon: f64| {
            theirs.iter().map(|theirs| round.attack(*theirs, epsilon)).fold(0.0, f64::max)
        };
        tally.check(ask, delta, worst);
    }
    tally.done(60);
}

/// A leader that stops at `most`; the others all hold `theirs`.
fn stopped((rate, others, most): (f64, u64, u64), sigma: f64, theirs: f64, epsilon: f64) -> f64 {
    let law = binomial(others, rate);
    let with_and_without = |x: f64| {
        let (mut with, mut without) = (0.0, 0.0);
        for (k, mass) in law.iter().enumerate() {
            let k = k as u64;
            let batch = k.min(most) as f64 * theirs;
            let still = normal(x - batch, sigma);
            let (taken, moved) = if k < most {
                (1.0, batch + 1.0)
            } else {
                (most as f64 / (k + 1) as f64, batch - theirs + 1.0)
            };
            without += mass * still;
            with += mass * ((1.0 - rate * taken) * still + rate * taken * normal(x - moved, sigma));
        }
        (with, without)
    };
    let reach = most.min(others) as f64 + 1.0 + 9.0 * sigma;
    brute::both_ways(with_and_without, epsilon, &[-reach, reach], 0.75 * sigma)
}

#[test]
fn a_leader_that_stops() {
    let (mut stream, mut tally) = (Stream::new(12), Tally::default());
    for _ in 0..80 {
        let (rate, others, most) =
            (stream.spread(2e-2, 1.0), stream.whole(1, 16), stream.whole(1, 16));
        let (sigma, delta) = (stream.spread(0.5, 5.0), stream.spread(1e-8, 0.02));
        let shape = Shape::Vector;
        let event =
            Event::TruncatedPoisson { rate, population: others, max_batch: most, sigma, shape };
        let worst = |epsilon: f64| {
            let at = |theirs: f64| stopped((rate, others, most), sigma, theirs, epsilon);
            at(0.0).max(at(-1.0)).max(at(1.0))
        };
        tally.check((&event, Adjacency::AddRemove, shape), delta, worst);
    }
    tally.done(80);
}
