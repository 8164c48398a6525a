//! Mechanisms with finitely many outcomes, composed by full enumeration.

use super::brute::{self, Outcomes};
use super::stream::Stream;
use super::{Adjacency, Event, Shape, Tally};

/// The most outcomes that are enumerated.
const MOST: usize = 40_000;

/// k-ary randomized response on two different symbols.
fn response(epsilon0: f64, k: u64) -> Outcomes {
    let p = 1.0 / (epsilon0.exp() + (k - 1) as f64);
    let mut all = vec![(epsilon0.exp() * p, p), (p, epsilon0.exp() * p)];
    all.extend((2..k).map(|_| (p, p)));
    all
}

/// What every (epsilon, delta)-private mechanism is a post-processing of.
fn black_box(epsilon: f64, delta: f64) -> Outcomes {
    let yes = (1.0 - delta) * epsilon.exp() / (1.0 + epsilon.exp());
    let no = (1.0 - delta) / (1.0 + epsilon.exp());
    vec![(yes, no), (no, yes), (delta, 0.0), (0.0, delta)]
}

/// The discrete Gaussian around 0 and around `distance`.
fn discrete_gaussian(sigma: f64, distance: i64) -> Outcomes {
    let weight = |x: i64| (-0.5 * (x as f64 / sigma).powi(2)).exp();
    let reach = (11.0 * sigma).ceil() as i64 + 2;
    let total: f64 = (-reach..=reach).map(weight).sum();
    let outcome = |x: i64| (weight(x) / total, weight(x - distance) / total);
    (-reach..=reach + distance).map(outcome).collect()
}

/// With probability `rate` the first law, else the second; against the second.
fn sampled(rate: f64, of: &Outcomes) -> Outcomes {
    of.iter().map(|(p, q)| ((1.0 - rate) * q + rate * p, *q)).collect()
}

/// A random mechanism that both adjacencies (or the one given) know, with its outcomes.
fn mechanism(stream: &mut Stream, adjacency: Adjacency) -> (Event, Outcomes) {
    let replace = adjacency == Adjacency::Replace;
    match stream.whole(0, 4) {
        0 => {
            let (epsilon, delta) = (stream.between(0.0, 2.0), stream.spread(1e-12, 1e-4));
            (Event::ApproximateDp { epsilon, delta }, black_box(epsilon, delta))
        }
        1 => {
            let epsilon = stream.between(0.0, 2.0);
            (Event::PureDp { epsilon }, black_box(epsilon, 0.0))
        }
        2 if replace => {
            let (epsilon0, k) = (stream.between(0.1, 3.0), stream.whole(2, 6));
            (Event::RandomizedResponse { epsilon0, k }, response(epsilon0, k))
        }
        3 if !replace => {
            let (sigma, rate) = (stream.between(0.3, 1.5), stream.spread(0.01, 1.0));
            let of = Box::new(Event::DiscreteGaussian { sigma, sensitivity: 1 });
            (Event::PoissonSampled { rate, of }, sampled(rate, &discrete_gaussian(sigma, 1)))
        }
        4 if !replace => {
            let (epsilon, rate) = (stream.between(0.1, 2.0), stream.spread(0.01, 1.0));
            let of = Box::new(Event::PureDp { epsilon });
            // Its own worst case; the crate knows less about it and may say more.
            (Event::PoissonSampled { rate, of }, sampled(rate, &black_box(epsilon, 0.0)))
        }
        _ => {
            let (sigma, sensitivity) = (stream.between(0.3, 2.0), stream.whole(1, 2));
            let distance = sensitivity as i64 * if replace { 2 } else { 1 };
            let event = Event::DiscreteGaussian { sigma, sensitivity };
            (event, discrete_gaussian(sigma, distance))
        }
    }
}

#[test]
fn one_to_four_discrete_mechanisms() {
    let (mut stream, mut tally) = (Stream::new(7), Tally::default());
    for case in 0..360 {
        let adjacency = if case % 2 == 0 { Adjacency::Replace } else { Adjacency::AddRemove };
        let delta = stream.spread(1e-9, 0.05);
        let (mut of, mut outcomes) = (Vec::new(), vec![(1.0, 1.0)]);
        for _ in 0..stream.whole(1, 4) {
            let (event, own) = mechanism(&mut stream, adjacency);
            if outcomes.len() * own.len() > MOST {
                continue;
            }
            outcomes = brute::product(&outcomes, &own);
            // The same again, now and then.
            if stream.whole(0, 2) == 0 && outcomes.len() * own.len() <= MOST {
                outcomes = brute::product(&outcomes, &own);
                of.push(Event::Repeated { times: 2, of: Box::new(event) });
            } else {
                of.push(event);
            }
        }
        let event = Event::Composed { of };
        let truth = |epsilon: f64| brute::enumerated(&outcomes, epsilon);
        tally.check((&event, adjacency, Shape::Vector), delta, truth);
    }
    tally.done(360);
}
