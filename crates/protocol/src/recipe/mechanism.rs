//! The only module that knows which mechanism and which VDAF a recipe's bytes stand for.

use sotto_dp::Error;
use sotto_dp::mechanism::exact::Exact;
use sotto_dp::mechanism::randomized_response::RandomizedResponse;
use sotto_dp::mechanism::{Encoding, Mechanism, Value};
use sotto_vdaf::{Measurement, VdafConfig};
use sotto_wire::FormatError;
use sotto_wire::recipe::{Query, Randomizer, Recipe, RecipeVdaf};

/// The mechanism of a recipe.
pub fn mechanism(recipe: &Recipe) -> Result<Mechanism, Error> {
    of(&recipe.query, &recipe.randomizer)
}

/// The mechanism of a randomizer for the answers to a query.
fn of(query: &Query, randomizer: &Randomizer) -> Result<Mechanism, Error> {
    let answers = match query {
        Query::Count { .. } => Encoding::Bit,
        Query::Sum { max, .. } => Encoding::Number { max: *max },
        Query::Histogram { buckets, .. } => Encoding::OneHot { length: *buckets },
    };
    Ok(match *randomizer {
        Randomizer::None => Exact::of(answers).into(),
        Randomizer::RandomizedResponse { epsilon_micro } => {
            RandomizedResponse::of(epsilon_micro, answers)?.into()
        }
    })
}

/// The randomizer that a new recipe gets for its query; `None` if no mechanism with a claim answers
/// such a query.
pub fn suggested_randomizer(query: &Query, epsilon_micro: u64) -> Option<Randomizer> {
    let randomizer = Randomizer::RandomizedResponse { epsilon_micro };
    of(query, &randomizer).is_ok().then_some(randomizer)
}

/// The VDAF that sums what the mechanism sends, with parameters that we compute. An author's
/// parameters are never used: a bad chunk length makes verification fifty times as expensive.
pub fn derive_vdaf(mechanism: &Mechanism) -> VdafConfig {
    match mechanism.encoding() {
        Encoding::Bit => VdafConfig::count(),
        Encoding::Number { max } => VdafConfig::sum(max),
        Encoding::OneHot { length } => VdafConfig::histogram(length),
        Encoding::Labels { length, most } => VdafConfig::multihot_count_vec(length, most.into()),
    }
}

/// The VDAF of a query and a randomizer, as a recipe states it.
pub fn recipe_vdaf(query: &Query, randomizer: &Randomizer) -> Result<RecipeVdaf, FormatError> {
    // Its errors name the field of the recipe.
    randomizer.check(query)?;
    let mechanism = of(query, randomizer).map_err(|error| FormatError::new(error.to_string()))?;
    Ok(stated(&derive_vdaf(&mechanism)))
}

/// A VDAF as a recipe states it.
pub(super) fn stated(vdaf: &VdafConfig) -> RecipeVdaf {
    match *vdaf {
        VdafConfig::Prio3Histogram { length, chunk_length } => {
            RecipeVdaf::Prio3Histogram { length, chunk_length }
        }
        VdafConfig::Prio3Sum { max_measurement } => RecipeVdaf::Prio3Sum { max_measurement },
        _ => RecipeVdaf::Prio3Count,
    }
}

/// A value as its VDAF takes it.
pub(super) fn measurement(mechanism: &Mechanism, value: Value) -> Measurement {
    match value {
        Value::Bit(bit) => Measurement::Count(bit),
        Value::Number(number) => Measurement::Sum(number),
        Value::OneHot(symbol) => Measurement::Histogram(symbol),
        Value::Labels(labels) => {
            let mut bits = vec![false; mechanism.encoding().numbers() as usize];
            for label in labels {
                bits.get_mut(label as usize).into_iter().for_each(|bit| *bit = true);
            }
            Measurement::MultihotCountVec(bits)
        }
    }
}
