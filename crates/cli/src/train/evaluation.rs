//! Evaluations of the model while it is trained: a series of its own, with its own claim and tokens.
//!
//! As with the rounds of the training, a process that is killed goes on where it was, and no result
//! is lost or used twice.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use sotto_client::evaluation_scale;
use sotto_learn::evaluation::{Found, Scale, Sums};
use sotto_protocol::recipe::mechanism;
use sotto_wire::{EntryId, Recipe};

use super::rounds::{Rounds, State};
use crate::output::{Output, WithHint};

/// The file, and its version.
const EVALUATIONS: &str = "evaluations.json";
const VERSION: u64 = 1;

/// When to evaluate, and what the sums mean.
pub(super) struct Evaluations {
    pub(super) header: Recipe,
    every: u32,
    pub(super) scale: Scale,
}

/// What was found.
pub(super) struct Estimates {
    pub(super) reports: u64,
    pub(super) found: Found,
}

/// The evaluations that are over.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Done {
    version: u64,
    /// The header of the series.
    header: EntryId,
    sums: Vec<Sum>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sum {
    index: u32,
    reports: u64,
    numbers: Vec<i64>,
}

impl Evaluations {
    /// After every so many rounds of the training.
    pub(super) fn new(header: Recipe, every: u32) -> Result<Self> {
        ensure!(every >= 1, "--evaluate-every must be at least 1");
        let scale = evaluation_scale(&header)?;
        Ok(Self { header, every, scale })
    }

    /// The number of the evaluation that is due after so many rounds of the training, if one is.
    pub(super) fn due(&self, rounds: u32) -> Option<u32> {
        let index = (rounds / self.every).checked_sub(1)?;
        let count = self.header.series.as_ref().map_or(0, |series| series.rounds);
        (rounds.is_multiple_of(self.every) && u64::from(index) < count).then_some(index)
    }

    /// Publishes a model and the round that evaluates it, waits for the sums and stores them.
    /// `None` if that was done before. `answer` is called in between.
    pub(super) fn run(
        &self,
        training: &Rounds<'_>,
        state: &State,
        deadline: Duration,
        output: &Output,
        answer: impl FnOnce(u32, &Recipe) -> Result<()>,
    ) -> Result<Option<(u32, Estimates)>> {
        let Some(index) = self.due(state.progress.rounds()) else { return Ok(None) };
        let rounds = Rounds { header: &self.header, ..*training };
        let mut done = self.load(rounds.folder)?;
        if done.sums.iter().any(|sum| sum.index == index) {
            return Ok(None);
        }
        let file = state.plan.model_file(&state.progress);
        let round = rounds.publish_model(index, &file, deadline, output)?;
        answer(index, &round)?;
        let found = rounds.sum(&round, deadline, output, |reports, numbers| {
            let found = self.found(reports, &numbers)?;
            done.sums.push(Sum { index, reports, numbers });
            rounds.store(EVALUATIONS, &done)?;
            Ok(found)
        })?;
        Ok(Some((index, found)))
    }

    /// What the sums mean.
    pub(super) fn found(&self, reports: u64, numbers: &[i64]) -> Result<Estimates> {
        let [loss, right] = *numbers else {
            return Err(anyhow!("an evaluation has two sums, not {}", numbers.len()));
        };
        let noise = mechanism(&self.header)?.added_variance(reports)?.sqrt();
        let (loss, right) = (loss as f64, right as f64);
        let found = self.scale.found(&Sums { loss, right, noise, answers: reports })?;
        Ok(Estimates { reports, found })
    }

    fn load(&self, folder: &Path) -> Result<Done> {
        let (path, header) = (folder.join(EVALUATIONS), self.header.id());
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Done { version: VERSION, header, sums: Vec::new() });
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let place = path.display();
        let done: Done =
            serde_json::from_slice(&bytes).with_context(|| format!("{place} is damaged"))?;
        ensure!(done.version == VERSION, "{place} has version {}, not {VERSION}", done.version);
        if done.header != header {
            return Err(anyhow!("{place} belongs to another series, {}", done.header))
                .hint("give another folder with --state");
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests;
