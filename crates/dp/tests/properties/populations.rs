//! Sums with the count seen, against whole populations: every device with its own value and rate,
//! dummies, all outcomes enumerated. Nothing is conditioned on and nothing is shown.
//!
//! Values are positions on a line. For vectors that is the line through the device's value. For
//! one-hot contributions it is a line at some angle between the device's label and another one:
//! what is seen of a projection is never more than the whole.

use std::collections::BTreeMap;

use super::brute::{self, normal};
use super::stream::Stream;
use super::{Adjacency, Event, Shape, Tally, cases};

/// A device: where its contribution is, and with which probability it takes part.
pub(crate) type Device = (f64, f64);

/// For each count, where the sum may be, and how probable that is.
pub(crate) type Law = Vec<Vec<(f64, f64)>>;

/// The law of count and sum. Those that do not take part send zero with probability `dummy_rate`.
pub(crate) fn law(devices: &[Device], dummy_rate: f64) -> Law {
    // Positions as multiples of 2^-40, so that equal sums meet.
    let unit = 1.0 / (1u64 << 40) as f64;
    let mut states = BTreeMap::from([((0usize, 0i64), 1.0)]);
    for (value, rate) in devices {
        let step = (value / unit).round() as i64;
        let mut next = BTreeMap::new();
        for ((count, sum), mass) in states {
            for (key, probability) in [
                ((count + 1, sum + step), *rate),
                ((count + 1, sum), (1.0 - rate) * dummy_rate),
                ((count, sum), (1.0 - rate) * (1.0 - dummy_rate)),
            ] {
                if probability > 0.0 {
                    *next.entry(key).or_insert(0.0) += mass * probability;
                }
            }
        }
        states = next;
    }
    let mut law = vec![Vec::new(); devices.len() + 1];
    for ((count, sum), mass) in states {
        law[count].push((sum as f64 * unit, mass));
    }
    law
}

/// The divergence of two laws with noise, in the worse direction.
pub(crate) fn divergence(a: &Law, b: &Law, sigma: f64, epsilon: f64) -> f64 {
    let (mut forth, mut back) = (0.0, 0.0);
    let none = Vec::new();
    for count in 0..a.len().max(b.len()) {
        let (p, q) = (a.get(count).unwrap_or(&none), b.get(count).unwrap_or(&none));
        let at: Vec<f64> = p.iter().chain(q).map(|(at, _)| *at).collect();
        if at.is_empty() {
            continue;
        }
        let low = at.iter().copied().fold(f64::INFINITY, f64::min) - 9.0 * sigma;
        let high = at.iter().copied().fold(f64::NEG_INFINITY, f64::max) + 9.0 * sigma;
        let density = |of: &[(f64, f64)], x: f64| -> f64 {
            of.iter().map(|(at, mass)| mass * normal(x - at, sigma)).sum()
        };
        let both = |x: f64| (density(p, x), density(q, x));
        forth += brute::stick(both, epsilon, &[low, high], 0.75 * sigma);
        back += brute::stick(|x| (both(x).1, both(x).0), epsilon, &[low, high], 0.75 * sigma);
    }
    forth.max(back)
}

/// A round, with as many others as can be enumerated.
#[derive(Clone, Copy, Debug)]
struct Round {
    default_rate: f64,
    rate: f64,
    dummy_rate: f64,
    others: u64,
    defaults: u64,
    sigma: f64,
    shape: Shape,
}

impl Round {
    fn draw(stream: &mut Stream, shape: Shape) -> Self {
        let (rate, sigma) = (stream.spread(0.02, 0.95), stream.spread(0.5, 6.0));
        let dummy_rate = match stream.whole(0, 3) {
            0 => 0.0,
            1 => stream.spread(1e-3, 0.1),
            _ => stream.between(0.05, 0.9),
        };
        let default_rate = rate * stream.spread(0.05, 1.0);
        let others = stream.whole(1, 6);
        let defaults = if stream.whole(0, 1) == 0 { 0 } else { stream.whole(0, others) };
        Self { default_rate, rate, dummy_rate, others, defaults, sigma, shape }
    }

    fn event(&self, adjacency: Adjacency) -> Event {
        let Self { default_rate, rate, dummy_rate, others, defaults, sigma, shape } = *self;
        let population = others;
        let zeroed = adjacency == Adjacency::ZeroOut && dummy_rate == 0.0;
        if default_rate == rate && defaults == 0 && !zeroed {
            return Event::SampledCountSeen { rate, population, dummy_rate, sigma, shape };
        }
        Event::ImportanceSampled {
            default_rate,
            rate,
            population,
            defaults,
            dummy_rate,
            sigma,
            shape,
        }
    }

    /// The values of the device, of its neighbour under replacement, and of the others that are not
    /// known to hold the default value: on one line each.
    fn lines(&self, stream: &mut Stream) -> Vec<(f64, f64, Vec<f64>)> {
        let free = (self.others - self.defaults) as usize;
        let mut lines = Vec::new();
        let mut add = |own: f64, other: f64, choice: &[f64], stream: &mut Stream| {
            for value in choice {
                lines.push((own, other, vec![*value; free]));
            }
            let mixed =
                (0..free).map(|_| choice[stream.whole(0, choice.len() as u64 - 1) as usize]);
            lines.push((own, other, mixed.collect()));
        };
        match self.shape {
            Shape::Vector => {
                add(1.0, -1.0, &[-1.0, 0.0, 1.0], stream);
                let any = [-1.0, stream.between(-1.0, 1.0), stream.between(-1.0, 1.0)];
                add(1.0, any[1], &any, stream);
            }
            Shape::Number => {
                add(1.0, 0.0, &[0.0, 1.0], stream);
                add(0.0, 1.0, &[0.0, 1.0, stream.between(0.0, 1.0)], stream);
            }
            // The device's label, another one, and a third.
            Shape::OneHot => {
                let quarter = std::f64::consts::FRAC_PI_4;
                for angle in [0.0, quarter, stream.between(0.0, 2.0 * quarter)] {
                    let (own, other) = (angle.cos(), -angle.sin());
                    add(own, other, &[own, other, 0.0], stream);
                }
            }
        }
        lines
    }

    /// The true divergence: the worst population that is tried.
    fn truth(&self, stream: &mut Stream, adjacency: Adjacency) -> impl Fn(f64) -> f64 + use<> {
        let rate_of = |value: f64| if value == 0.0 { self.default_rate } else { self.rate };
        let device = |value: f64| (value, rate_of(value));
        let mut pairs = Vec::new();
        for (own, other, free) in self.lines(stream) {
            let known = vec![0.0; self.defaults as usize];
            let crowd: Vec<Device> = free.into_iter().chain(known).map(device).collect();
            let with = |one: Device| law(&[&crowd[..], &[one]].concat(), self.dummy_rate);
            let own_rate = (own, self.rate);
            pairs.extend(match adjacency {
                // Also one with the default value.
                Adjacency::AddRemove => {
                    let alone = law(&crowd, self.dummy_rate);
                    vec![(with(own_rate), alone.clone()), (with((0.0, self.default_rate)), alone)]
                }
                Adjacency::ZeroOut => vec![(with(own_rate), with((0.0, self.default_rate)))],
                Adjacency::Replace => vec![
                    (with(own_rate), with((other, self.rate))),
                    (with(own_rate), with((0.0, self.default_rate))),
                ],
            });
        }
        let sigma = self.sigma;
        move |epsilon: f64| {
            pairs.iter().map(|(a, b)| divergence(a, b, sigma, epsilon)).fold(0.0, f64::max)
        }
    }
}

const SHAPES: [Shape; 3] = [Shape::OneHot, Shape::Vector, Shape::Number];

#[test]
fn dummies_among_all_values_of_the_others() {
    let (mut stream, mut tally) = (Stream::new(31), Tally::default());
    for case in 0..cases(20) {
        let drawn = Round::draw(&mut stream, SHAPES[case as usize % 3]);
        let round = Round { default_rate: drawn.rate, defaults: 0, ..drawn };
        let delta = stream.spread(1e-7, 0.02);
        for adjacency in [Adjacency::AddRemove, Adjacency::Replace, Adjacency::ZeroOut] {
            let truth = round.truth(&mut stream, adjacency);
            tally.check((&round.event(adjacency), adjacency, round.shape), delta, truth);
        }
    }
    tally.done(cases(20) * 3);
}

#[test]
fn rates_that_depend_on_the_value() {
    let (mut stream, mut tally) = (Stream::new(32), Tally::default());
    for case in 0..cases(20) {
        let round = Round::draw(&mut stream, SHAPES[case as usize % 3]);
        let delta = stream.spread(1e-7, 0.02);
        for adjacency in [Adjacency::AddRemove, Adjacency::Replace, Adjacency::ZeroOut] {
            let truth = round.truth(&mut stream, adjacency);
            tally.check((&round.event(adjacency), adjacency, round.shape), delta, truth);
        }
    }
    tally.done(cases(20) * 3);
}

/// With the count hidden the larger rate counts, and nothing else.
#[test]
fn rates_that_depend_on_the_value_with_the_count_hidden() {
    let (mut stream, mut tally) = (Stream::new(33), Tally::default());
    for _ in 0..cases(40) {
        let round = Round::draw(&mut stream, Shape::Vector);
        let delta = stream.spread(1e-7, 0.02);
        let of = Box::new(Event::Gaussian { sigma: round.sigma, sensitivity: 1.0 });
        let event = Event::PoissonSampled { rate: round.rate, of };
        for adjacency in [Adjacency::AddRemove, Adjacency::ZeroOut] {
            // The others hold zeros; what they add can be left out of any sum.
            let one = |device: Device| {
                let seen = law(&[device], round.dummy_rate);
                vec![seen.into_iter().flatten().collect::<Vec<_>>()]
            };
            let (with, without) = (one((1.0, round.rate)), one((0.0, round.default_rate)));
            let truth = |epsilon: f64| divergence(&with, &without, round.sigma, epsilon);
            tally.check((&event, adjacency, round.shape), delta, truth);
        }
    }
    tally.done(cases(40) * 2);
}
