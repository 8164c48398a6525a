//! Shuffling against reference values and against brute force.

mod brute {
    //! The exact law of the histogram of a few shuffled reports, by convolution over the devices:
    //! nothing here is shared with the crate.

    use std::collections::BTreeMap;

    /// The probability of each histogram; counts are packed, 8 bits a symbol.
    pub(crate) type Law = BTreeMap<u64, f64>;

    pub(crate) fn nothing() -> Law {
        Law::from([(0, 1.0)])
    }

    pub(crate) fn with(law: &Law, row: &[f64]) -> Law {
        let mut sum = Law::new();
        for (histogram, weight) in law {
            for (symbol, p) in row.iter().enumerate() {
                *sum.entry(histogram + (1 << (8 * symbol))).or_insert(0.0) += weight * p;
            }
        }
        sum
    }

    pub(crate) fn all(rows: &[Vec<f64>], inputs: &[usize]) -> Law {
        inputs.iter().fold(nothing(), |law, input| with(&law, &rows[*input]))
    }

    /// The larger hockey-stick divergence of the two directions.
    pub(crate) fn divergence(p: &Law, q: &Law, epsilon: f64) -> f64 {
        let grown = epsilon.exp();
        let at = |law: &Law, key: &u64| law.get(key).copied().unwrap_or(0.0);
        let forth: f64 = p.iter().map(|(key, x)| (x - grown * at(q, key)).max(0.0)).sum();
        let back: f64 = q.iter().map(|(key, x)| (x - grown * at(p, key)).max(0.0)).sum();
        forth.max(back)
    }

    /// k-ary randomized response, a row for each input.
    pub(crate) fn krr(epsilon0: f64, k: usize) -> Vec<Vec<f64>> {
        let p = 1.0 / (epsilon0.exp() + k as f64 - 1.0);
        let row = |x| (0..k).map(|y| if x == y { epsilon0.exp() * p } else { p }).collect();
        (0..k).map(row).collect()
    }

    /// All multisets of `size` inputs out of `k`.
    pub(crate) fn multisets(k: usize, size: usize) -> Vec<Vec<usize>> {
        let mut sets = vec![vec![]];
        for _ in 0..size {
            let longer = |set: &Vec<usize>| {
                let from = set.last().copied().unwrap_or(0);
                let set = set.clone();
                (from..k).map(move |x| [set.clone(), vec![x]].concat()).collect::<Vec<_>>()
            };
            sets = sets.iter().flat_map(longer).collect();
        }
        sets
    }
}

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use serde_json::Value;
use sotto_dp::account::{Accountant, Question};
use sotto_dp::{Adjacency, Bracket, Error, Event, Shape, shuffle};

/// Room for the rounding of the brute-force sums (absolute: they have some hundred terms below 1).
const SLACK: f64 = 1e-14;

/// A fixed stream of numbers: the property tests below are the same on every run, and the bounds
/// they check are theorems, so they have no false alarms.
struct Stream(ChaCha8Rng);

impl Stream {
    fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }
}

fn reference() -> Vec<Value> {
    let text = include_str!("reference/d_shuffling.json");
    serde_json::from_str(text).unwrap()
}

fn inputs(row: &Value) -> (f64, u64, f64) {
    let inputs = &row["inputs"];
    let number = |name: &str| inputs[name].as_f64().unwrap();
    (number("eps0"), inputs["n"].as_u64().unwrap(), number("delta"))
}

#[test]
fn the_generic_bound_is_the_exact_sum() {
    let rows = reference();
    assert!(rows.len() >= 58);
    for row in &rows {
        let (epsilon0, n, delta) = inputs(row);
        let expected = row["expected"]["eps_fmt23_exact"].as_f64().unwrap();
        let found = shuffle::generic_epsilon(epsilon0, n, delta).unwrap();
        // Issue: within 1e-6. The reference is good to 1e-8 or better, and ours is on the safe side
        // of it.
        let relative = found.upper / expected - 1.0;
        assert!((-1e-9..1e-8).contains(&relative), "{row}: {found:?}, off by {relative:e}");
        assert!(found.lower <= found.upper && found.lower >= 0.0, "{row}: {found:?}");
        assert!(found.lower > 0.5 * found.upper, "{row}: {found:?} says little");
        assert!(shuffle::generic_delta(epsilon0, n, found.upper) <= delta * (1.0 + 1e-8), "{row}");
        let below = shuffle::generic_delta(epsilon0, n, found.upper * (1.0 - 1e-7));
        assert!(below > delta, "{row}: {below:e}");
    }
}

#[test]
fn the_closed_form_is_the_papers_and_errs_where_it_is_not_valid() {
    let (mut valid, mut invalid) = (0, 0);
    for row in reference() {
        let (epsilon0, n, delta) = inputs(&row);
        let expected = &row["expected"];
        let found = shuffle::closed_form_epsilon(epsilon0, n, delta);
        if expected["paper_footnote_valid"].as_bool().unwrap() {
            valid += 1;
            let found = found.unwrap();
            let formula = expected["paper_footnote_closed_form"].as_f64().unwrap();
            assert!((found / formula - 1.0).abs() < 1e-9, "{row}: {found}");
            assert!(shuffle::generic_epsilon(epsilon0, n, delta).unwrap().upper <= found);
        } else {
            invalid += 1;
            assert!(
                matches!(found, Err(Error::OutOfRange { name: "epsilon0", .. })),
                "{row}: {found:?}"
            );
        }
    }
    assert!(valid > 20 && invalid > 10);
}

/// 500 random crowds of k-ary randomized response, with random or constant inputs of the others:
/// the exact delta is never above ours, nor ours above the generic one.
#[test]
fn no_inputs_of_the_others_exceed_the_bound() {
    let mut random = Stream::new(1);
    for case in 0..500 {
        let n = 2 + random.below(6);
        let k = 2 + random.below(4);
        let large = random.between(5.0, 45.0);
        let epsilon0 = if case % 5 == 4 { large } else { random.between(0.1, 5.0) };
        let same = random.below(k);
        let others: Vec<usize> =
            (1..n).map(|_| if case % 2 == 0 { same } else { random.below(k) }).collect();
        let rows = brute::krr(epsilon0, k);
        let crowd = brute::all(&rows, &others);
        let (p, q) = (brute::with(&crowd, &rows[0]), brute::with(&crowd, &rows[1]));
        for epsilon in [0.0, epsilon0 * random.unit(), epsilon0 * random.unit()] {
            let truth = brute::divergence(&p, &q, epsilon);
            let ours = shuffle::krr_delta(epsilon0, k as u64, n as u64, epsilon);
            let generic = shuffle::generic_delta(epsilon0, n as u64, epsilon);
            let what = format!("n {n} k {k} epsilon0 {epsilon0} epsilon {epsilon} {others:?}");
            assert!(truth <= ours + SLACK, "{what}: {truth:e} > {ours:e}");
            assert!(ours <= generic * (1.0 + 1e-9), "{what}: {ours:e} > {generic:e}");
        }
    }
}

/// 100 small crowds: the blanket's delta is what its definition says, the average over how many of
/// the others sent a uniform symbol.
#[test]
fn the_blanket_is_the_average_over_the_uniform_reports() {
    let mut random = Stream::new(4);
    for _ in 0..100 {
        let n = 2 + random.below(5);
        let k = 3 + random.below(3);
        let epsilon0 = random.between(0.1, 5.0);
        let epsilon = epsilon0 * random.unit();
        let rows = brute::krr(epsilon0, k);
        let uniform = k as f64 * rows[0][1];
        let mut crowd = brute::nothing();
        let mut weight = (1.0 - uniform).powi(n as i32 - 1);
        let mut sum = 0.0;
        for m in 0..n {
            let (p, q) = (brute::with(&crowd, &rows[0]), brute::with(&crowd, &rows[1]));
            sum += weight * brute::divergence(&p, &q, epsilon);
            weight *= (n - 1 - m) as f64 / (m + 1) as f64 * uniform / (1.0 - uniform);
            crowd = brute::with(&crowd, &vec![1.0 / k as f64; k]);
        }
        let expected = sum.min(shuffle::generic_delta(epsilon0, n as u64, epsilon));
        let found = shuffle::krr_delta(epsilon0, k as u64, n as u64, epsilon);
        let what = format!("n {n} k {k} epsilon0 {epsilon0} epsilon {epsilon}");
        assert!((found - expected).abs() <= 1e-9 * expected + SLACK, "{what}: {found} {expected}");
    }
}

/// 250 small crowds, all inputs of the others enumerated: the bracket holds the epsilon of the
/// worst ones.
#[test]
fn the_bracket_holds_the_worst_inputs() {
    let mut random = Stream::new(2);
    let (mut tight, cases) = (0, 250);
    for _ in 0..cases {
        let n = 2 + random.below(4);
        let k = 2 + random.below(4);
        let epsilon0 = random.between(0.1, 5.0);
        let delta = 10f64.powf(random.between(-6.0, -1.0));
        let rows = brute::krr(epsilon0, k);
        // Symbols may be renamed, so the device's two are 0 and 1.
        let pairs: Vec<_> = brute::multisets(k, n - 1)
            .iter()
            .map(|others| {
                let crowd = brute::all(&rows, others);
                (brute::with(&crowd, &rows[0]), brute::with(&crowd, &rows[1]))
            })
            .collect();
        let worst = |epsilon: f64| {
            let each = pairs.iter().map(|(p, q)| brute::divergence(p, q, epsilon));
            each.fold(0.0, f64::max)
        };
        let found = shuffle::krr_epsilon(epsilon0, k as u64, n as u64, delta).unwrap();
        let what = format!("n {n} k {k} epsilon0 {epsilon0} delta {delta:e}: {found:?}");
        assert!(worst(found.upper) <= delta + SLACK, "{what}");
        assert!(found.lower <= found.upper, "{what}");
        assert!(found.lower == 0.0 || worst(found.lower) >= delta - SLACK, "{what}");
        tight += usize::from(found.lower > 0.99 * found.upper);
        let generic = shuffle::generic_epsilon(epsilon0, n as u64, delta).unwrap();
        assert!(found.upper <= generic.upper, "{what} {generic:?}");
    }
    assert!(tight > cases / 4, "only {tight} brackets within 1 %");
}

/// 200 random randomizers of other kinds, with random inputs: the generic bound, at the replacement
/// epsilon that the randomizer really has, is never below the exact delta.
#[test]
fn no_randomizer_exceeds_the_generic_bound() {
    let mut random = Stream::new(3);
    for case in 0..200 {
        let (inputs, outputs) = (2 + random.below(3), 2 + random.below(4));
        let scale = random.between(0.1, 4.0);
        let base: Vec<f64> = (0..outputs).map(|_| random.between(0.05, 1.0)).collect();
        let rows: Vec<Vec<f64>> = (0..inputs)
            .map(|_| {
                // Extreme points (each output likely or not) in every other case, else anything.
                let tilt = |u: f64| if case % 2 == 0 { u.round() } else { u };
                let row = base.iter().map(|b| b * (scale * tilt(random.unit())).exp());
                let row: Vec<f64> = row.collect();
                let sum: f64 = row.iter().sum();
                row.iter().map(|x| x / sum).collect()
            })
            .collect();
        let ratio = |y: usize| {
            let column = rows.iter().map(|row| row[y]);
            column.clone().fold(0.0, f64::max) / column.fold(1.0, f64::min)
        };
        let epsilon0 = (0..outputs).map(ratio).fold(1.0, f64::max).ln() * (1.0 + 1e-12);
        let n = 2 + random.below(5);
        let others: Vec<usize> = (1..n).map(|_| random.below(inputs)).collect();
        let crowd = brute::all(&rows, &others);
        let (p, q) = (brute::with(&crowd, &rows[0]), brute::with(&crowd, &rows[1]));
        for epsilon in [0.0, epsilon0 * random.unit()] {
            let truth = brute::divergence(&p, &q, epsilon);
            let ours = shuffle::generic_delta(epsilon0, n as u64, epsilon);
            assert!(truth <= ours + SLACK, "{rows:?} {others:?} {epsilon}: {truth:e} > {ours:e}");
        }
    }
}

/// The search is exact to 1e-10.
const STEP: f64 = 1e-9;

#[test]
fn epsilon_falls_with_the_crowd_and_delta_and_grows_with_epsilon0() {
    let both = |epsilon0: f64, n: u64, delta: f64| {
        let generic = shuffle::generic_epsilon(epsilon0, n, delta).unwrap();
        let krr = shuffle::krr_epsilon(epsilon0, 5, n, delta).unwrap();
        assert!(krr.upper <= generic.upper && krr.lower <= krr.upper, "{epsilon0} {n} {delta}");
        [generic.upper, krr.upper]
    };
    let falls = |values: &[[f64; 2]]| {
        for pair in values.windows(2) {
            // Groups of the blanket cost up to 1e-4.
            assert!(pair[1][0] <= pair[0][0] * (1.0 + STEP), "{values:?}");
            assert!(pair[1][1] <= pair[0][1] * (1.0 + 1e-4), "{values:?}");
        }
    };
    for (epsilon0, delta) in [(0.3, 1e-6), (2.0, 1e-3), (4.0, 1e-10), (9.0, 1e-8)] {
        let crowds = [1, 2, 3, 5, 17, 100, 101, 1_000, 12_345, 100_000];
        falls(&crowds.map(|n| both(epsilon0, n, delta)));
    }
    for (epsilon0, n) in [(1.0, 10), (4.0, 10_000)] {
        falls(&[1e-200, 1e-30, 1e-15, 1e-10, 1e-6, 1e-3, 0.1, 0.9].map(|d| both(epsilon0, n, d)));
    }
    for (n, delta) in [(50, 1e-4), (20_000, 1e-9)] {
        falls(&[60.0, 12.0, 8.0, 4.0, 3.99, 1.0, 0.1, 1e-3].map(|e| both(e, n, delta)));
    }
}

#[test]
fn extremes_are_answered() {
    for (epsilon0, n, delta) in [
        (0.0, 10, 1e-6),
        (1e-300, u64::MAX, 1e-6),
        (1e-12, u64::MAX, 1e-300),
        (1.0, 1, 1e-6),
        (1.0, 1_000_000_000_000, 1e-12),
        (30.0, 1_000_000_000_000_000, 1e-12),
        (99.0, u64::MAX, 1e-300),
        (1e5, u64::MAX, 1e-9),
        (1e300, 5, 0.5),
        (5.0, 300, f64::MIN_POSITIVE),
        (5.0, 300, 1.0 - 1e-16),
    ] {
        for k in [2, 3, 1_000, u64::MAX] {
            let found = shuffle::krr_epsilon(epsilon0, k, n, delta).unwrap();
            assert!((0.0..=epsilon0).contains(&found.upper), "{epsilon0} {n} {delta} {found:?}");
            assert!((0.0..=found.upper).contains(&found.lower), "{epsilon0} {n} {delta} {found:?}");
        }
        let delta = shuffle::krr_delta(epsilon0, 4, n, 0.3 * epsilon0);
        assert!((0.0..=1.0).contains(&delta));
    }
    let alone = shuffle::generic_epsilon(1.7, 1, 1e-3).unwrap();
    assert!(alone.upper == 1.7 && alone.lower > 1.698, "{alone:?}");
    // Hardly a clone in the crowd: what is left is the randomizer's own delta.
    let own = -f64::exp_m1(38.0 - 40.0);
    assert!((shuffle::generic_delta(40.0, 1_000, 38.0) / own - 1.0).abs() < 1e-9);
}

#[test]
fn a_larger_alphabet_hides_better_than_the_generic_bound_knows() {
    let generic = shuffle::generic_epsilon(4.0, 10_000, 1e-10).unwrap();
    let krr = shuffle::krr_epsilon(4.0, 100, 10_000, 1e-10).unwrap();
    assert!(krr.upper < 0.8 * generic.upper, "{krr:?} {generic:?}");
    assert!(krr.lower > 0.9 * krr.upper, "{krr:?}");
}

/// In large crowds the worst inputs are known well: the two ends, computed apart, almost meet.
#[test]
fn the_ends_meet_in_large_crowds() {
    for (epsilon0, k, n, delta) in [
        (4.0, 10, 1_000_000, 1e-10),
        (1.0, 4, 100_000, 1e-8),
        (0.5, 3, 10_000_000, 1e-12),
        (6.0, 1_000, 200_000, 1e-9),
    ] {
        let found = shuffle::krr_epsilon(epsilon0, k, n, delta).unwrap();
        let gap = 1.0 - found.lower / found.upper;
        assert!((0.0..2e-4).contains(&gap), "{epsilon0} {k} {n} {delta:e}: {found:?}");
    }
}

fn bracket(event: &Event, delta: f64) -> Bracket {
    let (adjacency, shape, accountant) = (Adjacency::Replace, Shape::OneHot, Accountant::Best);
    Question { event, adjacency, shape, accountant }.epsilon(delta).unwrap().epsilon
}

fn shuffled(n: u64, of: Event) -> Event {
    Event::Shuffled { n, of: Box::new(of) }
}

fn summed(n: u64, of: Event) -> Event {
    Event::Summed { n, of: Box::new(of) }
}

/// 10,000 reports of RAPPOR with the deletion parameter 4. If all others hold a third symbol, the
/// sum has epsilon 0.61138 at delta 1e-10 and 0.41496 at 1e-6; the worst crowd has more. The
/// replacement bound at 4 instead of 8 would give 0.605256, which is not true.
#[test]
fn the_sum_of_rappor_reports_is_known_within_a_percent() {
    let rappor = Event::Rappor { epsilon0: 4.0, k: 100 };
    for (delta, third, worst) in [(1e-10, 0.611_383, 0.661_179), (1e-6, 0.414_961, 0.441_344)] {
        let found = bracket(&summed(10_000, rappor.clone()), delta);
        assert!(found.lower > third && (found.lower / worst - 1.0).abs() < 2e-6, "{found:?}");
        assert!(found.upper < 1.005 * found.lower, "{found:?}");
        // Who sees the reports one by one sees far more.
        let reports = bracket(&shuffled(10_000, rappor.clone()), delta);
        assert!(reports.lower > 4.0 && reports.upper < 6.0, "{reports:?}");
    }
    let wrong = bracket(&shuffled(10_000, Event::PureDp { epsilon: 4.0 }), 1e-10);
    assert!((wrong.upper - 0.605_256).abs() < 1e-6, "{wrong:?}");
}

/// In large crowds two symbols hide better than three: with three, all others may hold one that the
/// device cannot hold.
#[test]
fn two_symbols_cost_no_more_than_three() {
    for (epsilon0, n, delta) in [(4.0, 10_000, 1e-6), (1.0, 1_000_000, 1e-9), (2.0, 2_000, 1e-4)] {
        let [two, three] = [2, 3].map(|k| shuffle::krr_epsilon(epsilon0, k, n, delta).unwrap());
        assert!(two.upper < three.upper, "{two:?} {three:?}");
        assert!(two.upper <= 1.01 * two.lower, "{two:?}");
    }
}

/// A hundred rounds by the law of their loss. As black boxes they were 31.4342 and 37.4034.
#[test]
fn a_hundred_rounds_by_their_own_law() {
    let hundred = |of: Event| Event::Repeated { times: 100, of: Box::new(of) };
    let response = shuffled(10_000, Event::RandomizedResponse { epsilon0: 4.0, k: 16 });
    let found = bracket(&hundred(response.clone()), 1e-6);
    assert!(found.upper < 4.39 && found.upper < 1.001 * found.lower, "{found:?}");
    assert!(found.lower > 3.0 * bracket(&response, 1e-6).upper, "{found:?}");
    let any = bracket(&hundred(shuffled(10_000, Event::PureDp { epsilon: 4.0 })), 1e-6);
    assert!(any.upper < 5.0 && any.upper > found.upper, "{any:?}");
    // The sum of two columns, a hundred times.
    let sum = bracket(&hundred(summed(10_000, Event::Rappor { epsilon0: 4.0, k: 16 })), 1e-6);
    assert!(sum.upper < 5.2 && sum.upper < 1.02 * sum.lower, "{sum:?}");
}

/// The coin of every device, in the sum: a crowd of which each answers with probability 2 % is
/// nearly the same as 2 % of it, and both are nearly as good as their best attack.
#[test]
fn sampling_is_in_the_sum() {
    let response = Event::RandomizedResponse { epsilon0: 4.0, k: 16 };
    let coin = Event::PoissonSampled { rate: 0.02, of: Box::new(response.clone()) };
    let tossed = bracket(&shuffled(250_000, coin), 1e-6);
    let of = Box::new(shuffled(5_000, response.clone()));
    let taken = Event::SampledWithoutReplacement { population: 250_000, sample: 5_000, of };
    let taken = bracket(&taken, 1e-6);
    for found in [tossed, taken] {
        assert!(found.upper < 1.0001 * found.lower, "{found:?}");
    }
    assert!((tossed.upper / taken.upper - 1.0).abs() < 1e-3, "{tossed:?} {taken:?}");
    // Amplifying one point of the shuffle gives a third more.
    let own = shuffle::krr_epsilon(4.0, 16, 5_000, 1e-6 / 0.02).unwrap().upper;
    let point = (0.02 * own.exp_m1()).ln_1p();
    assert!(taken.upper < 0.8 * point, "{taken:?} {point}");
}

/// Whatever the parameters are, there is an answer, and it lies between 0 and what one report alone
/// reveals.
#[test]
fn extreme_events_are_answered() {
    let randomizers = |epsilon0: f64| {
        [
            (Event::RandomizedResponse { epsilon0, k: 2 }, epsilon0),
            (Event::Rappor { epsilon0, k: u64::MAX }, 2.0 * epsilon0),
            (Event::Rappor { epsilon0, k: 2 }, 2.0 * epsilon0),
            (Event::ProjectiveGeometry { epsilon0, order: 2, dimension: 2 }, 2.0 * epsilon0),
            (Event::ProjectiveGeometry { epsilon0, order: 1 << 32, dimension: 64 }, 2.0 * epsilon0),
        ]
    };
    let crowds: [(u64, f64); 6] =
        [(1, 0.3), (2, 1e-9), (7, 0.0), (1_000, 1.0), (1 << 20, 1e-300), (u64::MAX, 0.999_999)];
    for (epsilon0, delta) in
        [(1e-250, 0.1), (1e-9, 1e-12), (0.7, 1e-300), (9.0, 0.9), (49.0, 1e-9), (1e4, 0.5)]
    {
        for (of, local) in randomizers(epsilon0) {
            for (n, rate) in crowds {
                let coin = Event::PoissonSampled { rate, of: Box::new(of.clone()) };
                let mut events = vec![shuffled(n, of.clone()), shuffled(n, coin)];
                if let Event::Rappor { .. } = of {
                    events.push(summed(n, of.clone()));
                }
                let share =
                    |event: &Event| Event::PoissonSampled { rate, of: Box::new(event.clone()) };
                let shares: Vec<Event> = events.iter().map(share).collect();
                for event in events.iter().chain(&shares) {
                    let found = bracket(event, delta);
                    let holds = 0.0 <= found.lower && found.lower <= found.upper;
                    let most = local * (1.0 + 1e-9);
                    assert!(holds && found.upper <= most, "{event:?} {delta:e}: {found:?}");
                }
            }
        }
    }
}

#[test]
fn what_is_no_crowd_is_refused() {
    let refused = |event: &Event, adjacency: Adjacency| {
        let (shape, accountant) = (Shape::OneHot, Accountant::Best);
        let found = Question { event, adjacency, shape, accountant }.epsilon(1e-6);
        assert!(matches!(found, Err(Error::Unsupported { .. })), "{event:?}: {found:?}");
    };
    let response = Event::RandomizedResponse { epsilon0: 1.0, k: 4 };
    let rappor = Event::Rappor { epsilon0: 1.0, k: 4 };
    let gaussian = Event::Gaussian { sigma: 1.0, sensitivity: 1.0 };
    for adjacency in [Adjacency::AddRemove, Adjacency::ZeroOut] {
        refused(&shuffled(9, rappor.clone()), adjacency);
        refused(&summed(9, rappor.clone()), adjacency);
        refused(&rappor, adjacency);
    }
    refused(&summed(9, response), Adjacency::Replace);
    refused(&shuffled(9, gaussian), Adjacency::Replace);
    let coin = Event::PoissonSampled { rate: 0.1, of: Box::new(rappor) };
    refused(&summed(9, coin), Adjacency::Replace);
    for (order, dimension) in [(6, 3), (1, 3), (0, 2), (5, 1), (5, 65), (1 << 33, 2)] {
        let event = Event::ProjectiveGeometry { epsilon0: 1.0, order, dimension };
        assert!(matches!(event.check(), Err(Error::OutOfRange { .. })), "{event:?}");
    }
    for order in [2, 3, 4, 8, 9, 49, 4_294_967_291] {
        Event::ProjectiveGeometry { epsilon0: 1.0, order, dimension: 3 }.check().unwrap();
    }
}

#[test]
fn nonsense_is_named() {
    let name = |result: Result<sotto_dp::Bracket, Error>| match result {
        Err(Error::OutOfRange { name, .. }) => name,
        other => panic!("{other:?}"),
    };
    for bad in [f64::NAN, f64::INFINITY, -1.0] {
        assert_eq!(name(shuffle::generic_epsilon(bad, 10, 1e-6)), "epsilon0");
        assert_eq!(name(shuffle::krr_epsilon(bad, 3, 10, 1e-6)), "epsilon0");
        assert_eq!(shuffle::krr_delta(bad, 3, 10, 0.1), 1.0);
    }
    for bad in [f64::NAN, 0.0, 1.0, -0.5, 2.0] {
        assert_eq!(name(shuffle::generic_epsilon(1.0, 10, bad)), "delta");
        assert_eq!(name(shuffle::krr_epsilon(1.0, 3, 10, bad)), "delta");
        assert!(shuffle::closed_form_epsilon(1.0, 10, bad).is_err());
    }
    assert_eq!(name(shuffle::generic_epsilon(1.0, 0, 1e-6)), "n");
    assert_eq!(name(shuffle::krr_epsilon(1.0, 1, 10, 1e-6)), "k");
    assert_eq!(shuffle::generic_delta(1.0, 10, f64::NAN), 1.0);
    assert_eq!(shuffle::generic_delta(1.0, 10, -0.1), 1.0);
}

#[test]
fn the_honest_crowd_counts_the_device_itself() {
    assert_eq!(shuffle::honest_crowd(10_001, 0.5), 5_001);
    assert_eq!(shuffle::honest_crowd(10, 0.5), 5);
    assert_eq!(shuffle::honest_crowd(10, 1.0), 10);
    assert_eq!(shuffle::honest_crowd(10, 0.0), 1);
    assert_eq!(shuffle::honest_crowd(10, 7.0), 10);
    assert_eq!(shuffle::honest_crowd(10, f64::NAN), 1);
    assert_eq!(shuffle::honest_crowd(1, 0.5), 1);
    assert_eq!(shuffle::honest_crowd(0, 0.5), 0);
    assert_eq!(shuffle::honest_crowd(u64::MAX, 1.0), u64::MAX);
}

/// Where a crowd hardly helps, or is so small that its law is not resolved, several rounds still cost
/// at most what the reports alone do.
#[test]
fn rounds_cost_at_most_the_reports_alone() {
    let (small, large) = (0.379_251_704, 9.75);
    let rappor = |epsilon0| Event::Rappor { epsilon0, k: 5 };
    let geometry = Event::ProjectiveGeometry { epsilon0: 4.367_46, order: 2, dimension: 4 };
    let response = Event::RandomizedResponse { epsilon0: 13.33, k: 2 };
    for (event, delta, local) in [
        (summed(2, rappor(small)), 4.5e-10, 2.0 * small),
        (summed(11, rappor(large)), 1.3e-8, 2.0 * large),
        (shuffled(57, rappor(1.112)), 3.5e-8, 2.0 * 1.112),
        (shuffled(99, Event::PureDp { epsilon: 16.9 }), 4.6e-9, 16.9),
        (shuffled(46, response), 2.9e-13, 13.33),
        (shuffled(3_510, geometry), 1.2e-12, 2.0 * 4.367_46),
    ] {
        let three = Event::Repeated { times: 3, of: Box::new(event.clone()) };
        let found = bracket(&three, delta).upper;
        assert!(found <= 3.0 * local * (1.0 + 1e-9), "{event:?}: {found}");
    }
    // A sum of a small part of a population is seen in a shuffle too, whose bound is better here.
    let part = Event::PoissonSampled { rate: 1e-4, of: Box::new(summed(160, rappor(6.3))) };
    let three = Event::Repeated { times: 3, of: Box::new(part.clone()) };
    let three = bracket(&three, 1.5e-9).upper;
    assert!(three < 10.0 * bracket(&part, 1e-10).upper, "{three}");
}
