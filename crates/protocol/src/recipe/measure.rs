//! From the value of a mapping to the answer of a device.

use sotto_dp::mechanism::Value as Answer;
use sotto_wire::recipe::Query;

use crate::expression::{Expression, Type, Value};

/// The types that a mapping may have for a query.
pub(super) fn mapping_types(query: &Query) -> &'static [Type] {
    match query {
        Query::Count { .. } => &[Type::Bool],
        Query::Sum { .. } => &[Type::Int],
        Query::Histogram { labels: Some(_), .. } => &[Type::Int, Type::String],
        Query::Histogram { labels: None, .. } => &[Type::Int],
    }
}

/// What a mapping's value means to a query; `None` if it is no bucket, label or number of it.
pub(super) fn meaning(query: &Query, value: &Value) -> Option<Answer> {
    match (query, value) {
        (Query::Count { .. }, Value::Bool(value)) => Some(Answer::Bit(*value)),
        (Query::Sum { max, .. }, Value::Int(value)) => {
            u64::try_from(*value).ok().filter(|value| value <= max).map(Answer::Number)
        }
        (Query::Histogram { buckets, .. }, Value::Int(value)) => {
            u32::try_from(*value).ok().filter(|bucket| bucket < buckets).map(Answer::OneHot)
        }
        (Query::Histogram { labels: Some(labels), .. }, Value::String(label)) => {
            let index = labels.iter().position(|known| known == label)?;
            u32::try_from(index).ok().map(Answer::OneHot)
        }
        _ => None,
    }
}

/// The answer where the mapping has no value, or one without a meaning.
pub(super) fn fallback(query: &Query) -> Answer {
    match query {
        Query::Count { fallback, .. } => Answer::Bit(*fallback),
        Query::Sum { fallback, .. } => Answer::Number(*fallback),
        Query::Histogram { fallback, .. } => Answer::OneHot(*fallback),
    }
}

/// Rejects a mapping that can give a constant without a meaning: on every device that gets there
/// the fallback would be counted, and nobody would notice.
pub(super) fn check_constants(query: &Query, mapping: &Expression) -> Result<(), String> {
    let constants = mapping.constants();
    let Some(wrong) = constants.iter().find(|value| meaning(query, value).is_none()) else {
        return Ok(());
    };
    let place = mapping.position_of(wrong).map(|place| format!(", {place}")).unwrap_or_default();
    let wrong = match wrong {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::String(text) => format!("{text:?}"),
    };
    let instead = match query {
        Query::Count { .. } => "write true or false".to_owned(),
        Query::Sum { max, .. } => format!("write a number from 0 to {max}"),
        Query::Histogram { buckets, labels: None, .. } => {
            format!("write a bucket from 0 to {}", buckets.saturating_sub(1))
        }
        Query::Histogram { buckets, labels: Some(labels), .. } => {
            let labels: Vec<String> = labels.iter().map(|label| format!("{label:?}")).collect();
            let last = buckets.saturating_sub(1);
            format!("write a bucket from 0 to {last}, or its label: {}", labels.join(", "))
        }
    };
    Err(format!("mapping{place}: it can give {wrong}, which is counted nowhere; {instead}"))
}
