//! Epsilon moves the way it must: down in sigma, delta and the crowd, up in the rate and the number
//! of steps; and what means the same costs the same.

use sotto_dp::account::{Accountant, Question};
use sotto_dp::{Adjacency, Event, Shape};

/// Two grids never round quite alike: what discretization may add to the truth in one of two
/// neighbouring answers. (Exact answers, of single releases and closed forms, are held to `EXACT`.)
const SLACK: f64 = 1e-6;

/// The same for answers without a grid: rounding only.
const EXACT: f64 = 1e-9;

fn epsilon(event: &Event, adjacency: Adjacency, delta: f64, accountant: Accountant) -> f64 {
    let shape = Shape::OneHot;
    Question { event, adjacency, shape, accountant }.epsilon_upper(delta).unwrap()
}

fn best(event: &Event, delta: f64) -> f64 {
    epsilon(event, Adjacency::AddRemove, delta, Accountant::Best)
}

fn gaussian(sigma: f64) -> Event {
    Event::Gaussian { sigma, sensitivity: 1.0 }
}

fn sampled(rate: f64, of: Event) -> Event {
    Event::PoissonSampled { rate, of: Box::new(of) }
}

fn repeated(times: u64, of: Event) -> Event {
    Event::Repeated { times, of: Box::new(of) }
}

fn steps(rate: f64, sigma: f64, times: u64) -> Event {
    repeated(times, sampled(rate, gaussian(sigma)))
}

fn seen(rate: f64, population: u64, sigma: f64) -> Event {
    let (dummy_rate, shape) = (0.0, Shape::OneHot);
    Event::SampledCountSeen { rate, population, dummy_rate, sigma, shape }
}

/// `values` must not grow, relatively by more than `slack`.
fn falls(what: &str, slack: f64, values: impl IntoIterator<Item = (f64, f64)>) -> Vec<String> {
    let mut last: Option<(f64, f64)> = None;
    let mut failed = Vec::new();
    for (at, value) in values {
        if let Some((before, previous)) = last
            && (value.is_nan() || value > previous * (1.0 + slack) + 1e-15)
        {
            failed.push(format!("{what}: {value} at {at}, {previous} at {before}"));
        }
        last = Some((at, value));
    }
    failed
}

fn none(failed: Vec<String>) {
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

/// From `low` to `high` in `count` equal steps of the logarithm.
fn grid(low: f64, high: f64, count: i32) -> impl Iterator<Item = f64> + Clone {
    let factor = (high / low).powf(1.0 / f64::from(count));
    (0..=count).map(move |j| low * factor.powi(j))
}

const ACCOUNTANTS: [Accountant; 3] = [Accountant::Rdp, Accountant::Pld, Accountant::Best];

#[test]
fn more_noise_is_more_private() {
    let mut failed = Vec::new();
    for accountant in ACCOUNTANTS {
        for (rate, times, slack) in [
            (1.0, 1, EXACT),
            (0.01, 1, EXACT),
            (1.0, 50, EXACT),
            (0.1, 10, SLACK),
            (0.02, 2_500, SLACK),
            (1e-3, 1_000, SLACK),
            (1e-4, 100, SLACK),
        ] {
            let at = |sigma: f64| {
                let event = steps(rate, sigma, times);
                (sigma, epsilon(&event, Adjacency::AddRemove, 1e-6, accountant))
            };
            let what = format!("{accountant:?} rate {rate} times {times} sigma");
            failed.extend(falls(&what, slack, grid(0.4, 6.0, 16).map(at)));
        }
    }
    for (rate, population) in [(0.01, 10_000), (0.3, 40)] {
        let at = |sigma: f64| (sigma, best(&seen(rate, population, sigma), 1e-6));
        failed.extend(falls("count seen, sigma", SLACK, grid(0.5, 20.0, 12).map(at)));
    }
    none(failed);
}

#[test]
fn a_smaller_rate_is_more_private() {
    let mut failed = Vec::new();
    for accountant in ACCOUNTANTS {
        for (sigma, times, slack) in
            [(1.0, 1, EXACT), (5.1, 1, EXACT), (1.0, 30, SLACK), (4.0, 1_000, SLACK)]
        {
            let at = |inverse: f64| {
                let event = steps(1.0 / inverse, sigma, times);
                (1.0 / inverse, epsilon(&event, Adjacency::AddRemove, 1e-6, accountant))
            };
            let what = format!("{accountant:?} sigma {sigma} times {times} rate");
            failed.extend(falls(&what, slack, grid(1.0, 1e4, 16).map(at)));
        }
    }
    none(failed);
}

#[test]
fn fewer_steps_are_more_private() {
    let mut failed = Vec::new();
    for accountant in ACCOUNTANTS {
        for (rate, sigma) in [(0.02, 5.1), (0.2, 2.0), (1e-3, 1.0), (1.0, 9.0)] {
            let times =
                [100_000, 10_000, 2_500, 2_499, 1_000, 129, 128, 65, 64, 63, 20, 5, 3, 2, 1];
            let at = |times: u64| {
                let event = steps(rate, sigma, times);
                (times as f64, epsilon(&event, Adjacency::AddRemove, 1e-7, accountant))
            };
            let what = format!("{accountant:?} rate {rate} sigma {sigma} times");
            failed.extend(falls(&what, SLACK, times.into_iter().map(at)));
        }
    }
    none(failed);
}

#[test]
fn a_larger_delta_is_less_to_ask() {
    let mut failed = Vec::new();
    let of = Box::new(Event::RandomizedResponse { epsilon0: 2.0, k: 4 });
    let laplace = Event::Laplace { scale: 2.0, sensitivity: 1.0 };
    let cases = [
        (steps(0.02, 5.1, 1), Adjacency::AddRemove, EXACT),
        (steps(0.02, 5.1, 2_500), Adjacency::AddRemove, SLACK),
        (steps(0.3, 1.0, 10), Adjacency::AddRemove, SLACK),
        (seen(0.05, 1_000, 2.0), Adjacency::AddRemove, SLACK),
        (repeated(20, laplace), Adjacency::AddRemove, SLACK),
        (Event::Shuffled { n: 1_000, of }, Adjacency::Replace, 1e-4),
    ];
    for (event, adjacency, slack) in cases {
        let at = |delta: f64| (delta, epsilon(&event, adjacency, delta, Accountant::Best));
        failed.extend(falls(&format!("{event:?} delta"), slack, grid(1e-12, 0.1, 22).map(at)));
    }
    none(failed);
}

#[test]
fn a_larger_crowd_is_more_private() {
    let mut failed = Vec::new();
    let crowds = [1, 2, 3, 5, 10, 30, 100, 300, 1_000, 3_000, 10_000, 100_000];
    let generic = Event::PureDp { epsilon: 2.0 };
    for of in [generic, Event::RandomizedResponse { epsilon0: 2.0, k: 8 }] {
        let at = |n: u64| {
            let event = Event::Shuffled { n, of: Box::new(of.clone()) };
            (n as f64, epsilon(&event, Adjacency::Replace, 1e-6, Accountant::Best))
        };
        failed.extend(falls(&format!("{of:?} n"), SLACK, crowds.into_iter().map(at)));
    }
    // More others hide better who sees the count.
    for (rate, sigma) in [(0.01, 1.0), (0.2, 3.0), (0.5, 10.0)] {
        let at = |n: u64| (n as f64, best(&seen(rate, n, sigma), 1e-6));
        failed.extend(falls(
            &format!("count seen {rate} {sigma} n"),
            SLACK,
            crowds.into_iter().map(at),
        ));
    }
    // And over several rounds; how counts are grouped differs with n, at 1e-4.
    for (times, rate, sigma) in [(20, 0.1, 7.0), (20, 0.02, 2.0), (2, 0.02, 3.0)] {
        let at = |n: u64| (n as f64, best(&repeated(times, seen(rate, n, sigma)), 1e-6));
        let others = [3, 10, 20, 22, 23, 30, 40, 60, 80, 100, 150, 300, 1_000, 10_000];
        let what = format!("{times} rounds, count seen {rate} {sigma} n");
        failed.extend(falls(&what, 1e-4, others.into_iter().map(at)));
    }
    none(failed);
}

#[test]
fn the_order_of_composition_does_not_matter() {
    let parts = [
        steps(0.02, 3.0, 100),
        gaussian(6.0),
        Event::Laplace { scale: 5.0, sensitivity: 1.0 },
        Event::ApproximateDp { epsilon: 0.1, delta: 1e-9 },
        steps(0.1, 4.0, 7),
    ];
    let orders = [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3], [3, 1, 4, 0, 2]];
    for accountant in ACCOUNTANTS {
        let found = orders.map(|order| {
            let event = Event::Composed { of: order.map(|j| parts[j].clone()).to_vec() };
            epsilon(&event, Adjacency::AddRemove, 1e-6, accountant)
        });
        for other in found {
            assert!((other / found[0] - 1.0).abs() <= 1e-9, "{accountant:?}: {found:?}");
        }
    }
}

fn same(a: &Event, b: &Event, relative: f64) {
    for adjacency in [Adjacency::AddRemove, Adjacency::ZeroOut] {
        for accountant in ACCOUNTANTS {
            for delta in [1e-3, 1e-6, 1e-9] {
                let (x, y) = (
                    epsilon(a, adjacency, delta, accountant),
                    epsilon(b, adjacency, delta, accountant),
                );
                let close = (x - y).abs() <= relative * x.max(y);
                assert!(close, "{a:?} {b:?} {adjacency} {accountant:?} {delta:e}: {x} {y}");
            }
        }
    }
}

#[test]
fn what_means_the_same_costs_the_same() {
    for sigma in [0.7, 2.0, 5.1] {
        // Everyone takes part: no sampling.
        same(&sampled(1.0, gaussian(sigma)), &gaussian(sigma), 1e-9);
        same(&steps(1.0, sigma, 10), &repeated(10, gaussian(sigma)), 1e-9);
        let laplace = || Event::Laplace { scale: sigma, sensitivity: 1.0 };
        same(&sampled(1.0, laplace()), &laplace(), 1e-9);
        same(&repeated(3, sampled(1.0, laplace())), &repeated(3, laplace()), 1e-6);
        // Ten releases of this noise are one of less.
        same(&repeated(10, gaussian(sigma)), &gaussian(sigma / 10f64.sqrt()), 1e-9);
        // Once is once.
        for event in [gaussian(sigma), sampled(0.1, gaussian(sigma)), laplace()] {
            same(&repeated(1, event.clone()), &event, 0.0);
            same(&Event::Composed { of: vec![event.clone()] }, &event, 0.0);
        }
        // Several times several times.
        let event = || sampled(0.1, gaussian(sigma));
        same(&repeated(4, repeated(5, event())), &repeated(20, event()), 1e-12);
        let twice = Event::Composed { of: vec![repeated(3, event()), repeated(17, event())] };
        same(&twice, &repeated(20, event()), 1e-12);
    }
}

#[test]
fn nothing_costs_nothing() {
    for event in [sampled(0.0, gaussian(1.0)), Event::PureDp { epsilon: 0.0 }] {
        assert!(best(&event, 1e-6) <= 1e-12, "{event:?}: {}", best(&event, 1e-6));
    }
    assert!(best(&Event::Composed { of: Vec::new() }, 1e-6) == 0.0);
}
