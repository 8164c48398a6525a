//! From a device's attributes to the measurement that it shares out.

use rand_core::CryptoRng;
use sotto_dp::mechanism::randomized_response::RandomizedResponse;
use sotto_vdaf::Measurement;
use sotto_wire::recipe::{Query, Randomizer, Recipe};

use crate::admission::{Check, Silence};
use crate::expression::{Type, Value};

/// The randomizer R of a recipe.
#[derive(Debug)]
pub(super) enum Randomize {
    /// The exact value.
    Exact,
    /// k-ary randomized response over the buckets of a histogram.
    Response(RandomizedResponse),
}

impl Randomize {
    pub(super) fn new(recipe: &Recipe) -> Result<Self, Silence> {
        match &recipe.randomizer {
            Randomizer::None => Ok(Self::Exact),
            Randomizer::RandomizedResponse { epsilon_micro } => {
                // Anything else would be sent as it is.
                if !matches!(recipe.query, Query::Histogram { .. }) {
                    let reason = "randomized response answers histograms only";
                    return Err(Silence::new(Check::Derivation, reason));
                }
                RandomizedResponse::new(*epsilon_micro, super::symbols(&recipe.query))
                    .map(Self::Response)
                    .map_err(|error| Silence::new(Check::Derivation, error.to_string()))
            }
        }
    }

    pub(super) fn apply(&self, measurement: Measurement, rng: &mut dyn CryptoRng) -> Measurement {
        match (self, measurement) {
            (Self::Response(response), Measurement::Histogram(bucket)) => {
                Measurement::Histogram(response.respond(bucket, rng))
            }
            (_, measurement) => measurement,
        }
    }
}

/// The types that a mapping may have for a query.
pub(super) fn mapping_types(query: &Query) -> &'static [Type] {
    match query {
        Query::Count { .. } => &[Type::Bool],
        Query::Sum { .. } => &[Type::Int],
        Query::Histogram { labels: Some(_), .. } => &[Type::Int, Type::String],
        Query::Histogram { labels: None, .. } => &[Type::Int],
    }
}

/// What a mapping's value means to a query; the fallback if it means nothing.
pub(super) fn measurement(query: &Query, value: Option<Value>) -> Measurement {
    match query {
        Query::Count { fallback, .. } => Measurement::Count(match value {
            Some(Value::Bool(value)) => value,
            _ => *fallback,
        }),
        Query::Sum { max, fallback, .. } => Measurement::Sum(match value {
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
                    .and_then(|place| u32::try_from(place).ok()),
                _ => None,
            };
            Measurement::Histogram(bucket.filter(|bucket| bucket < buckets).unwrap_or(*fallback))
        }
    }
}
