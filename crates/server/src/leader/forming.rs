//! Turns the backlog into jobs. What could make the leader refuse a report is decided here, durably,
//! before the helper hears of it.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use sotto_protocol::leader::aggregate::{
    BacklogReport, FormedBatch, FormedJob, FormedJobs, JobLimits, form_jobs,
};
use sotto_protocol::{AggregatorTask, Fault, Rejection, Rejections};
use sotto_store::{Backlog, Fixed, NewJob, NewJobBatch, NewJobReport, Record, StoreError};
use sotto_wire::TaskId;

use super::LeaderState;
use crate::environment::{sleep, timeout};
use crate::health::{Concern, StoreWork};
use crate::shutdown::Shutdown;
use crate::tasks::ServedTask;

/// How much of the backlog is read at once, in jobs: with several tasks, jobs get fuller.
const JOBS_PER_ROUND: usize = 4;
/// The pause before the store, or a full house, is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(250);
/// How long jobs fill while a helper is away: there is no hurry, and fewer jobs come of it.
const TROUBLED_DELAY: Duration = Duration::from_secs(2);

/// How often the registry is asked for a task that the backlog waits for.
const UNKNOWN_TASK_PAUSE: Duration = Duration::from_millis(250);
/// After so many such looks the backlog is read again: reports of other tasks, to be tried again, may
/// have come before it.
const UNKNOWN_TASK_LOOKS: usize = 20;

pub(super) async fn run(leader: Arc<LeaderState>, mut shutdown: Shutdown) {
    // What an earlier process accepted has waited long enough.
    leader.intake.hurry();
    let mut least_delay = Duration::ZERO;
    loop {
        tokio::select! {
            biased;
            () = shutdown.begun() => return,
            () = turn(&leader, least_delay) => {}
        }
        least_delay = Duration::ZERO;
        match form(&leader).await {
            Ok(Round::Formed) => {}
            Ok(Round::NotYet) => least_delay = RETRY_PAUSE,
            Ok(Round::UnknownTask(task_id)) => {
                tokio::select! {
                    biased;
                    () = shutdown.begun() => return,
                    () = wait_for_task(&leader, &task_id) => {}
                }
                leader.intake.hurry();
            }
            Err(error) => {
                leader.aggregator.store_failed(StoreWork::Form, &error);
                leader.intake.hurry();
                sleep(RETRY_PAUSE).await;
            }
        }
    }
}

/// What a look at the backlog came to.
enum Round {
    /// Whatever could be done is done.
    Formed,
    /// Nothing is there but reports to be tried again, and it is not their time yet.
    NotYet,
    /// The backlog begins with a report of a task that is not served.
    UnknownTask(TaskId),
}

/// Resolves when a task is served, or after a while.
async fn wait_for_task(leader: &LeaderState, task_id: &TaskId) {
    for _ in 0..UNKNOWN_TASK_LOOKS {
        sleep(UNKNOWN_TASK_PAUSE).await;
        if leader.aggregator.tasks.task(task_id).is_some() {
            return;
        }
    }
}

/// Resolves when there is something to form, and room among the open jobs.
async fn turn(leader: &LeaderState, least_delay: Duration) {
    let delay = leader.config.job_delay.max(least_delay);
    let troubled = leader.pacing.is_troubled();
    leader.intake.ready(if troubled { delay.max(TROUBLED_DELAY) } else { delay }).await;
    loop {
        match leader.store.load().await {
            Ok(load) => {
                let open = load.jobs.saturating_sub(leader.pacing.waiting_jobs());
                if open < leader.config.max_open_jobs as u64 {
                    return;
                }
            }
            Err(error) => leader.aggregator.store_failed(StoreWork::Load, &error),
        }
        let _ = timeout(RETRY_PAUSE, leader.job_ended.notified()).await;
    }
}

async fn form(leader: &Arc<LeaderState>) -> Result<Round, StoreError> {
    let max_bytes = leader.config.max_job_bytes.saturating_mul(2);
    let all_reports = leader.config.max_job_reports.saturating_mul(JOBS_PER_ROUND);
    let mut max_reports = all_reports;
    let (stretch, sorted) = loop {
        let counted = leader.intake.counted();
        let backlog = leader.store.backlog(max_reports, max_bytes).await?;
        if backlog.records.is_empty() && backlog.from == backlog.to {
            // Whatever was counted before the look has been formed by then.
            leader.intake.take(counted);
            return nothing_to_form(leader).await;
        }
        let stretch = Stretch::of(&backlog);
        let Some(sorted) = sort(leader, backlog).await else {
            // Out of randomness or a panic: both are logged, and neither loses a report.
            sleep(RETRY_PAUSE).await;
            leader.intake.hurry();
            return Ok(Round::Formed);
        };
        let Some((record, task_id)) = sorted.stopped_at else { break (stretch, sorted) };
        if leader.aggregator.tasks.is_forgotten(&task_id) {
            leader.store.forget_task(task_id).await?;
            continue;
        }
        unknown_task(leader, &task_id);
        if record == 0 {
            return Ok(Round::UnknownTask(task_id));
        }
        // What lies before it. The next read stops there, or earlier.
        max_reports = record;
    };
    if max_reports == all_reports {
        leader.aggregator.health.clear(Concern::UnknownTask);
    }
    fix(leader, &stretch, sorted).await?;
    if stretch.reports >= max_reports || stretch.bytes >= max_bytes {
        leader.intake.hurry();
    } else if leader.store.load().await?.backlog_bytes > 0 {
        // What was read may have been accepted by an earlier process and never counted here; then
        // newer reports lost their count to it.
        leader.intake.count_at_least_one();
    }
    Ok(Round::Formed)
}

/// The store offers nothing now; it may hold reports that are to be tried again.
async fn nothing_to_form(leader: &LeaderState) -> Result<Round, StoreError> {
    leader.aggregator.health.store_worked(StoreWork::Form);
    leader.aggregator.health.clear(Concern::UnknownTask);
    if leader.store.load().await?.backlog_bytes == 0 {
        return Ok(Round::Formed);
    }
    leader.intake.count_at_least_one();
    Ok(Round::NotYet)
}

/// Tells the operator that the backlog waits for a task. Its reports were acknowledged: nothing but
/// the operator's word lets them be dropped.
fn unknown_task(leader: &LeaderState, task_id: &TaskId) {
    let detail = format!(
        "reports wait for task {task_id}, which is not configured, and others behind them: configure \
         it again, or list it under forget_tasks to delete them"
    );
    if leader.aggregator.health.raise(Concern::UnknownTask, detail) {
        tracing::error!(task = %task_id, "the backlog waits for a task that is not configured");
    }
}

async fn fix(leader: &LeaderState, stretch: &Stretch, sorted: Sorted) -> Result<(), StoreError> {
    let Sorted { jobs, rejections, .. } = sorted;
    let mut dropped = Rejections::default();
    rejections.iter().for_each(|(_, rejection)| dropped.add(*rejection));
    let fixed = leader.store.fix_jobs(stretch.from, stretch.to, jobs, rejections).await?;
    leader.aggregator.health.store_worked(StoreWork::Form);
    match fixed {
        Fixed::Committed { jobs, rejections } => {
            leader.metrics.jobs.formed.increment(jobs as u64);
            leader.metrics.reports_dropped.add_all(&dropped);
            leader.metrics.reports_dropped.add_all(&rejections);
            leader.intake.take((stretch.reports as u64, stretch.bytes as u64));
            leader.jobs_ready.notify_one();
        }
        Fixed::Moved => leader.intake.hurry(),
    }
    Ok(())
}

/// How far a stretch of the backlog reaches.
struct Stretch {
    from: u64,
    to: u64,
    reports: usize,
    bytes: usize,
}

impl Stretch {
    fn of(backlog: &Backlog) -> Self {
        Self {
            from: backlog.from,
            to: backlog.to,
            reports: backlog.records.len(),
            bytes: backlog.records.iter().map(|record| record.report.len()).sum(),
        }
    }
}

/// A stretch of the backlog, sorted.
struct Sorted {
    jobs: Vec<NewJob>,
    rejections: Vec<(TaskId, Rejection)>,
    /// The first record whose task is unknown.
    stopped_at: Option<(usize, TaskId)>,
}

/// Sorts a stretch of the backlog into jobs, on the pool: every report is decoded.
async fn sort(leader: &Arc<LeaderState>, backlog: Backlog) -> Option<Sorted> {
    let limits = JobLimits {
        max_job_reports: leader.config.max_job_reports,
        max_job_bytes: leader.config.max_job_bytes,
    };
    let tasks = Arc::clone(&leader.aggregator.tasks);
    let environment = leader.aggregator.environment.clone();
    let sorted = leader.aggregator.pool.run(move || {
        let mut rng = environment.rng()?;
        let records: Vec<_> = backlog
            .records
            .iter()
            .map(|record| BacklogReport { task_id: record.task_id, report: &record.report })
            .collect();
        let task = |id: &_| tasks.task(id).map(Found);
        let FormedJobs { jobs, rejections, stopped_at } =
            form_jobs(&records, task, limits, environment.now(), &mut rng);
        let jobs = jobs.iter().map(|job| new_job(job, &backlog.records)).collect();
        let stopped_at = stopped_at.and_then(|record| Some((record, records.get(record)?.task_id)));
        Ok::<_, Fault>(Sorted { jobs, rejections, stopped_at })
    });
    match sorted.await {
        Ok(Ok(sorted)) => Some(sorted),
        Ok(Err(error)) => {
            tracing::error!(%error, "jobs cannot be formed");
            None
        }
        Err(error) => {
            tracing::error!(%error, "jobs cannot be formed");
            None
        }
    }
}

fn new_job(job: &FormedJob, records: &[Record]) -> NewJob {
    let reports = job.reports.iter().filter_map(|report| {
        let place = records.get(report.record)?.place;
        Some(NewJobReport { place, report_id: report.report_id, time: report.time })
    });
    NewJob {
        task_id: job.task_id,
        now: job.now,
        scope: job.scope,
        batch: match job.batch {
            FormedBatch::TimeInterval => NewJobBatch::TimeInterval,
            FormedBatch::LeaderSelected { if_none_open } => {
                NewJobBatch::LeaderSelected { if_none_open }
            }
        },
        reports: reports.collect(),
    }
}

/// A task of the registry, as `form_jobs` wants to see it.
struct Found(Arc<ServedTask>);

impl Borrow<AggregatorTask> for Found {
    fn borrow(&self) -> &AggregatorTask {
        self.0.aggregator()
    }
}
