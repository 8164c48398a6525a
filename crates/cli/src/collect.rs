//! `sotto collect`: asks the leader for a batch, waits, and prints the result.

mod jobs;
mod release;
mod subject;

use std::io::Write;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use indicatif::ProgressBar;
use sotto_client::{
    AuthToken, Cancelled, CollectError, Collected, CollectionJob, Collector, ExchangeError, Poll,
    Progress, QueryResult, RetryPolicy,
};
use sotto_protocol::collector::CollectorError;
use sotto_protocol::recipe::windows::Span;
use sotto_protocol::{Moment, Task};
use sotto_wire::{BatchMode, Interval, ProblemType, Query, Recipe, Time};

use self::release::StillOpen;
use self::subject::{Subject, SubjectArgs};
use crate::output::{Outcome, Output, WithHint};
use crate::patience::{Limit, Over, Patience};
use crate::random;
use crate::result::{self, OutArgs};
use crate::time_text::{now, parse_moment, parse_seconds, show_moment, show_seconds};

/// The deadline without `--deadline`: for a result, which may need other reports, and for a question
/// that a leader answers at once.
const DEADLINE: Duration = Duration::from_secs(600);
const SHORT_DEADLINE: Duration = Duration::from_secs(10);
/// Even a deadline of zero leaves time to ask once.
const SHORTEST: Duration = Duration::from_secs(2);
/// How long a cancellation may take, after the deadline.
const CANCEL: Limit = Limit::Total(Duration::from_secs(5));

/// Collects the result of a batch.
#[derive(Debug, Args)]
#[command(
    after_help = "A recipe is collected in intervals as long as it allows. Without --interval, the \
    last one that ended half a day ago or earlier is collected. A time-interval task is collected by interval too, and \
    each period of time can be collected once; the same interval gives the same result again. A \
    leader-selected task hands out one batch after the other: once a result is printed, its job is \
    deleted, and the leader continues with the next batch. With --keep, the same batch is returned \
    again.\n\nIf there is no result before the deadline, or after Ctrl-C, the job is cancelled, and \
    nothing is lost.\n\nExit code 1: the batch is not ready. Run the same command later."
)]
pub(crate) struct CollectArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// The interval to collect: POSIX seconds or 2026-11-15T08:00:00Z, then a duration in seconds
    /// or like 1h.
    #[arg(long, alias = "batch-interval", num_args = 2, value_names = ["START", "DURATION"])]
    interval: Option<Vec<String>>,
    /// Collect the current unit of time. Later reports for that unit are refused.
    #[arg(long, conflicts_with = "interval")]
    current: bool,
    /// With --recipe: ask for an interval that is still open, or that is expected to hold too few
    /// reports. If it is released, later reports for it are refused.
    #[arg(long, requires = "recipe")]
    anyway: bool,
    /// Give up after this time: seconds, or like 10m [default: 10m; 10s with --list and --cancel]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    deadline: Option<u64>,
    /// Leave the finished job at the leader.
    #[arg(long)]
    keep: bool,
    /// List the task's jobs at the leader, and collect nothing.
    #[arg(long, conflicts_with_all = ["interval", "current", "anyway", "keep", "out", "consistent"])]
    list: bool,
    /// Cancel a job of --list, unless it has a result, and collect nothing.
    #[arg(long, value_name = "JOB", conflicts_with_all = ["list", "interval", "current", "anyway", "keep", "out", "consistent"])]
    cancel: Option<String>,
    /// Announce the task in every request (taskprov).
    #[arg(long)]
    taskprov: bool,
    #[command(flatten)]
    out: OutArgs,
}

impl CollectArgs {
    pub(crate) fn run(mut self, output: &Output) -> Result<Outcome> {
        self.out.check()?;
        let spinner = output.spinner("asking the leader");
        let (shown, told) = (spinner.clone(), output.clone());
        let tell = move |line: &str| shown.suspend(|| told.remark(line));
        let patience = Patience::new(Limit::Total(self.deadline().max(SHORTEST)), tell)?;
        self.subject.log.connection.patience = Some(patience.clone());
        let collected = self.run_within(&patience, &spinner, output);
        spinner.finish_and_clear();
        collected
    }

    fn run_within(
        &self,
        patience: &Patience,
        spinner: &ProgressBar,
        output: &Output,
    ) -> Result<Outcome> {
        let Subject { task, key, token, recipe, index } = self.subject.load()?;
        patience.name_servers(&task);
        let transport = self.subject.log.connection.watched(1)?;
        let mut collector = Collector::new(task.clone(), key, AuthToken::Bearer(token), transport)
            .with_retry(patience.retry(RetryPolicy::default()));
        // Aggregators that have not read the log yet learn about the recipe from the request.
        if self.taskprov || recipe.is_some() {
            collector = collector.with_taskprov();
        }
        let told = match (self.list, &self.cancel) {
            (true, _) => Some(jobs::list(&collector, spinner, output)),
            (false, Some(id)) => Some(jobs::cancel(&collector, id, output)),
            (false, None) => None,
        };
        if let Some(told) = told {
            return told.or_else(|error| unanswered(error, patience, &task));
        }
        let query = match self.query(&task, recipe.as_ref(), now()?)? {
            Ok(query) => query,
            Err(open) => return output.not_ready(&open.to_string(), &open.hint()),
        };
        let collected = match self.wait(&collector, &query, spinner) {
            Err(error) if is_overlap(&error) && jobs::make_room(&collector, &query, output)? => {
                self.wait(&collector, &query, spinner)
            }
            other => other,
        };
        let collected = match collected {
            Err(CollectError::NotReady { job, reason }) => {
                match give_up(&collector, job, reason, patience)? {
                    Ok(collected) => collected,
                    Err((message, hint)) => return output.not_ready(&message, hint),
                }
            }
            Err(error) => return explain(error, &task),
            Ok(collected) => collected,
        };
        spinner.finish_and_clear();
        let recipe = recipe.as_ref().map(|recipe| (recipe, index));
        let found = self.out.prepared(QueryResult::new(&task, recipe, &collected)?);
        match output.json() {
            true => output.value(&found)?,
            false => result::print(output, &found)?,
        }
        self.out.write(&found, output)?;
        // Not earlier: until the result is printed, the same request must find it again.
        std::io::stdout().flush()?;
        if task.configuration().batch_mode() == BatchMode::LeaderSelected && !self.keep {
            collector.finish(&collected.job, &mut random::system())?;
        }
        Ok(Outcome::Yes)
    }

    fn deadline(&self) -> Duration {
        let usual = if self.list || self.cancel.is_some() { SHORT_DEADLINE } else { DEADLINE };
        self.deadline.map_or(usual, Duration::from_secs)
    }

    fn wait(
        &self,
        collector: &Collector,
        query: &Query,
        spinner: &ProgressBar,
    ) -> Result<Collected, CollectError> {
        let minimum = collector.task().configuration().min_batch_size();
        let mut progress = |progress: Progress| match progress {
            Progress::Created => spinner.set_message("the leader has accepted the job"),
            Progress::Waiting { .. } => spinner.set_message(format!(
                "waiting until the batch has at least {minimum} reports and they are summed"
            )),
            Progress::Done => {}
        };
        collector.collect(query, self.deadline(), &mut progress, &mut random::system())
    }

    /// What to ask for; the inner error is an interval of a recipe that is still open.
    fn query(
        &self,
        task: &Task,
        recipe: Option<&Recipe>,
        now: Moment,
    ) -> Result<Result<Query, StillOpen>> {
        let configuration = task.configuration();
        let interval = match (configuration.batch_mode(), &self.interval) {
            (BatchMode::LeaderSelected, None) => return Ok(Ok(Query::LeaderSelected)),
            (BatchMode::LeaderSelected, Some(_)) => {
                return Err(anyhow!("the task is leader-selected: its batches have no interval"))
                    .hint("leave --interval out to get the next batch");
            }
            (BatchMode::TimeInterval, Some(interval)) => {
                let [start, duration] = interval.as_slice() else {
                    return Err(anyhow!("--interval takes a start and a duration"));
                };
                let (start, duration) = (parse_moment(start)?, parse_seconds(duration)?);
                Some(on_grid(task, start, duration)?)
            }
            (BatchMode::TimeInterval, None) if self.current => {
                Some(Interval::bucket(task.time(now))?)
            }
            (BatchMode::TimeInterval, None) => None,
        };
        let Some(recipe) = recipe else {
            let unit = show_seconds(configuration.time_precision().as_seconds());
            let given = interval
                .ok_or_else(|| anyhow!("the task is collected by time, but no interval is given"));
            let given = given.hint(format!(
                "give --interval START DURATION in multiples of {unit}, or --current"
            ))?;
            return Ok(Ok(Query::TimeInterval(given)));
        };
        let precision = configuration.time_precision();
        let given = interval.map(|interval| {
            let start = interval.start().start_seconds(precision);
            Span { start, end: start.saturating_add(interval.duration().as_seconds(precision)) }
        });
        match release::choose(recipe, given, now, self.anyway)? {
            Ok(span) => {
                let interval = on_grid(task, Moment(span.start), span.end - span.start)?;
                Ok(Ok(Query::TimeInterval(interval)))
            }
            Err(open) => Ok(Err(open)),
        }
    }
}

/// The interval in units of the task's time precision. It must be a whole number of units.
fn on_grid(task: &Task, start: Moment, duration: u64) -> Result<Interval> {
    let precision = task.configuration().time_precision();
    let unit = precision.as_seconds();
    if !start.0.is_multiple_of(unit) || !duration.is_multiple_of(unit) || duration == 0 {
        let floor = start.0 - start.0 % unit;
        let units = duration.div_ceil(unit).max(1);
        return Err(anyhow!(
            "start and duration must be multiples of the task's precision, {}",
            show_seconds(unit)
        ))
        .hint(format!(
            "for example --interval {} {}",
            show_moment(Moment(floor)),
            show_seconds(units.saturating_mul(unit))
        ));
    }
    let units = sotto_wire::Duration::new(duration / unit);
    Ok(Interval::new(Time::from_posix_seconds(start.0, precision), units)?)
}

/// Ends the wait: cancels the job, so that it locks nobody out. A job that finished meanwhile has
/// its result printed. Otherwise returns what to say, and what to do.
#[allow(clippy::type_complexity)]
fn give_up(
    collector: &Collector,
    job: Option<CollectionJob>,
    reason: Option<ExchangeError>,
    patience: &Patience,
) -> Result<Result<Collected, (String, &'static str)>> {
    let stopped = patience.over() == Some(Over::Signal);
    let silent = patience.silent();
    patience.limit(CANCEL);
    let cancelled = job.as_ref().map(|job| collector.cancel(job.id(), &mut random::system()));
    if let (Some(Ok(Cancelled::Finished)), Some(job)) = (&cancelled, &job)
        && let Poll::Ready(collection) = collector.poll(job, &mut random::system())?
    {
        return Ok(Ok(Collected { collection, job: job.clone() }));
    }
    // Not reaching the leader is not a refusal.
    let unreachable = match (&cancelled, silent, &reason) {
        (Some(Ok(_)), ..) | (_, None, None | Some(ExchangeError::Problem(_))) => None,
        (_, Some(silent), _) => Some(anyhow!("{silent}")),
        (_, None, Some(error)) => Some(error.clone().into()),
    };
    if let Some(error) = unreachable {
        let leader = collector.task().configuration().leader_aggregator_endpoint();
        return Err(error).hint(format!(
            "is the leader at {leader} running? A job that it has started, the next collect \
             continues or cancels"
        ));
    }
    if let Some(Ok(Cancelled::UnderWay)) = cancelled {
        return Ok(Err((
            "the batch is complete, but leader and helper have not finished it yet".to_owned(),
            "run the same command again; if that does not help, ask whether the helper answers",
        )));
    }
    let message = match (stopped, reason) {
        (true, _) => "stopped, before the batch was ready".to_owned(),
        (false, Some(reason)) => format!("the batch is not ready yet: {reason}"),
        (false, None) => "the batch is not ready yet".to_owned(),
    };
    Ok(Err((message, "nothing is lost, and no job is left: run the same command later")))
}

/// The error, or who did not answer.
fn unanswered<T>(error: anyhow::Error, patience: &Patience, task: &Task) -> Result<T> {
    let Some(silent) = patience.silent() else { return Err(error) };
    let leader = task.configuration().leader_aggregator_endpoint();
    Err(anyhow!("{silent}")).hint(format!("is the leader at {leader} running?"))
}

fn is_overlap(error: &CollectError) -> bool {
    matches!(error, CollectError::Exchange(ExchangeError::Problem(problem))
        if problem.is(ProblemType::BatchOverlap))
}

/// Adds hints to errors that collectors commonly see.
fn explain<T>(error: CollectError, task: &Task) -> Result<T> {
    let leader = task.configuration().leader_aggregator_endpoint();
    let hint = match &error {
        CollectError::Exchange(ExchangeError::Transport(_)) => {
            format!("is the leader at {leader} running?")
        }
        CollectError::Exchange(ExchangeError::Problem(problem)) => match problem.problem_type {
            Some(ProblemType::UnrecognizedTask) => format!("does {leader} serve this task?"),
            Some(ProblemType::BatchOverlap) => {
                "other intervals must not overlap with it: see --list".to_owned()
            }
            _ if matches!(problem.status, 401 | 403) => {
                "the leader expects a different token from this task's collector".to_owned()
            }
            _ => return Err(error.into()),
        },
        CollectError::Collection(CollectorError::Hpke { .. }) => {
            "the aggregators have a different configuration or collector key for this task"
                .to_owned()
        }
        _ => return Err(error.into()),
    };
    Err(error).hint(hint)
}
