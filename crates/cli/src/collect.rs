//! `sotto collect`: asks the leader for a batch, waits, and prints the result.

mod estimated;
mod subject;

use std::io::Write;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use sotto_client::{AuthToken, CollectError, Collected, Collector, ExchangeError, Progress};
use sotto_protocol::collector::CollectorError;
use sotto_protocol::{Moment, Task};
use sotto_vdaf::AggregateResult;
use sotto_wire::{BatchMode, Interval, ProblemType, Query, Recipe, Time};

use self::subject::{Subject, SubjectArgs};
use crate::output::{Outcome, Output, WithHint};
use crate::random;
use crate::task_file::BatchModeName;
use crate::time_text::{now, parse_moment, parse_seconds, show_moment, show_seconds};

/// The deadline without `--deadline`.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Collects the result of a batch.
#[derive(Debug, Args)]
#[command(
    after_help = "A time-interval batch is named by its interval, and each period of time can be \
    collected once. A leader-selected task hands out one batch after the other: once a result is \
    printed, its job is deleted, and the leader continues with the next batch. With --keep, the \
    same batch is returned again.\n\nExit code 1: the batch was not ready before the deadline. Run the same command again."
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
    /// Give up after this time: seconds, or like 10m.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    deadline: Option<u64>,
    /// Leave the finished job at the leader.
    #[arg(long)]
    keep: bool,
    /// Announce the task in every request (taskprov).
    #[arg(long)]
    taskprov: bool,
}

impl CollectArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        let Subject { task, key, token, recipe } = self.subject.load()?;
        let query = self.query(&task)?;
        let transport = self.subject.log.connection.transport(1)?;
        let mut collector = Collector::new(task.clone(), key, AuthToken::Bearer(token), transport);
        // Aggregators that have not read the log yet learn about the recipe from the request.
        if self.taskprov || recipe.is_some() {
            collector = collector.with_taskprov();
        }
        let collected = match self.wait(&collector, &query, output) {
            Ok(collected) => collected,
            // Not reaching the leader is not a refusal.
            Err(CollectError::NotReady { reason: Some(ExchangeError::Transport(error)) }) => {
                return explain(ExchangeError::from(error).into(), &task);
            }
            Err(CollectError::NotReady { reason }) => return not_ready(output, reason.as_ref()),
            Err(error) => return explain(error, &task),
        };
        print(output, &task, recipe.as_ref(), &collected)?;
        // Not earlier: until the result is printed, the same request must find it again.
        std::io::stdout().flush()?;
        if task.configuration().batch_mode() == BatchMode::LeaderSelected && !self.keep {
            collector.finish(&collected.job, &mut random::system())?;
        }
        Ok(Outcome::Yes)
    }

    fn wait(
        &self,
        collector: &Collector,
        query: &Query,
        output: &Output,
    ) -> Result<Collected, CollectError> {
        let minimum = collector.task().configuration().min_batch_size();
        let spinner = output.spinner("asking the leader");
        let mut progress = |progress: Progress| match progress {
            Progress::Created => spinner.set_message("the leader has accepted the job"),
            Progress::Waiting { .. } => spinner.set_message(format!(
                "waiting until the batch has at least {minimum} reports and they are summed"
            )),
            Progress::Done => {}
        };
        let deadline = self.deadline.map_or(FOREVER, Duration::from_secs);
        let collected = collector.collect(query, deadline, &mut progress, &mut random::system());
        spinner.finish_and_clear();
        collected
    }

    fn query(&self, task: &Task) -> Result<Query> {
        let configuration = task.configuration();
        match (configuration.batch_mode(), &self.interval) {
            (BatchMode::LeaderSelected, None) => Ok(Query::LeaderSelected),
            (BatchMode::LeaderSelected, Some(_)) => {
                Err(anyhow!("the task is leader-selected: its batches have no interval"))
                    .hint("leave --interval out to get the next batch")
            }
            (BatchMode::TimeInterval, Some(interval)) => {
                let [start, duration] = interval.as_slice() else {
                    return Err(anyhow!("--interval takes a start and a duration"));
                };
                let (start, duration) = (parse_moment(start)?, parse_seconds(duration)?);
                Ok(Query::TimeInterval(on_grid(task, start, duration)?))
            }
            (BatchMode::TimeInterval, None) if self.current => {
                Ok(Query::TimeInterval(Interval::bucket(task.time(now()?))?))
            }
            (BatchMode::TimeInterval, None) => {
                let unit = show_seconds(configuration.time_precision().as_seconds());
                Err(anyhow!("the task is collected by time, but no interval is given")).hint(
                    format!("give --interval START DURATION in multiples of {unit}, or --current"),
                )
            }
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

fn not_ready(output: &Output, reason: Option<&ExchangeError>) -> Result<Outcome> {
    let message = match reason {
        Some(reason) => format!("the batch is not ready yet: {reason}"),
        None => "the batch is not ready yet".to_owned(),
    };
    if output.json() {
        output.value(&json!({ "error": message, "ready": false }))?;
    } else {
        output.remark(format!(
            "{message}\n hint: run the same command again, or use a longer --deadline"
        ));
    }
    Ok(Outcome::No)
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
                "part of it was collected before: the same interval \
                gives the same result again, and other intervals must not overlap with it"
                    .to_owned()
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

fn print(
    output: &Output,
    task: &Task,
    recipe: Option<&Recipe>,
    collected: &Collected,
) -> Result<()> {
    let collection = &collected.collection;
    let estimates = recipe.map(|recipe| estimated::rows(recipe, collection)).transpose()?;
    let precision = task.configuration().time_precision();
    let start = collection.interval.start().start_seconds(precision);
    let duration = collection.interval.duration().as_seconds(precision);
    if output.json() {
        let mut value = json!({
            "task_id": task.id().to_string(),
            "batch_mode": BatchModeName::from(task.configuration().batch_mode()),
            "collection_job_id": collected.job.id(),
            "report_count": collection.report_count,
            "interval": { "start": start, "duration": duration },
            "result": collection.result.to_json(),
        });
        if let (Some(recipe), Some(rows)) = (recipe, &estimates) {
            value["recipe_id"] = recipe.id().to_string().into();
            value["population"] = recipe.who.population.into();
            value["sampling_rate"] = recipe.sampling.rate.to_f64().into();
            value["estimates"] = estimated::value(rows).into();
        }
        return output.value(&value);
    }
    match &estimates {
        Some(rows) => output.line(estimated::table(rows))?,
        None => output.line(table(&collection.result))?,
    }
    output.remark(format!(
        "{} reports from {} to {}",
        collection.report_count,
        show_moment(Moment(start)),
        show_moment(Moment(start.saturating_add(duration)))
    ));
    Ok(())
}

fn table(result: &AggregateResult) -> String {
    let values = match result {
        AggregateResult::Scalar(value) => return value.to_string(),
        AggregateResult::Vector(values) => values,
    };
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["bucket", "value"]);
    for (index, value) in values.iter().enumerate() {
        table.add_row([Value::from(index).to_string(), value.to_string()]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_tables_or_a_number() {
        assert_eq!(table(&AggregateResult::Scalar(12)), "12");
        insta::assert_snapshot!(table(&AggregateResult::Vector(vec![3, 1_000])), @r"
         bucket  value
              0      3
              1   1000
        ");
    }
}
