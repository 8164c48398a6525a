//! From the value of a mapping to the answer of a device.

use sotto_dp::mechanism::Value as Answer;
use sotto_wire::recipe::Query;

use crate::expression::{Type, Value};

/// The types that a mapping may have for a query.
pub(super) fn mapping_types(query: &Query) -> &'static [Type] {
    match query {
        Query::Count { .. } => &[Type::Bool],
        Query::Sum { .. } => &[Type::Int],
        Query::Histogram { labels: Some(_), .. } => &[Type::Int, Type::String],
        Query::Histogram { labels: None, .. } => &[Type::Int],
    }
}

/// What a mapping's value means to a query; the fallback if it has no meaning.
pub(super) fn answer(query: &Query, value: Option<Value>) -> Answer {
    match query {
        Query::Count { fallback, .. } => Answer::Bit(match value {
            Some(Value::Bool(value)) => value,
            _ => *fallback,
        }),
        Query::Sum { max, fallback, .. } => Answer::Number(match value {
            Some(Value::Int(value)) => {
                u64::try_from(value).ok().filter(|value| value <= max).unwrap_or(*fallback)
            }
            _ => *fallback,
        }),
        Query::Histogram { buckets, labels, fallback, .. } => {
            let bucket = match value {
                Some(Value::Int(value)) => u32::try_from(value).ok(),
                Some(Value::String(label)) => labels
                    .as_ref()
                    .and_then(|labels| labels.iter().position(|known| *known == label))
                    .and_then(|index| u32::try_from(index).ok()),
                _ => None,
            };
            Answer::OneHot(bucket.filter(|bucket| bucket < buckets).unwrap_or(*fallback))
        }
    }
}
