//! The errors that are expected are those of many collections.

use sotto_dp::mechanism::exact::Exact;
use sotto_dp::mechanism::randomized_response::RandomizedResponse;
use sotto_dp::mechanism::{Encoding, Entry, Mechanism, Population, Rates, Value, mean};

use super::simulated::*;

const BATCHES: u32 = 2_000;

/// Collects many times, and compares the mean squared error of each number with what is expected.
///
/// A variance from so many batches of a nearly normal law is known to 3.2 %, so a right formula is
/// more than 15 % off once in 100,000 checks, of which there are 35.
fn check(mechanism: &Mechanism, groups: &[Group], rates: Rates, seed: u64) {
    let mut rng = rng(seed);
    let labels = mechanism.labels() as usize;
    let devices: u64 = groups.iter().map(|group| group.devices).sum();
    let defaults: u64 = groups.iter().filter(|g| g.is_default).map(|group| group.devices).sum();
    let mut entries = vec![Entry { sum: 0.0, squares: 0.0, is_default: false }; labels];
    for group in groups {
        let count = group.devices as f64;
        let mut holds = |label: u32, number: f64| {
            let entry = &mut entries[label as usize];
            entry.sum += count * number;
            entry.squares += count * number * number;
            entry.is_default |= rates.default == Some(label);
        };
        match &group.value {
            Value::OneHot(symbol) => holds(*symbol, 1.0),
            Value::Number(number) => holds(0, *number as f64),
            Value::Labels(all) if all.is_empty() => {
                rates.default.into_iter().for_each(|default| holds(default, 1.0));
            }
            Value::Labels(all) => all.iter().for_each(|label| holds(*label, 1.0)),
            other => panic!("{other:?}"),
        }
    }
    let population = Population { devices: devices as f64, defaults: defaults as f64, rates };
    let (mut squares, mut reports) = (vec![0.0; labels], 0.0);
    for _ in 0..BATCHES {
        let batch = collect(mechanism, groups, &rates, &mut rng);
        reports += batch.reports as f64 / f64::from(BATCHES);
        let found = mechanism.estimates(&batch.collected(&rates)).unwrap();
        for ((square, found), entry) in squares.iter_mut().zip(&found).zip(&entries) {
            *square += (found.value - entry.sum).powi(2) / f64::from(BATCHES);
        }
    }
    let kind = mechanism.kind();
    assert!((reports / population.reports() - 1.0).abs() < 0.01, "{kind}: {reports}");
    for (symbol, (square, entry)) in squares.iter().zip(&entries).enumerate() {
        let expected = population.expected(mechanism, entry).unwrap();
        let ratio = square / expected.total.powi(2);
        println!("{kind}, {symbol}: {ratio} of what is expected");
        assert!((ratio - 1.0).abs() < 0.15, "{kind}, {symbol}: {ratio}");
        assert!(expected.noise <= expected.total, "{kind}, {symbol}");
    }
}

#[test]
fn of_every_mechanism() {
    let one = |symbol, devices| group(Value::OneHot(symbol), devices);
    let of = |labels: &[u32], devices| group(Value::Labels(labels.to_vec()), devices);
    let single = [one(0, 250), one(1, 100), one(2, 50)];
    let several = [of(&[0, 1], 150), of(&[1], 100), of(&[1, 2], 50), of(&[], 100)];
    let rate = Rates::all(0.3);
    let dummies = Rates { dummy_rate: 0.2, ..rate };
    check(&RandomizedResponse::new(1_500_000, 4).unwrap().into(), &single, rate, 1);
    check(&rappor(900_000, one_hot(4)), &single, rate, 2);
    check(&rappor(900_000, labels(4, 2)), &several, dummies, 3);
    check(&projective(1_200_000, 4), &single, rate, 4);
    check(&servers(labels(4, 2), 3_000_000), &several, dummies, 5);
    check(&Exact::of(one_hot(3)).into(), &single, rate, 6);
}

/// The default is what is left, or a symbol that is sent at another rate.
#[test]
fn where_rates_depend_on_the_value() {
    let of = |labels: &[u32], devices| group(Value::Labels(labels.to_vec()), devices);
    let sparse = [by_default(Value::Labels(Vec::new()), 600), of(&[1], 60), of(&[2], 40)];
    let rates = Rates { rate: 0.6, default_rate: 0.2, dummy_rate: 0.0, default: Some(0) };
    check(&rappor(1_500_000, labels(3, 1)), &sparse, rates, 11);
    check(&servers(labels(3, 1), 2_000_000), &sparse, rates, 12);
    check(&rappor(1_500_000, labels(3, 1)), &sparse, Rates { dummy_rate: 0.1, ..rates }, 13);
    let one = |symbol, devices| group(Value::OneHot(symbol), devices);
    let sent = [by_default(Value::OneHot(0), 600), one(1, 60), one(2, 40)];
    check(&projective(2_000_000, 3), &sent, rates, 14);
}

#[test]
fn of_sums_and_means() {
    let number = |number, devices| group(Value::Number(number), devices);
    let groups = [number(0, 100), number(3, 200), number(10, 100)];
    let encoding = Encoding::Number { max: 10 };
    let rates = Rates { dummy_rate: 0.2, ..Rates::all(0.4) };
    check(&servers(encoding, 8_000_000), &groups, rates, 21);
    check(&Exact::of(encoding).into(), &groups, rates, 22);
    let mechanism = servers(encoding, 8_000_000);
    let mut rng = rng(23);
    let entry = Entry { sum: 1_600.0, squares: 11_800.0, is_default: false };
    let population = Population { devices: 400.0, defaults: 0.0, rates };
    let expected = population.expected_mean(&mechanism, &entry).unwrap();
    let squares = (0..BATCHES).map(|_| {
        let batch = collect(&mechanism, &groups, &rates, &mut rng);
        (mean(&mechanism, &batch.collected(&rates)).unwrap().mean.value - 4.0).powi(2)
    });
    let ratio = squares.sum::<f64>() / f64::from(BATCHES) / expected.total.powi(2);
    println!("mean: {ratio} of what is expected");
    assert!((ratio - 1.0).abs() < 0.15, "{ratio}");
}

/// The table of `docs/threat-model.md`.
#[test]
fn one_report_moves_a_number_this_far() {
    let near = |mechanism: &Mechanism, expected: f64| {
        let found = mechanism.reach();
        assert!((found / expected - 1.0).abs() < 0.005, "{}: {found}", mechanism.kind());
    };
    near(&RandomizedResponse::new(4_000_000, 50).unwrap().into(), 1.91);
    near(&rappor(2_000_000, one_hot(50)), 1.16);
    near(&projective(2_000_000, 50), 1.15);
    near(&servers(labels(50, 2), 3_000_000), 1.0);
    near(&Exact::of(Encoding::Number { max: 20 }).into(), 20.0);
}
