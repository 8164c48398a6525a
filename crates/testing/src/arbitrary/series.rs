//! Arbitrary series: headers and rounds.

use rand_core::Rng;
use sotto_wire::limits::{
    MAX_ATTRIBUTES, MAX_DIMENSION, MAX_INTEGER, MAX_LIST_LEN, MAX_PARTICIPATIONS,
    MAX_RECIPE_LIFE_S, MAX_RECIPE_NAME_LEN, MAX_ROUNDS, MAX_TRAINING_STEPS, MIN_DIMENSION,
    MIN_LIST_LEN,
};
use sotto_wire::recipe::{
    AttributeType, Discovery, Model, Participation, Query, Round, Sampling, Series, Training, When,
};

use super::{Attributes, below, chance, entry_id, name, number, url};

/// A training that the query asks for, which becomes one of updates. `None` if it is not one of
/// vectors, and at random.
pub(super) fn training(
    query: &mut Query,
    attributes: &mut Attributes,
    rng: &mut dyn Rng,
) -> Option<Training> {
    let (Query::VectorSum(vectors) | Query::VectorMean(vectors)) = query else { return None };
    if attributes.len() >= MAX_ATTRIBUTES || chance(2, rng) {
        return None;
    }
    let mut training = Training {
        model: model(rng),
        models: url(rng),
        steps: number(1, MAX_TRAINING_STEPS, rng) as u32,
        batch: chance(2, rng).then(|| number(1, u64::from(u32::MAX), rng) as u32),
        learning_rate_micro: number(1, MAX_INTEGER, rng),
        vote_weight_micro: chance(2, rng).then(|| number(1, MAX_INTEGER, rng)),
        largest_loss_micro: None,
    };
    if chance(4, rng) {
        (training.steps, training.batch, training.learning_rate_micro) = (0, None, 0);
        training.largest_loss_micro = Some(number(1, MAX_INTEGER, rng));
        // A norm of at most 2^22 units.
        vectors.fraction_bits = number(0, 20, rng) as u32;
        vectors.clip_micro = number(2_000_000, 4_000_000, rng);
        vectors.compression = None;
    }
    vectors.dimension = u32::try_from(training.answer_numbers()).ok()?;
    vectors.mapping = training.attribute().to_owned();
    if let Some(compression) = &mut vectors.compression {
        compression.dimension = number(1, u64::from(vectors.dimension) - 1, rng) as u32;
    }
    attributes.insert(training.attribute().parse().ok()?, AttributeType::Vector(vectors.dimension));
    Some(training)
}

/// Words that the query looks for. `None` if it is no histogram without labels, and at random.
pub(super) fn discovery(query: &mut Query, rng: &mut dyn Rng) -> Option<Discovery> {
    let Query::Histogram { buckets, labels: None, fallback, .. } = query else { return None };
    if !chance(3, rng) {
        return None;
    }
    (*buckets, *fallback) = ((*buckets).max(3), 0);
    let list_len = number(MIN_LIST_LEN, MAX_LIST_LEN, rng) as u32;
    Some(Discovery { lists: url(rng), list_len })
}

/// A model that leaves room for a vote.
fn model(rng: &mut dyn Rng) -> Model {
    // Square roots, so that products are within bounds.
    let mut side = || number(2, 300, rng) as u32;
    let [features, hidden, classes] = [side(), side(), side()];
    match below(3, rng) {
        0 => Model::Softmax { features, classes },
        1 => Model::Mlp { features, hidden, classes },
        _ => Model::Custom {
            name: name(MAX_RECIPE_NAME_LEN, rng),
            weights: number(MIN_DIMENSION, MAX_DIMENSION - 1, rng) as u32,
        },
    }
}

/// A header or a round. `None` at random without a training and a discovery, and with importance sampling, which
/// is for one round.
pub(super) fn series(
    training: Option<Training>,
    discovery: Option<Discovery>,
    sampling: &Sampling,
    when: &mut When,
    rng: &mut dyn Rng,
) -> Option<Series> {
    if sampling.default_rate.is_some()
        || (training.is_none() && discovery.is_none() && !chance(4, rng))
    {
        return None;
    }
    let (participation, most) = match sampling.dummy_rate.is_zero() && chance(3, rng) {
        true => (Participation::Donation {}, MAX_ROUNDS),
        false => (Participation::EachRound {}, MAX_PARTICIPATIONS),
    };
    let rounds = number(1, most, rng);
    let round = chance(2, rng).then(|| Round {
        index: number(0, rounds - 1, rng),
        model: (training.is_some() || discovery.is_some()).then(|| entry_id(rng)),
    });
    let has_files = training.is_some() || discovery.is_some();
    let length_s = if has_files { None } else { length(rounds, when, rng) };
    Some(Series { rounds, participation, length_s, training, discovery, round })
}

/// A length of rounds that fill the time of the header, which is changed. `None` if so many do not
/// fit, and at random.
fn length(rounds: u64, when: &mut When, rng: &mut dyn Rng) -> Option<u64> {
    let most = MAX_RECIPE_LIFE_S / when.window_s / rounds;
    if most == 0 || chance(3, rng) {
        return None;
    }
    let length_s = number(1, most, rng) * when.window_s;
    (when.closes, when.max_window_s) = (when.opens + rounds * length_s, length_s);
    Some(length_s)
}
