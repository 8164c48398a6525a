//! From the value of a mapping to the answer of a device.

use std::collections::BTreeSet;

use sotto_dp::mechanism::Value as Answer;
use sotto_dp::mechanism::vector::clip;
use sotto_dp::projection::Projection;
use sotto_wire::recipe::{Query, VectorQuery};

use super::mechanism::norm_bound;
use crate::expression::{Expression, Type, Value};

/// The types that a mapping may have for a query.
pub(super) fn mapping_types(query: &Query) -> Vec<Type> {
    match query {
        Query::Count { .. } => vec![Type::Bool],
        Query::Sum { .. } | Query::Mean { .. } | Query::Quantiles { .. } => vec![Type::Int],
        Query::MultiHistogram { .. } => vec![Type::List],
        Query::Histogram { .. } | Query::SparseHistogram { .. } => match query.labels() {
            Some(_) => vec![Type::Int, Type::String],
            None => vec![Type::Int],
        },
        Query::Nearest { .. } => {
            vec![Type::Vector(query.candidate_dimension().unwrap_or_default())]
        }
        Query::VectorSum(vectors) | Query::VectorMean(vectors) => {
            vec![Type::Vector(vectors.dimension)]
        }
    }
}

/// What a mapping's value means to a query; `None` if it is no bucket, label or number of it.
/// Vectors are projected, if the query has a projection.
pub(super) fn meaning(
    query: &Query,
    projection: Option<&Projection>,
    value: &Value,
) -> Option<Answer> {
    match (query, value) {
        (Query::Count { .. }, Value::Bool(value)) => Some(Answer::Bit(*value)),
        (Query::Sum { max, .. } | Query::Mean { max, .. }, Value::Int(value)) => {
            u64::try_from(*value).ok().filter(|value| value <= max).map(Answer::Number)
        }
        (Query::Quantiles { boundaries, .. }, Value::Int(value)) => range(boundaries, *value),
        (Query::Histogram { .. } | Query::SparseHistogram { .. }, value) => {
            bucket(query, value).map(Answer::OneHot)
        }
        (Query::MultiHistogram { most, .. }, Value::List(values)) => {
            Some(Answer::Labels(several(query, *most, values)))
        }
        (Query::Nearest { candidates, fraction_bits, .. }, Value::Vector(value)) => {
            nearest(candidates, *fraction_bits, value.as_slice()).map(Answer::OneHot)
        }
        (Query::VectorSum(vectors) | Query::VectorMean(vectors), Value::Vector(value)) => {
            vector(vectors, projection, value.as_slice()).map(Answer::Vector)
        }
        _ => None,
    }
}

/// The vector that is sent, in whole units, before noise: projected, clipped, rounded, and made
/// shorter where rounding made it too long. `None` if a coordinate is no number.
fn vector(
    vectors: &VectorQuery,
    projection: Option<&Projection>,
    value: &[f64],
) -> Option<Vec<i64>> {
    let sound = value.len() as u64 == u64::from(vectors.dimension)
        && value.iter().all(|coordinate| coordinate.is_finite());
    let clipped =
        |vector: &[f64]| clip(vector, vectors.sent(), vectors.fraction_bits, norm_bound(vectors));
    sound.then(|| match projection {
        None => clipped(value),
        Some(projection) => clipped(&projection.project(value)),
    })
}

/// The closest candidate, and the first of several. `None` if the vector has another length, or a
/// coordinate that is no number or too large to be squared. Every candidate is looked at in full,
/// whatever the vector is.
fn nearest(candidates: &[Vec<i64>], fraction_bits: u32, vector: &[f64]) -> Option<u32> {
    // Exact: the format allows few bits.
    let unit = 1.0 / (1_u64 << fraction_bits.min(63)) as f64;
    let square = |(number, own): (&i64, &f64)| {
        let difference = own - *number as f64 * unit;
        difference * difference
    };
    let distance = |candidate: &Vec<i64>| candidate.iter().zip(vector).map(square).sum::<f64>();
    let distances: Vec<f64> = candidates.iter().map(distance).collect();
    let sound = candidates.iter().all(|one| one.len() == vector.len())
        && distances.iter().all(|distance| distance.is_finite());
    let (index, _) =
        distances.iter().enumerate().min_by(|(_, one), (_, other)| one.total_cmp(other))?;
    u32::try_from(index).ok().filter(|_| sound)
}

/// The buckets of a list: what is none is left out, each counts once, and of more than `most` the
/// first ones count.
fn several(query: &Query, most: u32, values: &[Value]) -> Vec<u32> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut found = BTreeSet::new();
    for bucket in values.iter().filter_map(|value| bucket(query, value)) {
        if found.len() < most {
            found.insert(bucket);
        }
    }
    found.into_iter().collect()
}

/// The bucket that an int or a text stands for.
fn bucket(query: &Query, value: &Value) -> Option<u32> {
    match value {
        Value::Int(value) => {
            u32::try_from(*value).ok().filter(|bucket| Some(*bucket) < query.buckets())
        }
        Value::String(label) => {
            let index = query.labels()?.iter().position(|known| known == label)?;
            u32::try_from(index).ok()
        }
        Value::Bool(_) | Value::List(_) | Value::Vector(_) => None,
    }
}

/// The range of a number. Every number has one.
fn range(boundaries: &[i64], value: i64) -> Option<Answer> {
    let below = boundaries.partition_point(|boundary| *boundary <= value);
    u32::try_from(below).ok().map(Answer::OneHot)
}

/// The answer where the mapping has no value, or one without a meaning.
pub(super) fn fallback(query: &Query) -> Answer {
    match query {
        Query::Count { fallback, .. } => Answer::Bit(*fallback),
        Query::Sum { fallback, .. } | Query::Mean { fallback, .. } => Answer::Number(*fallback),
        Query::Histogram { fallback, .. } | Query::Nearest { fallback, .. } => {
            Answer::OneHot(*fallback)
        }
        // There are far fewer ranges than 2^32.
        Query::Quantiles { boundaries, fallback, .. } => {
            range(boundaries, *fallback).unwrap_or(Answer::OneHot(0))
        }
        Query::MultiHistogram { fallback, .. } => Answer::Labels(fallback.clone()),
        Query::SparseHistogram { default, .. } => Answer::OneHot(*default),
        Query::VectorSum(vectors) | Query::VectorMean(vectors) => {
            Answer::Vector(vec![0; vectors.sent() as usize])
        }
    }
}

/// Rejects a mapping that can give a constant without a meaning: on every device that gets there
/// the fallback would be counted, and nobody would notice.
pub(super) fn check_constants(query: &Query, mapping: &Expression) -> Result<(), String> {
    let means_something = |value: &Value| match query {
        // An element of the list.
        Query::MultiHistogram { .. } => bucket(query, value).is_some(),
        _ => meaning(query, None, value).is_some(),
    };
    let constants = mapping.constants();
    let Some(wrong) = constants.iter().find(|value| !means_something(value)) else {
        return Ok(());
    };
    let place = mapping.position_of(wrong).map(|place| format!(", {place}")).unwrap_or_default();
    let wrong = match wrong {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::String(text) => format!("{text:?}"),
        Value::List(_) | Value::Vector(_) => "a list".to_owned(),
    };
    let instead = match (query, query.buckets(), query.labels()) {
        (Query::Count { .. }, ..) => "write true or false".to_owned(),
        (Query::Sum { max, .. } | Query::Mean { max, .. }, ..) => {
            format!("write a number from 0 to {max}")
        }
        (_, buckets, None) => {
            format!("write a bucket from 0 to {}", buckets.unwrap_or_default().saturating_sub(1))
        }
        (_, buckets, Some(labels)) => {
            let labels: Vec<String> = labels.iter().map(|label| format!("{label:?}")).collect();
            let last = buckets.unwrap_or_default().saturating_sub(1);
            format!("write a bucket from 0 to {last}, or its label: {}", labels.join(", "))
        }
    };
    Err(format!("mapping{place}: it can give {wrong}, which is counted nowhere; {instead}"))
}
