//! Recipes in rounds: a *header*, and one recipe per round.
//!
//! A header is a recipe that nobody answers. A round is the same recipe with a [`Round`] in it and
//! nothing else changed, so the header of a round is the round without its `round`
//! ([`Recipe::header`]), and a round that differs from its header in anything is one of another
//! series, whose header the log does not hold.

use serde::{Deserialize, Serialize};

use super::check::{self, at_least_one, range, refuse, url};
use super::{AttributeType, Privacy, Query, Randomizer, Recipe, When};
use crate::limits::{
    MAX_BUCKETS, MAX_DIMENSION, MAX_LIST_LEN, MAX_PARTICIPATIONS, MAX_ROUNDS, MAX_TRAINING_STEPS,
    MIN_LIST_LEN,
};
use crate::{EntryId, FormatError};

/// The attribute that holds a device's update of the model. The device's host computes it.
pub const UPDATE: &str = "update";

/// The attribute that holds what a device says about a model. The device's host computes it.
pub const EVALUATION: &str = "evaluation";

/// How many numbers an evaluation has: the loss, and the part of right predictions.
const EVALUATION_NUMBERS: u64 = 2;

/// The largest norm of an evaluation, in units of `2^-fraction_bits`: sums over a billion devices
/// are still whole numbers of an `f64`.
const MAX_EVALUATION_NORM: u64 = 1 << 22;

/// What the rounds of a series have in common, and which of them a recipe is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// How many rounds there are at most. The claim is about all of them.
    pub rounds: u64,
    /// In which rounds a device takes part.
    pub participation: Participation,
    /// How long each round is open, in seconds: the first one from [`When::opens`](super::When::opens)
    /// on, and each other one after the one before it. `None`: a round is open until a newer one
    /// replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_s: Option<u64>,
    /// The model that is trained, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<Training>,
    /// The words that are looked for, if any are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery: Option<Discovery>,
    /// The round; `None` in the header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<Round>,
}

/// In which rounds a device takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Participation {
    /// In each round with the probability of the recipe. A device has a pair of tokens for each
    /// round, so it can send one report in each and no more.
    EachRound {},
    /// Once or never (randomized donation time): one coin with the probability of the recipe for the
    /// whole series, and then a secret round. A device goes through the rounds in order and stops at
    /// each with probability 1/rounds; if it stops at none, it does not take part.
    Donation {},
}

impl Series {
    /// How many reports a device sends at most, and how many tokens it gets from each issuer.
    pub fn most_reports(&self) -> u64 {
        match self.participation {
            Participation::EachRound {} => self.rounds,
            Participation::Donation {} => 1,
        }
    }

    /// Whether each round has a public file that devices read: a model or a list of candidates.
    pub fn has_files(&self) -> bool {
        self.training.is_some() || self.discovery.is_some()
    }
}

/// One round of a series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Round {
    /// Its number, from 0. Numbers increase in the log; some may be left out.
    pub index: u64,
    /// The SHA-256 of the model, if one is trained, or of the list of candidates of a discovery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<EntryId>,
}

/// How a device computes its update of a model, or how good it says that a model is. The query must
/// be one of vectors, and its mapping the attribute [`UPDATE`] or [`EVALUATION`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// The model.
    pub model: Model,
    /// Where models are: the URL of a folder of static files. The files of a model are in a folder
    /// named by its SHA-256.
    pub models: String,
    /// How many steps of gradient descent a device makes; none in an evaluation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steps: u32,
    /// How many examples a step uses at most; all of them if there is no number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// What the mean gradient of a step is multiplied by, in millionths; 0 in an evaluation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub learning_rate_micro: u64,
    /// The clip follows a quantile of the norms, for which devices vote with this weight, in
    /// millionths. The vote is the last coordinate of an update; in a model the current clip has its
    /// place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vote_weight_micro: Option<u64>,
    /// Devices train nothing: they say how good the model is. A larger loss than this one, in
    /// millionths, counts as this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_loss_micro: Option<u64>,
}

/// How words that nobody lists beforehand are looked for. The query is a histogram, and its mapping
/// yields a text or a list of texts. In each round there is a list of candidates: beginnings of words.
/// A device picks one of its words and counts itself in the bucket of the candidate that the word
/// begins with, and in bucket 0, the fallback, if there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Discovery {
    /// Where the lists are: the URL of a folder of static files. The files of a list are in a folder
    /// named by its SHA-256.
    pub lists: String,
    /// How long each list is, in bytes. Shorter ones have zeros at the end.
    pub list_len: u32,
}

impl Discovery {
    fn check(&self, recipe: &Recipe) -> Result<(), FormatError> {
        url("series.discovery.lists", &self.lists)?;
        range("series.discovery.list_len", self.list_len.into(), MIN_LIST_LEN, MAX_LIST_LEN)?;
        let Query::Histogram { buckets, labels, fallback, .. } = &recipe.query else {
            return refuse("series.discovery needs query.kind histogram");
        };
        if labels.is_some() {
            return refuse("query.labels is not for series.discovery: each round has candidates");
        }
        // Two candidates, and the bucket of those that begin with neither.
        range("query.buckets (of a discovery)", (*buckets).into(), 3, MAX_BUCKETS)?;
        range("query.fallback (of a discovery)", (*fallback).into(), 0, 0)?;
        // The threshold follows from the noise, which must be the same in every bucket.
        let noise =
            recipe.noise.is_some() || matches!(recipe.randomizer, Randomizer::Gaussian { .. });
        if !noise {
            return refuse("series.discovery needs [noise], or randomizer.kind gaussian");
        }
        if !recipe.sampling.dummy_rate.is_zero() {
            return refuse("sampling.dummy_rate must be 0 with series.discovery");
        }
        Ok(())
    }
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

/// A model, and how many weights it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Model {
    /// Softmax regression.
    Softmax {
        /// How many numbers an example has.
        features: u32,
        /// How many classes there are.
        classes: u32,
    },
    /// A network with one hidden layer.
    Mlp {
        /// How many numbers an example has.
        features: u32,
        /// How many units the hidden layer has.
        hidden: u32,
        /// How many classes there are.
        classes: u32,
    },
    /// A model that the device's host knows by name.
    Custom {
        /// Its name.
        name: String,
        /// How many weights it has.
        weights: u32,
    },
}

impl Model {
    /// How many weights it has.
    pub fn weights(&self) -> u64 {
        // Products of 32 bits fit; two of them may not.
        let layer = |inputs: u32, outputs: u32| u64::from(inputs) * u64::from(outputs);
        match *self {
            Self::Softmax { features, classes } => layer(features, classes),
            Self::Mlp { features, hidden, classes } => layer(features.saturating_add(1), hidden)
                .saturating_add(layer(hidden.saturating_add(1), classes)),
            Self::Custom { weights, .. } => weights.into(),
        }
    }
}

impl Training {
    /// How many numbers a model file has: the weights, and the clip if devices vote.
    pub fn model_numbers(&self) -> u64 {
        self.model.weights().saturating_add(self.vote_weight_micro.is_some().into())
    }

    /// How many numbers a device answers: as many as the model has, or those of an evaluation.
    pub fn answer_numbers(&self) -> u64 {
        if self.is_evaluation() { EVALUATION_NUMBERS } else { self.model_numbers() }
    }

    /// Whether devices say how good the model is, instead of training it.
    pub fn is_evaluation(&self) -> bool {
        self.largest_loss_micro.is_some()
    }

    /// The attribute that the query asks for.
    pub fn attribute(&self) -> &'static str {
        if self.is_evaluation() { EVALUATION } else { UPDATE }
    }

    fn check(&self, recipe: &Recipe) -> Result<(), FormatError> {
        self.check_model()?;
        match self.largest_loss_micro {
            Some(largest) => self.check_evaluation(recipe, largest)?,
            None => self.check_steps()?,
        }
        let weight = self.vote_weight_micro;
        weight
            .map_or(Ok(()), |weight| at_least_one("series.training.vote_weight_micro", weight))?;
        let attribute = self.attribute();
        let vectors = recipe.query.vectors().filter(|vectors| vectors.mapping == attribute);
        let Some(vectors) = vectors else {
            return refuse(format!(
                "series.training needs query.kind vector_sum or vector_mean, with the mapping {attribute:?}"
            ));
        };
        let numbers = self.answer_numbers();
        let field = match self.vote_weight_micro {
            _ if self.is_evaluation() => "query.dimension (of an evaluation)",
            None => "query.dimension (the weights of the model)",
            Some(_) => "query.dimension (the weights of the model and the vote)",
        };
        range(field, vectors.dimension.into(), numbers, numbers)?;
        let vector = AttributeType::Vector(vectors.dimension);
        match recipe.attributes.get(attribute) {
            Some(declared) if *declared == vector => Ok(()),
            _ => {
                refuse(format!("series.training needs the attribute {attribute} of type {vector}"))
            }
        }
    }

    fn check_model(&self) -> Result<(), FormatError> {
        let sizes = match &self.model {
            Model::Softmax { features, classes } => {
                vec![("features", *features), ("classes", *classes)]
            }
            Model::Mlp { features, hidden, classes } => {
                vec![("features", *features), ("hidden", *hidden), ("classes", *classes)]
            }
            Model::Custom { name, weights } => {
                check::name("series.training.model.name", name)?;
                vec![("weights", *weights)]
            }
        };
        for (name, size) in sizes {
            // With one class there is nothing to tell apart.
            let least = if name == "classes" { 2 } else { 1 };
            range(&format!("series.training.model.{name}"), size.into(), least, MAX_DIMENSION)?;
        }
        // The vote is one more number of a vector.
        let votes = self.model_numbers() - self.model.weights();
        range(
            "the number of weights of series.training.model",
            self.model.weights(),
            1,
            MAX_DIMENSION - votes,
        )?;
        url("series.training.models", &self.models)
    }

    fn check_steps(&self) -> Result<(), FormatError> {
        range("series.training.steps", self.steps.into(), 1, MAX_TRAINING_STEPS)?;
        self.batch.map_or(Ok(()), |batch| at_least_one("series.training.batch", batch.into()))?;
        at_least_one("series.training.learning_rate_micro", self.learning_rate_micro)
    }

    /// An answer that is zero because there is none would count as a small loss.
    fn check_evaluation(&self, recipe: &Recipe, largest: u64) -> Result<(), FormatError> {
        at_least_one("series.training.largest_loss_micro", largest)?;
        if self.steps > 0 || self.batch.is_some() || self.learning_rate_micro > 0 {
            return refuse(
                "series.training has steps, batch or learning_rate, but with largest_loss devices \
                 train nothing",
            );
        }
        if !recipe.sampling.dummy_rate.is_zero() {
            return refuse("sampling.dummy_rate must be 0 with series.training.largest_loss");
        }
        let Some(vectors) = recipe.query.vectors() else { return Ok(()) };
        if vectors.compression.is_some() {
            return refuse("query.compression is not for series.training.largest_loss");
        }
        let units = (u128::from(vectors.clip_micro) << vectors.fraction_bits.min(64)) / 1_000_000;
        let units = u64::try_from(units).unwrap_or(u64::MAX);
        let field = "query.clip, in units of 2^-query.fraction_bits and for an evaluation,";
        range(field, units, EVALUATION_NUMBERS, MAX_EVALUATION_NORM)
    }
}

impl Recipe {
    /// The round that this recipe is; `None` for a header and for a recipe of one round.
    pub fn round(&self) -> Option<&Round> {
        self.series.as_ref()?.round.as_ref()
    }

    /// How words are looked for, if they are.
    pub fn discovery(&self) -> Option<&Discovery> {
        self.series.as_ref()?.discovery.as_ref()
    }

    /// Whether this recipe is a header: nobody answers it.
    pub fn is_header(&self) -> bool {
        self.series.as_ref().is_some_and(|series| series.round.is_none())
    }

    /// The header of the series that this recipe is a round of; `None` if it is none.
    pub fn header(&self) -> Option<Self> {
        self.round()?;
        let mut header = self.clone();
        header.series.as_mut()?.round = None;
        Some(header)
    }

    /// The id under which devices and aggregators know the recipe, whatever the round: that of the
    /// header, or its own.
    pub fn series_id(&self) -> EntryId {
        self.header().map_or_else(|| self.id(), |header| header.id())
    }

    /// When devices may answer: if the rounds of a series have a length, the times of this round, or
    /// of the first one if this is the header.
    pub fn answer_times(&self) -> When {
        let length_s = self.series.as_ref().and_then(|series| series.length_s);
        let index = self.round().map_or(0, |round| round.index);
        length_s.map_or(self.when, |length_s| self.when.of_round(index, length_s))
    }

    /// When the recipe is open: that of a header until its last round has ended, and any other one as
    /// long as devices may answer it.
    pub fn open_times(&self) -> When {
        if self.is_header() { self.when } else { self.answer_times() }
    }

    /// A round of this header.
    pub fn with_round(&self, round: Round) -> Result<Self, FormatError> {
        let mut recipe = self.clone();
        let Some(series) = &mut recipe.series else { return refuse("the recipe has no [series]") };
        series.round = Some(round);
        recipe.check()?;
        Ok(recipe)
    }
}

impl When {
    /// The times of a round, where each one is so long.
    pub fn of_round(&self, index: u64, length_s: u64) -> Self {
        let opens = self.opens.saturating_add(index.saturating_mul(length_s));
        Self { opens, closes: opens.saturating_add(length_s), ..*self }
    }
}

/// The rules about rounds.
pub(super) fn check(recipe: &Recipe) -> Result<(), FormatError> {
    let claimed = match &recipe.privacy {
        Privacy::Claim { rounds, .. } => Some(*rounds),
        Privacy::InsecureUnbounded => None,
    };
    let Some(series) = &recipe.series else {
        return claimed.map_or(Ok(()), |rounds| range("privacy.rounds", rounds, 1, 1));
    };
    let most = match series.participation {
        Participation::EachRound {} => MAX_PARTICIPATIONS,
        Participation::Donation {} => MAX_ROUNDS,
    };
    range("series.rounds", series.rounds, 1, most)?;
    if claimed.is_some_and(|rounds| rounds != series.rounds) {
        return refuse(format!("privacy.rounds must be series.rounds, {}", series.rounds));
    }
    if recipe.sampling.default_rate.is_some() {
        return refuse("a series needs sampling.rate: importance sampling is for one round");
    }
    // A dummy is sent in the other rounds too, for which the device has no token.
    if series.participation == (Participation::Donation {}) && !recipe.sampling.dummy_rate.is_zero()
    {
        return refuse("sampling.dummy_rate must be 0 with series.participation donation");
    }
    series.length_s.map_or(Ok(()), |length_s| check_length(recipe, series, length_s))?;
    series.training.as_ref().map_or(Ok(()), |training| training.check(recipe))?;
    series.discovery.as_ref().map_or(Ok(()), |discovery| discovery.check(recipe))?;
    if series.training.is_some() && series.discovery.is_some() {
        return refuse("a series has [series.training] or [series.discovery], and not both");
    }
    let Some(round) = &series.round else { return Ok(()) };
    range("series.round.index", round.index, 0, series.rounds - 1)?;
    match (series.has_files(), &round.model) {
        (true, None) if series.training.is_some() => {
            refuse("series.round.model is missing: a model is trained")
        }
        (true, None) => refuse("series.round.model is missing: it names the list of candidates"),
        (false, Some(_)) => {
            refuse("series.round.model needs [series.training] or [series.discovery]")
        }
        _ => Ok(()),
    }
}

/// Rounds with a length fill the time of the header. A device answers a round as soon as it reads it,
/// so a release covers a whole round.
fn check_length(recipe: &Recipe, series: &Series, length_s: u64) -> Result<(), FormatError> {
    at_least_one("series.length_s", length_s)?;
    if series.has_files() {
        return refuse(
            "series.length_s is not for series.training or series.discovery: what a round asks \
             follows from the one before it, so a round begins when that has ended",
        );
    }
    let when = &recipe.when;
    if when.max_window_s != length_s {
        return refuse(format!("when.max_window_s must be series.length_s, {length_s}"));
    }
    let closes = when.opens.saturating_add(length_s.saturating_mul(series.rounds));
    if when.closes != closes {
        return refuse(format!(
            "when.closes must be the end of the last round, {closes}: series.rounds times \
             series.length_s after when.opens"
        ));
    }
    Ok(())
}
