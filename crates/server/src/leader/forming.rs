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
use crate::aggregator::{now, rng};
use crate::shutdown::Shutdown;
use crate::tasks::ServedTask;

/// How much of the backlog is read at once, in jobs: with several tasks, jobs get fuller.
const JOBS_PER_ROUND: usize = 4;
/// The pause before the store, or a full house, is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(250);
/// How long jobs fill while a helper is away: there is no hurry, and fewer jobs come of it.
const TROUBLED_DELAY: Duration = Duration::from_secs(2);

pub(super) async fn run(leader: Arc<LeaderState>, mut shutdown: Shutdown) {
    // What an earlier process accepted has waited long enough.
    leader.intake.hurry();
    loop {
        tokio::select! {
            biased;
            () = shutdown.begun() => return,
            () = turn(&leader) => {}
        }
        if let Err(error) = form(&leader).await {
            leader.aggregator.store_failed(&error);
            leader.intake.hurry();
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

/// Resolves when there is something to form, and room among the open jobs.
async fn turn(leader: &LeaderState) {
    let delay = leader.config.job_delay;
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
            Err(error) => leader.aggregator.store_failed(&error),
        }
        let _ = tokio::time::timeout(RETRY_PAUSE, leader.job_ended.notified()).await;
    }
}

async fn form(leader: &Arc<LeaderState>) -> Result<(), StoreError> {
    let max_reports = leader.config.max_job_reports.saturating_mul(JOBS_PER_ROUND);
    let max_bytes = leader.config.max_job_bytes.saturating_mul(2);
    let counted = leader.intake.counted();
    let backlog = leader.store.backlog(max_reports, max_bytes).await?;
    if backlog.records.is_empty() && backlog.from == backlog.to {
        // Whatever was counted before the look has been formed by then.
        leader.intake.take(counted);
        return Ok(());
    }
    let read = (backlog.records.len(), bytes(&backlog.records));
    let (from, to) = (backlog.from, backlog.to);
    let Some((jobs, rejections)) = sort(leader, backlog).await else {
        // Out of randomness or a panic: both are logged, and neither loses a report.
        tokio::time::sleep(RETRY_PAUSE).await;
        leader.intake.hurry();
        return Ok(());
    };
    let mut dropped = Rejections::default();
    rejections.iter().for_each(|(_, rejection)| dropped.add(*rejection));
    match leader.store.fix_jobs(from, to, jobs, rejections).await? {
        Fixed::Committed { jobs, rejections } => {
            leader.metrics.jobs.formed.increment(jobs as u64);
            leader.metrics.reports_dropped.add_all(&dropped);
            leader.metrics.reports_dropped.add_all(&rejections);
            leader.intake.take((read.0 as u64, read.1 as u64));
            leader.jobs_ready.notify_one();
            if read.0 >= max_reports || read.1 >= max_bytes {
                leader.intake.hurry();
            } else if leader.store.load().await?.backlog_bytes > 0 {
                // What was read may have been accepted by an earlier process and never counted
                // here; then newer reports lost their count to it.
                leader.intake.count_at_least_one();
            }
        }
        Fixed::Moved => leader.intake.hurry(),
    }
    Ok(())
}

type Sorted = (Vec<NewJob>, Vec<(TaskId, Rejection)>);

/// Sorts a stretch of the backlog into jobs, on the pool: every report is decoded.
async fn sort(leader: &Arc<LeaderState>, backlog: Backlog) -> Option<Sorted> {
    let limits = JobLimits {
        max_job_reports: leader.config.max_job_reports,
        max_job_bytes: leader.config.max_job_bytes,
    };
    let tasks = Arc::clone(&leader.aggregator.tasks);
    let sorted = leader.aggregator.pool.run(move || {
        let mut rng = rng()?;
        let records: Vec<_> = backlog
            .records
            .iter()
            .map(|record| BacklogReport { task_id: record.task_id, report: &record.report })
            .collect();
        let task = |id: &_| tasks.task(id).map(Found);
        let FormedJobs { jobs, rejections } = form_jobs(&records, task, limits, now(), &mut rng);
        let jobs = jobs.iter().map(|job| new_job(job, &backlog.records)).collect();
        Ok::<_, Fault>((jobs, rejections))
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
        batch: match job.batch {
            FormedBatch::TimeInterval => NewJobBatch::TimeInterval,
            FormedBatch::LeaderSelected { if_none_open } => {
                NewJobBatch::LeaderSelected { if_none_open }
            }
        },
        reports: reports.collect(),
    }
}

fn bytes(records: &[Record]) -> usize {
    records.iter().map(|record| record.report.len()).sum()
}

/// A task of the registry, as `form_jobs` wants to see it.
struct Found(Arc<ServedTask>);

impl Borrow<AggregatorTask> for Found {
    fn borrow(&self) -> &AggregatorTask {
        self.0.aggregator()
    }
}
