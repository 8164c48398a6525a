//! The result of a recipe: estimates over the whole population.

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use sotto_dp::mechanism::Estimate;
use sotto_protocol::collector::Collection;
use sotto_protocol::recipe::estimates;
use sotto_wire::Recipe;
use sotto_wire::recipe::Query;

/// Intervals hold with this probability.
const LEVEL: f64 = 0.95;

/// One number of the result.
pub(super) struct Row {
    label: String,
    estimate: Estimate,
}

/// Estimates, with the labels of the recipe.
pub(super) fn rows(recipe: &Recipe, collection: &Collection) -> Result<Vec<Row>> {
    let sums = collection.result.as_slice();
    let estimates = estimates(recipe, sums, collection.report_count, LEVEL)?;
    let label = |index: usize| match &recipe.query {
        Query::Histogram { labels: Some(labels), .. } => {
            labels.get(index).cloned().unwrap_or_else(|| index.to_string())
        }
        Query::Histogram { .. } => index.to_string(),
        Query::Count { .. } => "count".to_owned(),
        Query::Sum { .. } => "sum".to_owned(),
    };
    let rows = estimates.into_iter().enumerate();
    Ok(rows.map(|(index, estimate)| Row { label: label(index), estimate }).collect())
}

/// For people: the estimate and both intervals.
pub(super) fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "",
        "estimate",
        "95 % (noise)",
        "95 % (noise and sampling)",
    ]);
    for Row { label, estimate } in rows {
        let interval = |low: f64, high: f64| format!("{low:.1} to {high:.1}");
        table.add_row([
            label.clone(),
            format!("{:.1}", estimate.value),
            interval(estimate.noise_low, estimate.noise_high),
            interval(estimate.total_low, estimate.total_high),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// For machines.
pub(super) fn value(rows: &[Row]) -> Vec<Value> {
    rows.iter()
        .map(|Row { label, estimate }| {
            json!({
                "bucket": label,
                "estimate": estimate.value,
                "stderr": estimate.total_error,
                "lo95": estimate.total_low,
                "hi95": estimate.total_high,
                "noise_stderr": estimate.noise_error,
                "noise_lo95": estimate.noise_low,
                "noise_hi95": estimate.noise_high,
            })
        })
        .collect()
}
