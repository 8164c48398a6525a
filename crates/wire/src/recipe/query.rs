//! The question of a recipe, in its written form, and the rules that need only the question.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Probability;
use super::check::{at_least_one, expression, integer, range, refuse, visible};
use crate::FormatError;
use crate::limits::{
    MAX_BUCKETS, MAX_DIMENSION, MAX_FRACTION_BITS, MAX_INTEGER, MAX_LABEL_LEN, MAX_QUANTILES,
    MIN_BUCKETS, MIN_DIMENSION,
};

/// What is measured. `mapping` is an expression over the attributes. Where it has no value, or one
/// out of range, the measurement is `fallback` (or `default`), so that participation never depends
/// on the data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Query {
    /// How many devices say yes.
    Count {
        /// Yields a boolean.
        mapping: String,
        /// The measurement if it yields none.
        fallback: bool,
    },
    /// The sum of a number per device.
    Sum {
        /// The largest number.
        max: u64,
        /// Yields a number from 0 to `max`.
        mapping: String,
        /// The measurement if it yields none.
        fallback: u64,
    },
    /// The mean of a number per device: their sum, divided by the number of devices that took part.
    Mean {
        /// The largest number.
        max: u64,
        /// Yields a number from 0 to `max`.
        mapping: String,
        /// The measurement if it yields none.
        fallback: u64,
    },
    /// How many devices fall into each bucket.
    Histogram {
        /// How many buckets there are.
        buckets: u32,
        /// The labels of the buckets, in order.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        labels: Option<Vec<String>>,
        /// Yields the number of a bucket, from 0, or its label.
        mapping: String,
        /// The measurement if it yields none.
        fallback: u32,
    },
    /// Below which numbers given parts of the devices are, from a histogram of ranges.
    Quantiles {
        /// Where a range ends and the next one begins: the first range holds the numbers below the
        /// first boundary, the last one those from the last boundary on.
        boundaries: Vec<i64>,
        /// The parts of the devices; quartiles if it is left out.
        #[serde(default = "Query::quartiles", skip_serializing_if = "is_quartiles")]
        quantiles: Vec<Probability>,
        /// Yields a number.
        mapping: String,
        /// The number if it yields none.
        fallback: i64,
    },
    /// How many devices have each of several labels, of which one device may have up to `most`.
    MultiHistogram {
        /// How many buckets there are.
        buckets: u32,
        /// The labels of the buckets, in order.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        labels: Option<Vec<String>>,
        /// In how many buckets one device may be.
        most: u32,
        /// Yields a list of buckets or labels, of which the first `most` count.
        mapping: String,
        /// The buckets if it yields none, in order.
        fallback: Vec<u32>,
    },
    /// How many devices fall into each bucket, where nearly all of them fall into one.
    SparseHistogram {
        /// How many buckets there are.
        buckets: u32,
        /// The labels of the buckets, in order.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        labels: Option<Vec<String>>,
        /// Yields the number of a bucket, from 0, or its label.
        mapping: String,
        /// The bucket of nearly all devices, and the measurement if the mapping yields none.
        default: u32,
    },
    /// Which of several published vectors is closest (L2) to that of a device; of equally close ones
    /// the first. A device without a vector, or with one of another length or with a coordinate that
    /// is no number, has the fallback.
    Nearest {
        /// The published vectors, in units of `2^-fraction_bits`.
        candidates: Vec<Vec<i64>>,
        /// What their numbers are multiples of.
        fraction_bits: u32,
        /// The names of the candidates in order, and that of the fallback if it is none of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        labels: Option<Vec<String>>,
        /// Yields a vector.
        mapping: String,
        /// The number of a candidate, or the one after the last: a bucket of its own.
        fallback: u32,
    },
    /// The sum of a vector per device.
    VectorSum(VectorQuery),
    /// The mean of a vector per device: their sum, divided by the number of devices that took part.
    VectorMean(VectorQuery),
}

/// What is asked of vectors. A device without a vector, or with one of another length or with a
/// coordinate that is no number, sends the zero vector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VectorQuery {
    /// How many coordinates a vector has.
    pub dimension: u32,
    /// The largest norm (L2) that a vector may have, in millionths. A longer one is scaled down to
    /// it.
    pub clip_micro: u64,
    /// Coordinates are rounded to multiples of `2^-fraction_bits`.
    pub fraction_bits: u32,
    /// Yields a vector.
    pub mapping: String,
    /// Sends fewer coordinates than there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
}

/// A random projection, the same for all devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compression {
    /// How many coordinates are sent.
    pub dimension: u32,
    /// Decides which projection it is.
    pub seed: u64,
}

impl VectorQuery {
    /// The fraction bits of a query that does not say how many: with them rounding changes the norm
    /// of a vector by at most 0.5 %.
    pub fn usual_fraction_bits(dimension: u32) -> u32 {
        if dimension > MANY_COORDINATES { 20 } else { 15 }
    }

    /// How many coordinates a device sends.
    pub fn sent(&self) -> u32 {
        self.compression.map_or(self.dimension, |compression| compression.dimension)
    }

    fn check(&self) -> Result<(), FormatError> {
        dimension("query.dimension", self.dimension)?;
        at_least_one("query.clip_micro", self.clip_micro)?;
        let bits = u64::from(self.fraction_bits);
        range("query.fraction_bits", bits, 0, MAX_FRACTION_BITS)?;
        let Some(compression) = &self.compression else { return Ok(()) };
        let most = u64::from(self.dimension) - 1;
        range("query.compression.dimension", compression.dimension.into(), 1, most)?;
        integer("query.compression.seed", compression.seed)
    }
}

/// A number of coordinates.
pub(super) fn dimension(field: &str, value: u32) -> Result<(), FormatError> {
    range(field, value.into(), MIN_DIMENSION, MAX_DIMENSION)
}

/// Above so many coordinates more fraction bits are usual.
const MANY_COORDINATES: u32 = 100_000;

impl Query {
    /// The field `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Count { .. } => "count",
            Self::Sum { .. } => "sum",
            Self::Mean { .. } => "mean",
            Self::Histogram { .. } => "histogram",
            Self::Quantiles { .. } => "quantiles",
            Self::MultiHistogram { .. } => "multi_histogram",
            Self::SparseHistogram { .. } => "sparse_histogram",
            Self::Nearest { .. } => "nearest",
            Self::VectorSum(_) => "vector_sum",
            Self::VectorMean(_) => "vector_mean",
        }
    }

    /// The expression that gives the measurement.
    pub fn mapping(&self) -> &str {
        match self {
            Self::Count { mapping, .. }
            | Self::Sum { mapping, .. }
            | Self::Mean { mapping, .. }
            | Self::Histogram { mapping, .. }
            | Self::Quantiles { mapping, .. }
            | Self::MultiHistogram { mapping, .. }
            | Self::SparseHistogram { mapping, .. }
            | Self::Nearest { mapping, .. }
            | Self::VectorSum(VectorQuery { mapping, .. })
            | Self::VectorMean(VectorQuery { mapping, .. }) => mapping,
        }
    }

    /// The same, to change it.
    pub fn mapping_mut(&mut self) -> &mut String {
        match self {
            Self::Count { mapping, .. }
            | Self::Sum { mapping, .. }
            | Self::Mean { mapping, .. }
            | Self::Histogram { mapping, .. }
            | Self::Quantiles { mapping, .. }
            | Self::MultiHistogram { mapping, .. }
            | Self::SparseHistogram { mapping, .. }
            | Self::Nearest { mapping, .. }
            | Self::VectorSum(VectorQuery { mapping, .. })
            | Self::VectorMean(VectorQuery { mapping, .. }) => mapping,
        }
    }

    /// The labels of the buckets, if the author named them.
    pub fn labels(&self) -> Option<&[String]> {
        match self {
            Self::Histogram { labels, .. }
            | Self::MultiHistogram { labels, .. }
            | Self::SparseHistogram { labels, .. }
            | Self::Nearest { labels, .. } => labels.as_deref(),
            _ => None,
        }
    }

    /// The terms of a question about vectors.
    pub fn vectors(&self) -> Option<&VectorQuery> {
        match self {
            Self::VectorSum(vectors) | Self::VectorMean(vectors) => Some(vectors),
            _ => None,
        }
    }

    /// How many numbers each candidate has.
    pub fn candidate_dimension(&self) -> Option<u32> {
        match self {
            Self::Nearest { candidates, .. } => {
                candidates.first().map(|one| u32::try_from(one.len()).unwrap_or(u32::MAX))
            }
            _ => None,
        }
    }

    /// How many buckets it counts; `None` for queries that sum numbers.
    pub fn buckets(&self) -> Option<u32> {
        match self {
            Self::Count { .. } | Self::Sum { .. } | Self::Mean { .. } => None,
            Self::VectorSum(_) | Self::VectorMean(_) => None,
            Self::Histogram { buckets, .. }
            | Self::MultiHistogram { buckets, .. }
            | Self::SparseHistogram { buckets, .. } => Some(*buckets),
            Self::Quantiles { boundaries, .. } => {
                Some(u32::try_from(boundaries.len()).unwrap_or(u32::MAX).saturating_add(1))
            }
            Self::Nearest { candidates, fallback, .. } => {
                let candidates = u32::try_from(candidates.len()).unwrap_or(u32::MAX);
                Some(candidates.max(fallback.saturating_add(1)))
            }
        }
    }

    /// The name of a bucket: its label, its range, or its number. `None` if there is no such bucket.
    pub fn bucket_name(&self, bucket: u32) -> Option<String> {
        let index = usize::try_from(bucket).ok().filter(|_| Some(bucket) < self.buckets())?;
        let Self::Quantiles { boundaries, .. } = self else {
            let label = self.labels().and_then(|labels| labels.get(index));
            return Some(label.cloned().unwrap_or_else(|| bucket.to_string()));
        };
        let low = index.checked_sub(1).and_then(|before| boundaries.get(before));
        // The check of the format leaves room below every boundary.
        Some(match (low, boundaries.get(index).map(|high| high.saturating_sub(1))) {
            (None, None) => bucket.to_string(),
            (None, Some(last)) => format!("{last} and below"),
            (Some(first), None) => format!("{first} and above"),
            (Some(first), Some(last)) if *first == last => last.to_string(),
            (Some(first), Some(last)) => format!("{first} to {last}"),
        })
    }

    /// The quantiles of a query that does not say which.
    pub fn quartiles() -> Vec<Probability> {
        let quarters = [(1, 4), (1, 2), (3, 4)];
        quarters.into_iter().filter_map(|(num, den)| Probability::new(num, den).ok()).collect()
    }

    /// The rules of the format.
    pub fn check(&self) -> Result<(), FormatError> {
        expression("query.mapping", self.mapping())?;
        match self {
            Self::Count { .. } => Ok(()),
            Self::Sum { max, fallback, .. } | Self::Mean { max, fallback, .. } => {
                at_least_one("query.max", *max)?;
                range("query.fallback", *fallback, 0, *max)
            }
            Self::Histogram { buckets, labels, fallback, .. } => {
                check_buckets(*buckets, labels.as_deref())?;
                range("query.fallback", u64::from(*fallback), 0, u64::from(*buckets) - 1)
            }
            Self::SparseHistogram { buckets, labels, default, .. } => {
                check_buckets(*buckets, labels.as_deref())?;
                range("query.default", u64::from(*default), 0, u64::from(*buckets) - 1)
            }
            Self::MultiHistogram { buckets, labels, most, fallback, .. } => {
                check_buckets(*buckets, labels.as_deref())?;
                range("query.most", u64::from(*most), 1, u64::from(*buckets))?;
                check_fallback(*buckets, *most, fallback)
            }
            Self::Quantiles { boundaries, quantiles, fallback, .. } => {
                check_boundaries(boundaries)?;
                check_quantiles(quantiles)?;
                signed("query.fallback", *fallback)
            }
            Self::Nearest { candidates, fraction_bits, labels, fallback, .. } => {
                check_candidates(candidates)?;
                range("query.fraction_bits", u64::from(*fraction_bits), 0, MAX_FRACTION_BITS)?;
                range("query.fallback", u64::from(*fallback), 0, candidates.len() as u64)?;
                check_buckets(self.buckets().unwrap_or_default(), labels.as_deref())
            }
            Self::VectorSum(vectors) | Self::VectorMean(vectors) => vectors.check(),
        }
    }
}

/// Vectors of one length that differ. How many numbers there may be follows from the length of an
/// entry of the log.
fn check_candidates(candidates: &[Vec<i64>]) -> Result<(), FormatError> {
    let (many, most) = (candidates.len() as u64, MAX_BUCKETS - 1);
    range("the number of query.candidates", many, MIN_BUCKETS, most)?;
    let length = candidates.first().map_or(0, Vec::len);
    let least = "the length of each of query.candidates";
    range(least, length as u64, MIN_DIMENSION, MAX_DIMENSION)?;
    if candidates.iter().any(|one| one.len() != length) {
        return refuse("query.candidates must all have the same length");
    }
    for number in candidates.iter().flatten() {
        signed("each number of query.candidates", *number)?;
    }
    if candidates.iter().collect::<BTreeSet<_>>().len() != candidates.len() {
        return refuse("query.candidates must differ from each other");
    }
    Ok(())
}

fn is_quartiles(quantiles: &[Probability]) -> bool {
    quantiles == Query::quartiles()
}

fn check_buckets(buckets: u32, labels: Option<&[String]>) -> Result<(), FormatError> {
    range("query.buckets", u64::from(buckets), MIN_BUCKETS, MAX_BUCKETS)?;
    labels.map_or(Ok(()), |labels| check_labels(labels, buckets))
}

fn check_labels(labels: &[String], buckets: u32) -> Result<(), FormatError> {
    if labels.len() as u64 != u64::from(buckets) {
        return refuse(format!(
            "query.labels must have one label for each of the {buckets} buckets, not {}",
            labels.len()
        ));
    }
    for label in labels {
        if label.trim().is_empty() || label.len() > MAX_LABEL_LEN {
            return refuse(format!("each of query.labels must have 1 to {MAX_LABEL_LEN} bytes"));
        }
        visible("query.labels", label)?;
    }
    let distinct: BTreeSet<&String> = labels.iter().collect();
    if distinct.len() != labels.len() {
        return refuse("query.labels must differ from each other");
    }
    Ok(())
}

fn check_fallback(buckets: u32, most: u32, fallback: &[u32]) -> Result<(), FormatError> {
    if fallback.len() as u64 > u64::from(most) {
        return refuse(format!("query.fallback must have at most query.most ({most}) buckets"));
    }
    for bucket in fallback {
        range("each bucket of query.fallback", u64::from(*bucket), 0, u64::from(buckets) - 1)?;
    }
    increasing("query.fallback", fallback)
}

fn check_boundaries(boundaries: &[i64]) -> Result<(), FormatError> {
    let (fewest, most) = (MIN_BUCKETS - 1, MAX_BUCKETS - 1);
    range("the number of query.boundaries", boundaries.len() as u64, fewest, most)?;
    for boundary in boundaries {
        signed("each of query.boundaries", *boundary)?;
    }
    increasing("query.boundaries", boundaries)
}

fn check_quantiles(quantiles: &[Probability]) -> Result<(), FormatError> {
    range("the number of query.quantiles", quantiles.len() as u64, 1, MAX_QUANTILES)?;
    if quantiles.iter().any(|part| part.is_zero() || part.is_one()) {
        return refuse("each of query.quantiles must be above 0 and below 1");
    }
    increasing("query.quantiles", quantiles)
}

/// A list has one order, so that it has one encoding.
fn increasing<T: PartialOrd>(field: &str, values: &[T]) -> Result<(), FormatError> {
    match values.windows(2).all(|pair| pair[0] < pair[1]) {
        true => Ok(()),
        false => refuse(format!("{field} must be in increasing order, each value once")),
    }
}

/// An integer that every JSON parser reads exactly, which may be negative.
fn signed(field: &str, value: i64) -> Result<(), FormatError> {
    match value.unsigned_abs() <= MAX_INTEGER {
        true => Ok(()),
        false => refuse(format!("{field} must be above -2^53 and below 2^53")),
    }
}
