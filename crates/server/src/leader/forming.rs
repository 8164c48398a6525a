//! Forms jobs from the backlog. Whatever could make the leader reject a report is decided here,
//! durably, before the helper learns of the report. `sotto_protocol::leader::{intake, forming}`
//! decides when to form jobs and how many.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sotto_protocol::leader::aggregate::{FormedJobs, form_jobs};
use sotto_protocol::leader::forming::{Next, RETRY_PAUSE, Round, Standing};
use sotto_protocol::leader::intake::{Counted, Due};
use sotto_protocol::leader::pacing::JobKind;
use sotto_protocol::{AggregatorTask, Fault, Rejections};
use sotto_store::{Fixed, Record, StoreError, Stretch, TaskFilter, TaskJobs};
use sotto_wire::TaskId;

use super::LeaderState;
use crate::environment::sleep;
use crate::health::{Concern, StoreWork};
use crate::shutdown::Shutdown;
use crate::tasks::ServedTask;

pub(super) async fn run(leader: Arc<LeaderState>, mut shutdown: Shutdown) {
    // Reports that an earlier process accepted have waited long enough.
    leader.intake.hurry();
    let mut last = Next::Done;
    loop {
        let Some(()) = shutdown.or(ready(&leader, last)).await else { return };
        last = match form(&leader).await {
            Ok(next) => next,
            Err(error) => {
                leader.aggregator.store_failed(StoreWork::Form, &error);
                sleep(RETRY_PAUSE).await;
                Next::Hurry
            }
        };
        match last {
            Next::Hurry => leader.intake.hurry(),
            Next::SomethingLeft | Next::NotYet => leader.intake.count_at_least_one(),
            Next::Done => {}
        }
    }
}

/// Resolves when there are reports to form into jobs, of a task with room for more jobs.
async fn ready(leader: &LeaderState, last: Next) {
    leader.intake.lock().start_waiting();
    loop {
        let open = open_jobs(leader).await;
        match leader.intake.due(|task_id| patience(leader, last, &open, task_id)) {
            Due::Now => return,
            due => leader.intake.wait(due).await,
        }
    }
}

/// How long the reports of a task wait; those of all tasks that are not in trouble for `None`.
fn patience(
    leader: &LeaderState,
    last: Next,
    open: &HashMap<TaskId, TaskJobs>,
    task_id: Option<&TaskId>,
) -> Option<Duration> {
    let standing = match task_id {
        Some(task_id) if leader.is_in_trouble(task_id) => Standing::InTrouble,
        Some(task_id) => {
            Standing::Ready { open_jobs: open.get(task_id).map_or(0, |of_task| of_task.jobs) }
        }
        None => {
            // Nobody works on jobs of tasks that are not served, nor on stopped ones.
            let is_ready = |task_id: &TaskId| {
                leader.aggregator.tasks.task(task_id).is_some() && !leader.is_in_trouble(task_id)
            };
            let ready = open.iter().filter(|(task_id, _)| is_ready(task_id));
            let open_jobs: u64 = ready.map(|(_, of_task)| of_task.jobs).sum();
            let stopped = leader.pacing.stopped_jobs(JobKind::Aggregation);
            Standing::Ready { open_jobs: open_jobs.saturating_sub(stopped) }
        }
    };
    leader.limits.patience(last, standing)
}

/// The open jobs of each task; nothing if there are so few that all have room.
async fn open_jobs(leader: &LeaderState) -> HashMap<TaskId, TaskJobs> {
    loop {
        let jobs = match leader.store.load().await {
            Ok(load) if load.jobs < leader.limits.max_open_jobs as u64 => return HashMap::new(),
            Ok(_) => leader.store.jobs_by_task().await,
            Err(error) => Err(error),
        };
        match jobs {
            Ok(jobs) => return jobs,
            Err(error) => leader.aggregator.store_failed(StoreWork::Load, &error),
        }
        sleep(RETRY_PAUSE).await;
    }
}

/// Reads the backlog once.
async fn form(leader: &Arc<LeaderState>) -> Result<Next, StoreError> {
    let limits = leader.limits;
    let tasks = Arc::clone(&leader.aggregator.tasks);
    let is_served: TaskFilter = Arc::new(move |id| tasks.task(id).is_some());
    let counted = leader.intake.lock().counted();
    let backlog = leader.store.backlog(limits.max_reports(), limits.max_bytes(), is_served).await?;
    let (ended, unknown): (Vec<_>, Vec<_>) =
        backlog.unserved.into_iter().partition(|id| leader.aggregator.tasks.is_forgotten(id));
    for task_id in ended {
        leader.store.forget_task(task_id).await?;
    }
    tell_unknown(leader, &unknown);
    let round = match backlog.stretch {
        Some(stretch) => {
            let mut taken = Counted::new();
            for record in &backlog.records {
                let (reports, bytes) = taken.entry(record.task_id).or_default();
                (*reports, *bytes) = (*reports + 1, *bytes + record.report.len() as u64);
            }
            let Some(formed) = sort(leader, backlog.records).await else {
                // Out of randomness, a panic, or a task that has just ended. No report is lost.
                sleep(RETRY_PAUSE).await;
                return Ok(Next::Hurry);
            };
            if !fix(leader, stretch, formed).await? {
                return Ok(Next::Hurry);
            }
            leader.intake.lock().take(&taken);
            let (reports, bytes) =
                taken.values().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
            Round::Taken { reports: reports as usize, bytes: bytes as usize }
        }
        None => {
            // Whatever was counted before the read has been formed by now.
            leader.intake.lock().take(&counted);
            Round::Nothing
        }
    };
    leader.aggregator.health.store_worked(StoreWork::Form);
    Ok(limits.next(round, leader.store.load().await?.backlog_bytes))
}

/// Tells the operator about reports of tasks that are not configured. They were acknowledged, so
/// only the operator may have them deleted.
fn tell_unknown(leader: &LeaderState, unknown: &[TaskId]) {
    let Some(task_id) = unknown.first() else {
        leader.aggregator.health.clear(Concern::UnknownTask);
        return;
    };
    let others = match unknown.len() - 1 {
        0 => String::new(),
        others => format!(" and {others} other tasks"),
    };
    let detail = format!(
        "reports wait for task {task_id}{others}, which is not configured: configure it again, or \
         list it under forget_tasks to delete them"
    );
    if leader.aggregator.health.raise(Concern::UnknownTask, detail) {
        tracing::error!(task = %task_id, "reports wait for a task that is not configured");
    }
}

/// Fixes the sets of new jobs. False if another worker took this part of the backlog.
async fn fix(
    leader: &LeaderState,
    stretch: Stretch,
    formed: FormedJobs,
) -> Result<bool, StoreError> {
    let mut dropped = Rejections::default();
    formed.rejections.iter().for_each(|(_, rejection)| dropped.add(*rejection));
    match leader.store.fix_jobs(stretch, formed).await? {
        Fixed::Committed { jobs, rejections } => {
            leader.metrics.jobs.formed.increment(jobs as u64);
            leader.metrics.reports_dropped.add_all(&dropped);
            leader.metrics.reports_dropped.add_all(&rejections);
            leader.jobs_ready.notify_one();
            Ok(true)
        }
        Fixed::Moved => Ok(false),
    }
}

/// Sorts records of the backlog into jobs, on the pool: every report is decoded.
async fn sort(leader: &Arc<LeaderState>, records: Vec<Record>) -> Option<FormedJobs> {
    let limits = leader.limits.job;
    let tasks = Arc::clone(&leader.aggregator.tasks);
    let environment = leader.aggregator.environment.clone();
    let sorted = leader.aggregator.pool.run(move || {
        let records = records.iter().map(|record| (record.task_id, &*record.report));
        let task = |id: &_| tasks.task(id).map(Found);
        let formed = form_jobs(records, task, limits, environment.now(), &mut environment.rng()?);
        formed.map_err(|unknown| Fault(unknown.to_string()))
    });
    let sorted = sorted.await.map_err(|error| Fault(error.to_string())).flatten();
    sorted.inspect_err(|error| tracing::error!(%error, "jobs cannot be formed")).ok()
}

/// A task of the registry, in the form that `form_jobs` needs.
struct Found(Arc<ServedTask>);

impl Borrow<AggregatorTask> for Found {
    fn borrow(&self) -> &AggregatorTask {
        self.0.aggregator()
    }
}
