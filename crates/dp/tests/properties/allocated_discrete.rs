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

/// The same mechanism where a device takes part with probability `rate` only.
fn thinned(of: &Outcomes, rate: f64) -> Outcomes {
    of.iter().map(|(p, q)| (rate * p + (1.0 - rate) * q, *q)).collect()
}

/// Any number of slots, a donation, a coin for each slot and one for all of them, one to three
/// epochs: all outcomes of all of them.
#[test]
fn discrete_mechanisms_in_some_of_the_slots() {
    let (mut stream, mut tally) = (Stream::new(41), Tally::default());
    for case in 0..cases(60) {
        let adjacency = if case % 3 == 0 { Adjacency::ZeroOut } else { Adjacency::AddRemove };
        let (mut of, mut own, most) = mechanism(&mut stream, adjacency == Adjacency::AddRemove);
        if stream.whole(0, 2) == 0 {
            let rate = stream.spread(0.05, 1.0);
            own = thinned(&own, rate);
            of = Event::PoissonSampled { rate, of: Box::new(of) };
        }
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
    tally.done(cases(60));
}

/// The sums of all slots, if everybody takes a slot and adds a whole number to it: with the device,
/// whose number is `own`, and without it. `choices` are the probabilities of the sets of slots.
fn sums(
    values: &[i64],
    own: i64,
    slots: usize,
    choices: &[(f64, u32)],
) -> [Vec<(f64, Vec<i64>)>; 2] {
    let add = |from: &[(f64, Vec<i64>)], value: i64| -> Vec<(f64, Vec<i64>)> {
        let each = from.iter().flat_map(|(mass, sums)| {
            choices.iter().map(move |(p, set)| {
                let moved = |j: usize| sums[j] + if set >> j & 1 == 1 { value } else { 0 };
                (mass * p, (0..slots).map(moved).collect())
            })
        });
        each.collect()
    };
    let without = values.iter().fold(vec![(1.0, vec![0; slots])], |all, value| add(&all, *value));
    [add(&without, own), without]
}

/// Others who take slots of their own in secret, with any values, only help: the upper end holds.
#[test]
fn others_in_slots_of_their_own() {
    let mut stream = Stream::new(43);
    let (mut least, mut most) = (f64::INFINITY, 0f64);
    for case in 0..cases(20) {
        let slots = stream.whole(2, 3);
        let (sigma, sensitivity) = (stream.between(0.4, 1.2), stream.whole(1, 2));
        let donation = case % 3 == 0;
        let selected = if donation { 1 } else { stream.whole(1, slots) };
        let others = stream.whole(1, 2);
        let far = sensitivity as i64;
        let values: Vec<i64> =
            (0..others).map(|_| stream.whole(0, 2 * sensitivity) as i64 - far).collect();
        let choices: Vec<(f64, u32)> = if donation {
            let q = 1.0 / slots as f64;
            let stay = ((1.0 - q).powi(slots as i32), 0);
            (0..slots).map(|j| (q * (1.0 - q).powi(j as i32), 1 << j)).chain([stay]).collect()
        } else {
            let sets = (0u32..1 << slots).filter(|set| u64::from(set.count_ones()) == selected);
            let sets: Vec<u32> = sets.collect();
            sets.iter().map(|set| (1.0 / sets.len() as f64, *set)).collect()
        };
        let event = Event::RandomAllocation {
            slots,
            selected,
            donation,
            population: None,
            shape: Shape::Vector,
            of: Box::new(Event::DiscreteGaussian { sigma, sensitivity }),
        };
        let delta = stream.spread(1e-6, 0.05);
        let ask = super::Question {
            event: &event,
            adjacency: Adjacency::AddRemove,
            shape: Shape::Vector,
            accountant: super::Accountant::Best,
        };
        let upper = ask.epsilon(delta).unwrap().epsilon.upper;
        let weight = |x: i64| (-0.5 * (x as f64 / sigma).powi(2)).exp();
        let reach = (7.0 * sigma).ceil() as i64 + far;
        let total: f64 = (-30..=30).map(weight).sum();
        let both = sums(&values, far, slots as usize, &choices);
        let range = 2 * (reach + far * others as i64) + 1;
        let outcomes = (0..range.pow(slots as u32)).map(|code| {
            let at = |j: usize| code / range.pow(j as u32) % range - range / 2;
            let law = |sums: &Vec<(f64, Vec<i64>)>| -> f64 {
                let mass = |s: &Vec<i64>| -> f64 {
                    s.iter().enumerate().map(|(j, s)| weight(at(j) - s) / total).product()
                };
                sums.iter().map(|(p, s)| p * mass(s)).sum()
            };
            (law(&both[0]), law(&both[1]))
        });
        let outcomes: Outcomes = outcomes.collect();
        let truth = brute::enumerated(&outcomes, upper);
        assert!(truth <= delta * (1.0 + 1e-9), "{event:?} {values:?} {delta:e} {upper}: {truth:e}");
        (least, most) = (least.min(truth / delta), most.max(truth / delta));
    }
    println!("{} cases, {least:.3} to {most:.3} of delta", cases(20));
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
    tally.done(cases(24));
}
