//! One recipe, asked several times of the same devices, and how far its estimates are from the truth.
//!
//! The error is the mean, over all numbers that are compared, of the squared difference from the
//! truth about the whole population. Beside it are the same for the exact answers of those who took
//! part (what sampling alone costs), and for these with noise that one trusted party adds for the
//! same claim.

use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use indicatif::ProgressBar;
use sotto_dp::mechanism::{Collected as Sums, Estimate, Mechanism, Value, mean, vector_mean};
use sotto_learn::coins::Coins;
use sotto_protocol::recipe::{Assessment, judgement_to_claim, mechanism, rates, set_claim};
use sotto_wire::recipe::{Noise, Privacy, Query, Randomizer, VectorQuery};
use sotto_wire::{Recipe, RecipeDraft};

use super::calibration::add_noise;
use super::devices::Devices;
use super::memory::{Collected, Group, Memory};
use crate::output::WithHint;
use crate::recipe_file;

/// Of the intervals, which nobody reads here.
const LEVEL: f64 = 0.95;

/// Streams of numbers from here on are for what is only compared.
const COMPARED: u32 = 1 << 31;

/// A recipe, and the devices that it asks.
#[derive(Debug)]
pub(super) struct Experiment {
    /// How the sampling differs from that of other experiments; empty if there is no other.
    pub(super) sampling: &'static str,
    pub(super) draft: RecipeDraft,
    pub(super) recipe: Recipe,
    pub(super) memory: Memory,
    pub(super) truth: Truth,
    /// What one trusted party would add, for the same claim.
    central: Option<Mechanism>,
}

/// What is true of the whole population.
#[derive(Clone, Debug)]
pub(super) struct Truth {
    /// The numbers that are estimated.
    pub(super) numbers: Vec<f64>,
    /// Those of them that count for the error: all but the default of a sparse histogram.
    pub(super) compared: Vec<usize>,
    /// The variance of each if the answers of those who take part were known.
    sampling: Vec<f64>,
    /// What one unit of a sum stands for.
    unit: f64,
    /// Of how many devices a mean is estimated; 1 for a sum.
    devices: f64,
    /// How many reports are expected, and their standard deviation.
    pub(super) expected: f64,
    pub(super) deviation: f64,
}

/// One collection.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) reports: u64,
    /// How far the number of reports is from the expected one, in standard deviations.
    pub(super) sigmas: f64,
    /// The mean squared error.
    pub(super) error: f64,
    /// What the estimates say it is: the variance of their noise, and of sampling.
    pub(super) predicted: f64,
    pub(super) non_private: f64,
    pub(super) central: Option<f64>,
    pub(super) estimates: Vec<Estimate>,
    /// The estimates of the other two.
    pub(super) exact: Vec<f64>,
    pub(super) with_central: Option<Vec<f64>>,
    pub(super) elapsed_s: f64,
}

impl Experiment {
    /// A recipe without author and parties. What it claims follows from it.
    pub(super) fn new(
        sampling: &'static str,
        mut draft: RecipeDraft,
        devices: &Devices,
    ) -> Result<Self> {
        draft.who.population = devices.count();
        let certified = draft.who.targeting.is_some().then_some(devices.count());
        (draft.author, draft.vdaf, draft.parties) = (None, None, None);
        let mut recipe = recipe_file::with_stand_ins(draft.clone())?;
        if let Some(judged) = judgement_to_claim(&recipe, certified)? {
            let epsilon = sotto_dp::published(judged.epsilon);
            let epsilon = epsilon.map_err(|_| anyhow!("no finite epsilon holds for it"));
            set_claim(&mut recipe, epsilon.hint("ask more devices: --population")?)?;
        }
        let assessment = Assessment::certified(recipe.clone(), certified)
            .map_err(|silence| anyhow!("a device refuses the recipe: {silence}"))?;
        let (memory, truth) = of(&assessment, devices);
        let needed = recipe.aggregation.min_batch;
        if truth.expected < needed as f64 {
            let expected = truth.expected;
            return Err(anyhow!(
                "about {expected:.0} reports are expected, and nothing is released below {needed}"
            ))
            .hint("raise --population");
        }
        let central = central(&draft, &recipe)?;
        Ok(Self { sampling, draft, recipe, memory, truth, central })
    }

    /// What hides the answers, in words.
    pub(super) fn mechanism(&self) -> &'static str {
        self.memory.mechanism.words().name
    }

    /// The claimed epsilon in millionths, and delta.
    pub(super) fn claim(&self) -> Option<(u64, f64)> {
        match self.recipe.privacy {
            Privacy::Claim { epsilon_micro, delta, .. } => Some((epsilon_micro, delta.to_f64())),
            Privacy::InsecureUnbounded => None,
        }
    }

    /// Asks the devices, in memory. `number` decides the coins.
    pub(super) fn run(&self, coins: Coins, number: u32, bar: &ProgressBar) -> Result<Run> {
        let started = Instant::now();
        let collected = self.memory.collect(coins, number, bar)?;
        self.compare(collected, coins, number, started)
    }

    /// Compares what was collected with the truth.
    pub(super) fn compare(
        &self,
        collected: Collected,
        coins: Coins,
        number: u32,
        started: Instant,
    ) -> Result<Run> {
        let Collected { reports, taking_part, sums } = collected;
        let truth = &self.truth;
        let found = Sums { sums: &sums, reports, sampling: rates(&self.recipe), level: LEVEL };
        let estimates = truth.estimates(&self.recipe.query, &self.memory.mechanism, &found)?;
        let noise = truth.mean(|at| estimates.get(at).map_or(0.0, |one| one.noise_error.powi(2)));
        let values: Vec<f64> = estimates.iter().map(|one| one.value).collect();
        let exact = self.memory.weighted(&taking_part, truth.numbers.len());
        let central = self.central.as_ref().map(|mechanism| {
            let Mechanism::ServerNoise(noise) = mechanism else { return Ok(exact.clone()) };
            let (noise, mut rng) = (noise.noise()?, coins.participants(number | COMPARED));
            let each = truth.unit / self.recipe.sampling.rate.to_f64();
            let noisy = exact.iter().map(|sum| sum + each * noise.sample(&mut rng) as f64);
            anyhow::Ok(noisy.collect())
        });
        let answered = self.memory.answered(&taking_part);
        let [exact, central] = [Some(exact), central.transpose()?].map(|sums: Option<Vec<f64>>| {
            sums.map(|sums| match truth.is_mean() {
                true => sums.into_iter().map(|sum| sum / answered).collect(),
                false => sums,
            })
        });
        let exact = exact.unwrap_or_default();
        Ok(Run {
            reports,
            sigmas: (reports as f64 - truth.expected) / truth.deviation.max(f64::MIN_POSITIVE),
            error: truth.error(&values),
            predicted: noise + self.predicted_non_private(),
            non_private: truth.error(&exact),
            central: central.as_deref().map(|central: &[f64]| truth.error(central)),
            estimates,
            exact,
            with_central: central,
            elapsed_s: (started.elapsed().as_secs_f64() * 1e3).round() / 1e3,
        })
    }

    /// The expected squared error of the exact answers of those who take part.
    pub(super) fn predicted_non_private(&self) -> f64 {
        self.truth.mean(|at| self.truth.sampling.get(at).copied().unwrap_or_default())
    }

    /// The same with the noise of one trusted party.
    pub(super) fn predicted_central(&self) -> Result<Option<f64>> {
        let Some(central) = &self.central else { return Ok(None) };
        // Each of two servers adds as much.
        let noise = central.added_variance(0)? / 2.0;
        let scale = self.truth.unit / self.recipe.sampling.rate.to_f64() / self.truth.devices;
        Ok(Some(self.predicted_non_private() + noise * scale * scale))
    }
}

impl Run {
    /// Keeps the errors alone.
    pub(super) fn forget(&mut self) {
        (self.estimates, self.exact) = (Vec::new(), Vec::new());
        self.with_central = self.with_central.as_ref().map(|_| Vec::new());
    }
}

impl Truth {
    fn is_mean(&self) -> bool {
        self.devices > 1.0
    }

    fn error(&self, values: &[f64]) -> f64 {
        let of = |values: &[f64], at: usize| values.get(at).copied().unwrap_or_default();
        self.mean(|at| (of(values, at) - of(&self.numbers, at)).powi(2))
    }

    /// The mean over what is compared.
    fn mean(&self, each: impl Fn(usize) -> f64) -> f64 {
        self.compared.iter().map(|at| each(*at)).sum::<f64>() / self.compared.len().max(1) as f64
    }

    /// The estimates of the numbers, in their units.
    fn estimates(
        &self,
        query: &Query,
        mechanism: &Mechanism,
        found: &Sums<'_>,
    ) -> Result<Vec<Estimate>> {
        let estimates = match query {
            Query::Mean { .. } => vec![mean(mechanism, found)?.mean],
            Query::VectorMean(_) => vector_mean(mechanism, found)?.numbers,
            _ => mechanism.estimates(found)?,
        };
        Ok(estimates.into_iter().map(|one| one.scaled(self.unit)).collect())
    }
}

/// The devices of a recipe in memory, and the truth about them.
pub(super) fn of(assessment: &Assessment, devices: &Devices) -> (Memory, Truth) {
    let (recipe, mechanism) = (assessment.recipe(), *assessment.mechanism());
    let unit = match recipe.query.vectors() {
        Some(vectors) => 1.0 / (1_u64 << vectors.fraction_bits.min(63)) as f64,
        None => 1.0,
    };
    let dummy_rate = recipe.sampling.dummy_rate;
    let asked = devices.kinds.iter().filter(|(kind, _)| assessment.is_for(kind));
    let groups: Vec<Group> = asked
        .map(|(kind, devices)| Group {
            value: assessment.input(kind),
            held: held(assessment.answer(kind), unit),
            rate: assessment.rate(kind),
            devices: *devices,
        })
        .collect();
    let default = match recipe.query {
        Query::SparseHistogram { default, .. } => Some(default as usize),
        _ => None,
    };
    let (mut expected, mut variance, mut all) = (0.0, 0.0, 0.0);
    let mut numbers = vec![0.0; count(&recipe.query)];
    for group in &groups {
        let (count, rate) = (group.devices as f64, group.rate.to_f64());
        let sends = rate + (1.0 - rate) * dummy_rate.to_f64();
        expected += count * sends;
        variance += count * sends * (1.0 - sends);
        all += count;
        for (at, value) in &group.held {
            numbers.get_mut(*at).into_iter().for_each(|number| *number += count * value);
        }
    }
    let is_mean = matches!(recipe.query, Query::Mean { .. } | Query::VectorMean(_));
    let devices = if is_mean { all } else { 1.0 };
    numbers.iter_mut().for_each(|number| *number /= devices);
    let mut sampling = vec![0.0; numbers.len()];
    for group in &groups {
        let (count, rate) = (group.devices as f64, group.rate.to_f64());
        let each = count * (1.0 - rate) / rate / devices / devices;
        match is_mean {
            // Of a mean, those count who are far from it, with zeros too.
            true => {
                let mut values = vec![0.0; numbers.len()];
                group.held.iter().for_each(|(at, value)| values[*at] = *value);
                let far = values.iter().zip(&numbers).map(|(value, mean)| value - mean);
                sampling.iter_mut().zip(far).for_each(|(sum, far)| *sum += each * far * far);
            }
            false => {
                group.held.iter().for_each(|(at, value)| sampling[*at] += each * value * value)
            }
        }
    }
    let compared = (0..numbers.len()).filter(|at| Some(*at) != default).collect();
    let deviation = variance.sqrt();
    let truth = Truth { numbers, compared, sampling, unit, devices, expected, deviation };
    (Memory { mechanism, dummy_rate, groups }, truth)
}

/// How many numbers are estimated.
fn count(query: &Query) -> usize {
    let vectors = query.vectors().map(VectorQuery::sent);
    vectors.or(query.buckets()).unwrap_or(1) as usize
}

/// What a device adds to the true numbers.
fn held(answer: Value, unit: f64) -> Vec<(usize, f64)> {
    match answer {
        Value::Bit(bit) => vec![(0, f64::from(u8::from(bit)))],
        Value::Number(number) => vec![(0, number as f64)],
        Value::OneHot(bucket) => vec![(bucket as usize, 1.0)],
        Value::Labels(labels) => labels.into_iter().map(|label| (label as usize, 1.0)).collect(),
        Value::Vector(numbers) => {
            numbers.into_iter().enumerate().map(|(at, one)| (at, unit * one as f64)).collect()
        }
    }
}

/// The noise that one trusted party needs for what the recipe claims.
fn central(draft: &RecipeDraft, recipe: &Recipe) -> Result<Option<Mechanism>> {
    let Privacy::Claim { epsilon_micro, .. } = recipe.privacy else { return Ok(None) };
    let mut draft = draft.clone();
    if draft.noise.is_none() {
        draft.randomizer = Randomizer::None;
        draft.noise = Some(Noise::ServerGaussian { sigma_micro: 1_000_000 });
        add_noise(&mut draft, epsilon_micro).context("noise of one party")?;
    }
    Ok(Some(mechanism(&recipe_file::with_stand_ins(draft)?)?))
}
