//! Everything that an aggregator sees of a small population, by exact enumeration: the number of
//! contributions at every moment, below the minimum batch too, and the sum of what is released.
//!
//! Nothing here is shared with the crate: devices are added one by one to a table of reports by
//! moment and symbol, and each table is what somebody may see.

use std::collections::BTreeMap;

use sotto_dp::account::{Accountant, Question};
use sotto_dp::recipe::{Law, Terms, judge};
use sotto_dp::{Adjacency, Event, Shape};

use super::SLACK;
use super::brute::{normal, stick};

/// A population so large that it hides every count: as if nobody saw one below the minimum batch.
const HIDDEN: Option<u64> = Some(1 << 53);

/// The probabilities with which a device sends each symbol. Their sum is its rate.
type Device = Vec<f64>;

/// Reports by moment and symbol, `moment * symbols + symbol`.
type Table = Vec<u64>;

/// How probable each table is.
type Tables = BTreeMap<Table, f64>;

/// When a batch is released, and what is seen before.
#[derive(Clone, Copy, Debug)]
struct World {
    symbols: usize,
    moments: usize,
    min_batch: u64,
    /// Known contributions of dishonest devices, which are there from the beginning.
    dishonest: u64,
    /// The batch is closed as soon as it is full; otherwise after the last moment.
    early: bool,
    /// Whether anybody sees the counts of what is not released.
    counts_seen: bool,
}

/// What is seen: the counts, and the released symbols.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct View {
    counts: Vec<u64>,
    released: Option<Vec<u64>>,
}

/// Adds devices, one by one, to a population whose table has this law. A report arrives at each
/// moment with the same probability.
fn joined(mut law: Tables, moments: usize, devices: &[Device]) -> Tables {
    for device in devices {
        let mut next = Tables::new();
        for (table, mass) in law {
            for moment in 0..moments {
                for (symbol, probability) in device.iter().enumerate() {
                    let mut sent = table.clone();
                    sent[moment * device.len() + symbol] += 1;
                    *next.entry(sent).or_insert(0.0) += mass * probability / moments as f64;
                }
            }
            *next.entry(table).or_insert(0.0) += mass * (1.0 - device.iter().sum::<f64>());
        }
        law = next;
    }
    law
}

/// The law of the table for these devices alone.
fn population(symbols: usize, moments: usize, devices: &[Device]) -> Tables {
    joined(Tables::from([(vec![0; moments * symbols], 1.0)]), moments, devices)
}

impl World {
    fn view(&self, table: &Table) -> View {
        let (mut counts, mut symbols) = (Vec::new(), vec![0; self.symbols]);
        let mut released = None;
        for row in table.chunks(self.symbols) {
            counts.push(row.iter().sum());
            symbols.iter_mut().zip(row).for_each(|(sum, more)| *sum += more);
            let full = self.dishonest + counts.iter().sum::<u64>() >= self.min_batch;
            let last = counts.len() == self.moments;
            if full && released.is_none() && (self.early || last) {
                released = Some(symbols.clone());
            }
        }
        if !self.counts_seen && released.is_none() {
            counts.clear();
        }
        View { counts, released }
    }

    /// The probability of each view, for two populations.
    fn views(&self, populations: [&Tables; 2]) -> BTreeMap<View, [f64; 2]> {
        let mut views = BTreeMap::new();
        for (side, tables) in populations.into_iter().enumerate() {
            for (table, mass) in tables {
                views.entry(self.view(table)).or_insert([0.0; 2])[side] += mass;
            }
        }
        views
    }

    /// The divergence if released symbols are seen as they are: the larger of both directions.
    fn exact(&self, populations: [&Tables; 2], epsilon: f64) -> f64 {
        hockey(self.views(populations).values(), epsilon)
    }

    /// The divergence if what is released is the sum of `positions`, one for each symbol, with the
    /// noise that the honest contributions bring: `sigma` is that of a minimum batch.
    fn noisy(
        &self,
        populations: [&Tables; 2],
        positions: [f64; 2],
        sigma: f64,
        epsilon: f64,
    ) -> f64 {
        let mut silent = Vec::new();
        let mut sums = BTreeMap::<_, Vec<(f64, [f64; 2])>>::new();
        for (view, masses) in self.views(populations) {
            match view.released {
                None => silent.push(masses),
                Some(symbols) => {
                    let sum = symbols.iter().zip(positions).map(|(n, at)| *n as f64 * at).sum();
                    let size: u64 = symbols.iter().sum();
                    sums.entry((view.counts, size)).or_default().push((sum, masses));
                }
            }
        }
        let ways = [[0, 1], [1, 0]].map(|[p, q]| {
            let mut delta = one_way(silent.iter(), epsilon, [p, q]);
            for ((_, size), points) in &sums {
                let sigma = sigma * (*size as f64 / self.min_batch as f64).sqrt();
                let density = |x: f64, side: usize| -> f64 {
                    points.iter().map(|(at, mass)| mass[side] * normal(x - at, sigma)).sum()
                };
                let at = |by: fn(f64, f64) -> f64| points.iter().map(|p| p.0).reduce(by).unwrap();
                let breaks = [at(f64::min) - 9.0 * sigma, at(f64::max) + 9.0 * sigma];
                delta += stick(|x| (density(x, p), density(x, q)), epsilon, &breaks, 0.75 * sigma);
            }
            delta
        });
        ways[0].max(ways[1])
    }
}

fn one_way<'a>(masses: impl Iterator<Item = &'a [f64; 2]>, epsilon: f64, way: [usize; 2]) -> f64 {
    masses.map(|both| (both[way[0]] - epsilon.exp() * both[way[1]]).max(0.0)).sum()
}

fn hockey<'a>(masses: impl Iterator<Item = &'a [f64; 2]> + Clone, epsilon: f64) -> f64 {
    one_way(masses.clone(), epsilon, [0, 1]).max(one_way(masses, epsilon, [1, 0]))
}

/// Worlds with this minimum batch: early and late release, as many dishonest devices as are allowed
/// or none.
fn worlds(symbols: usize, moments: usize, min_batch: u64) -> Vec<World> {
    let mut worlds = Vec::new();
    for early in [false, true] {
        for dishonest in [0, min_batch / 2] {
            let counts_seen = true;
            worlds.push(World { symbols, moments, min_batch, dishonest, early, counts_seen });
        }
    }
    worlds
}

/// A device that sends this symbol, of two.
fn holds(symbol: usize, rate: f64) -> Device {
    (0..2).map(|s| if s == symbol { rate } else { 0.0 }).collect()
}

/// Where the two symbols are: as far apart as contributions of this shape can be. (Given the count,
/// only the difference of two coordinates says anything about a one-hot sum.)
fn positions(shape: Shape) -> [f64; 2] {
    match shape {
        Shape::Vector => [-1.0, 1.0],
        Shape::OneHot => [0.0, 2f64.sqrt()],
        Shape::Number => [0.0, 1.0],
    }
}

fn gaussian(sigma: f64, shape: Shape, rate: f64, min_batch: u64) -> Terms {
    let law = Law::Gaussian { sigma, shape };
    Terms::new(law, rate, min_batch, 1)
}

/// Gaussian recipes, each with its delta. Releases are sometimes likely, sometimes impossible in
/// the populations below.
fn gaussian_cases() -> Vec<(Terms, f64)> {
    let (one_hot, vector) = (Shape::OneHot, Shape::Vector);
    vec![
        (gaussian(4.0, vector, 0.1, 12), 1e-3),
        (gaussian(6.0, one_hot, 0.1, 40), 1e-4),
        (gaussian(3.0, vector, 0.05, 10), 1e-4),
        (gaussian(8.0, one_hot, 0.2, 8), 1e-2),
        (gaussian(5.0, vector, 0.02, 200), 1e-6),
        (gaussian(2.0, one_hot, 0.3, 14), 1e-2),
    ]
}

/// The largest share of delta that is really spent, over the populations of `others` and every
/// world, for the worst values and for others.
fn spent(
    terms: &Terms,
    delta: f64,
    epsilon: f64,
    others: impl Iterator<Item = usize>,
    counts_seen: bool,
) -> f64 {
    let Law::Gaussian { sigma, shape } = terms.law else { panic!("Gaussian only") };
    let mut worst = 0.0f64;
    for others in others {
        for moments in [1, 2] {
            // All others hold the other value; or one of them holds the device's.
            for same in 0..=1.min(others) {
                let hold = |symbol, count| vec![holds(symbol, terms.rate); count];
                let without = [hold(0, others - same), hold(1, same)].concat();
                let without = population(2, moments, &without);
                let with = joined(without.clone(), moments, &hold(1, 1));
                for world in worlds(2, moments, terms.min_batch) {
                    let world = World { counts_seen, ..world };
                    let found = world.noisy([&with, &without], positions(shape), sigma, epsilon);
                    worst = worst.max(found / delta);
                }
            }
        }
    }
    worst
}

#[test]
fn gaussian_recipes_hold_for_every_count_that_is_seen() {
    let (mut finite, mut charged, mut near) = (0, 0, 0);
    for (terms, delta) in gaussian_cases() {
        let free = judge(&terms, HIDDEN, delta).unwrap().epsilon;
        for certified in [1, 2, 5, 9, 13, 17] {
            let found = judge(&terms, Some(certified), delta).unwrap();
            assert_eq!(found.adjacency, Adjacency::AddRemove);
            if !found.epsilon.is_finite() {
                continue;
            }
            let honest = (certified as usize - 1) / 2;
            let share = spent(&terms, delta, found.epsilon, honest..honest + 3, true);
            assert!(share <= 1.0 + SLACK, "{terms:?} {certified}: {found:?} {share}");
            finite += 1;
            charged += u32::from(found.epsilon > free * (1.0 + 1e-6));
            near += u32::from(share > 0.1);
        }
    }
    println!("{finite} finite, {charged} with a charge, {near} near their delta");
    assert!(finite >= 15 && charged >= 6 && near >= 8, "{finite} {charged} {near}");
}

/// The wrong version: whoever takes the count below the minimum batch to be hidden claims an
/// epsilon that does not hold. It would hold if the count were hidden.
#[test]
fn the_count_taken_to_be_hidden_is_noticed() {
    let mut noticed = 0;
    for (terms, delta) in gaussian_cases() {
        let wrong = judge(&terms, HIDDEN, delta).unwrap().epsilon;
        let populations = || 0..8usize;
        let hidden = spent(&terms, delta, wrong, populations(), false);
        assert!(hidden <= 1.0 + SLACK, "{terms:?}: {wrong} {hidden}");
        let seen = spent(&terms, delta, wrong, populations(), true);
        noticed += u32::from(seen > 2.0);
        // Nothing is certified: nothing is claimed.
        assert_eq!(judge(&terms, None, delta).unwrap().epsilon, f64::INFINITY);
    }
    assert!(noticed == 6, "{noticed} of 6 are noticed");
}

/// Several rounds in which nothing is released.
#[test]
fn the_counts_of_several_rounds_add_up() {
    for (rate, min_batch, certified, delta) in
        [(0.1, 60, 13, 1e-3), (0.05, 100, 9, 1e-4), (0.02, 200, 17, 1e-6)]
    {
        for rounds in [2u32, 3] {
            let terms = Terms {
                rounds: u64::from(rounds),
                ..gaussian(6.0, Shape::OneHot, rate, min_batch)
            };
            let epsilon = judge(&terms, Some(certified), delta).unwrap().epsilon;
            let wrong = judge(&terms, HIDDEN, delta).unwrap().epsilon;
            assert!(epsilon.is_finite(), "{terms:?}");
            let others = (certified as usize - 1) / 2;
            let world = worlds(2, 1, min_batch)[0];
            let without = population(2, 1, &vec![holds(0, rate); others]);
            let with = joined(without.clone(), 1, &[holds(0, rate)]);
            let round: Vec<_> = world.views([&with, &without]).into_values().collect();
            let mut all = vec![[1.0, 1.0]];
            for _ in 0..rounds {
                let and = |a: [f64; 2]| round.iter().map(move |b| [a[0] * b[0], a[1] * b[1]]);
                all = all.into_iter().flat_map(and).collect();
            }
            let truth = hockey(all.iter(), epsilon);
            assert!(truth <= delta * (1.0 + SLACK), "{terms:?}: {epsilon} {truth:e}");
            let truth = hockey(all.iter(), wrong);
            assert!(truth > 2.0 * delta, "{terms:?}: {wrong} {truth:e}");
        }
    }
}

/// A device with k-ary randomized response.
fn responds(symbol: usize, k: usize, epsilon0: f64, rate: f64) -> Device {
    let lie = rate / (epsilon0.exp() + k as f64 - 1.0);
    (0..k).map(|s| if s == symbol { lie * epsilon0.exp() } else { lie }).collect()
}

/// (local epsilon, symbols, rate, minimum batch, delta), and the numbers of devices.
type Response = ((f64, usize, f64, u64, f64), &'static [usize]);

const RESPONSES: [Response; 4] = [
    ((1.0, 2, 0.3, 40, 1e-2), &[1, 2, 8, 12, 40, 70]),
    ((2.0, 2, 0.2, 24, 2e-2), &[1, 5, 12, 30, 60]),
    ((3.0, 3, 0.3, 8, 1e-2), &[1, 4, 8, 12, 16]),
    ((1.5, 3, 0.6, 10, 1e-3), &[1, 4, 8, 12, 16]),
];

/// The divergences of a recipe with randomized response in each world with `devices` honest
/// devices, at `epsilon`: (replacement of the value, presence of the device).
fn response_worlds(
    (epsilon0, k, rate, min_batch, _): (f64, usize, f64, u64, f64),
    devices: usize,
    epsilon: f64,
) -> (f64, f64) {
    let moments = if k == 2 && devices <= 12 { 2 } else { 1 };
    let holds = |symbol| responds(symbol, k, epsilon0, rate);
    let (mut replaced, mut present) = (0.0f64, 0.0f64);
    // The others hold a third symbol if there is one, or that of one of the two neighbours.
    for theirs in [0, k - 1] {
        let others = population(k, moments, &vec![holds(theirs); devices - 1]);
        let and = |symbol| joined(others.clone(), moments, &[holds(symbol)]);
        let both = [and(0), and(1)];
        for world in worlds(k, moments, min_batch) {
            replaced = replaced.max(world.exact([&both[0], &both[1]], epsilon));
            present = present.max(world.exact([&both[1], &others], epsilon));
        }
    }
    (replaced, present)
}

#[test]
fn randomized_response_holds_for_every_count_that_is_seen() {
    let mut amplified = 0;
    let (mut worst, mut papers, mut exposed) = (0.0f64, 0.0f64, 0);
    for (case, populations) in RESPONSES {
        let (epsilon0, k, rate, min_batch, delta) = case;
        let law = Law::RandomizedResponse { epsilon0, k: k as u64 };
        let terms = Terms::new(law, rate, min_batch, 1);
        let found = judge(&terms, None, delta).unwrap();
        // No population matters: the count does not depend on the value.
        assert_eq!(found, judge(&terms, HIDDEN, delta).unwrap());
        assert_eq!(found.adjacency, Adjacency::Replace);
        amplified += u32::from(found.epsilon < 0.9 * epsilon0);
        for &devices in populations {
            let (replaced, present) = response_worlds(case, devices, found.epsilon);
            assert!(replaced <= delta * (1.0 + SLACK), "{terms:?} {devices}: {replaced:e}");
            worst = worst.max(replaced / delta);
            let (paper, _) = response_worlds(case, devices, found.paper_epsilon);
            papers = papers.max(paper / delta);
            // The same number read as one about presence is wrong.
            exposed += u32::from(present > 2.0 * delta);
        }
    }
    println!("{amplified} amplified, {worst} of delta, {papers} by the paper, {exposed} exposed");
    // The enumeration is sharp enough to refute the paper's figure, for which all are honest.
    assert!(amplified >= 2 && papers > 1.1 && exposed >= 8, "{amplified} {papers} {exposed}");
}

/// With dummies, which a histogram shows as what is missing in it, fewer of a batch are reports.
#[test]
fn randomized_response_holds_with_dummies() {
    let (mut amplified, mut worst) = (0, 0.0f64);
    for (case, dummy_rate, populations) in [
        ((1.0, 2, 0.3, 60, 1e-2), 0.2, [1, 8, 20, 40]),
        ((2.0, 2, 0.3, 30, 2e-2), 0.1, [1, 5, 12, 30]),
        ((3.0, 3, 0.4, 12, 1e-2), 0.3, [1, 4, 7, 10]),
        ((1.5, 3, 0.6, 10, 1e-3), 0.7, [1, 4, 7, 10]),
    ] {
        let (epsilon0, k, rate, min_batch, delta) = case;
        let law = Law::RandomizedResponse { epsilon0, k: k as u64 };
        let terms = Terms { dummy_rate, ..Terms::new(law, rate, min_batch, 1) };
        let found = judge(&terms, None, delta).unwrap();
        let without = judge(&Terms { dummy_rate: 0.0, ..terms }, None, delta).unwrap();
        assert!(found.epsilon >= without.epsilon * (1.0 - 1e-9), "{found:?} {without:?}");
        amplified += u32::from(found.epsilon < 0.9 * epsilon0);
        // A dummy is one more symbol.
        let dummy = (1.0 - rate) * dummy_rate;
        let holds = |symbol| [responds(symbol, k, epsilon0, rate), vec![dummy]].concat();
        for devices in populations {
            for theirs in [0, k - 1] {
                let others = population(k + 1, 1, &vec![holds(theirs); devices - 1]);
                let both = [0, 1].map(|symbol| joined(others.clone(), 1, &[holds(symbol)]));
                for world in worlds(k + 1, 1, min_batch) {
                    let truth = world.exact([&both[0], &both[1]], found.epsilon);
                    assert!(truth <= delta * (1.0 + SLACK), "{terms:?} {devices}: {truth:e}");
                    worst = worst.max(truth / delta);
                }
            }
        }
    }
    println!("{amplified} amplified, {worst} of delta");
    assert!(amplified >= 1, "{amplified}");
}

/// Parts of the recipe's rate with which devices take part that are often switched off.
const ONLINE: [f64; 5] = [1.0, 0.7, 0.3, 0.1, 0.01];

/// The rates of `count` devices, from place `start` of [`ONLINE`] on.
fn rates(rate: f64, count: usize, start: usize) -> impl Iterator<Item = f64> {
    (0..count).map(move |i| rate * ONLINE[(start + i) % ONLINE.len()])
}

/// Under replacement no device need be online, neither this one nor the others.
#[test]
fn randomized_response_holds_for_devices_that_are_often_off() {
    let (mut papers, mut less) = (0.0f64, 0);
    for (case, populations) in RESPONSES {
        let (epsilon0, k, rate, min_batch, delta) = case;
        let law = Law::RandomizedResponse { epsilon0, k: k as u64 };
        let terms = Terms::new(law, rate, min_batch, 1);
        let judged = judge(&terms, None, delta).unwrap();
        let epsilon = judged.epsilon;
        for &devices in populations.iter().filter(|devices| **devices <= 40) {
            let full = response_worlds(case, devices, epsilon).0;
            for (own, start) in [(0, 0), (0, 1), (1, 1), (2, 0), (3, 4)] {
                let others: Vec<_> = rates(rate, devices - 1, start)
                    .map(|rate| responds(k - 1, k, epsilon0, rate))
                    .collect();
                let others = population(k, 1, &others);
                let own = rate * ONLINE[own];
                let both = [0, 1]
                    .map(|symbol| joined(others.clone(), 1, &[responds(symbol, k, epsilon0, own)]));
                for world in worlds(k, 1, min_batch) {
                    let found = world.exact([&both[0], &both[1]], epsilon);
                    assert!(found <= delta * (1.0 + SLACK), "{terms:?} {devices}: {found:e}");
                    less += u32::from(found <= full * (1.0 + SLACK) + 1e-15);
                    let paper = world.exact([&both[0], &both[1]], judged.paper_epsilon);
                    papers = papers.max(paper / delta);
                }
            }
        }
    }
    println!("{papers} of delta by the paper; {less} at most as bad as with everybody on");
    assert!(papers > 0.1 && less > 100, "{papers} {less}");
}

/// Under add/remove as many honest others as are certified must be on. Others, and the device itself,
/// may be off as often as they like.
#[test]
fn gaussian_recipes_hold_for_devices_that_are_often_off() {
    let (mut checked, mut worst) = (0, 0.0f64);
    // As if those were on who are not: noticed.
    let mut noticed = 0;
    for (terms, delta) in gaussian_cases() {
        let Law::Gaussian { sigma, shape } = terms.law else { panic!("Gaussian only") };
        for honest in [2, 4, 6] {
            let epsilon = judge(&terms, Some(2 * honest as u64 + 1), delta).unwrap().epsilon;
            if !epsilon.is_finite() {
                continue;
            }
            let share = |others: &[f64], own: f64| {
                let others: Vec<_> = others.iter().map(|rate| holds(0, *rate)).collect();
                let without = population(2, 1, &others);
                let with = joined(without.clone(), 1, &[holds(1, own)]);
                let worlds = worlds(2, 1, terms.min_batch).into_iter();
                let spent =
                    |world: World| world.noisy([&with, &without], positions(shape), sigma, epsilon);
                worlds.map(spent).fold(0.0, f64::max) / delta
            };
            for more in [1, 4, 8] {
                for (own, start) in [(0, 1), (2, 1), (4, 3)] {
                    let on = std::iter::repeat_n(terms.rate, honest);
                    let others: Vec<_> = on.chain(rates(terms.rate, more, start)).collect();
                    let found = share(&others, terms.rate * ONLINE[own]);
                    assert!(found <= 1.0 + SLACK, "{terms:?} {honest} {others:?}: {found}");
                    worst = worst.max(found);
                    checked += 1;
                }
            }
            let off: Vec<_> = std::iter::repeat_n(0.01 * terms.rate, honest).collect();
            noticed += u32::from(share(&off, terms.rate) > 1.5);
        }
    }
    println!("{checked} checked, {worst} of delta at most; {noticed} noticed");
    assert!(checked >= 60 && worst > 0.1 && noticed >= 3, "{checked} {worst} {noticed}");
}

/// Both adjacencies of both mechanisms, the one that is not judged by two steps: presence, for
/// randomized response, is the count alone and a replacement; a replacement, for Gaussian noise, is
/// a removal and an addition. Either way `(e1 + e2, d1 + e^e1 d2)`.
#[test]
fn the_other_adjacency_follows_in_two_steps() {
    let mut checked = 0;
    for (case, populations) in RESPONSES {
        let (epsilon0, k, rate, min_batch, delta) = case;
        let law = Law::RandomizedResponse { epsilon0, k: k as u64 };
        let terms = Terms::new(law, rate, min_batch, 1);
        let replaced = judge(&terms, None, delta).unwrap().epsilon;
        for &devices in populations {
            let count = count_epsilon(rate, devices as u64 - 1, delta);
            if count.is_finite() {
                let (_, present) = response_worlds(case, devices, replaced + count);
                let allowed = delta * (1.0 + replaced.exp());
                assert!(present <= allowed * (1.0 + SLACK), "{case:?} {devices}: {present:e}");
                checked += 1;
            }
        }
    }
    for (terms, delta) in gaussian_cases() {
        let Law::Gaussian { sigma, shape } = terms.law else { panic!("Gaussian only") };
        let epsilon = judge(&terms, Some(13), delta).unwrap().epsilon;
        if !epsilon.is_finite() {
            continue;
        }
        let others = population(2, 2, &vec![holds(0, terms.rate); 6]);
        let and = |symbol| joined(others.clone(), 2, &[holds(symbol, terms.rate)]);
        let both = [and(0), and(1)];
        for world in worlds(2, 2, terms.min_batch) {
            let found = world.noisy([&both[0], &both[1]], positions(shape), sigma, 2.0 * epsilon);
            let allowed = delta * (1.0 + epsilon.exp());
            assert!(found <= allowed * (1.0 + SLACK), "{terms:?}: {epsilon} {found:e}");
            checked += 1;
        }
    }
    assert!(checked >= 16, "{checked}");
}

/// Exact values: no epsilon is judged, and none holds, neither for presence nor for the value.
#[test]
fn exact_values_have_no_epsilon() {
    let terms = Terms::new(Law::Exact, 0.3, 4, 1);
    for certified in [None, Some(13), HIDDEN] {
        assert_eq!(judge(&terms, certified, 1e-3).unwrap().epsilon, f64::INFINITY);
    }
    let world = worlds(2, 2, 4)[0];
    let others = population(2, 2, &vec![holds(0, 0.3); 6]);
    let and = |symbol| joined(others.clone(), 2, &[holds(symbol, 0.3)]);
    for both in [[and(1), others.clone()], [and(0), and(1)]] {
        assert!(world.exact([&both[0], &both[1]], 30.0) > 0.05);
    }
}

fn count_epsilon(rate: f64, others: u64, delta: f64) -> f64 {
    let event = Event::CountOnly { rate, population: others };
    let (adjacency, accountant) = (Adjacency::AddRemove, Accountant::Best);
    Question { event: &event, adjacency, shape: Shape::Vector, accountant }
        .epsilon_upper(delta)
        .unwrap()
}
