//! Rows of a file against what it expects.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sotto_dp::account::Accountant;
use sotto_dp::number::exact;
use sotto_dp::paper::{Experiment, Noise, Task};

use super::noises;
use crate::output::{Outcome, Output, hinted, pointed};
use crate::output::{Place, columns};

/// Relative. References calibrate their noise to about 1e-3.
const TOLERANCE: f64 = 5e-3;

#[derive(Deserialize)]
struct Row {
    inputs: Experiment,
    #[serde(default)]
    expected: Map<String, Value>,
}

/// Prints every row that differs, or the values of rows that expect nothing.
pub(super) fn run(file: &Path, accountant: Accountant, output: &Output) -> Result<Outcome> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let rows: Vec<Row> = serde_json::from_str(&text).map_err(|error| {
        let place = Place::new(&text, error.line(), error.column());
        let error = anyhow::Error::new(error).context(format!("cannot read {}", file.display()));
        pointed(hinted(error, "sotto figures --help says what a row is"), place)
    })?;
    let inputs: Vec<Experiment> = rows.iter().map(|row| row.inputs).collect();
    let noises = noises(&inputs, |row| row.paper_noise(accountant), output)?;
    let (mut points, mut largest, mut compared) = (Vec::new(), 0.0_f64, 0_u64);
    for (row, noise) in rows.iter().zip(&noises) {
        let found = named(&row.inputs, noise, accountant);
        let mut differing = Vec::new();
        for (name, value) in &found {
            let Some(wanted) = row.expected.get(*name).and_then(Value::as_f64) else { continue };
            let difference = if *value == wanted { 0.0 } else { (value / wanted - 1.0).abs() };
            let difference = if difference.is_nan() { f64::INFINITY } else { difference };
            (largest, compared) = (largest.max(difference), compared + 1);
            if difference > TOLERANCE {
                differing.push(format!("{name} is {}, expected {}", exact(*value), exact(wanted)));
            }
        }
        if !output.json() && (row.expected.is_empty() || !differing.is_empty()) {
            show(&row.inputs, &found, &differing, output)?;
        }
        let found: Map<String, Value> =
            found.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        points.push(json!({ "inputs": row.inputs, "found": found }));
    }
    let ok = largest <= TOLERANCE;
    if output.json() {
        let largest = largest.is_finite().then_some(largest);
        output.value(&json!({
            "file": file, "ok": ok, "accountant": accountant, "compared": compared,
            "largest_difference": largest, "points": points,
        }))?;
    } else if compared > 0 {
        output.line(format!(
            "{} rows, {compared} values compared, the largest difference is {:.3} %: {}",
            rows.len(),
            100.0 * largest,
            if ok { "all within 0.5 %" } else { "more than 0.5 %" }
        ))?;
    }
    Ok(if ok { Outcome::Yes } else { Outcome::No })
}

fn show(
    experiment: &Experiment,
    found: &[(&'static str, f64)],
    differing: &[String],
    output: &Output,
) -> Result<()> {
    let inputs = serde_json::to_value(experiment)?;
    let inputs = inputs.as_object().into_iter().flatten();
    let inputs: Vec<_> = inputs.map(|(name, value)| format!("{name} {value}")).collect();
    output.title(&inputs.join(", ").replace('"', ""))?;
    if !differing.is_empty() {
        return differing.iter().try_for_each(|line| output.line(format!("  {line}")));
    }
    let widest = found.iter().map(|(name, _)| columns(name)).max().unwrap_or_default();
    found
        .iter()
        .try_for_each(|(name, value)| output.line(format!("  {name:<widest$}  {value:.6e}")))
}

/// What is computed, under the names that reference tables use.
fn named(
    experiment: &Experiment,
    noise: &Noise,
    accountant: Accountant,
) -> Vec<(&'static str, f64)> {
    let (errors, (default_rate, rate)) = (experiment.errors(noise), experiment.rates());
    let [sigma, sampagg] = match accountant {
        Accountant::Rdp => ["sigma_samp_rdp_exact", "sampagg_rdp_exact"],
        _ => ["sigma_samp_pld", "sampagg_pld"],
    };
    let mut named = match experiment.task {
        Task::Histogram => vec![("nonpriv", errors.nonpriv)],
        Task::SparseHistogram { .. } => vec![
            ("nonpriv_unif", errors.nonpriv),
            ("rate_zero", default_rate),
            ("rate_nonzero", rate),
        ],
    };
    named.extend(errors.nonpriv_impsamp.map(|error| ("nonpriv_impsamp", error)));
    named.extend([
        ("agg_compositions", experiment.compositions() as f64),
        ("sigma_agg", noise.sigma_agg),
        ("agg", errors.agg),
        (sigma, noise.sigma_sampagg),
        (sampagg, errors.sampagg),
    ]);
    named
}
