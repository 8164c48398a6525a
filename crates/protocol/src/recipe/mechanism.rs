//! The only module that knows which mechanism and which VDAF a recipe's bytes stand for.

use sotto_dp::mechanism::exact::Exact;
use sotto_dp::mechanism::gaussian::{Gaussian, Noise as DeviceNoise};
use sotto_dp::mechanism::projective_geometry::ProjectiveGeometry;
use sotto_dp::mechanism::randomized_response::RandomizedResponse;
use sotto_dp::mechanism::rappor::Rappor;
use sotto_dp::mechanism::server_noise::ServerNoise;
use sotto_dp::mechanism::{Encoding, Mechanism, Rates, Value};
use sotto_dp::{Adjacency, Error};
use sotto_vdaf::{Measurement, VdafConfig};
use sotto_wire::FormatError;
use sotto_wire::limits::MAX_SIGMA_MICRO;
use sotto_wire::recipe::{
    Noise, Privacy, Query, Randomizer, Recipe, RecipeVdaf, Sampling, VectorQuery,
};

/// More reports than are ever in a batch. The author's population would not do: if it is too small,
/// the noise of more reports than it says has to be accounted for.
const MOST_REPORTS: u64 = 1 << 40;

/// A device in a bucket of a histogram with Gaussian noise counts so many units, so that noise of
/// small parts of one device is whole numbers.
const HISTOGRAM_UNIT: u64 = 1 << 16;

/// What stands for the claim of a recipe without one, where the mechanism needs one.
const NO_CLAIM: (u64, f64) = (0, 1e-9);

/// The largest norm of a vector in PINE's field of 64 bits.
const MOST_NORM: u64 = 1 << 26;

/// The mechanism of a recipe.
pub fn mechanism(recipe: &Recipe) -> Result<Mechanism, Error> {
    let mechanism = unbounded(recipe)?;
    match mechanism.encoding() {
        Encoding::Vector { norm_bound, .. } if norm_bound > MOST_NORM => Err(Error::OutOfRange {
            name: "query.fraction_bits: the largest norm of a report",
            value: norm_bound as f64,
            range: "at most 2^26 units: use fewer fraction bits",
        }),
        _ => Ok(mechanism),
    }
}

/// The same, of whatever norm.
fn unbounded(recipe: &Recipe) -> Result<Mechanism, Error> {
    let answers = answers(recipe)?;
    if let Some(sigma_micro) = server_sigma(recipe)? {
        let adjacency = claimed_adjacency(&recipe.privacy);
        return Ok(ServerNoise::new(answers, sigma_micro, adjacency)?.into());
    }
    Ok(match recipe.randomizer {
        Randomizer::None => Exact::of(answers).into(),
        Randomizer::Gaussian { sigma_micro } => gaussian(recipe, answers, sigma_micro)?.into(),
        Randomizer::RandomizedResponse { epsilon_micro } => {
            RandomizedResponse::of(epsilon_micro, answers)?.into()
        }
        Randomizer::Rappor { epsilon_micro } => Rappor::of(epsilon_micro, answers)?.into(),
        Randomizer::ProjectiveGeometry { epsilon_micro } => {
            ProjectiveGeometry::of(epsilon_micro, answers)?.into()
        }
    })
}

/// The answers that devices can have.
pub(super) fn answers(recipe: &Recipe) -> Result<Encoding, Error> {
    encoding(&recipe.query, &recipe.sampling, &recipe.randomizer)
}

/// The noise of the devices.
pub(super) fn gaussian(
    recipe: &Recipe,
    answers: Encoding,
    sigma_micro: u64,
) -> Result<Gaussian, Error> {
    let (rounds, (epsilon_micro, delta)) = match &recipe.privacy {
        Privacy::Claim { epsilon_micro, delta, rounds, .. } => {
            (*rounds, (*epsilon_micro, delta.to_f64().next_down()))
        }
        Privacy::InsecureUnbounded => (1, NO_CLAIM),
    };
    let contributions = recipe.aggregation.min_batch;
    let noise = DeviceNoise {
        sigma_micro,
        contributions,
        most_contributions: MOST_REPORTS,
        rounds,
        epsilon_micro,
        delta,
        adjacency: claimed_adjacency(&recipe.privacy),
    };
    let found = match answers {
        Encoding::Vector { length, norm_bound } => Gaussian::vectors(length, norm_bound, &noise),
        answers => Gaussian::symbols(answers, HISTOGRAM_UNIT, &noise),
    };
    found.map_err(|error| match error {
        // With the field, so that an author finds it.
        Error::OutOfRange { name: "the noise of one device", value, range } => {
            Error::OutOfRange { name: "randomizer.sigma: the noise of one device", value, range }
        }
        other => other,
    })
}

/// Sigma of the noise of each aggregator, in millionths of the unit that is summed, if there is
/// such noise. The recipe gives that of vectors in units of the clip.
pub(super) fn server_sigma(recipe: &Recipe) -> Result<Option<u64>, Error> {
    let Some(Noise::ServerGaussian { sigma_micro }) = recipe.noise else { return Ok(None) };
    let Some(vectors) = recipe.query.vectors() else { return Ok(Some(sigma_micro)) };
    let found = u128::from(sigma_micro) * u128::from(norm_bound(vectors));
    if found > u128::from(MAX_SIGMA_MICRO) {
        let (name, range) = ("noise.sigma", "at most 1e9 units: use fewer fraction bits");
        return Err(Error::OutOfRange { name, value: found as f64 / 1e6, range });
    }
    Ok(u64::try_from(found).ok())
}

/// The clip of vectors, in units of `2^-fraction_bits`, rounded down.
pub(super) fn norm_bound(vectors: &VectorQuery) -> u64 {
    let units = (u128::from(vectors.clip_micro) << vectors.fraction_bits.min(64)) / 1_000_000;
    u64::try_from(units).unwrap_or(u64::MAX)
}

/// The answers that devices can have. Buckets are labels, not symbols, where a device may be in
/// none: the default of a sparse histogram and dummies have none.
fn encoding(
    query: &Query,
    sampling: &Sampling,
    randomizer: &Randomizer,
) -> Result<Encoding, Error> {
    let length = query.buckets().unwrap_or_default();
    let has_default = match query {
        Query::Count { .. } => return Ok(Encoding::Bit),
        Query::Sum { max, .. } | Query::Mean { max, .. } => {
            return Ok(Encoding::Number { max: *max });
        }
        Query::MultiHistogram { most, .. } => return Ok(Encoding::Labels { length, most: *most }),
        Query::VectorSum(vectors) | Query::VectorMean(vectors) => {
            let norm_bound = norm_bound(vectors);
            if norm_bound == 0 {
                let (name, range) = ("query.clip", "at least 2^-fraction_bits");
                return Err(Error::OutOfRange { name, value: 0.0, range });
            }
            return Ok(Encoding::Vector { length: vectors.sent(), norm_bound });
        }
        Query::Histogram { .. } | Query::Quantiles { .. } | Query::Nearest { .. } => false,
        // A point of the geometry belongs to every answer, the default too.
        Query::SparseHistogram { .. } => {
            !matches!(randomizer, Randomizer::ProjectiveGeometry { .. })
        }
    };
    Ok(match has_default || !sampling.dummy_rate.is_zero() {
        true => Encoding::Labels { length, most: 1 },
        false => Encoding::OneHot { length },
    })
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
        Encoding::Vector { length, norm_bound } => VdafConfig::pine64(length, norm_bound),
    }
}

/// The VDAF of a recipe, as it has to state it. What it states is not looked at.
pub fn recipe_vdaf(recipe: &Recipe) -> Result<RecipeVdaf, FormatError> {
    // Their errors name the field of the recipe.
    recipe.sampling.check(&recipe.query, &recipe.randomizer)?;
    recipe.randomizer.check(&recipe.query)?;
    let wrong = |error: &dyn ToString| FormatError::new(error.to_string());
    let mechanism = mechanism(recipe).map_err(|error| wrong(&error))?;
    let vdaf = stated(&derive_vdaf(&mechanism));
    vdaf.check()?;
    Ok(vdaf)
}

/// Gives a recipe that claims something this claim, in millionths, with the VDAF that follows from
/// it: how long a vector with noise may be depends on the claim, though hardly.
pub fn set_claim(recipe: &mut Recipe, claimed: u64) -> Result<(), FormatError> {
    if let Privacy::Claim { epsilon_micro, .. } = &mut recipe.privacy {
        *epsilon_micro = claimed.max(1);
        recipe.aggregation.vdaf = recipe_vdaf(recipe)?;
    }
    Ok(())
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
        VdafConfig::Pine {
            dimension,
            norm_bound,
            chunk_length,
            chunk_length_norm_equality,
            ..
        } => RecipeVdaf::Pine64 { dimension, norm_bound, chunk_length, chunk_length_norm_equality },
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
        Value::Vector(numbers) => Measurement::Vector(numbers),
    }
}
