//! Calibration: the answer meets the target, and a little less does not.

use sotto_dp::account::{Accountant, Question};
use sotto_dp::calibrate::{self, Target};
use sotto_dp::recipe::{self, Law, Terms};
use sotto_dp::{Adjacency, Error, Event, Shape};

/// Calibration promises 1e-4 (relative); twice that must miss the target.
const MOVED: f64 = 2e-4;

fn target(epsilon: f64, delta: f64, adjacency: Adjacency, accountant: Accountant) -> Target {
    Target { epsilon, delta, adjacency, shape: Shape::OneHot, accountant }
}

fn met(target: Target, event: &Event) -> bool {
    let Target { epsilon, delta, adjacency, shape, accountant } = target;
    Question { event, adjacency, shape, accountant }.epsilon_upper(delta).unwrap() <= epsilon
}

fn gaussian(sigma: f64) -> Event {
    Event::Gaussian { sigma, sensitivity: 1.0 }
}

fn steps(rate: f64, sigma: f64, times: u64) -> Event {
    let of = Box::new(Event::PoissonSampled { rate, of: Box::new(gaussian(sigma)) });
    Event::Repeated { times, of }
}

fn shuffled(epsilon0: f64, k: u64, n: u64) -> Event {
    Event::Shuffled { n, of: Box::new(Event::RandomizedResponse { epsilon0, k }) }
}

/// The targets of the sampled Gaussian, by all accountants.
fn targets() -> Vec<Target> {
    let mut all = Vec::new();
    for accountant in [Accountant::Rdp, Accountant::Pld, Accountant::Best] {
        for (epsilon, delta) in [(1.0, 1e-6), (0.1, 1e-8), (6.0, 1e-5)] {
            all.push(target(epsilon, delta, Adjacency::AddRemove, accountant));
        }
    }
    all
}

#[test]
fn the_smallest_sigma() {
    for target in targets() {
        for (rate, times) in [(1.0, 1), (0.01, 1), (1.0, 40), (0.1, 10), (0.02, 2_500), (1e-3, 300)]
        {
            let make = |sigma: f64| steps(rate, sigma, times);
            let found = calibrate::sigma(target, make).unwrap();
            let what = format!("{target:?} {rate} {times}: {found}");
            assert!(met(target, &make(found)), "{what}");
            assert!(!met(target, &make(found * (1.0 - MOVED))), "{what}");
        }
        let seen = |sigma: f64| Event::SampledCountSeen {
            rate: 0.05,
            population: 2_000,
            dummy_rate: 0.0,
            sigma,
            shape: Shape::OneHot,
        };
        if target.accountant != Accountant::Rdp {
            // The count alone costs 0.03 or so at these parameters, so that the smallest target is
            // out of reach.
            let found =
                calibrate::sigma(Target { epsilon: target.epsilon + 1.0, ..target }, seen).unwrap();
            let moved = Target { epsilon: target.epsilon + 1.0, ..target };
            assert!(
                met(moved, &seen(found)) && !met(moved, &seen(found * (1.0 - MOVED))),
                "{found}"
            );
        }
    }
}

#[test]
fn the_largest_rate() {
    for target in targets() {
        for (sigma, times) in [(1.0, 1), (3.0, 20), (5.1, 2_500), (1.0, 100)] {
            let make = |rate: f64| steps(rate, sigma, times);
            let found = match calibrate::rate(target, make) {
                // Renyi orders end where q^a e^(a^2/2 sigma^2) grows, so that no rate brings that
                // bound down to 0.
                Err(Error::Unreachable { name: "rate", .. })
                    if target.accountant == Accountant::Rdp =>
                {
                    assert!(!met(target, &make(1e-12)), "{target:?} {sigma} {times}");
                    continue;
                }
                found => found.unwrap(),
            };
            let what = format!("{target:?} {sigma} {times}: {found}");
            assert!(met(target, &make(found)) && found <= 1.0, "{what}");
            assert!(
                found == 1.0 || !met(target, &make((found * (1.0 + MOVED)).min(1.0))),
                "{what}"
            );
        }
    }
}

#[test]
fn the_largest_number_of_steps() {
    for target in targets() {
        for (rate, sigma) in [(0.02, 5.1), (0.1, 20.0), (1.0, 200.0)] {
            let make = |times: u64| steps(rate, sigma, times);
            let found = calibrate::times(target, make).unwrap();
            let what = format!("{target:?} {rate} {sigma}: {found}");
            assert!(met(target, &make(found)), "{what}");
            assert!(!met(target, &make(found + 1)), "{what}");
        }
    }
}

#[test]
fn the_largest_local_epsilon_and_the_smallest_crowd() {
    for (epsilon, delta) in [(1.0, 1e-6), (0.3, 1e-8)] {
        let target = target(epsilon, delta, Adjacency::Replace, Accountant::Best);
        for k in [2, 16] {
            let make = |epsilon0: f64| shuffled(epsilon0, k, 2_000);
            let found = calibrate::epsilon0(target, make).unwrap();
            assert!(found > epsilon, "{found}: no amplification");
            assert!(met(target, &make(found)), "{k}: {found}");
            assert!(!met(target, &make(found * (1.0 + MOVED))), "{k}: {found}");
            let make = |n: u64| shuffled(3.0, k, n);
            let found = calibrate::crowd(target, make).unwrap();
            assert!(met(target, &make(found)), "{k}: {found}");
            assert!(!met(target, &make(found - 1)), "{k}: {found}");
        }
    }
    // No shuffle is needed for a local epsilon that is small enough.
    let easy = target(3.5, 1e-6, Adjacency::Replace, Accountant::Best);
    assert_eq!(calibrate::crowd(easy, |n| shuffled(3.0, 4, n)).unwrap(), 1);
}

#[test]
fn the_smallest_batch() {
    let gaussian = Law::Gaussian { sigma: 12.0, shape: Shape::OneHot };
    let response = Law::RandomizedResponse { epsilon0: 3.0, k: 8 };
    for (law, rate, rounds, epsilon) in [
        (gaussian, 0.02, 1, 0.9),
        (gaussian, 0.1, 4, 2.0),
        (response, 0.05, 1, 0.3),
        (response, 0.05, 3, 1.0),
    ] {
        let certified = Some(1 << 40);
        let terms = Terms::new(law, rate, 1, rounds);
        let found = recipe::min_batch(&terms, certified, epsilon, 1e-7).unwrap();
        let judged = |min_batch: u64| {
            recipe::judge(&Terms { min_batch, ..terms }, certified, 1e-7).unwrap().epsilon
        };
        assert!(judged(found) <= epsilon, "{terms:?}: {found}");
        assert!(judged(found - 1) > epsilon, "{terms:?}: {found}");
    }
}

fn unreachable<T: std::fmt::Debug>(found: Result<T, Error>, expected: &str) {
    let Err(Error::Unreachable { name, hint }) = &found else { panic!("{expected}: {found:?}") };
    assert_eq!(*name, expected);
    assert!(!hint.is_empty());
}

#[test]
fn what_cannot_be_met_is_said_to_be_so() {
    let add = target(1.0, 1e-6, Adjacency::AddRemove, Accountant::Best);
    let replace = target(1.0, 1e-6, Adjacency::Replace, Accountant::Best);
    let and = |event: Event, other: Event| Event::Composed { of: vec![event, other] };
    let costly = || Event::ApproximateDp { epsilon: 0.0, delta: 1e-3 };
    unreachable(calibrate::sigma(add, |sigma| and(gaussian(sigma), costly())), "sigma");
    unreachable(calibrate::rate(add, |rate| and(steps(rate, 1.0, 1), costly())), "rate");
    unreachable(calibrate::times(add, |times| steps(1.0, 1.0, times)), "steps");
    let much = || Event::PureDp { epsilon: 5.0 };
    unreachable(calibrate::epsilon0(replace, |e| and(shuffled(e, 4, 100), much())), "epsilon0");
    unreachable(calibrate::crowd(replace, |n| and(shuffled(1.0, 4, n), much())), "n");
    let none = Terms::new(Law::Exact, 0.1, 1, 1);
    unreachable(recipe::min_batch(&none, None, 1.0, 1e-6), "min_batch");
}

fn out_of_range<T: std::fmt::Debug>(found: Result<T, Error>, expected: &str) {
    let Err(Error::OutOfRange { name, .. }) = &found else { panic!("{expected}: {found:?}") };
    assert_eq!(*name, expected);
}

#[test]
fn nonsense_is_refused() {
    let good = target(1.0, 1e-6, Adjacency::AddRemove, Accountant::Best);
    let all = |target: Target, expected: &str| {
        out_of_range(calibrate::sigma(target, gaussian), expected);
        out_of_range(calibrate::rate(target, |rate| steps(rate, 1.0, 1)), expected);
        out_of_range(calibrate::times(target, |times| steps(0.1, 9.0, times)), expected);
        out_of_range(calibrate::epsilon0(target, |e| shuffled(e, 4, 100)), expected);
        out_of_range(calibrate::crowd(target, |n| shuffled(1.0, 4, n)), expected);
    };
    for delta in [0.0, 1.0, -1e-6, 2.0, f64::NAN, f64::INFINITY] {
        all(Target { delta, ..good }, "delta");
    }
    for epsilon in [-1.0, f64::NAN, f64::INFINITY] {
        all(Target { epsilon, ..good }, "epsilon");
    }
    // Other parameters of the event.
    let bad = |sensitivity: f64| move |sigma: f64| Event::Gaussian { sigma, sensitivity };
    for sensitivity in [0.0, -1.0, f64::NAN] {
        out_of_range(calibrate::sigma(good, bad(sensitivity)), "sensitivity");
    }
    out_of_range(calibrate::sigma(good, |sigma| steps(1.5, sigma, 1)), "rate");
    out_of_range(calibrate::times(good, |times| steps(0.1, f64::NAN, times)), "sigma");
    out_of_range(calibrate::rate(good, |rate| steps(rate, -1.0, 1)), "sigma");
    let terms = Terms::new(Law::Gaussian { sigma: 1.0, shape: Shape::Vector }, 0.1, 1, 1);
    out_of_range(recipe::min_batch(&terms, None, f64::NAN, 1e-6), "epsilon");
    out_of_range(recipe::min_batch(&terms, None, 1.0, 0.0), "delta");
    out_of_range(recipe::min_batch(&Terms { rate: -0.1, ..terms }, None, 1.0, 1e-6), "rate");
}
