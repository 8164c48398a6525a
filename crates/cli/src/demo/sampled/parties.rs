//! The parties of the demo, and its recipe in their log.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use anyhow::Result;
use sotto_client::Collector;
use sotto_protocol::Moment;
use sotto_protocol::recipe::Assessment;
use sotto_protocol::trust::BudgetFile;
use sotto_store::Counters;
use sotto_wire::recipe::{Privacy, Randomizer};
use sotto_wire::{Entry, RecipeDraft};

use super::audience;
use super::recipe::recipe;
use crate::demo::Plan;
use crate::demo::result::DemoSize;
use crate::output::Output;
use crate::stage::{Stage, Terms};

/// Everything that runs, and what the devices are asked.
pub(super) struct Parties {
    stage: Stage,
    /// The index of the recipe in the log.
    pub(super) log_index: u64,
    /// The recipe and what is derived from it.
    pub(super) assessment: Assessment,
}

impl Deref for Parties {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl Parties {
    /// Starts the parties and publishes the recipe.
    pub(super) fn start(plan: &Plan, now: Moment, output: &Output) -> Result<Self> {
        let draft = &plan.question.draft;
        let terms = Terms {
            // A demo has few devices; real floors are much higher.
            dishonest_devices: plan.min_batch_size / 2,
            min_population: plan.devices(),
            // A device's owner lists what predicates may read; these agree with the recipe.
            targeting_attributes: draft.attributes.keys().map(ToString::to_string).collect(),
            budget: budget(draft),
            insecure_exact: draft.privacy == Privacy::InsecureUnbounded,
            // They read it when they are told about a task that they do not know.
            poll: Duration::from_secs(60),
            models: None,
        };
        let stage = Stage::start(&terms, now, output)?;
        let audience = audience::certified(plan, &stage.keys, now)?;
        if let Some(entry) = &audience {
            stage.submit(entry, output)?;
        }
        let certified = audience.as_ref().map(Entry::id);
        let recipe = recipe(plan, &stage.keys.author, stage.named()?, certified, now)?;
        let recipe = stage.with_token_keys(recipe)?;
        let log_index = stage.publish(&recipe, output)?;
        let assessment = Assessment::certified(recipe, audience.map(|_| plan.devices()))?;
        Ok(Self { stage, log_index, assessment })
    }

    /// The collector of the recipe's task.
    pub(super) fn collector(&self) -> Result<Collector> {
        self.stage.collector(self.assessment.task().clone())
    }

    /// How many requests of each length the relay received.
    pub(super) fn carried(&self) -> Vec<DemoSize> {
        let sizes = self.stage.carried().into_iter();
        sizes.map(|(bytes, requests)| DemoSize { bytes, requests }).collect()
    }

    /// Reports that are summed or refused.
    pub(super) fn summed(&self) -> Result<u64> {
        let counters = self.counters()?;
        Ok(counters.aggregated + counters.rejections.total())
    }

    /// Refused reports by reason.
    pub(super) fn rejections(&self) -> Result<BTreeMap<String, u64>> {
        let counters = self.counters()?;
        Ok(counters.rejections.iter().map(|(why, count)| (why.name().to_owned(), count)).collect())
    }

    fn counters(&self) -> Result<Counters> {
        self.stage.counters(*self.assessment.task().id())
    }

    /// Shuts the servers down cleanly.
    pub(super) fn stop(self) {
        self.stage.stop();
    }
}

/// Enough for the one recipe, however few devices there are and however little noise it has.
fn budget(draft: &RecipeDraft) -> BudgetFile {
    let local = match draft.randomizer {
        Randomizer::RandomizedResponse { epsilon_micro }
        | Randomizer::Rappor { epsilon_micro }
        | Randomizer::ProjectiveGeometry { epsilon_micro } => epsilon_micro as f64 / 1e6,
        Randomizer::None | Randomizer::Gaussian { .. } => 0.0,
    };
    let delta = match draft.privacy {
        Privacy::Claim { delta, .. } => delta.to_f64(),
        Privacy::InsecureUnbounded => 0.0,
    };
    let (epsilon, delta) = ((4.0 * local).max(8.0), (10.0 * delta).clamp(1e-5, 0.999));
    BudgetFile {
        epsilon,
        delta,
        lifetime_epsilon: epsilon,
        lifetime_delta: delta,
        ..BudgetFile::default()
    }
}
