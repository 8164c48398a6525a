//! The only module that knows which mechanism and which VDAF a recipe's bytes stand for.

use sotto_dp::mechanism::exact::Exact;
use sotto_dp::mechanism::projective_geometry::ProjectiveGeometry;
use sotto_dp::mechanism::randomized_response::RandomizedResponse;
use sotto_dp::mechanism::rappor::Rappor;
use sotto_dp::mechanism::server_noise::ServerNoise;
use sotto_dp::mechanism::{Encoding, Mechanism, Rates, Value};
use sotto_dp::{Adjacency, Error};
use sotto_vdaf::{Measurement, VdafConfig};
use sotto_wire::FormatError;
use sotto_wire::recipe::{Noise, Privacy, Query, Randomizer, Recipe, RecipeVdaf, Sampling};

/// The mechanism of a recipe.
pub fn mechanism(recipe: &Recipe) -> Result<Mechanism, Error> {
    let Recipe { query, sampling, randomizer, .. } = recipe;
    match recipe.noise {
        None => of(query, sampling, randomizer),
        Some(Noise::ServerGaussian { sigma_micro }) => {
            let sent = of(query, sampling, &Randomizer::None)?.encoding();
            Ok(ServerNoise::new(sent, sigma_micro, claimed_adjacency(&recipe.privacy))?.into())
        }
    }
}

/// The mechanism of a randomizer for the answers to a query.
fn of(query: &Query, sampling: &Sampling, randomizer: &Randomizer) -> Result<Mechanism, Error> {
    let answers = encoding(query, sampling, randomizer);
    Ok(match *randomizer {
        Randomizer::None => Exact::of(answers).into(),
        Randomizer::RandomizedResponse { epsilon_micro } => {
            RandomizedResponse::of(epsilon_micro, answers)?.into()
        }
        Randomizer::Rappor { epsilon_micro } => Rappor::of(epsilon_micro, answers)?.into(),
        Randomizer::ProjectiveGeometry { epsilon_micro } => {
            ProjectiveGeometry::of(epsilon_micro, answers)?.into()
        }
    })
}

/// The answers that devices can have. Buckets are labels, not symbols, where a device may be in
/// none: the default of a sparse histogram and dummies have none.
fn encoding(query: &Query, sampling: &Sampling, randomizer: &Randomizer) -> Encoding {
    let length = query.buckets().unwrap_or_default();
    let has_default = match query {
        Query::Count { .. } => return Encoding::Bit,
        Query::Sum { max, .. } | Query::Mean { max, .. } => {
            return Encoding::Number { max: *max };
        }
        Query::MultiHistogram { most, .. } => return Encoding::Labels { length, most: *most },
        Query::Histogram { .. } | Query::Quantiles { .. } => false,
        // A point of the geometry belongs to every answer, the default too.
        Query::SparseHistogram { .. } => {
            !matches!(randomizer, Randomizer::ProjectiveGeometry { .. })
        }
    };
    match has_default || !sampling.dummy_rate.is_zero() {
        true => Encoding::Labels { length, most: 1 },
        false => Encoding::OneHot { length },
    }
}

/// An answer as its mechanism takes it: the default of a sparse histogram is no label, where there
/// is such a value.
pub(super) fn value(query: &Query, mechanism: &Mechanism, answer: Value) -> Value {
    match (query, mechanism.encoding(), &answer) {
        (
            Query::SparseHistogram { default, .. },
            Encoding::Labels { .. },
            Value::OneHot(bucket),
        ) if bucket == default => Value::Labels(Vec::new()),
        _ => answer,
    }
}

/// The probabilities with which devices send something, for the estimator.
pub fn rates(recipe: &Recipe) -> Rates {
    let sampling = &recipe.sampling;
    let default = match recipe.query {
        Query::SparseHistogram { default, .. } => Some(default),
        _ => None,
    };
    Rates {
        rate: sampling.rate.to_f64(),
        default_rate: sampling.least_rate().to_f64(),
        dummy_rate: sampling.dummy_rate.to_f64(),
        default,
    }
}

/// What the claim of a recipe protects; the value, if it claims nothing.
pub(super) fn claimed_adjacency(privacy: &Privacy) -> Adjacency {
    match privacy {
        Privacy::Claim { adjacency: sotto_wire::recipe::Adjacency::AddRemove, .. } => {
            Adjacency::AddRemove
        }
        _ => Adjacency::Replace,
    }
}

/// The randomizer that a new recipe gets for its query, with this local epsilon under replacement;
/// `None` if no mechanism with a claim answers such a query.
pub fn suggested_randomizer(query: &Query, epsilon_micro: u64) -> Option<Randomizer> {
    let response = Randomizer::RandomizedResponse { epsilon_micro };
    // Under deletion, which is half, and for each bucket that a device may be in.
    let most = if let Query::MultiHistogram { most, .. } = query { (*most).max(1) } else { 1 };
    let epsilon_micro = (epsilon_micro / 2 / u64::from(most)).max(1);
    let rappor = Randomizer::Rappor { epsilon_micro };
    [response, rappor].into_iter().find(|one| one.queries().contains(&query.kind()))
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

/// The VDAF of a query, a way of sampling and a randomizer, as a recipe states it.
pub fn recipe_vdaf(
    query: &Query,
    sampling: &Sampling,
    randomizer: &Randomizer,
) -> Result<RecipeVdaf, FormatError> {
    // Their errors name the field of the recipe.
    sampling.check(query, randomizer)?;
    query.check()?;
    randomizer.check(query)?;
    let mechanism =
        of(query, sampling, randomizer).map_err(|error| FormatError::new(error.to_string()))?;
    let vdaf = stated(&derive_vdaf(&mechanism));
    vdaf.check()?;
    Ok(vdaf)
}

/// A VDAF as a recipe states it.
pub(super) fn stated(vdaf: &VdafConfig) -> RecipeVdaf {
    match *vdaf {
        VdafConfig::Prio3Histogram { length, chunk_length } => {
            RecipeVdaf::Prio3Histogram { length, chunk_length }
        }
        VdafConfig::Prio3MultihotCountVec { length, chunk_length, max_weight } => {
            RecipeVdaf::Prio3MultihotCountVec { length, chunk_length, max_weight }
        }
        VdafConfig::Prio3Sum { max_measurement } => RecipeVdaf::Prio3Sum { max_measurement },
        _ => RecipeVdaf::Prio3Count,
    }
}

/// What a mechanism sends, as its VDAF takes it.
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
