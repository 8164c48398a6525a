//! The result of a recipe: estimates over the whole population.

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use sotto_dp::mechanism::Estimate;
use sotto_protocol::collector::Collection;
use sotto_protocol::recipe::estimates;
use sotto_wire::Recipe;
use sotto_wire::recipe::Query;

/// The confidence level of the intervals.
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

#[cfg(test)]
mod tests {
    use sotto_vdaf::AggregateResult;
    use sotto_wire::recipe::{Probability, Randomizer};
    use sotto_wire::{Duration, Interval, Time};

    use super::*;
    use crate::recipe::testing;

    /// Estimates without noise, from one in four devices.
    fn found(query: Query, result: AggregateResult) -> Vec<Row> {
        let mut recipe = testing::recipe();
        recipe.query = query;
        recipe.randomizer = Randomizer::None;
        recipe.sampling.rate = Probability::new(1, 4).unwrap();
        let interval = Interval::new(Time::new(0), Duration::new(1)).unwrap();
        let report_count = result.as_slice().iter().sum::<u128>() as u64;
        rows(&recipe, &Collection { report_count, interval, result }).unwrap()
    }

    fn histogram(labels: Option<Vec<String>>) -> Query {
        Query::Histogram { buckets: 2, labels, mapping: "minutes".to_owned(), fallback: 0 }
    }

    #[test]
    fn estimates_are_labelled_rows_with_both_intervals() {
        let labels = Some(vec!["short".to_owned(), "long".to_owned()]);
        let counts = || AggregateResult::Vector(vec![100, 25]);
        insta::assert_snapshot!(table(&found(histogram(labels), counts())), @r"
                estimate    95 % (noise)  95 % (noise and sampling)
         short     400.0  400.0 to 400.0             337.6 to 473.9
         long      100.0  100.0 to 100.0              71.3 to 140.2
        ");
        let values = value(&found(histogram(None), counts()));
        assert_eq!(values[1]["bucket"], "1");
        assert_eq!(values[1]["estimate"], 100.0);
        assert_eq!(
            (&values[1]["noise_lo95"], &values[1]["noise_hi95"]),
            (&100.0.into(), &100.0.into())
        );
        let (low, high) =
            (values[1]["lo95"].as_f64().unwrap(), values[1]["hi95"].as_f64().unwrap());
        assert!(low < 100.0 && 100.0 < high && values[1]["stderr"].as_f64().unwrap() > 0.0);
    }

    #[test]
    fn single_numbers_are_named_by_their_query() {
        let mapping = || "minutes".to_owned();
        let sum = Query::Sum { max: 60, mapping: mapping(), fallback: 0 };
        let count = Query::Count { mapping: mapping(), fallback: false };
        for (query, label) in [(sum, "sum"), (count, "count")] {
            let values = value(&found(query, AggregateResult::Scalar(10)));
            assert_eq!(values.len(), 1);
            assert_eq!(values[0]["bucket"], label);
            assert_eq!(values[0]["estimate"], 40.0);
        }
    }
}
