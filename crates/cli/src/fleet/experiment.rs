//! One recipe, asked several times of the same devices, and how far its estimates are from the truth.
//!
//! The error is the mean, over all numbers that are compared, of the squared difference from the
//! truth about the whole population. Beside it are the same for the exact answers of those who took
//! part (what sampling alone costs), and for these with noise that one trusted party adds for the
//! same claim.

use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use indicatif::ProgressBar;
use sotto_dp::mechanism::{Collected as Sums, Estimate, Mechanism};
use sotto_learn::coins::Coins;
use sotto_protocol::plan::{Protection, Wish};
use sotto_protocol::recipe::{Assessment, judgement_to_claim, mechanism, rates, set_claim};
use sotto_wire::recipe::Privacy;
use sotto_wire::{Recipe, RecipeDraft};

use super::devices::Devices;
use super::memory::{Collected, Memory};
use super::truth::{Truth, of};
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

/// One collection.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) reports: u64,
    /// How far the number of reports is from the expected one, in standard deviations.
    pub(super) sigmas: f64,
    /// The mean squared error.
    pub(super) error: f64,
    /// What the estimates say it is: the mean of the squares of their standard errors.
    pub(super) stated: f64,
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
        let (memory, truth) = of(&assessment, devices)?;
        let needed = recipe.aggregation.min_batch;
        if truth.expected < needed as f64 {
            let expected = truth.expected;
            return Err(anyhow!(
                "about {expected:.0} reports are expected, and nothing is released below {needed}"
            ))
            .hint("raise --population");
        }
        let central = central(&recipe, certified)?;
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
        let stated = truth.mean(|at| estimates.get(at).map_or(0.0, |one| one.total_error.powi(2)));
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
            stated,
            non_private: truth.error(&exact),
            central: central.as_deref().map(|central: &[f64]| truth.error(central)),
            estimates,
            exact,
            with_central: central,
            elapsed_s: (started.elapsed().as_secs_f64() * 1e3).round() / 1e3,
        })
    }

    /// The expected squared error of the exact answers with the noise of one trusted party.
    pub(super) fn predicted_central(&self) -> Result<Option<f64>> {
        let Some(central) = &self.central else { return Ok(None) };
        // Each of two servers adds as much.
        let noise = central.added_variance(0)? / 2.0;
        let scale = self.truth.unit / self.recipe.sampling.rate.to_f64() / self.truth.devices;
        Ok(Some(self.truth.non_private + noise * scale * scale))
    }
}

impl Run {
    /// Keeps the errors alone.
    pub(super) fn forget(&mut self) {
        (self.estimates, self.exact) = (Vec::new(), Vec::new());
        self.with_central = self.with_central.as_ref().map(|_| Vec::new());
    }
}

/// The recipe with this protection, and the least noise with which it may claim this epsilon.
pub(super) fn protected(
    recipe: &Recipe,
    protection: Protection,
    epsilon_micro: u64,
    certified: Option<u64>,
) -> Result<Recipe> {
    let kind = recipe.query.kind();
    ensure!(protection.answers(&recipe.query), "it does not answer a {kind}");
    let plan = Wish::to_protect(recipe, certified).at_most(protection, epsilon_micro);
    let plan = plan.ok_or_else(|| anyhow!("no noise is enough for the claim"));
    Ok(plan.hint("raise --epsilon or --population")?.recipe)
}

/// The noise that one trusted party needs for what the recipe claims.
fn central(recipe: &Recipe, certified: Option<u64>) -> Result<Option<Mechanism>> {
    let Privacy::Claim { epsilon_micro, .. } = recipe.privacy else { return Ok(None) };
    if recipe.noise.is_some() {
        return Ok(Some(mechanism(recipe)?));
    }
    let found = protected(recipe, Protection::ServerGaussian, epsilon_micro, certified);
    Ok(Some(mechanism(&found.context("noise of one party")?)?))
}
