//! The 95 % intervals of every kind and mechanism hold in 95 % of collections.
//!
//! 2,000 collections each. A right interval then holds in 93.5 to 96.5 % but for one case in 500;
//! the seeds are fixed. Exact intervals, where the count has a small variance, may hold more often:
//! of few events always. What may is marked as `few`.

use sotto_dp::mechanism::exact::Exact;
use sotto_dp::mechanism::randomized_response::RandomizedResponse;
use sotto_dp::mechanism::{Encoding, Mechanism, Rates, Value};

use super::simulated::*;

const RUNS: u32 = 2_000;

/// What a test expects of one interval.
#[derive(Clone, Copy, PartialEq)]
enum Holds {
    /// As often as it says.
    Exactly,
    /// As often or more: few events, or a bound instead of a variance.
    AtLeast,
}
use Holds::{AtLeast, Exactly};

fn check(held: f64, expected: Holds, at: &str) {
    let most = if expected == Exactly { 0.965 } else { 1.0 };
    assert!((0.935..=most).contains(&held), "{at}: held in {held}");
}

/// Runs collections; `truths` gives for each estimate the rate by which it counts a participant of
/// each group, and what its intervals do.
fn run(
    name: &str,
    mechanism: &Mechanism,
    population: &[Group],
    rates: Rates,
    wanted: &[(Vec<f64>, Holds)],
    seed: u64,
) {
    let mut rng = rng(seed);
    let mut records = vec![Record::default(); wanted.len()];
    for _ in 0..RUNS {
        let batch = collect(mechanism, population, &rates, &mut rng);
        let found = mechanism.estimates(&batch.collected(&rates)).unwrap();
        for (((weights, _), record), found) in wanted.iter().zip(&mut records).zip(&found) {
            let (mut truth, mut here) = (0.0, 0.0);
            for ((group, weight), took_part) in
                population.iter().zip(weights).zip(&batch.taking_part)
            {
                let rate = if group.is_default { rates.default_rate } else { rates.rate };
                truth += weight * group.devices as f64;
                here += weight * *took_part as f64 / rate;
            }
            record.add(found, here, truth);
        }
    }
    for (index, ((_, expected), record)) in wanted.iter().zip(&records).enumerate() {
        let at = format!("{name}, number {index}");
        let (noise, total) = (record.noise_held / record.runs, record.total_held / record.runs);
        println!("{at}: noise {noise}, total {total}");
        record.check_bias(&at);
        // Without noise the truth about those who took part is known.
        let is_exact = matches!(mechanism, Mechanism::Exact(_));
        check(noise, if is_exact { AtLeast } else { *expected }, &format!("{at}: noise"));
        check(total, *expected, &format!("{at}: total"));
    }
}

/// One number per group: how many devices are in it.
fn each(expected: &[Holds]) -> Vec<(Vec<f64>, Holds)> {
    let groups = expected.len();
    let of = |index| (0..groups).map(|group| f64::from(u8::from(group == index))).collect();
    expected.iter().enumerate().map(|(index, holds)| (of(index), *holds)).collect()
}

const SAMPLED: Rates = Rates::all(0.4);

fn with_dummies(rate: f64, dummy_rate: f64) -> Rates {
    Rates { dummy_rate, ..Rates::all(rate) }
}

#[test]
fn counts() {
    let people = |yes| vec![group(Value::Bit(true), yes), group(Value::Bit(false), 1_500 - yes)];
    let one = |holds| [(vec![1.0, 0.0], holds)];
    let exact: Mechanism = Exact::of(Encoding::Bit).into();
    let noisy = servers(Encoding::Bit, 12_000_000);
    for (seed, (mechanism, yes, holds)) in (10..).zip([
        (&exact, 600, Exactly),
        (&exact, 12, AtLeast),
        (&noisy, 600, Exactly),
        (&noisy, 5, Exactly),
    ]) {
        run("count", mechanism, &people(yes), SAMPLED, &one(holds), seed);
        run(
            "count with dummies",
            mechanism,
            &people(yes),
            with_dummies(0.4, 0.3),
            &one(holds),
            seed,
        );
    }
    let small = servers(Encoding::Bit, 1_500_000);
    run("count, little noise", &small, &people(9), SAMPLED, &one(AtLeast), 14);
    // Those who say no take part less often.
    let rates = Rates { default_rate: 0.1, ..with_dummies(0.7, 0.1) };
    let people = [group(Value::Bit(true), 500), by_default(Value::Bit(false), 1_500)];
    run("rare yes", &exact, &people, rates, &one(Exactly), 15);
    run("rare yes, noise", &noisy, &people, rates, &one(Exactly), 16);
}

#[test]
fn sums() {
    let encoding = Encoding::Number { max: 20 };
    // All values are 0 or the largest: then the variance is known.
    let ends = [group(Value::Number(20), 700), group(Value::Number(0), 800)];
    let spread = [group(Value::Number(3), 700), group(Value::Number(10), 300)];
    for (seed, mechanism) in
        (20..).zip([Exact::of(encoding).into(), servers(encoding, 150_000_000)])
    {
        for rates in [SAMPLED, with_dummies(0.4, 0.3)] {
            run("sum", &mechanism, &ends, rates, &[(vec![20.0, 0.0], Exactly)], seed);
            run("sum", &mechanism, &spread, rates, &[(vec![3.0, 10.0], AtLeast)], seed);
        }
    }
    let small = servers(encoding, 500_000);
    run("sum, little noise", &small, &ends, SAMPLED, &[(vec![20.0, 0.0], AtLeast)], 22);
}

#[test]
fn histograms() {
    let population = symbols(&[700, 400, 60, 5, 0]);
    let local = |micro| -> Vec<Mechanism> {
        vec![
            RandomizedResponse::new(micro, 5).unwrap().into(),
            rappor(micro, one_hot(5)),
            projective(micro, 5),
        ]
    };
    for (seed, mechanism) in (30..).zip(local(1_000_000)) {
        // So few reports have exact intervals, and those never end below the truth 0.
        let expected = [Exactly, Exactly, Exactly, Exactly, AtLeast];
        run(mechanism.kind(), &mechanism, &population, SAMPLED, &each(&expected), seed);
    }
    // Few lies.
    for (seed, mechanism) in (33..).zip(local(4_500_000)) {
        run(mechanism.kind(), &mechanism, &population, SAMPLED, &each(&[AtLeast; 5]), seed);
    }
    let noisy = servers(one_hot(5), 9_000_000);
    run("server noise", &noisy, &population, SAMPLED, &each(&[Exactly; 5]), 36);
    let little = servers(one_hot(5), 700_000);
    run("little server noise", &little, &population, SAMPLED, &each(&[AtLeast; 5]), 37);
    let expected = [Exactly, Exactly, AtLeast, AtLeast, AtLeast];
    let exact: Mechanism = Exact::of(one_hot(5)).into();
    run("exact", &exact, &population, SAMPLED, &each(&expected), 38);
    for (seed, mechanism) in
        (39..).zip([rappor(1_000_000, labels(5, 1)), servers(labels(5, 1), 9_000_000)])
    {
        let rates = with_dummies(0.4, 0.25);
        run("with dummies", &mechanism, &population, rates, &each(&[Exactly; 5]), seed);
    }
    let exact: Mechanism = Exact::of(labels(5, 1)).into();
    run("exact, dummies", &exact, &population, with_dummies(0.4, 0.25), &each(&expected), 41);
}

#[test]
fn several_labels() {
    let of = |labels: &[u32], devices| group(Value::Labels(labels.to_vec()), devices);
    let population =
        [of(&[0, 1], 500), of(&[1, 2, 3], 400), of(&[3], 200), of(&[], 300), of(&[4], 6)];
    let held = |label: u32, holds| {
        let has = |group: &Group| match &group.value {
            Value::Labels(labels) => f64::from(u8::from(labels.contains(&label))),
            _ => 0.0,
        };
        (population.iter().map(has).collect::<Vec<_>>(), holds)
    };
    let wanted = |holds| (0..5).map(|label| held(label, holds)).collect::<Vec<_>>();
    let mut exact = wanted(Exactly);
    exact[4].1 = AtLeast;
    for rates in [SAMPLED, with_dummies(0.4, 0.2)] {
        run("rappor", &rappor(900_000, labels(5, 3)), &population, rates, &wanted(Exactly), 50);
        let noisy = servers(labels(5, 3), 11_000_000);
        run("server noise", &noisy, &population, rates, &wanted(Exactly), 51);
        run("exact", &Exact::of(labels(5, 3)).into(), &population, rates, &exact, 52);
    }
}

/// Nearly everybody has the default, and takes part rarely; few others, of whom most take part.
#[test]
fn needles() {
    let rates = Rates { rate: 0.8, default_rate: 0.05, dummy_rate: 0.02, default: Some(3) };
    let none = Value::Labels(Vec::new());
    let needles = |devices| {
        let of = |label, devices| group(Value::Labels(vec![label]), devices);
        vec![of(0, 3), of(1, 12), of(2, 150), by_default(none.clone(), devices)]
    };
    // The last number counts who is left. Of those who took part it knows only what the noise in
    // the others hides: it is tested on its own.
    let wanted = |few: Holds, many: Holds| each(&[few, few, many, Exactly])[..3].to_vec();
    let people = needles(4_000);
    run("rappor", &rappor(1_000_000, labels(4, 1)), &people, rates, &wanted(Exactly, Exactly), 60);
    let few = wanted(AtLeast, AtLeast);
    run("rappor, few lies", &rappor(6_000_000, labels(4, 1)), &people, rates, &few, 61);
    let noisy = servers(labels(4, 1), 8_000_000);
    run("server noise", &noisy, &people, rates, &wanted(Exactly, Exactly), 62);
    run("little server noise", &servers(labels(4, 1), 600_000), &people, rates, &few, 63);
    run("exact", &Exact::of(labels(4, 1)).into(), &people, rates, &few, 64);
    // One-hot messages: the default has a number of its own, and there are no dummies.
    let rates = Rates { dummy_rate: 0.0, ..rates };
    let shown = |label, devices| group(Value::OneHot(label), devices);
    let people = [shown(0, 3), shown(1, 12), shown(2, 150), by_default(Value::OneHot(3), 4_000)];
    run("projective", &projective(1_500_000, 4), &people, rates, &each(&[Exactly; 4]), 65);
    let response = RandomizedResponse::new(1_500_000, 4).unwrap().into();
    run("randomized response", &response, &people, rates, &each(&[Exactly; 4]), 66);
    run(
        "projective, few lies",
        &projective(5_000_000, 4),
        &people,
        rates,
        &each(&[AtLeast; 4]),
        67,
    );
}

/// Who has the default is estimated from the number of reports. Dummies cannot be told from them:
/// both intervals are for all devices then.
fn rest(mechanism: &Mechanism, devices: [u64; 3], rates: Rates, expected: Holds, seed: u64) {
    let [first, second, defaults] = devices;
    let people = [
        group(Value::Labels(vec![0]), first),
        group(Value::Labels(vec![1]), second),
        by_default(Value::Labels(Vec::new()), defaults),
    ];
    let (mut record, mut rng) = (Record::default(), rng(seed));
    for _ in 0..RUNS {
        let batch = collect(mechanism, &people, &rates, &mut rng);
        let found = mechanism.estimates(&batch.collected(&rates)).unwrap()[2];
        let here = match rates.dummy_rate > 0.0 {
            true => defaults as f64,
            false => batch.taking_part[2] as f64 / rates.default_rate,
        };
        record.add(&found, here, defaults as f64);
    }
    let at = format!("{} at {rates:?}", mechanism.kind());
    let (noise, total) = (record.noise_held / record.runs, record.total_held / record.runs);
    println!("{at}: noise {noise}, total {total}");
    record.check_bias(&at);
    let exact = matches!(mechanism, Mechanism::Exact(_));
    check(noise, if exact { AtLeast } else { expected }, &at);
    check(total, if exact && rates.rate == 1.0 { AtLeast } else { expected }, &at);
}

#[test]
fn the_rest() {
    let importance = Rates { rate: 0.8, default_rate: 0.05, dummy_rate: 0.02, default: Some(2) };
    let single = Rates { default: Some(2), ..Rates::all(0.3) };
    let everybody = Rates { default: Some(2), ..Rates::all(1.0) };
    for (seed, rates) in (70..).zip([importance, single, everybody]) {
        for mechanism in [
            rappor(1_000_000, labels(3, 1)),
            servers(labels(3, 1), 8_000_000),
            Exact::of(labels(3, 1)).into(),
        ] {
            rest(&mechanism, [60, 300, 3_000], rates, Exactly, seed);
        }
    }
}

/// The same where few lies are told, or the noise of the servers is small.
#[test]
fn the_rest_of_few() {
    let rates =
        |default_rate, rate, dummy_rate| Rates { rate, default_rate, dummy_rate, default: Some(2) };
    let of = |sigma| servers(labels(3, 1), sigma);
    let told = |epsilon| rappor(epsilon, labels(3, 1));
    let cases = [
        (of(500_000), [20, 300, 20_000], rates(0.01, 0.5, 0.0)),
        (of(1_000_000), [20, 300, 20_000], rates(0.01, 0.5, 0.0)),
        (of(600_000), [5, 40, 400], rates(1.0, 1.0, 0.0)),
        (told(6_000_000), [5, 40, 400], rates(0.01, 0.5, 0.0)),
        (told(6_000_000), [5, 40, 400], rates(0.05, 0.5, 0.0)),
        (told(3_000_000), [12, 150, 3_000], rates(0.05, 0.8, 0.02)),
        (of(5_000_000), [12, 150, 3_000], rates(0.05, 0.8, 0.02)),
        (of(500_000), [5, 40, 20_000], rates(0.3, 0.9, 0.5)),
    ];
    for (seed, (mechanism, devices, rates)) in (80..).zip(cases) {
        rest(&mechanism, devices, rates, AtLeast, seed);
    }
}
