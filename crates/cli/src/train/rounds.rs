//! The rounds of a training, as its author runs them: publish, collect, take the step.
//!
//! Every step leaves a file behind before the next one begins, and every step can be repeated: the
//! same weights give the same model and the same round, which the log takes once, and the leader
//! keeps a result until it is told to forget it. So a process that is killed anywhere goes on where
//! it was, and no result is used twice: it is stored under the number of its round.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use sotto_client::{
    CollectError, Collector, ExchangeError, TransportError, remove_model, write_model,
};
use sotto_crypto::note::NoteKey;
use sotto_learn::plan::{Plan, Progress};
use sotto_protocol::Task;
use sotto_protocol::recipe::derive_task;
use sotto_vdaf::AggregateResult;
use sotto_wire::recipe::{Model, Round};
use sotto_wire::{EntryId, EntryKind, ProblemType, Query, Recipe, TlogPolicy};

use crate::log_source::LogSource;
use crate::output::{Output, WithHint};
use crate::{random, signer_file};

/// The file.
const TRAINING: &str = "training.json";

/// Its version.
const VERSION: u64 = 1;

/// How many of the models that a training has written are kept, the newest.
const KEPT_MODELS: usize = 2;

/// Between two attempts, while somebody needs time.
const PAUSE: Duration = Duration::from_secs(1);

/// What a training has reached. It is stored after each step.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    version: u64,
    /// The header of the series.
    header: EntryId,
    pub(super) plan: Plan,
    pub(super) progress: Progress,
    /// The sum of the round that is under way, once it is collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    collected: Option<Sum>,
    /// How many reports the rounds that are over had.
    pub(super) reports: Vec<u64>,
    /// The models that this training has written and not removed, in order.
    #[serde(default)]
    models: Vec<EntryId>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sum {
    index: u32,
    reports: u64,
    numbers: Vec<i64>,
}

/// What the rounds of one series need.
#[derive(Clone, Copy)]
pub(crate) struct Rounds<'a> {
    pub(crate) header: &'a Recipe,
    pub(crate) signer: &'a NoteKey,
    pub(crate) log: &'a LogSource,
    pub(crate) policy: Option<&'a TlogPolicy>,
    /// The folder that devices read models from.
    pub(crate) models: &'a Path,
    /// The folder with the state.
    pub(crate) folder: &'a Path,
    /// The collector of a task.
    pub(crate) collector: &'a dyn Fn(Task) -> Result<Collector>,
}

impl Rounds<'_> {
    /// The stored state, or that before the first round.
    pub(super) fn load(
        &self,
        plan: Plan,
        initial: impl FnOnce() -> Result<Vec<f64>>,
    ) -> Result<State> {
        let path = self.path();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let progress = plan.start(initial()?)?;
                let header = self.header.id();
                let (collected, reports) = (None, Vec::new());
                let (version, models) = (VERSION, Vec::new());
                let mut state =
                    State { version, header, plan, progress, collected, reports, models };
                self.note_model(&mut state);
                self.store(TRAINING, &state)?;
                return Ok(state);
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let state: State = serde_json::from_slice(&bytes)
            .with_context(|| format!("{} is damaged", path.display()))?;
        let place = path.display();
        ensure!(state.version == VERSION, "{place} has version {}, not {VERSION}", state.version);
        if state.header != self.header.id() {
            return Err(anyhow!("{place} belongs to another series, {}", state.header))
                .hint("give another folder with --state");
        }
        if state.plan != plan {
            return Err(anyhow!("{place} was begun with another plan")).hint(
                "go on with the same optimizer and the same population, or begin a new series",
            );
        }
        let weights = state.progress.weights().len();
        let progress = state.progress.clone().checked(&plan, weights);
        progress.with_context(|| format!("{place} is damaged"))?;
        Ok(state)
    }

    /// Publishes the model and the round that comes next. The same again if it was published before.
    /// Nobody reads models of rounds that are over, so those that this training wrote are removed.
    pub(super) fn publish(
        &self,
        state: &mut State,
        deadline: Duration,
        output: &Output,
    ) -> Result<Recipe> {
        let file = state.plan.model_file(&state.progress);
        let round = self.publish_model(state.progress.rounds(), &file, deadline, output)?;
        let old = state.models.len().saturating_sub(KEPT_MODELS);
        // If it is killed before the next step is stored, they are removed once more.
        for model in state.models.drain(..old) {
            if let Err(error) = remove_model(self.models, &model) {
                output.warning(format!("cannot remove the old model {model}: {error}"));
            }
        }
        Ok(round)
    }

    /// Notes, before the state is stored, that this training writes the model that comes next: unless
    /// somebody else has written the same one.
    fn note_model(&self, state: &mut State) {
        let model = EntryId::of(&state.plan.model_file(&state.progress));
        let known = state.models.iter().position(|known| *known == model);
        if known.is_some() || !self.models.join(model.to_string()).exists() {
            known.map(|known| state.models.remove(known));
            state.models.push(model);
        }
    }

    /// Publishes a model, or the list of candidates of a discovery, and the round of this number,
    /// which names it.
    pub(crate) fn publish_model(
        &self,
        index: u32,
        file: &[u8],
        deadline: Duration,
        output: &Output,
    ) -> Result<Recipe> {
        let model = write_model(self.models, file).with_context(|| {
            format!("cannot write the file of a round into {}", self.models.display())
        })?;
        let index = u64::from(index);
        let round = self.header.with_round(Round { index, model: Some(model) })?;
        let entry = signer_file::sign(EntryKind::Recipe, round.to_json(), self.signer)?;
        patiently(deadline, output, |_| self.log.submit(&entry, self.policy, output))?;
        Ok(round)
    }

    /// Whether the sum of the round that is under way is stored.
    pub(super) fn is_collected(&self, state: &State) -> bool {
        state.collected.as_ref().is_some_and(|sum| sum.index == state.progress.rounds())
    }

    /// Waits for the sum of a round and stores it. Returns the number of reports.
    pub(super) fn collect(
        &self,
        state: &mut State,
        round: &Recipe,
        deadline: Duration,
        output: &Output,
    ) -> Result<u64> {
        let index = state.progress.rounds();
        if let Some(sum) = state.collected.as_ref().filter(|sum| sum.index == index) {
            return Ok(sum.reports);
        }
        self.sum(round, deadline, output, |reports, numbers| {
            state.collected = Some(Sum { index, reports, numbers });
            self.store(TRAINING, state).map(|()| reports)
        })
    }

    /// Waits for the sum of a round, and lets the leader forget it once it is stored.
    pub(crate) fn sum<T>(
        &self,
        round: &Recipe,
        deadline: Duration,
        output: &Output,
        store: impl FnOnce(u64, Vec<i64>) -> Result<T>,
    ) -> Result<T> {
        let index = round.round().map_or(0, |round| round.index);
        let task = derive_task(round).map_err(|reason| anyhow!(reason))?;
        let collector = (self.collector)(task)?.with_taskprov();
        let rng = &mut random::system();
        let collected = patiently(deadline, output, |left| {
            match collector.collect(&Query::LeaderSelected, left, &mut |_| {}, rng) {
                Err(CollectError::NotReady { .. }) => {
                    let few = anyhow!("round {index} of {} has too few reports so far", round.name);
                    Err(few).hint("nothing is lost: run the same command again to go on waiting")
                }
                other => Ok(other?),
            }
        })?;
        let AggregateResult::Vector(sums) = &collected.collection.result else {
            return Err(anyhow!("the result of round {index} is no vector"));
        };
        let number = |sum: &i128| i64::try_from(*sum).context("a sum is too large");
        let numbers = sums.iter().map(number).collect::<Result<_>>()?;
        let stored = store(collected.collection.report_count, numbers)?;
        // Later reports are not wanted. A leader that does not hear this forgets the job in time.
        let _ = collector.finish(&collected.job, rng);
        Ok(stored)
    }

    /// Takes the step that the stored sum says, and stores the new weights.
    pub(super) fn advance(&self, state: &mut State) -> Result<()> {
        let missing = || anyhow!("the sum of the round is missing");
        let sum = state.collected.take().ok_or_else(missing)?;
        let plan = state.plan;
        plan.advance(&mut state.progress, &sum.numbers)?;
        state.reports.push(sum.reports);
        self.note_model(state);
        self.store(TRAINING, state)
    }

    fn path(&self) -> PathBuf {
        self.folder.join(TRAINING)
    }

    /// Keeps other processes away from the folder, as long as the file is open.
    pub(crate) fn lock(folder: &Path) -> Result<File> {
        let path = folder.join("lock");
        let lock = fs::create_dir_all(folder).and_then(|()| File::create(&path));
        let lock = lock.with_context(|| format!("cannot write {}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(_) => Err(anyhow!("another process is using {}", folder.display()))
                .hint("two processes must not run one series: stop the other one"),
        }
    }

    /// Replaces the file: a crash leaves the old one or the new one.
    pub(crate) fn store(&self, name: &str, state: &impl Serialize) -> Result<()> {
        let (path, new) = (self.folder.join(name), self.folder.join(format!("{name}.new")));
        let write = || -> Result<()> {
            fs::create_dir_all(self.folder)?;
            let mut file = File::create(&new)?;
            file.write_all(&serde_json::to_vec(state)?)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(self.folder)?.sync_all()?;
            Ok(())
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Tries until the deadline, as long as the others may only need time. An attempt is told how much is
/// left.
fn patiently<T>(
    deadline: Duration,
    output: &Output,
    mut attempt: impl FnMut(Duration) -> Result<T>,
) -> Result<T> {
    let (started, mut is_told) = (Instant::now(), false);
    loop {
        let left = deadline.saturating_sub(started.elapsed());
        match attempt(left) {
            Err(error) if needs_time(&error) && left > PAUSE => {
                if !std::mem::replace(&mut is_told, true) {
                    output.remark(format!("waiting: {error:#}"));
                }
                thread::sleep(PAUSE);
            }
            ended => return ended,
        }
    }
}

/// Whether a server is down, or the leader has not read the round in the log yet.
fn needs_time(error: &anyhow::Error) -> bool {
    if let Some(error) = error.downcast_ref::<TransportError>() {
        return error.is_transient();
    }
    let Some(CollectError::Exchange(ExchangeError::Problem(problem))) = error.downcast_ref() else {
        return false;
    };
    problem.is(ProblemType::UnrecognizedTask)
}

/// How many weights a model has, as an array has lengths.
pub(super) fn weights(model: &Model) -> usize {
    usize::try_from(model.weights()).unwrap_or(usize::MAX)
}
