//! The odometer: sums over a device's whole life, of recipes under both adjacencies, and what its
//! reading promises.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use sotto_dp::Adjacency::{AddRemove, Replace, ZeroOut};
use sotto_dp::filter::{Budget, Charge, Filter, Refused};
use sotto_dp::{Event, Shape, rdp};

const PERIOD: Budget = Budget { epsilon: 2.0, delta: 1e-6, adjacency: Replace };
const LIFE: Budget = Budget { epsilon: 10.0, delta: 1e-5, adjacency: Replace };

/// A year of 13 periods of 28 days, each filled with recipes of this price. Returns their number,
/// and the sums that were never reset.
fn year(epsilon: f64, delta: f64) -> (u64, Filter) {
    let charge = Charge::replacing(epsilon, delta, Replace).unwrap();
    let mut period = Filter::new(PERIOD, 0).unwrap();
    let mut life = Filter::new(LIFE, 0).unwrap();
    let mut count = 0;
    for number in 0..13 {
        while period.charge(number, &charge).is_ok() {
            life.add(&charge);
            count += 1;
        }
    }
    (count, life)
}

/// The table in docs/privacy-accounting.md. By plain addition every year is (26, 1.3e-5).
#[test]
fn a_year_costs_less_than_the_sum_of_its_periods() {
    let sum = 13.0 * PERIOD.delta;
    for (epsilon, delta, recipes, shown) in [
        (0.01, 1e-11, 21_476, 7.561),
        (0.05, 1e-9, 910, 7.794),
        (0.1, 1e-9, 260, 8.362),
        (1.0, 1e-9, 26, 26.0),
    ] {
        let (count, life) = year(epsilon, delta);
        let reading = life.epsilon_spent(sum).unwrap();
        assert_eq!(count, recipes, "{epsilon}");
        assert!(reading <= shown && reading > shown - 1e-3, "{epsilon}: {reading}");
        // Never below what the accountant finds for a fixed list, with the best order afterwards.
        let one = Event::ApproximateDp { epsilon, delta };
        let all = Event::Repeated { times: count, of: Box::new(one) };
        let fixed = rdp::epsilon(&all, Replace, Shape::Vector, sum).unwrap().epsilon;
        assert!(reading >= fixed && reading < 1.11 * fixed, "{epsilon}: {reading} {fixed}");
    }
    // The recipes that a filter admits which splits its delta evenly over the orders.
    let mut life = Filter::new(LIFE, 0).unwrap();
    let charge = Charge::replacing(0.01, 1e-11, Replace).unwrap();
    (0..17_173).for_each(|_| life.add(&charge));
    let reading = life.epsilon_spent(sum).unwrap();
    assert!(reading > 6.7 && reading < 6.701, "{reading}");
    // The same list if it is fixed in advance, with half of the delta and the best order afterwards.
    let one = Event::ApproximateDp { epsilon: 0.01, delta: 1e-11 };
    let all = Event::Repeated { times: 17_173, of: Box::new(one) };
    let fixed = rdp::epsilon(&all, Replace, Shape::Vector, 0.5 * sum).unwrap().epsilon;
    assert!(fixed > 6.601 && fixed < 6.602, "{fixed}");
}

/// How many periods a device lasts that spends all it may on recipes of this price.
#[test]
fn a_life_of_small_recipes_lasts_longer() {
    for (epsilon, delta, periods) in [(0.01, 1e-11, 20), (0.1, 1e-9, 16), (1.0, 1e-9, 5)] {
        let charge = Charge::replacing(epsilon, delta, Replace).unwrap();
        let mut life = Filter::new(LIFE, 0).unwrap();
        let lasted = (0..).find(|number| {
            let mut period = Filter::new(PERIOD, *number).unwrap();
            while period.charge(*number, &charge).is_ok() {
                if life.charge(0, &charge).is_err() {
                    return true;
                }
            }
            false
        });
        assert_eq!(lasted, Some(periods), "{epsilon}");
    }
}

#[test]
fn a_new_period_renews_the_budget_and_not_the_life() {
    let charge = Charge::replacing(0.5, 1e-9, Replace).unwrap();
    let mut period = Filter::new(PERIOD, 0).unwrap();
    let mut life = Filter::new(LIFE, 0).unwrap();
    let (mut last, mut charged) = (0.0, 0);
    let refused = loop {
        if let Err(refused) = life.charge(0, &charge) {
            break refused;
        }
        // Four fit into a period.
        let number = charged / 4;
        period.charge(number, &charge).unwrap();
        charged += 1;
        let spent = period.epsilon_spent(PERIOD.delta).unwrap();
        assert!((spent - 0.5 * (1 + (charged - 1) % 4) as f64).abs() < 1e-9, "{charged}: {spent}");
        assert_eq!(period.may_afford(number, &charge).is_err(), charged.is_multiple_of(4));
        let reading = life.epsilon_spent(LIFE.delta).unwrap();
        assert!(reading > last && reading <= LIFE.epsilon, "{reading}");
        last = reading;
    };
    assert_eq!(charged, 20, "by plain addition");
    assert!(matches!(refused, Refused::Epsilon { budget: 10.0, .. }), "{refused:?}");
    // What was spent before anybody counted is added all the same, and nothing fits after it.
    let mut late = Filter::new(LIFE, 0).unwrap();
    (0..30).for_each(|_| late.add(&charge));
    assert!(late.epsilon_spent(LIFE.delta).unwrap() > LIFE.epsilon);
    assert!(late.charge(0, &Charge::replacing(1e-9, 0.0, Replace).unwrap()).is_err());
}

/// A law on a few outcomes.
type Law = Vec<f64>;

/// `sup over sets of P - e^epsilon Q`.
fn hockey_stick(p: &[f64], q: &[f64], epsilon: f64) -> f64 {
    p.iter().zip(q).map(|(p, q)| (p - epsilon.exp() * q).max(0.0)).sum()
}

/// The delta at which each of two laws is within `epsilon` of the other.
fn distance(p: &[f64], q: &[f64], epsilon: f64) -> f64 {
    hockey_stick(p, q, epsilon).max(hockey_stick(q, p, epsilon))
}

/// One release: what the device's first value, its absence and its second value give.
struct Release {
    laws: [Law; 3],
    charge: Charge,
    /// The charge of a ledger that takes an add/remove epsilon for a replacement epsilon.
    naive: Charge,
}

/// Releases of random laws, half of them judged by add/remove, some with a delta.
fn release(random: &mut ChaCha8Rng, outcomes: usize) -> Release {
    let mut unit = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let spread = 0.2 + 1.5 * unit();
    let (add_remove, zero_out, black) = (unit() < 0.6, unit() < 0.5, unit() < 0.5);
    let mut law = |tilt: f64| -> Law {
        let masses: Law =
            (0..outcomes).map(|i| (spread * (tilt * i as f64 + 0.3 * unit())).exp()).collect();
        let sum: f64 = masses.iter().sum();
        masses.iter().map(|mass| mass / sum).collect()
    };
    // The worst case: absence lies between the two values.
    let laws = [law(0.7), law(0.0), law(-0.7)];
    let [first, absent, second] = &laws;
    let pairs: &[(&Law, &Law)] =
        if add_remove { &[(first, absent), (absent, second)] } else { &[(first, second)] };
    let largest = pairs.iter().flat_map(|(p, q)| p.iter().zip(*q));
    let pure = largest.map(|(p, q)| (p / q).ln().abs()).fold(0.0, f64::max);
    let epsilon = if black { 0.8 * pure } else { pure * (1.0 + 1e-12) };
    let delta = pairs.iter().map(|(p, q)| distance(p, q, epsilon)).fold(0.0, f64::max);
    let delta = if black { delta * (1.0 + 1e-12) } else { 0.0 };
    let adjacency = match (add_remove, zero_out) {
        (false, _) => Replace,
        (true, false) => AddRemove,
        (true, true) => ZeroOut,
    };
    let charge = Charge::replacing(epsilon, delta, adjacency).unwrap();
    Release { laws, charge, naive: Charge::black_box(epsilon, delta, Replace).unwrap() }
}

#[test]
fn a_replacement_is_two_steps() {
    let mut random = ChaCha8Rng::seed_from_u64(17);
    for _ in 0..500 {
        let outcomes = 2 + (random.next_u64() % 4) as usize;
        let mut law = || -> Law {
            let masses: Law =
                (0..outcomes).map(|_| 0.01 + (random.next_u64() >> 11) as f64 / 9e15).collect();
            let sum: f64 = masses.iter().sum();
            masses.iter().map(|mass| mass / sum).collect()
        };
        let [first, absent, second] = [law(), law(), law()];
        for epsilon in [0.0, 0.1, 0.4, 1.0] {
            let delta = distance(&first, &absent, epsilon).max(distance(&absent, &second, epsilon));
            let charge = Charge::replacing(epsilon, delta, AddRemove).unwrap();
            let truth = distance(&first, &second, 2.0 * epsilon);
            assert!(charge.delta() >= truth - 1e-15, "{epsilon} {delta}: {truth}");
            let expected = ((1.0 + epsilon.exp()) * delta).min(1.0);
            assert!((charge.delta() - expected).abs() < 1e-9);
            // The infinite order says the epsilon.
            assert!((charge.rdp()[31] - 2.0 * epsilon).abs() < 1e-9);
        }
    }
    // Under replacement nothing changes, and nonsense is refused under every adjacency.
    let same = Charge::black_box(0.3, 1e-7, Replace).unwrap();
    assert_eq!(Charge::replacing(0.3, 1e-7, Replace).unwrap(), same);
    for adjacency in [AddRemove, Replace, ZeroOut] {
        for (epsilon, delta) in [(-1.0, 0.1), (f64::NAN, 0.1), (1.0, 1.5), (f64::INFINITY, 0.1)] {
            assert!(Charge::replacing(epsilon, delta, adjacency).is_err());
        }
        let huge = Charge::replacing(1e308, 0.5, adjacency).unwrap();
        assert!(Filter::new(LIFE, 0).unwrap().charge(0, &huge).is_err());
    }
}

/// A game: an adversary chooses each release, and when to stop, by the results so far. The whole tree
/// is enumerated.
struct Game<'a> {
    releases: &'a [Release],
    delta: f64,
    depth: usize,
    naive: bool,
    /// The sum over the transcripts of `(P - e^reading Q)_+`.
    excess: f64,
    /// The largest reading.
    largest: f64,
}

impl Game<'_> {
    fn play(&mut self, p: f64, q: f64, spent: &Filter, step: usize) {
        let loss = (p / q).ln();
        let before = spent.epsilon_spent(self.delta).unwrap();
        // Stop as soon as the loss is above the reading: that is when it hurts.
        if step == self.depth || (step > 1 && loss > before) {
            self.excess += (p - before.exp() * q).max(0.0);
            self.largest = self.largest.max(before);
            return;
        }
        // Bad luck so far is followed by other releases than good luck.
        let place = (step + if loss > 0.3 { 1 } else { 0 }) % self.releases.len();
        let release = &self.releases[place];
        let mut after = spent.clone();
        after.add(if self.naive { &release.naive } else { &release.charge });
        // A reading never falls.
        assert!(after.epsilon_spent(self.delta).unwrap() >= before);
        let [first, _, second] = &release.laws;
        for (a, b) in first.iter().zip(second) {
            self.play(p * a, q * b, &after, step + 1);
        }
    }
}

#[test]
fn the_reading_holds_whenever_an_adversary_stops() {
    let mut random = ChaCha8Rng::seed_from_u64(34);
    let mut broken = 0;
    for case in 0..60 {
        let outcomes = 2 + case % 2;
        let releases: Vec<Release> = (0..3).map(|_| release(&mut random, outcomes)).collect();
        let delta = [0.9, 0.5, 0.1, 1e-3][case % 4];
        let budget = Budget { epsilon: 2.0, delta: 1e-6, adjacency: Replace };
        for naive in [false, true] {
            let depth = if outcomes == 2 { 8 } else { 5 };
            let mut game =
                Game { releases: &releases, delta, depth, naive, excess: 0.0, largest: 0.0 };
            game.play(1.0, 1.0, &Filter::new(budget, 0).unwrap(), 0);
            match naive {
                false => assert!(game.excess <= delta, "{case}: {} {delta}", game.excess),
                true => broken += u32::from(game.excess > delta),
            }
            assert!(game.largest > 0.0);
        }
    }
    // A ledger that charges add/remove as replacement would break its promise.
    assert!(broken >= 5, "{broken}");
}
