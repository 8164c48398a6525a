//! The jobs that the leader has for a task: what was left behind, and how to remove it.

use anyhow::{Context, Result, anyhow};
use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::json;
use sotto_client::{Cancelled, Collector};
use sotto_protocol::Moment;
use sotto_protocol::recipe::windows::Span;
use sotto_wire::{JobState, ListedInterval, Query};

use super::release::show;
use crate::output::{Outcome, Output, WithHint};
use crate::random;
use crate::time_text::{show_moment, show_seconds};
use crate::vocabulary::Interval;

/// A job of `--list`.
#[derive(Serialize)]
struct Listed<'a> {
    job_id: &'a str,
    state: JobState,
    interval: Option<Interval>,
}

/// `--list`.
pub(super) fn list(
    collector: &Collector,
    spinner: &ProgressBar,
    output: &Output,
) -> Result<Outcome> {
    let jobs = collector.jobs(&mut random::system()).context("the leader's list of jobs")?;
    spinner.finish_and_clear();
    if output.json() {
        let listed = jobs.iter().map(|job| Listed {
            job_id: &job.id,
            state: job.state,
            interval: job.interval.map(Interval::from),
        });
        output.value(&json!({ "jobs": listed.collect::<Vec<_>>() }))?;
        return Ok(Outcome::Yes);
    }
    // Not a table: its cells could be wrapped, and an id is to be pasted. An id has 43 characters.
    let row = |id: &str, state: &str, from: &str, length: &str| {
        output.line(format!("{id:<43} {state:<8} {from:<20} {length}"))
    };
    if jobs.is_empty() {
        output.remark("there are no jobs");
    } else {
        row("job", "state", "from", "for")?;
    }
    for job in &jobs {
        let state = match job.state {
            JobState::Pending => "pending",
            JobState::Finished => "finished",
            JobState::Failed => "failed",
        };
        let from = job.interval.map(|interval| show_moment(Moment(interval.start)));
        let length = job.interval.map(|interval| show_seconds(interval.duration));
        let [from, length] = [from, length].map(|text| text.unwrap_or_else(|| "-".to_owned()));
        row(&job.id, state, &from, &length)?;
    }
    Ok(Outcome::Yes)
}

/// `--cancel`.
pub(super) fn cancel(collector: &Collector, id: &str, output: &Output) -> Result<Outcome> {
    // DAP's leader deletes what is not there without a word.
    let jobs = collector.jobs(&mut random::system()).context("the leader's list of jobs")?;
    if !jobs.iter().any(|job| job.id == id) {
        return Err(anyhow!("the task has no job {id}")).hint("--list shows the jobs");
    }
    let cancelled = collector.cancel(id, &mut random::system())?;
    let words = match cancelled {
        Cancelled::Yes => "cancelled: its interval can be collected again",
        Cancelled::UnderWay => "not cancelled: its batch is complete, and will have a result soon",
        Cancelled::Finished => "not cancelled: it has a result, which would be lost",
    };
    let done = cancelled == Cancelled::Yes;
    match output.json() {
        true => output.value(&json!({ "job_id": id, "cancelled": done, "reason": words }))?,
        false => output.line(words)?,
    }
    Ok(if done { Outcome::Yes } else { Outcome::No })
}

/// Cancels unfinished jobs that earlier runs left in the way of `query`. Returns whether there were
/// any; an error says what else is in the way.
pub(super) fn make_room(collector: &Collector, query: &Query, output: &Output) -> Result<bool> {
    let Query::TimeInterval(interval) = query else { return Ok(false) };
    let precision = collector.task().configuration().time_precision();
    let wanted = ListedInterval {
        start: interval.start().start_seconds(precision),
        duration: interval.duration().as_seconds(precision),
    };
    // A leader of another make has no list.
    let Ok(jobs) = collector.jobs(&mut random::system()) else { return Ok(false) };
    let mut made_room = false;
    for job in jobs {
        let Some(other) = job.interval.filter(|other| other.overlaps(&wanted)) else { continue };
        let shown = show(span(other));
        let in_the_way = match job.state {
            JobState::Failed => continue,
            JobState::Pending => match collector.cancel(&job.id, &mut random::system())? {
                Cancelled::Yes => {
                    output.remark(format!("cancelled an unfinished job for {shown}"));
                    made_room = true;
                    continue;
                }
                Cancelled::UnderWay | Cancelled::Finished => "is being collected",
            },
            JobState::Finished => "was collected before",
        };
        return Err(anyhow!("{shown} {in_the_way}, and no report is released twice")).hint(
            format!(
                "--interval {} {} gives its result again; other intervals must not overlap with it",
                other.start, other.duration
            ),
        );
    }
    Ok(made_room)
}

fn span(interval: ListedInterval) -> Span {
    Span { start: interval.start, end: interval.end() }
}
