//! Reports in a crowd, by full enumeration: what is seen of few devices, with each of their inputs.
//!
//! Nothing here is shared with the crate. A randomizer is a table of probabilities; devices are
//! added one by one to the law of what is seen. An upper end must hold for all inputs of the others
//! that are tried; a lower end must be reached by one of them. Half of the cases have all inputs, or
//! the extreme ones; the others random ones as well.

use std::collections::BTreeMap;

use sotto_dp::account::{Accountant, Question};
use sotto_dp::{Adjacency, Event, Shape};

use super::cases;
use super::stream::Stream;

/// Room for the rounding of sums of thousands of terms.
const SLACK: f64 = 1e-12;

/// Counts of what is seen.
type Counts = Vec<u8>;

/// How probable they are.
type Law = BTreeMap<Counts, f64>;

/// What one device adds to the counts, with its probability.
type Row = Vec<(Counts, f64)>;

fn nothing(length: usize) -> Law {
    Law::from([(vec![0; length], 1.0)])
}

fn with(law: &Law, row: &Row) -> Law {
    let mut sum = Law::new();
    for (counts, weight) in law {
        for (more, p) in row {
            let both: Counts = counts.iter().zip(more).map(|(a, b)| a + b).collect();
            *sum.entry(both).or_insert(0.0) += weight * p;
        }
    }
    sum
}

fn all(rows: &[Row], inputs: &[usize]) -> Law {
    let length = rows[0][0].0.len();
    inputs.iter().fold(nothing(length), |law, input| with(&law, &rows[*input]))
}

fn mixed(a: &Law, b: &Law, share: f64) -> Law {
    let mut sum = Law::new();
    for (law, weight) in [(a, 1.0 - share), (b, share)] {
        for (counts, p) in law {
            *sum.entry(counts.clone()).or_insert(0.0) += weight * p;
        }
    }
    sum
}

/// The outcomes of two laws side by side, with those of a second round if there is one.
fn outcomes(p: &Law, q: &Law, rounds: u64) -> Vec<(f64, f64)> {
    let keys: std::collections::BTreeSet<_> = p.keys().chain(q.keys()).collect();
    let at = |law: &Law, key: &Counts| law.get(key).copied().unwrap_or(0.0);
    let one: Vec<(f64, f64)> = keys.into_iter().map(|key| (at(p, key), at(q, key))).collect();
    if rounds == 1 {
        return one;
    }
    one.iter().flat_map(|a| one.iter().map(|b| (a.0 * b.0, a.1 * b.1))).collect()
}

fn divergence(outcomes: &[(f64, f64)], epsilon: f64) -> f64 {
    let grown = epsilon.exp();
    let forth: f64 = outcomes.iter().map(|(p, q)| (p - grown * q).max(0.0)).sum();
    let back: f64 = outcomes.iter().map(|(p, q)| (q - grown * p).max(0.0)).sum();
    forth.max(back)
}

/// A randomizer: the probability of each output under each input, and what an output is.
struct Table {
    event: Event,
    rows: Vec<Vec<f64>>,
    /// For RAPPOR the bits of each output.
    bits: Option<usize>,
}

impl Table {
    fn response(epsilon0: f64, k: u64) -> Self {
        let p = 1.0 / (epsilon0.exp() + k as f64 - 1.0);
        let row = |x| (0..k).map(|y| if x == y { epsilon0.exp() * p } else { p }).collect();
        let rows = (0..k).map(row).collect();
        Self { event: Event::RandomizedResponse { epsilon0, k }, rows, bits: None }
    }

    fn rappor(epsilon0: f64, k: u64) -> Self {
        let flip = 1.0 / (epsilon0.exp() + 1.0);
        let row = |x: u64| {
            let bit =
                |y: u64, j: u64| if (y >> j & 1 == 1) == (x == j) { 1.0 - flip } else { flip };
            (0..1u64 << k).map(|y| (0..k).map(|j| bit(y, j)).product()).collect()
        };
        let rows = (0..k).map(row).collect();
        Self { event: Event::Rappor { epsilon0, k }, rows, bits: Some(k as usize) }
    }

    /// Points are vectors whose first coordinate that is not 0 is 1; the order is a prime here.
    fn projective(epsilon0: f64, order: u64, dimension: u64) -> Self {
        let vectors = (0..order.pow(dimension as u32))
            .map(|v| (0..dimension as u32).map(|j| v / order.pow(j) % order).collect::<Vec<u64>>());
        let first = |v: &Vec<u64>| v.iter().copied().find(|x| *x != 0) == Some(1);
        let points: Vec<Vec<u64>> = vectors.filter(first).collect();
        let product = |v: &[u64], u: &[u64]| v.iter().zip(u).map(|(a, b)| a * b).sum::<u64>();
        let inside = |v: &[u64], u: &[u64]| product(v, u).is_multiple_of(order);
        // The largest weight with which no probability is further than e^epsilon0 from uniform.
        let own = points.iter().filter(|u| inside(&points[0], u)).count() as f64;
        let part = own / points.len() as f64;
        let fits = |w: f64| {
            let scale = 1.0 + (w - 1.0) * part;
            w / scale <= epsilon0.exp() && scale <= epsilon0.exp()
        };
        let (mut low, mut high) = (1.0, (2.0 * epsilon0).exp() + 1.0);
        for _ in 0..80 {
            let middle = 0.5 * (low + high);
            *(if fits(middle) { &mut low } else { &mut high }) = middle;
        }
        let weight = |v: &Vec<u64>, u: &Vec<u64>| if inside(v, u) { low } else { 1.0 };
        let total = points.len() as f64 + (low - 1.0) * own;
        let row = |v: &Vec<u64>| points.iter().map(|u| weight(v, u) / total).collect();
        let rows = points.iter().map(row).collect();
        Self { event: Event::ProjectiveGeometry { epsilon0, order, dimension }, rows, bits: None }
    }

    /// What each input adds to what is seen, if a report is sent with probability `rate`: the
    /// number of each output, or the sum of their bits.
    fn seen(&self, rate: f64, summed: bool) -> Vec<Row> {
        let outputs = self.rows[0].len();
        let length = if summed { self.bits.unwrap() } else { outputs };
        let counts = |y: usize| -> Counts {
            let one = |j: usize| if summed { y >> j & 1 == 1 } else { y == j };
            (0..length).map(|j| u8::from(one(j))).chain([1]).collect()
        };
        let row = |row: &Vec<f64>| {
            let sent = row.iter().enumerate().map(|(y, p)| (counts(y), rate * p));
            sent.chain([(vec![0; length + 1], 1.0 - rate)]).collect()
        };
        self.rows.iter().map(row).collect()
    }

    fn random(stream: &mut Stream, kind: u32) -> Self {
        let epsilon0 = stream.spread(0.1, 4.0);
        match kind {
            0 => Self::response(epsilon0, stream.whole(2, 5)),
            1 => Self::rappor(epsilon0, stream.whole(2, 3)),
            _ => {
                let (order, dimension) =
                    [(2, 2), (2, 3), (3, 2), (5, 2)][stream.whole(0, 3) as usize];
                Self::projective(epsilon0, order, dimension)
            }
        }
    }
}

/// Inputs of `size` others: all of them, if they are few; else those that are all the same, and
/// some more. Outputs may be renamed so that the device's values are 0 and 1.
fn inputs(stream: &mut Stream, symbols: usize, size: usize) -> Vec<Vec<usize>> {
    let mut sets: Vec<Vec<usize>> = vec![vec![]];
    for _ in 0..size {
        sets = sets
            .iter()
            .flat_map(|set| {
                let from = set.last().copied().unwrap_or(0);
                (from..symbols).map(move |x| [set.clone(), vec![x]].concat())
            })
            .collect();
    }
    if sets.len() <= 40 {
        return sets;
    }
    let mut any = || stream.whole(0, symbols as u64 - 1) as usize;
    let mut found: Vec<Vec<usize>> = (0..symbols).map(|x| vec![x; size]).collect();
    for _ in 0..4 {
        let pair = [any(), any()];
        found.push((0..size).map(|j| pair[j % 2]).collect());
        found.push((0..size).map(|_| any()).collect());
    }
    found
}

/// The bracket of `event` holds the worst of the pairs of laws.
fn check(event: &Event, delta: f64, worlds: &[Vec<(f64, f64)>], tally: &mut [u32; 2]) {
    let (adjacency, shape) = (Adjacency::Replace, Shape::OneHot);
    let worst =
        |epsilon: f64| worlds.iter().map(|world| divergence(world, epsilon)).fold(0.0, f64::max);
    for accountant in [Accountant::Pld, Accountant::Best] {
        let found =
            Question { event, adjacency, shape, accountant }.epsilon(delta).unwrap().epsilon;
        let what = format!("{event:?} {accountant:?} {delta:e}: {found:?}");
        assert!(0.0 <= found.lower && found.lower <= found.upper, "{what}");
        let (above, below) = (worst(found.upper), worst(found.lower));
        assert!(above <= delta * (1.0 + SLACK) + SLACK, "{what}: {above:e}");
        assert!(found.lower == 0.0 || below >= delta * (1.0 - SLACK) - SLACK, "{what}: {below:e}");
        tally[0] += 1;
        tally[1] += u32::from(found.upper - found.lower <= 0.01 * found.upper);
    }
}

/// What is seen of `n` devices if the first holds 0, or 1.
fn worlds(rows: &[Row], sets: &[Vec<usize>], rounds: u64) -> Vec<Vec<(f64, f64)>> {
    let world = |others: &Vec<usize>| {
        let crowd = all(rows, others);
        outcomes(&with(&crowd, &rows[0]), &with(&crowd, &rows[1]), rounds)
    };
    sets.iter().map(world).collect()
}

#[test]
fn reports_that_nobody_hides() {
    let (mut stream, mut tally) = (Stream::new(30), [0; 2]);
    for case in 0..cases(90) {
        let table = Table::random(&mut stream, case % 3);
        let (rounds, delta) = (stream.whole(1, 2), stream.spread(1e-6, 0.2));
        let worlds = worlds(&table.seen(1.0, false), &[vec![]], rounds);
        let event = Event::Repeated { times: rounds, of: Box::new(table.event.clone()) };
        check(&event, delta, &worlds, &mut tally);
    }
    println!("alone: {} brackets, {} within 1 %", tally[0], tally[1]);
    assert!(tally[1] * 2 > tally[0], "{tally:?}");
}

#[test]
fn shuffled_reports_of_a_crowd() {
    let (mut stream, mut tally) = (Stream::new(31), [0; 2]);
    for case in 0..cases(36) {
        let table = Table::random(&mut stream, case % 3);
        let (n, rounds) = (stream.whole(1, 5), 1 + u64::from(case % 5 == 4));
        let n = if rounds == 2 { n.min(3) } else { n };
        let rate = if case % 2 == 0 { 1.0 } else { stream.spread(0.02, 1.0) };
        let delta = stream.spread(1e-8, 0.1);
        let sets = inputs(&mut stream, table.rows.len(), n as usize - 1);
        let worlds = worlds(&table.seen(rate, false), &sets, rounds);
        let of = Box::new(table.event.clone());
        let of = if rate < 1.0 { Box::new(Event::PoissonSampled { rate, of }) } else { of };
        let event = Event::Repeated { times: rounds, of: Box::new(Event::Shuffled { n, of }) };
        check(&event, delta, &worlds, &mut tally);
    }
    println!("shuffled: {} brackets, {} within 1 %", tally[0], tally[1]);
    assert!(tally[1] * 4 > tally[0], "{tally:?}");
}

#[test]
fn sums_of_rappor_reports() {
    let (mut stream, mut tally) = (Stream::new(32), [0; 2]);
    for case in 0..cases(36) {
        let table = Table::rappor(stream.spread(0.1, 4.0), stream.whole(2, 4));
        let (n, rounds) = (stream.whole(1, 6), 1 + u64::from(case % 5 == 4));
        let n = if rounds == 2 { n.min(3) } else { n };
        let delta = stream.spread(1e-8, 0.1);
        let sets = inputs(&mut stream, table.rows.len(), n as usize - 1);
        let worlds = worlds(&table.seen(1.0, true), &sets, rounds);
        let of = Box::new(table.event.clone());
        let event = Event::Repeated { times: rounds, of: Box::new(Event::Summed { n, of }) };
        check(&event, delta, &worlds, &mut tally);
    }
    println!("summed: {} brackets, {} within 1 %", tally[0], tally[1]);
    assert!(tally[1] * 4 > tally[0], "{tally:?}");
}

/// All subsets of `size` out of `of`.
fn subsets(of: usize, size: usize) -> Vec<Vec<usize>> {
    (0..1u32 << of)
        .filter(|set| set.count_ones() as usize == size)
        .map(|set| (0..of).filter(|j| set >> j & 1 == 1).collect())
        .collect()
}

#[test]
fn a_subset_of_a_population() {
    let (mut stream, mut tally) = (Stream::new(33), [0; 2]);
    for case in 0..cases(36) {
        let table = Table::random(&mut stream, case % 3);
        let summed = table.bits.is_some() && case % 2 == 0;
        let (population, rounds) = (stream.whole(2, 5), 1 + u64::from(case % 5 == 4));
        let population = if rounds == 2 { population.min(3) } else { population };
        let n = stream.whole(1, population);
        let delta = stream.spread(1e-8, 0.1);
        let rows = table.seen(1.0, summed);
        let others = population as usize - 1;
        let world = |inputs: &Vec<usize>| {
            let law = |size: usize| {
                let sets = subsets(others, size);
                let each = 1.0 / sets.len() as f64;
                let mut sum = Law::new();
                for set in sets {
                    let chosen: Vec<usize> = set.iter().map(|j| inputs[*j]).collect();
                    for (counts, p) in all(&rows, &chosen) {
                        *sum.entry(counts).or_insert(0.0) += each * p;
                    }
                }
                sum
            };
            let share = n as f64 / population as f64;
            let inside = law(n as usize - 1);
            let outside = if n < population { law(n as usize) } else { Law::new() };
            let of = |value: usize| mixed(&outside, &with(&inside, &rows[value]), share);
            outcomes(&of(0), &of(1), rounds)
        };
        let sets = inputs(&mut stream, table.rows.len(), others);
        let worlds: Vec<_> = sets.iter().map(world).collect();
        let of = Box::new(table.event.clone());
        let of = Box::new(if summed { Event::Summed { n, of } } else { Event::Shuffled { n, of } });
        let event = Event::SampledWithoutReplacement { population, sample: n, of };
        check(&Event::Repeated { times: rounds, of: Box::new(event) }, delta, &worlds, &mut tally);
    }
    println!("subsets: {} brackets, {} within 1 %", tally[0], tally[1]);
}
