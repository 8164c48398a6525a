//! The expected errors of the figures: the noise that the accountants ask for, and what it costs.
//!
//! Budget (1, 1e-6), add/remove neighbours, contributions of norm 1. `Agg`: each device in at most
//! `k = ceil(T M / N)` rounds, no sampling. `SampAgg`: each device in a round with probability q.

use std::collections::HashMap;

use serde_json::Value;
use sotto_dp::account::{Accountant, Question};
use sotto_dp::calibrate::{self, Target};
use sotto_dp::{Adjacency, Event, Shape, closed};

pub(crate) const H: &str = include_str!("reference/h_figure_errors.json");

fn rows() -> Vec<Value> {
    let rows: Vec<Value> = serde_json::from_str(H).unwrap();
    assert!(rows.len() >= 178);
    rows
}

pub(crate) fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_else(|| panic!("{name} in {value}"))
}

pub(crate) fn close(found: f64, expected: f64, relative: f64) -> bool {
    (found - expected).abs() <= relative * expected.abs()
}

/// The rate at which the worst device takes part, and the number of contributions that are expected
/// to matter.
fn sampling(inputs: &Value) -> (f64, f64) {
    let (devices, batch) = (number(inputs, "N"), number(inputs, "M"));
    if inputs["task"] == "histogram" {
        return (batch / devices, batch);
    }
    let rate = (batch / (2.0 * number(inputs, "gamma") * devices)).min(1.0);
    (rate, rate * devices)
}

/// The squared error of the sampling itself: (uniform, as SampAgg samples).
fn sampling_error(inputs: &Value) -> (f64, f64) {
    let (_, effective) = sampling(inputs);
    let share = if inputs["task"] == "histogram" { 1.0 } else { number(inputs, "gamma") };
    (share / number(inputs, "M"), share / effective)
}

/// How many coordinates carry noise.
fn coordinates(inputs: &Value) -> f64 {
    let all = number(inputs, "K");
    if inputs["task"] == "histogram" { all } else { all - 1.0 }
}

fn target(accountant: Accountant) -> Target {
    let (adjacency, shape) = (Adjacency::AddRemove, Shape::Vector);
    Target { epsilon: 1.0, delta: 1e-6, adjacency, shape, accountant }
}

fn steps(rate: f64, sigma: f64, times: u64) -> Event {
    let of = Box::new(Event::Gaussian { sigma, sensitivity: 1.0 });
    let of = Box::new(Event::PoissonSampled { rate, of });
    Event::Repeated { times, of }
}

#[test]
fn the_noise_without_sampling() {
    for row in rows() {
        let (inputs, expected) = (&row["inputs"], &row["expected"]);
        assert!(number(inputs, "epsilon") == 1.0 && number(inputs, "delta") == 1e-6);
        let k = (number(inputs, "T") * number(inputs, "M") / number(inputs, "N")).ceil();
        assert!(k == number(expected, "agg_compositions"), "{inputs}");
        let sigma = closed::gaussian_sigma(1.0, 1e-6).unwrap() * k.sqrt();
        let theirs = number(expected, "sigma_agg");
        assert!(close(sigma, theirs, 1e-8), "{inputs}: {sigma} {theirs}");
    }
}

/// Given the noise, the errors follow from the formulas, to 1e-6.
#[test]
fn the_errors_follow_from_the_noise() {
    for row in rows() {
        let (inputs, expected) = (&row["inputs"], &row["expected"]);
        let (_, effective) = sampling(inputs);
        let (uniform, sampled) = sampling_error(inputs);
        let (dimensions, batch) = (coordinates(inputs), number(inputs, "M"));
        let noise = |sigma: f64, size: f64| dimensions * sigma * sigma / (size * size);
        let check = |name: &str, found: f64| {
            let theirs = number(expected, name);
            assert!(close(found, theirs, 1e-6), "{inputs} {name}: {found} {theirs}");
        };
        if inputs["task"] == "histogram" {
            check("nonpriv", uniform);
        } else {
            check("nonpriv_unif", uniform);
            check("nonpriv_impsamp", sampled);
            let (rate, _) = sampling(inputs);
            check("nonpriv_impsamp_finite_population", sampled * (1.0 - rate));
            check("rate_nonzero", rate);
            check("rate_zero", 0.5 * batch / number(inputs, "N"));
        }
        check("agg", uniform + noise(number(expected, "sigma_agg"), batch));
        for by in ["rdp_exact", "rdp_dp_accounting", "pld"] {
            let sigma = number(expected, &format!("sigma_samp_{by}"));
            check(&format!("sampagg_{by}"), sampled + noise(sigma, effective));
        }
    }
}

/// All (q, T) of the table, each once, with the row that has them first.
fn distinct() -> Vec<(f64, u64, Value)> {
    let mut known = HashMap::new();
    let mut found = Vec::new();
    for row in rows() {
        let (rate, _) = sampling(&row["inputs"]);
        let times = row["inputs"]["T"].as_u64().unwrap();
        let expected = row["expected"].clone();
        let sigmas =
            (number(&expected, "sigma_samp_rdp_exact"), number(&expected, "sigma_samp_pld"));
        // Rows that share (q, T) share their sigmas; their sums of floats may differ in the last
        // digits of q.
        let key = ((rate * 1e12).round() as u64, times);
        let first = *known.entry(key).or_insert_with(|| {
            found.push((rate, times, expected));
            sigmas
        });
        assert!(close(first.0, sigmas.0, 1e-6) && close(first.1, sigmas.1, 1e-6), "{row}");
    }
    assert!(found.len() >= 38);
    found
}

#[test]
fn the_noise_by_renyi_divergences() {
    for (rate, times, expected) in distinct() {
        let sigma =
            calibrate::sigma(target(Accountant::Rdp), |sigma| steps(rate, sigma, times)).unwrap();
        let theirs = number(&expected, "sigma_samp_rdp_exact");
        // Ours searches orders continuously, so it may ask for less; calibration is good to 1e-4.
        assert!(sigma <= theirs * (1.0 + 1e-4), "{rate} {times}: {sigma} {theirs}");
        // Never for less than the truth needs.
        let least = number(&expected, "sigma_samp_pld");
        assert!(sigma >= least * (1.0 - 2e-3), "{rate} {times}: {sigma} {least}");
    }
}

#[test]
fn the_noise_by_loss_distributions() {
    let mut failed = Vec::new();
    for (rate, times, expected) in distinct() {
        let started = std::time::Instant::now();
        let sigma =
            calibrate::sigma(target(Accountant::Pld), |sigma| steps(rate, sigma, times)).unwrap();
        let theirs = number(&expected, "sigma_samp_pld");
        println!(
            "{rate} {times}: {sigma} {theirs} {:e} {:?}",
            sigma / theirs - 1.0,
            started.elapsed()
        );
        // Their grid is good to 1e-3, ours and the calibration to half of that each.
        if !close(sigma, theirs, 2e-3) {
            failed.push(format!("{rate} {times}: {sigma}, reference {theirs}"));
        }
        let event = steps(rate, sigma, times);
        let Target { adjacency, shape, accountant, .. } = target(Accountant::Pld);
        let question = Question { event: &event, adjacency, shape, accountant };
        let epsilon = question.epsilon_upper(1e-6).unwrap();
        assert!(epsilon <= 1.0, "{rate} {times}: {sigma} gives {epsilon}");
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}
