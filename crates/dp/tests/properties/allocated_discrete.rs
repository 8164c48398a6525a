//! Random allocation of mechanisms with finitely many outcomes, and of shuffled reports, by full
//! enumeration.

use std::collections::BTreeMap;

use super::brute::{self, Outcomes};
use super::stream::Stream;
use super::{Adjacency, Event, Shape, Tally, cases};

/// What every (epsilon, delta)-private mechanism is a post-processing of.
fn black_box(epsilon: f64, delta: f64) -> Outcomes {
    let yes = (1.0 - delta) * epsilon.exp() / (1.0 + epsilon.exp());
    let no = (1.0 - delta) / (1.0 + epsilon.exp());
    vec![(yes, no), (no, yes), (delta, 0.0), (0.0, delta)]
}

/// The discrete Gaussian around `distance` and around 0.
fn discrete_gaussian(sigma: f64, distance: i64) -> Outcomes {
    let weight = |x: i64| (-0.5 * (x as f64 / sigma).powi(2)).exp();
    let reach = (8.0 * sigma).ceil() as i64 + 2;
    let total: f64 = (-reach..=reach).map(weight).sum();
    let outcome = |x: i64| (weight(x - distance) / total, weight(x) / total);
    (-reach..=reach + distance).map(outcome).collect()
}

/// The outcomes of a device that takes part in `selected` of `slots` releases: the elementary
/// symmetric polynomials of (with, without), one slot after the other.
fn allocated(of: &Outcomes, slots: u64, selected: u64, weights: Option<&[f64]>) -> Outcomes {
    // For each outcome so far: the masses with the device in 0, 1, ... of the slots.
    let mut all: Vec<Vec<f64>> = vec![vec![1.0]];
    for slot in 0..slots {
        let mut next = Vec::new();
        for masses in &all {
            for (p, q) in of {
                let mut sums = vec![0.0; masses.len() + 1];
                for (j, mass) in masses.iter().enumerate() {
                    sums[j] += mass * q;
                    sums[j + 1] += mass * p * weights.map_or(1.0, |w| w[slot as usize]);
                }
                sums.truncate(selected as usize + 1);
                next.push(sums);
            }
        }
        all = next;
    }
    let ways = (0..selected).fold(1.0, |n, j| n * (slots - j) as f64 / (j + 1) as f64);
    let at = |masses: &Vec<f64>| masses.get(selected as usize).copied().unwrap_or(0.0);
    match weights {
        None => all.iter().map(|masses| (at(masses) / ways, masses[0])).collect(),
        Some(weights) => {
            let stay = 1.0 - weights.iter().sum::<f64>();
            all.iter().map(|masses| (stay * masses[0] + at(masses), masses[0])).collect()
        }
    }
}

/// A random mechanism, its outcomes, and how many slots can be enumerated.
fn mechanism(stream: &mut Stream, claims: bool) -> (Event, Outcomes, u64) {
    match (stream.whole(0, 3), claims) {
        (0, true) => {
            let epsilon = stream.between(0.05, 2.5);
            (Event::PureDp { epsilon }, black_box(epsilon, 0.0)[..2].to_vec(), 9)
        }
        (1, true) => {
            let (epsilon, delta) = (stream.between(0.05, 2.0), stream.spread(1e-9, 1e-2));
            (Event::ApproximateDp { epsilon, delta }, black_box(epsilon, delta), 5)
        }
        _ => {
            let (sigma, sensitivity) = (stream.between(0.3, 1.2), stream.whole(1, 2));
            let event = Event::DiscreteGaussian { sigma, sensitivity };
            (event, discrete_gaussian(sigma, sensitivity as i64), 3)
        }
    }
}

/// Any number of slots, a donation, a coin, one to three epochs: all outcomes of all of them.
#[test]
fn discrete_mechanisms_in_some_of_the_slots() {
    let (mut stream, mut tally) = (Stream::new(41), Tally::default());
    for case in 0..cases(60) {
        let adjacency = if case % 3 == 0 { Adjacency::ZeroOut } else { Adjacency::AddRemove };
        let (of, own, most) = mechanism(&mut stream, adjacency == Adjacency::AddRemove);
        let slots = stream.whole(2, most);
        let selected = if stream.whole(0, 1) == 0 { 1 } else { stream.whole(1, slots) };
        let donation = selected == 1 && stream.whole(0, 2) == 0;
        let rate =
            if selected == 1 && stream.whole(0, 2) == 0 { stream.spread(0.02, 1.0) } else { 1.0 };
        let q = 1.0 / slots as f64;
        let weight = |i: u64| rate * q * if donation { (1.0 - q).powi(i as i32) } else { 1.0 };
        let weights: Vec<f64> = (0..slots).map(weight).collect();
        let plain = rate == 1.0 && !donation;
        let mut all = allocated(&own, slots, selected, if plain { None } else { Some(&weights) });
        let mut event = Event::RandomAllocation {
            slots,
            selected,
            donation,
            population: None,
            shape: Shape::Vector,
            of: Box::new(of),
        };
        if rate < 1.0 {
            event = Event::PoissonSampled { rate, of: Box::new(event) };
        }
        let one = all.clone();
        let mut times = 1;
        while times < 3 && all.len() * one.len() < 40_000 && stream.whole(0, 1) == 0 {
            all = brute::product(&all, &one);
            times += 1;
        }
        if times > 1 {
            event = Event::Repeated { times, of: Box::new(event) };
        }
        let delta = stream.spread(1e-8, 0.05);
        let truth = |epsilon: f64| brute::enumerated(&all, epsilon);
        tally.check((&event, adjacency, Shape::Vector), delta, truth);
    }
    tally.done(60);
}

/// All multisets of labelled reports of `inputs`, each in a uniform slot.
fn reports(inputs: &[usize], slots: usize, response: &[Vec<f64>]) -> BTreeMap<Vec<usize>, f64> {
    let symbols = response.len();
    let mut all = BTreeMap::from([(vec![0; slots * symbols], 1.0)]);
    for input in inputs {
        let mut next = BTreeMap::new();
        for (counts, mass) in &all {
            for slot in 0..slots {
                for (symbol, p) in response[*input].iter().enumerate() {
                    let mut counts = counts.clone();
                    counts[slot * symbols + symbol] += 1;
                    *next.entry(counts).or_insert(0.0) += mass * p / slots as f64;
                }
            }
        }
        all = next;
    }
    all
}

/// Every device sends its report in a slot of its choice, and the slots are shuffled: the worst of
/// all inputs of the others.
#[test]
fn shuffled_reports_in_slots() {
    let (mut stream, mut tally) = (Stream::new(42), Tally::default());
    for case in 0..cases(24) {
        let (k, slots) = (stream.whole(2, 3), stream.whole(2, 3) as usize);
        let (n, epsilon0) =
            (stream.whole(1, if slots == 3 { 3 } else { 4 }), stream.between(0.2, 3.0));
        let local = if case % 2 == 0 {
            Event::RandomizedResponse { epsilon0, k }
        } else {
            Event::PureDp { epsilon: epsilon0 }
        };
        let of = Box::new(Event::Shuffled { n, of: Box::new(local.clone()) });
        let event = Event::RandomAllocation {
            slots: slots as u64,
            selected: 1,
            donation: false,
            population: None,
            shape: Shape::Vector,
            of,
        };
        let lie = 1.0 / (epsilon0.exp() + k as f64 - 1.0);
        let row =
            |x: u64| (0..k).map(|y| if x == y { epsilon0.exp() * lie } else { lie }).collect();
        let response: Vec<Vec<f64>> = (0..k).map(row).collect();
        let mut pairs: Vec<Outcomes> = Vec::new();
        for code in 0..k.pow(n as u32 - 1) {
            let others = (0..n - 1).scan(code, |rest, _| {
                let input = *rest % k;
                *rest /= k;
                Some(input as usize)
            });
            let others: Vec<usize> = others.collect();
            let with = |own: usize| reports(&[&others[..], &[own]].concat(), slots, &response);
            let (with, without) = (with(0), with(1));
            pairs.push(with.iter().map(|(view, p)| (*p, without[view])).collect());
        }
        let truth = |epsilon: f64| {
            pairs.iter().map(|pair| brute::enumerated(pair, epsilon)).fold(0.0, f64::max)
        };
        let delta = stream.spread(1e-6, 0.1);
        if case % 2 == 0 {
            tally.check((&event, Adjacency::Replace, Shape::Vector), delta, truth);
        } else {
            // Some randomizer with this epsilon may be worse than this one.
            let ask = super::Question {
                event: &event,
                adjacency: Adjacency::Replace,
                shape: Shape::Vector,
                accountant: super::Accountant::Best,
            };
            let found = ask.epsilon(delta).unwrap().epsilon;
            assert!(truth(found.upper) <= delta * (1.0 + 1e-9), "{event:?} {delta:e} {found:?}");
            tally.cases += 1;
        }
    }
    tally.done(24);
}
