//! What is computed from the sums of a query: a mean, quantiles.

use sotto_dp::Error;
use sotto_dp::mechanism::{Collected, Mechanism, Quantile, mean, quantiles};
use sotto_wire::recipe::Query;

use super::row::{Noise, Row};

/// How many standard errors the intervals of [`super::LEVEL`] have on either side.
const ERRORS: f64 = 1.96;

/// The label of a mean.
pub(super) const MEAN: &str = "mean";

/// The statistics of a query; none for most.
pub(super) fn of(
    query: &Query,
    mechanism: &Mechanism,
    collected: &Collected<'_>,
) -> Result<Vec<Row>, Error> {
    match query {
        Query::Mean { .. } => {
            let found = mean(mechanism, collected)?;
            let rows = [("devices", found.devices), (MEAN, found.mean)];
            Ok(rows.map(|(label, estimate)| Row::estimated(label, &estimate)).into())
        }
        Query::Quantiles { boundaries, quantiles: parts, .. } => {
            let parts: Vec<f64> = parts.iter().map(|part| part.to_f64()).collect();
            let found = quantiles(mechanism, collected, &parts)?;
            Ok(found.iter().map(|one| quantile(boundaries, one)).collect())
        }
        Query::Count { .. }
        | Query::Sum { .. }
        | Query::Histogram { .. }
        | Query::MultiHistogram { .. }
        | Query::SparseHistogram { .. }
        | Query::Nearest { .. }
        | Query::VectorSum(_)
        | Query::VectorMean(_) => Ok(Vec::new()),
    }
}

/// A quantile as a number: the middle of its bucket, or the end that an open bucket has. Its
/// intervals reach to the ends of their buckets.
fn quantile(boundaries: &[i64], found: &Quantile) -> Row {
    let least = |bucket: u32| match bucket.checked_sub(1) {
        Some(before) => boundaries.get(before as usize).map_or(f64::INFINITY, |end| *end as f64),
        None => f64::NEG_INFINITY,
    };
    let most = |bucket: u32| {
        boundaries.get(bucket as usize).map_or(f64::INFINITY, |end| end.saturating_sub(1) as f64)
    };
    let (low, high) = (least(found.bucket), most(found.bucket));
    let middle = match (low.is_finite(), high.is_finite()) {
        (true, true) => 0.5 * (low + high),
        (true, false) => low,
        _ => high,
    };
    let ends = |(first, last): (u32, u32)| (least(first), most(last));
    // Intervals of quantiles come without an error; theirs is the one that the interval implies.
    let error = |(low, high): (f64, f64)| {
        let error = (high - low) / (2.0 * ERRORS);
        if error.is_finite() { error } else { 0.0 }
    };
    let (noise, total) = (ends(found.noise), ends(found.total));
    Row {
        quantile: Some(found.probability),
        stderr: error(total),
        low: total.0,
        high: total.1,
        noise: Some(Noise { stderr: error(noise), low: noise.0, high: noise.1 }),
        ..Row::exact(found.probability.to_string(), middle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_numbers_within_their_buckets() {
        let of = |bucket, noise, total| {
            quantile(&[10, 20, 40], &Quantile { probability: 0.5, bucket, noise, total })
        };
        let row = of(1, (1, 1), (1, 2));
        assert_eq!((row.estimate, row.low, row.high, row.quantile), (14.5, 10.0, 39.0, Some(0.5)));
        assert_eq!(row.noise.map(|noise| (noise.low, noise.high)), Some((10.0, 19.0)));
        let first = of(0, (0, 0), (0, 1));
        assert_eq!((first.estimate, first.low, first.high), (9.0, f64::NEG_INFINITY, 19.0));
        let last = of(3, (3, 3), (2, 3));
        assert_eq!(
            (last.estimate, last.low, last.high, last.stderr),
            (40.0, 20.0, f64::INFINITY, 0.0)
        );
    }
}
