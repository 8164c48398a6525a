//! A device that trains or counts words: the files of rounds, and what the application brings.
//!
//! An application brings its examples, as a [`Trainer`]: [`Classifier`] for the models that ship
//! with `sotto-learn`, [`OwnModel`] for one of its own. The device does the rest: it fetches the
//! model of every open round before any coin is tossed, whatever its attributes are, and computes an
//! update only if it takes part ([`DeviceLearner`]). Clipping, rounding and noise are those of any
//! vector. For a discovery the application brings nothing but attributes: the device fetches the
//! list of candidates like a model, and finds the one that its word begins with.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rand_core::CryptoRng;
use sotto_learn::Error;
use sotto_learn::clipping::{Clipping, Stated};
use sotto_learn::discovery::Candidates;
use sotto_learn::evaluation::{Answer, Scale};
use sotto_learn::local::LocalTraining;
use sotto_learn::model::{self, Labelled, Mlp, Softmax, from_bytes};
use sotto_learn::optimizer::Optimizer;
use sotto_learn::plan::Plan;
use sotto_protocol::device::Learner;
use sotto_protocol::{Moment, shuffle};
use sotto_wire::EntryId;
use sotto_wire::recipe::{Discovery, Model, Recipe, Training};

use crate::model_files::{ModelFileError, fetch_file, file_len, is_late, model_len};
use crate::transport::Transport;

/// How many bytes of models a device holds: sixteen of the largest.
const MAX_HELD: usize = 64 * 1024 * 1024;

/// What an application brings to train.
pub trait Trainer {
    /// Whether it can train this model. It must not depend on the examples: a device that cannot
    /// train a model does not answer its rounds.
    fn knows(&self, model: &Model) -> bool;

    /// The update of these weights, as many numbers as there are weights; `None` counts as zero.
    fn update(
        &self,
        model: &Model,
        training: LocalTraining,
        weights: &[f64],
        rng: &mut dyn CryptoRng,
    ) -> Option<Vec<f64>>;

    /// How good the model is about the examples; `None`, which counts as zero, if there are none.
    fn evaluate(&self, model: &Model, scale: &Scale, weights: &[f64]) -> Option<Answer>;
}

/// The examples of a device, read each time it takes part.
pub type Examples<E> = Box<dyn Fn() -> Vec<E> + Send + Sync>;

/// Trains softmax regression and networks with one hidden layer. Examples with another number of
/// features than the model has, or of a class that it does not have, are left out.
pub struct Classifier {
    examples: Examples<Labelled>,
}

/// Trains one model of the application's own.
pub struct OwnModel<M: model::Model> {
    name: String,
    model: M,
    examples: Examples<M::Example>,
}

/// The models and lists of candidates that a device holds, by digest.
#[derive(Default)]
pub struct Models {
    files: BTreeMap<EntryId, Vec<u8>>,
}

/// A device's half of the rounds that have files: those that it holds, and what the application
/// brings.
#[derive(Clone, Copy)]
pub struct DeviceLearner<'a> {
    models: &'a Models,
    trainer: Option<&'a dyn Trainer>,
}

impl Classifier {
    /// With these examples.
    pub fn new(examples: impl Fn() -> Vec<Labelled> + Send + Sync + 'static) -> Self {
        Self { examples: Box::new(examples) }
    }

    fn fitting(&self, model: &Model) -> Vec<Labelled> {
        let (features, classes) = match *model {
            Model::Softmax { features, classes } | Model::Mlp { features, classes, .. } => {
                (features as usize, classes as usize)
            }
            Model::Custom { .. } => return Vec::new(),
        };
        let mut examples = (self.examples)();
        examples.retain(|example| example.features.len() == features && example.label < classes);
        examples
    }
}

impl Trainer for Classifier {
    fn knows(&self, model: &Model) -> bool {
        classifying(model).is_ok()
    }

    fn update(
        &self,
        model: &Model,
        training: LocalTraining,
        weights: &[f64],
        rng: &mut dyn CryptoRng,
    ) -> Option<Vec<f64>> {
        updated(&*classifying(model).ok()?, training, weights, &self.fitting(model), rng)
    }

    fn evaluate(&self, model: &Model, scale: &Scale, weights: &[f64]) -> Option<Answer> {
        evaluated(&*classifying(model).ok()?, scale, weights, &self.fitting(model))
    }
}

impl<M: model::Model> OwnModel<M> {
    /// The model that recipes call by this name, with these examples.
    pub fn new(
        name: impl Into<String>,
        model: M,
        examples: impl Fn() -> Vec<M::Example> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), model, examples: Box::new(examples) }
    }
}

impl<M: model::Model> Trainer for OwnModel<M> {
    fn knows(&self, model: &Model) -> bool {
        matches!(model, Model::Custom { name, weights }
            if *name == self.name && *weights as usize == self.model.dimension())
    }

    fn update(
        &self,
        model: &Model,
        training: LocalTraining,
        weights: &[f64],
        rng: &mut dyn CryptoRng,
    ) -> Option<Vec<f64>> {
        let knows = self.knows(model);
        knows.then(|| updated(&self.model, training, weights, &(self.examples)(), rng)).flatten()
    }

    fn evaluate(&self, model: &Model, scale: &Scale, weights: &[f64]) -> Option<Answer> {
        let knows = self.knows(model);
        knows.then(|| evaluated(&self.model, scale, weights, &(self.examples)())).flatten()
    }
}

impl Models {
    /// Holds a model, and says how it is called.
    pub fn add(&mut self, file: Vec<u8>) -> EntryId {
        let digest = EntryId::of(&file);
        self.files.insert(digest, file);
        digest
    }

    /// Fetches the models of these rounds that are not held, and forgets those of all others.
    /// Returns the rounds whose models are missing, and why. The order is random, and together they
    /// get as much time as one: a server that is slow delays a pass by no more, and cannot keep the
    /// models of others away for ever.
    pub(crate) fn fetch<'r>(
        &mut self,
        rounds: impl Iterator<Item = (EntryId, &'r Recipe)>,
        transport: &dyn Transport,
        clock: &dyn Fn() -> Moment,
        rng: &mut dyn CryptoRng,
    ) -> Vec<(EntryId, ModelFileError)> {
        let start = clock();
        let mut rounds: Vec<_> =
            rounds.filter_map(|(id, round)| Some((id, round, named(round)?))).collect();
        let wanted: BTreeSet<_> = rounds.iter().map(|(.., (_, digest))| *digest).collect();
        self.files.retain(|digest, _| wanted.contains(digest));
        rounds.retain(|(.., (_, digest))| !self.files.contains_key(digest));
        shuffle(&mut rounds, rng);
        let mut missing = Vec::new();
        for (id, round, (file, digest)) in rounds {
            let fetched = match is_late(start, clock()) {
                true => Err(ModelFileError::Late),
                false => self.fetch_one(round, file, &digest, transport, clock),
            };
            missing.extend(fetched.err().map(|error| (id, error)));
        }
        missing
    }

    fn fetch_one(
        &mut self,
        round: &Recipe,
        named: Named<'_>,
        digest: &EntryId,
        transport: &dyn Transport,
        clock: &dyn Fn() -> Moment,
    ) -> Result<(), ModelFileError> {
        let (url, len) = match named {
            Named::Model(training) => (&training.models, model_len(training.model_numbers())?),
            Named::List(discovery) => (&discovery.lists, file_len(discovery.list_len.into())?),
        };
        let held: usize = self.files.values().map(Vec::len).sum();
        if held.saturating_add(len) > MAX_HELD {
            return Err(ModelFileError::Full);
        }
        let file = fetch_file(transport, url, digest, len, clock)?;
        match named {
            Named::Model(training) => drop(read(round, training, &file)?),
            Named::List(_) => drop(list(round, &file)?),
        }
        self.files.insert(*digest, file);
        Ok(())
    }
}

impl<'a> DeviceLearner<'a> {
    /// With these models, and what the application brings.
    pub fn new(models: &'a Models, trainer: Option<&'a dyn Trainer>) -> Self {
        Self { models, trainer }
    }

    /// The training of a round, the weights and the clip, if the model is held and can be trained.
    fn model<'r>(&self, round: &'r Recipe) -> Option<(&'r Training, Vec<f64>, f64)> {
        let (Named::Model(training), digest) = named(round)? else { return None };
        let trainer = self.trainer.filter(|trainer| trainer.knows(&training.model));
        let file = self.models.files.get(&digest).filter(|_| trainer.is_some())?;
        let (weights, clip) = read(round, training, file).ok()?;
        Some((training, weights, clip))
    }

    /// The candidates of a round, if they are held.
    fn list(&self, round: &Recipe) -> Option<Candidates> {
        let (Named::List(_), digest) = named(round)? else { return None };
        list(round, self.models.files.get(&digest)?).ok()
    }
}

impl Learner for DeviceLearner<'_> {
    fn is_ready(&self, round: &Recipe) -> bool {
        self.model(round).is_some() || self.list(round).is_some()
    }

    fn update(&self, round: &Recipe, rng: &mut dyn CryptoRng) -> Option<Vec<f64>> {
        let (training, weights, clip) = self.model(round)?;
        if training.is_evaluation() {
            let scale = evaluation_scale(round).ok()?;
            let answer = self.trainer?.evaluate(&training.model, &scale, &weights)?;
            return Some(coordinates(round, answer)?.to_vec());
        }
        let local = local_training(training);
        let update = self.trainer?.update(&training.model, local, &weights, rng)?;
        // Another length would put the vote into a wrong place.
        let fits = update.len() == weights.len();
        fits.then(|| stated(round, training).map(|stated| stated.contribution(update, clip)))?
    }

    fn bucket(&self, round: &Recipe, words: &[String], rng: &mut dyn CryptoRng) -> Option<u32> {
        Some(self.list(round)?.bucket(words.iter().map(String::as_str), rng))
    }
}

/// What a recipe says about training on a device.
pub fn local_training(training: &Training) -> LocalTraining {
    LocalTraining {
        steps: training.steps,
        learning_rate: training.learning_rate_micro as f64 / 1e6,
        batch: training.batch,
    }
}

/// The plan of a series: its recipe says what devices do, and the rest is the server's alone.
/// `expected` is how many devices are expected in a round; `quantile` is which one the clip follows,
/// and how fast, if devices vote.
pub fn plan(
    recipe: &Recipe,
    expected: f64,
    optimizer: Optimizer,
    quantile: Option<(f64, f64)>,
) -> Result<Plan, Error> {
    let refused = |reason| Error::Malformed { format: "a recipe of this training", reason };
    let training = recipe.series.as_ref().and_then(|series| series.training.as_ref());
    let training = training.ok_or_else(|| refused("it has no [series.training]"))?;
    if training.is_evaluation() {
        return Err(refused("its devices evaluate a model, and train none"));
    }
    let vectors = recipe.query.vectors().ok_or_else(|| refused("its query has no vectors"))?;
    if vectors.compression.is_some() {
        return Err(refused("the server cannot undo query.compression"));
    }
    let stated = stated(recipe, training).ok_or_else(|| refused("its query has no vectors"))?;
    let clipping = match (stated.weight, quantile) {
        (None, None) => Clipping::Fixed { clip: stated.norm },
        (Some(weight), Some((quantile, rate))) => {
            Clipping::Quantile { norm: stated.norm, quantile, rate, weight }
        }
        (None, Some(_)) => return Err(refused("devices do not vote, so no quantile is known")),
        (Some(_), None) => return Err(refused("devices vote: say which quantile, and how fast")),
    };
    let training = local_training(training);
    let fraction_bits = vectors.fraction_bits;
    let plan = Plan { training, clipping, fraction_bits, expected, optimizer };
    plan.check().map(|()| plan)
}

/// What the answers to an evaluation mean. Both numbers together are as long as the recipe allows
/// if both are the largest, so no answer is clipped.
pub fn evaluation_scale(recipe: &Recipe) -> Result<Scale, Error> {
    let refused = |reason| Error::Malformed { format: "a recipe of an evaluation", reason };
    let training = recipe.series.as_ref().and_then(|series| series.training.as_ref());
    let largest = training.and_then(|training| training.largest_loss_micro);
    let largest = largest.ok_or_else(|| refused("it has no series.training.largest_loss"))?;
    let vectors = recipe.query.vectors().ok_or_else(|| refused("its query has no vectors"))?;
    // Rounded down, as the norm that devices prove is.
    let norm = (u128::from(vectors.clip_micro) << vectors.fraction_bits.min(64)) / 1_000_000;
    let max = u64::try_from((norm.saturating_mul(norm) / 2).isqrt()).unwrap_or(u64::MAX);
    let scale = Scale { largest_loss: largest as f64 / 1e6, max };
    scale.check().map(|()| scale)
}

/// An answer as a vector of the query.
fn coordinates(round: &Recipe, answer: Answer) -> Option<[f64; 2]> {
    let unit = (1_u64 << round.query.vectors()?.fraction_bits.min(63)) as f64;
    Some([answer.loss as f64 / unit, answer.right as f64 / unit])
}

/// What the file of a round is.
#[derive(Clone, Copy)]
enum Named<'r> {
    Model(&'r Training),
    List(&'r Discovery),
}

/// The file that a round names, and its digest.
fn named(round: &Recipe) -> Option<(Named<'_>, EntryId)> {
    let series = round.series.as_ref()?;
    let training = series.training.as_ref().map(Named::Model);
    let file = training.or(series.discovery.as_ref().map(Named::List))?;
    Some((file, round.round()?.model?))
}

/// The candidates in a file of this round.
fn list(round: &Recipe, file: &[u8]) -> Result<Candidates, Error> {
    Candidates::from_bytes(file, round.query.buckets().unwrap_or_default())
}

/// What a recipe says about clipping.
fn stated(recipe: &Recipe, training: &Training) -> Option<Stated> {
    let norm = recipe.query.vectors()?.clip_micro as f64 / 1e6;
    let weight = training.vote_weight_micro.map(|weight| weight as f64 / 1e6);
    Some(Stated { norm, weight })
}

/// The weights and the clip in a model of this training.
fn read(round: &Recipe, training: &Training, file: &[u8]) -> Result<(Vec<f64>, f64), Error> {
    let missing = Error::Malformed { format: "a round", reason: "its query has no vectors" };
    let stated = stated(round, training).ok_or(missing)?;
    let count = |numbers: u64| usize::try_from(numbers).unwrap_or(usize::MAX);
    let numbers = from_bytes(file, count(training.model_numbers()))?;
    stated.from_numbers(numbers, count(training.model.weights()))
}

/// The model of a recipe, if it is one that classifies and ships with `sotto-learn`.
pub fn classifying(model: &Model) -> Result<Box<dyn model::Model<Example = Labelled>>, Error> {
    let size = |number: u32| number as usize;
    Ok(match *model {
        Model::Softmax { features, classes } => {
            Box::new(Softmax::new(size(features), size(classes))?)
        }
        Model::Mlp { features, hidden, classes } => {
            Box::new(Mlp::new(size(features), size(hidden), size(classes))?)
        }
        Model::Custom { .. } => {
            let reason = "it is not one that ships with sotto-learn";
            return Err(Error::Malformed { format: "a model that classifies", reason });
        }
    })
}

/// `None` if the weights are not those of the model, which would be read beyond their end.
fn updated<M: model::Model + ?Sized>(
    model: &M,
    training: LocalTraining,
    weights: &[f64],
    examples: &[M::Example],
    rng: &mut dyn CryptoRng,
) -> Option<Vec<f64>> {
    let fits = weights.len() == model.dimension() && training.check().is_ok();
    fits.then(|| training.update(model, weights, examples, rng))
}

/// As for updates.
fn evaluated<M: model::Model + ?Sized>(
    model: &M,
    scale: &Scale,
    weights: &[f64],
    examples: &[M::Example],
) -> Option<Answer> {
    let fits = weights.len() == model.dimension();
    fits.then(|| scale.answer(model, weights, examples)).flatten()
}

/// Shows no examples.
impl fmt::Debug for Classifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Classifier").finish_non_exhaustive()
    }
}

impl<M: model::Model> fmt::Debug for OwnModel<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnModel").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.files.keys()).finish()
    }
}

impl fmt::Debug for DeviceLearner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceLearner").field("models", self.models).finish_non_exhaustive()
    }
}
