//! Whether two results differ by more than noise and sampling.
//!
//! Each row is tested by itself ([`sotto_dp::mechanism::difference`]), and Holm's correction keeps
//! the probability of any false alarm at the level of significance. The test assumes that
//!
//! - the two collections are independent of each other: each device tossed new coins, and the noise
//!   is new. This is so for any two collections that are released, since none is released twice;
//! - noise and sampling are nearly normal. Where counts are small, the intervals are exact, and the
//!   test takes the uncertainty from them.

use sotto_dp::mechanism::{Ranged, difference, holm};

use super::{Coordinates, Kind, LEVEL, Meaning, QueryResult, Row};

/// What a comparison says.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// One for each row of the results.
    pub rows: Vec<RowDifference>,
    /// The probability that any row is said to differ, if none does, is at most this.
    pub significance: f64,
}

/// How two rows differ.
#[derive(Clone, Debug, PartialEq)]
pub struct RowDifference {
    /// Their label.
    pub label: String,
    /// The estimate of the first result.
    pub first: f64,
    /// The estimate of the second result.
    pub second: f64,
    /// The second minus the first, with the interval for this row alone.
    pub difference: Ranged,
    /// How probable such a difference would be in any row if there were none: Holm's adjusted
    /// p-value.
    pub p_adjusted: f64,
    /// Whether they differ by more than noise and sampling.
    pub differs: bool,
}

/// Why two results cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Incomparable {
    /// One comes from a plain DAP task.
    #[error(
        "the {0} result has no recipe: its sums are exact, and nothing says what noise is in them"
    )]
    Plain(&'static str),
    /// They answer different kinds of questions.
    #[error("one is a {}, the other a {}", .0.name(), .1.name())]
    Kind(Kind, Kind),
    /// They have different numbers of rows.
    #[error("one has {0} rows, the other {1}")]
    Rows(usize, usize),
    /// They have different labels.
    #[error("row {row} is `{first}` in one, and `{second}` in the other")]
    Labels {
        /// Which row, from 1.
        row: usize,
        /// Its label in the first result.
        first: String,
        /// Its label in the second result.
        second: String,
    },
    /// The level of significance is no probability.
    #[error("the level of significance must be above 0 and below 1")]
    Significance,
}

impl Comparison {
    /// Compares two results.
    pub fn new(
        first: &QueryResult,
        second: &QueryResult,
        significance: f64,
    ) -> Result<Self, Incomparable> {
        if !(significance > 0.0 && significance < 1.0) {
            return Err(Incomparable::Significance);
        }
        let of =
            |result: &QueryResult, name| result.meaning.clone().ok_or(Incomparable::Plain(name));
        let (first, second) = (of(first, "first")?, of(second, "second")?);
        if first.kind != second.kind {
            return Err(Incomparable::Kind(first.kind, second.kind));
        }
        let pairs = pairs(first, second)?;
        let differences = pairs.iter().map(|(first, second)| {
            difference(first.ranged(), second.ranged(), LEVEL)
                .map_err(|_| Incomparable::Significance)
        });
        let differences = differences.collect::<Result<Vec<_>, _>>()?;
        let p: Vec<f64> = differences.iter().map(|one| one.p).collect();
        let rows = pairs.into_iter().zip(&differences).zip(holm(&p));
        let rows = rows.map(|(((first, second), found), p_adjusted)| RowDifference {
            label: first.label,
            first: first.estimate,
            second: second.estimate,
            difference: found.ranged,
            p_adjusted,
            differs: p_adjusted <= significance,
        });
        Ok(Self { rows: rows.collect(), significance })
    }

    /// Whether any row differs by more than noise and sampling.
    pub fn differs(&self) -> bool {
        self.rows.iter().any(|row| row.differs)
    }
}

/// The rows that belong together.
fn pairs(first: Meaning, second: Meaning) -> Result<Vec<(Row, Row)>, Incomparable> {
    let rows = |meaning: Meaning| {
        let coordinates = meaning.coordinates.iter().flat_map(Coordinates::rows);
        coordinates.chain(meaning.buckets).chain(meaning.statistics).collect::<Vec<_>>()
    };
    let (first, second) = (rows(first), rows(second));
    if first.len() != second.len() {
        return Err(Incomparable::Rows(first.len(), second.len()));
    }
    let pairs: Vec<_> = first.into_iter().zip(second).collect();
    match pairs.iter().position(|(first, second)| first.label != second.label) {
        None => Ok(pairs),
        Some(at) => Err(Incomparable::Labels {
            row: at + 1,
            first: pairs[at].0.label.clone(),
            second: pairs[at].1.label.clone(),
        }),
    }
}

impl Kind {
    /// Its name, as recipes spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Histogram => "histogram",
            Self::Quantiles => "quantiles",
            Self::MultiHistogram => "multi_histogram",
            Self::SparseHistogram => "sparse_histogram",
            Self::VectorSum => "vector_sum",
            Self::VectorMean => "vector_mean",
        }
    }
}
