//! The result of a recipe: estimates over the whole population.

use anyhow::Result;
use comfy_table::{CellAlignment, Table};
use sotto_protocol::collector::Collection;
use sotto_protocol::recipe::estimates;
use sotto_wire::Recipe;
use sotto_wire::recipe::Query;

use crate::vocabulary::Bucket;

/// Estimates, with the labels of the recipe.
pub(super) fn buckets(recipe: &Recipe, collection: &Collection) -> Result<Vec<Bucket>> {
    let sums = collection.result.as_slice();
    let estimates = estimates(recipe, sums, collection.report_count, Bucket::LEVEL)?;
    let label = |index: usize| match &recipe.query {
        Query::Histogram { labels: Some(labels), .. } => {
            labels.get(index).cloned().unwrap_or_else(|| index.to_string())
        }
        Query::Histogram { .. } => index.to_string(),
        Query::Count { .. } => "count".to_owned(),
        Query::Sum { .. } => "sum".to_owned(),
    };
    let numbers = estimates.iter().enumerate();
    Ok(numbers.map(|(index, one)| Bucket::estimated(label(index), None, one)).collect())
}

/// For people: the estimate and both intervals.
pub(super) fn table(buckets: &[Bucket]) -> Table {
    let mut table = Table::new();
    table.set_header(["", "estimate", "95 % (noise)", "95 % (noise and sampling)"]);
    for Bucket { label, estimate, lo95, hi95, noise, .. } in buckets {
        let interval = |low: f64, high: f64| format!("{low:.1} to {high:.1}");
        let noise = noise.as_ref().map(|noise| interval(noise.noise_lo95, noise.noise_hi95));
        table.add_row([
            label.clone(),
            format!("{estimate:.1}"),
            noise.unwrap_or_default(),
            interval(*lo95, *hi95),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use sotto_vdaf::AggregateResult;
    use sotto_wire::recipe::{Probability, Randomizer};
    use sotto_wire::{Duration, Interval, Time};

    use super::*;
    use crate::output::fitted;
    use crate::recipe::testing;

    /// Estimates without noise, from one in four devices.
    fn found(query: Query, result: AggregateResult) -> Vec<Bucket> {
        let mut recipe = testing::recipe();
        recipe.query = query;
        recipe.randomizer = Randomizer::None;
        recipe.sampling.rate = Probability::new(1, 4).unwrap();
        let interval = Interval::new(Time::new(0), Duration::new(1)).unwrap();
        let report_count = result.as_slice().iter().sum::<u128>() as u64;
        buckets(&recipe, &Collection { report_count, interval, result }).unwrap()
    }

    fn histogram(labels: Option<Vec<String>>) -> Query {
        Query::Histogram { buckets: 2, labels, mapping: "minutes".to_owned(), fallback: 0 }
    }

    #[test]
    fn estimates_are_labelled_rows_with_both_intervals() {
        let labels = Some(vec!["short".to_owned(), "long".to_owned()]);
        let counts = || AggregateResult::Vector(vec![100, 25]);
        let mut shown = table(&found(histogram(labels), counts()));
        insta::assert_snapshot!(fitted(&mut shown, 80), @r"
                estimate    95 % (noise)  95 % (noise and sampling)
         short     400.0  400.0 to 400.0             335.0 to 474.0
         long      100.0  100.0 to 100.0              69.0 to 141.0
        ");
        let found = &found(histogram(None), counts())[1];
        assert_eq!((found.label.as_str(), found.estimate), ("1", 100.0));
        let noise = found.noise.as_ref().unwrap();
        assert_eq!((noise.noise_lo95, noise.noise_hi95), (100.0, 100.0));
        assert!(found.lo95 < 100.0 && 100.0 < found.hi95 && found.stderr > 0.0);
    }

    #[test]
    fn single_numbers_are_named_by_their_query() {
        let mapping = || "minutes".to_owned();
        let sum = Query::Sum { max: 60, mapping: mapping(), fallback: 0 };
        let count = Query::Count { mapping: mapping(), fallback: false };
        for (query, label) in [(sum, "sum"), (count, "count")] {
            let found = found(query, AggregateResult::Scalar(10));
            assert_eq!((found.len(), found[0].label.as_str()), (1, label));
            assert_eq!(found[0].estimate, 40.0);
        }
    }
}
