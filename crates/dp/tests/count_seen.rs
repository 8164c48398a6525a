//! One step of the sampled Gaussian with the count seen, against the reference values; and the count
//! alone.

use serde_json::Value;
use sotto_dp::account::{Accountant, Question};
use sotto_dp::{Adjacency, Bracket, Event, Shape};

const J: &str = include_str!("reference/j_count_seen.json");

fn epsilon(event: &Event, shape: Shape, delta: f64, accountant: Accountant) -> Bracket {
    let adjacency = Adjacency::AddRemove;
    Question { event, adjacency, shape, accountant }.epsilon(delta).unwrap().epsilon
}

fn seen(rate: f64, population: u64, sigma: f64, shape: Shape) -> Event {
    Event::SampledCountSeen { rate, population, dummy_rate: 0.0, sigma, shape }
}

#[test]
fn one_step_meets_the_reference() {
    let rows: Vec<Value> = serde_json::from_str(J).unwrap();
    assert!(rows.len() >= 151);
    let mut failed = Vec::new();
    let (mut worst_upper, mut worst_lower) = (0.0f64, 0.0f64);
    for row in &rows {
        let inputs = &row["inputs"];
        let number = |name: &str| inputs[name].as_f64().unwrap();
        let shape: Shape = serde_json::from_value(inputs["shape"].clone()).unwrap();
        assert!((shape.replacement_distance() - number("distance")).abs() < 1e-12);
        let event = seen(number("q"), inputs["N"].as_u64().unwrap(), number("sigma"), shape);
        let reference = row["expected"]["epsilon"].as_f64().unwrap();
        for accountant in [Accountant::Pld, Accountant::Best] {
            let found = epsilon(&event, shape, number("delta"), accountant);
            if reference == 0.0 {
                if found.upper > 1e-9 || found.lower > 0.0 {
                    failed.push(format!("{inputs}: {found:?}, reference 0"));
                }
                continue;
            }
            // The issue asks for 1e-5; the reference is good to 1e-6.
            let (above, below) = (found.upper / reference - 1.0, found.lower / reference - 1.0);
            (worst_upper, worst_lower) =
                (worst_upper.max(above.abs()), worst_lower.max(below.abs()));
            let close = (-1e-6..=1e-5).contains(&above) && (-1e-5..=1e-6).contains(&below);
            if !close || found.lower > found.upper {
                failed.push(format!(
                    "{inputs}: {found:?}, reference {reference}, {above:e} {below:e}"
                ));
            }
        }
    }
    println!(
        "{} rows, worst relative error {worst_upper:e} above, {worst_lower:e} below",
        rows.len()
    );
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

/// The sum alone has epsilon 1.00; who also sees the count has 3.32 (one-hot) or 7.68 (vectors).
#[test]
fn seeing_the_count_costs() {
    let (q, n, sigma, delta) = (0.01, 1_000_000, 0.7764, 1e-6);
    let of = Box::new(Event::Gaussian { sigma, sensitivity: 1.0 });
    let hidden = Event::PoissonSampled { rate: q, of };
    let printed = |event: &Event, shape: Shape| {
        format!("{:.2}", epsilon(event, shape, delta, Accountant::Best).upper)
    };
    assert_eq!(printed(&hidden, Shape::OneHot), "1.00");
    assert_eq!(printed(&seen(q, n, sigma, Shape::OneHot), Shape::OneHot), "3.32");
    assert_eq!(printed(&seen(q, n, sigma, Shape::Vector), Shape::Vector), "7.68");
}

/// The pair with the count is at least as bad as the replacement of one sender's value by another
/// at the rate of sampling, and never better than the sum alone.
#[test]
fn the_count_never_helps() {
    for shape in [Shape::OneHot, Shape::Vector] {
        for (q, n, sigma) in [(0.3, 20, 1.0), (0.01, 5_000, 0.8), (0.5, 3, 4.0), (1e-3, 100, 0.6)] {
            let of = Box::new(Event::Gaussian { sigma, sensitivity: 1.0 });
            let hidden = Event::PoissonSampled { rate: q, of };
            for delta in [1e-3, 1e-6, 1e-9] {
                let with = epsilon(&seen(q, n, sigma, shape), shape, delta, Accountant::Best);
                let without = epsilon(&hidden, shape, delta, Accountant::Best);
                assert!(
                    with.upper >= without.lower,
                    "{q} {n} {sigma} {delta:e}: {with:?} {without:?}"
                );
            }
        }
    }
}

/// What the count alone says about one device at rate 0.01 and delta 1e-9, among so many other
/// honest devices.
#[test]
fn the_count_alone_among_few() {
    for (population, expected) in [(1, "inf"), (2, "inf"), (5, "1.08"), (100, "0.083")] {
        let event = Event::CountOnly { rate: 0.01, population };
        let found = epsilon(&event, Shape::Vector, 1e-9, Accountant::Best);
        let digits = if population < 100 { 2 } else { 3 };
        assert_eq!(format!("{:.digits$}", found.upper), expected, "{population}");
        // Both ends are close.
        assert!(found.upper == f64::INFINITY || found.lower > found.upper * (1.0 - 1e-5));
    }
    let event = Event::CountOnly { rate: 0.01, population: 5_000 };
    let found = epsilon(&event, Shape::Vector, 1e-9, Accountant::Best);
    assert_eq!(format!("{:.4}", found.upper), "0.0071");
}
