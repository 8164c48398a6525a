//! The paper's experiments against reference values.

use std::collections::HashMap;

use serde_json::Value;
use sotto_dp::account::{Accountant, Question};
use sotto_dp::paper::{Experiment, Noise, Task};
use sotto_dp::{Adjacency, Event, Shape};

use super::figures::{H, close, number};

/// Relative. The reference calibrates noise to 1e-3.
const TOLERANCE: f64 = 5e-3;

fn rows() -> Vec<(Experiment, Value)> {
    let rows: Vec<Value> = serde_json::from_str(H).unwrap();
    let experiment = |row: &Value| serde_json::from_value(row["inputs"].clone()).unwrap();
    rows.iter().map(|row| (experiment(row), row["expected"].clone())).collect()
}

#[test]
fn every_row_is_reproduced() {
    let (mut failed, mut known) = (Vec::new(), HashMap::new());
    for (experiment, expected) in rows() {
        let mut check = |name: &str, found: Option<f64>| {
            let theirs = number(&expected, name);
            if !found.is_some_and(|found| close(found, theirs, TOLERANCE)) {
                failed.push(format!("{experiment:?} {name}: {found:?}, reference {theirs}"));
            }
        };
        for (accountant, name) in [(Accountant::Pld, "pld"), (Accountant::Rdp, "rdp_exact")] {
            // Rows that share a rate and a number of questions share their noise.
            let key = (experiment.rates().1.to_bits(), experiment.tasks, name);
            let noise = *known.entry(key).or_insert_with(|| {
                let noise = experiment.paper_noise(accountant).unwrap();
                assert!(certified(&experiment, noise.sigma_sampagg, accountant), "{key:?}");
                noise
            });
            let sigma_agg = experiment.paper_noise(Accountant::Rdp).unwrap().sigma_agg;
            let errors = experiment.errors(&Noise { sigma_agg, ..noise });
            let sparse = experiment.task != Task::Histogram;
            check(if sparse { "nonpriv_unif" } else { "nonpriv" }, Some(errors.nonpriv));
            if sparse {
                check("nonpriv_impsamp", errors.nonpriv_impsamp);
            }
            check("agg", Some(errors.agg));
            check(&format!("sampagg_{name}"), Some(errors.sampagg));
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

/// Whether the accountant finds that this noise meets the budget.
fn certified(experiment: &Experiment, sigma: f64, accountant: Accountant) -> bool {
    let of = Box::new(Event::Gaussian { sigma, sensitivity: 1.0 });
    let of = Box::new(Event::PoissonSampled { rate: experiment.rates().1, of });
    let event = Event::Repeated { times: experiment.tasks, of };
    let (adjacency, shape) = (Adjacency::AddRemove, Shape::Vector);
    let question = Question { event: &event, adjacency, shape, accountant };
    question.epsilon_upper(experiment.delta).unwrap() <= experiment.epsilon
}

fn experiment(task: Task, tasks: u64, reports: u64) -> Experiment {
    let (population, buckets) = (1_000_000, 1_000);
    Experiment { task, population, buckets, tasks, reports, epsilon: 1.0, delta: 1e-6 }
}

/// The rule of devices costs four times the variance, and some importance sampling is not allowed.
#[test]
fn devices_ask_for_more_noise() {
    for (tasks, reports) in [(1, 1_000), (1, 1_000_000), (10, 100_000)] {
        let histogram = experiment(Task::Histogram, tasks, reports);
        let noise = histogram.noise(Accountant::Pld).unwrap();
        let ratio = noise.sigma_device.unwrap() / noise.sigma_sampagg;
        assert!((1.95..2.3).contains(&ratio), "{tasks} {reports}: {ratio}");
        let errors = histogram.errors(&noise);
        assert!(errors.sampagg_device.unwrap() > errors.sampagg);
    }
    let all_needles = experiment(Task::SparseHistogram { gamma: 0.001 }, 1, 1_000_000);
    assert_eq!(all_needles.noise(Accountant::Pld).unwrap().sigma_device, None);
}

#[test]
fn what_is_no_experiment_is_refused() {
    let good = experiment(Task::Histogram, 1, 1_000);
    let bad = [
        Experiment { reports: 2_000_000, ..good },
        Experiment { buckets: 0, ..good },
        Experiment { tasks: 0, ..good },
        Experiment { epsilon: 0.0, ..good },
        Experiment { delta: 1.0, ..good },
        Experiment { population: u64::MAX, ..good },
        experiment(Task::SparseHistogram { gamma: 0.0 }, 1, 1_000),
        experiment(Task::SparseHistogram { gamma: f64::NAN }, 1, 1_000),
    ];
    for experiment in bad {
        assert!(experiment.noise(Accountant::Pld).is_err(), "{experiment:?}");
    }
    assert!(good.check().is_ok());
}
