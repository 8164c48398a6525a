//! Processes aggregation jobs: open and start to verify, ask the helper, finish, commit.
//!
//! A retry recomputes the request from the fixed set and must get the same digest.
//! `sotto_protocol::leader::unfinished` decides what happens to a job without an answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sotto_protocol::Rejection;
use sotto_protocol::leader::HelperError;
use sotto_protocol::leader::aggregate::{
    JobInput, LeaderJob, LeaderOutcome, consume_aggregation_job_resp,
    produce_aggregation_job_init_req,
};
use sotto_protocol::leader::pacing::JobKind;
use sotto_protocol::leader::unfinished::{IDLE_PAUSE, Unanswered, Unfinished};
use sotto_store::{Lease, LeasedJob};

use super::LeaderState;
use crate::environment::timeout;
use crate::health::StoreWork;
use crate::peer::{Created, Resource};
use crate::shutdown::Shutdown;
use crate::tasks::ServedTask;

pub(super) async fn run(leader: Arc<LeaderState>, mut shutdown: Shutdown) {
    loop {
        let any_open = leader.pacing.any_open(|| leader.aggregator.tasks.all());
        let Some(()) = shutdown.or(any_open).await else { return };
        // Not cancelled by the shutdown: a lease that got lost there would keep the job from others.
        let leased = leader.store.lease_job(leader.config.lease).await;
        if let Ok(Some(job)) = leader.aggregator.health.noted(StoreWork::Lease, leased) {
            // There may be more jobs where this one came from.
            leader.jobs_ready.notify_one();
            let lease = job.lease;
            if shutdown.or(work(&leader, job)).await.is_none() {
                leader.give_back(JobKind::Aggregation, lease, Duration::ZERO).await;
            }
            continue;
        }
        let idle = timeout(IDLE_PAUSE, leader.jobs_ready.notified());
        let Some(_) = shutdown.or(idle).await else { return };
    }
}

async fn work(leader: &Arc<LeaderState>, job: LeasedJob) {
    let lease = job.lease;
    leader.pacing.resume(JobKind::Aggregation, lease.job);
    match attempt(leader, job).await {
        Ok(()) => leader.job_ended.notify_one(),
        Err(unfinished) => leader.release_unfinished(JobKind::Aggregation, lease, unfinished).await,
    }
}

async fn attempt(leader: &Arc<LeaderState>, job: LeasedJob) -> Result<(), Unfinished> {
    let lease = job.lease;
    let task =
        leader.aggregator.tasks.task(&job.task_id).ok_or_else(|| {
            Unfinished::Stop(format!("task {} is no longer configured", job.task_id))
        })?;
    if let Err(pause) = leader.pacing.admit(&task) {
        return Err(Unfinished::Wait(leader.pacing.lock().park(lease.job, pause)));
    }
    let (first_send, reports) = (job.request_digest.is_none(), job.records.len());
    let mut prepared = prepare(leader, &task, job).await?;
    if prepared.is_empty() {
        let outcome = finish(leader, prepared, Bytes::new()).await?;
        return commit(leader, lease, outcome).await;
    }
    leader.store.mark_sent(lease, prepared.digest).await?;
    let request = Bytes::from(std::mem::take(&mut prepared.request));
    let created = match leader.helper.create(&task, Resource::AggregationJob, request).await {
        Ok(created) => created,
        Err(error) => {
            give_up_or_wait(leader, &task, lease, &error, first_send).await?;
            leader.metrics.reports_dropped.add(Rejection::JobAbandoned.name(), reports as u64);
            return Ok(());
        }
    };
    leader.pacing.succeeded(&task);
    let Created { body, location } = created;
    let outcome = finish(leader, prepared, body).await?;
    commit(leader, lease, outcome).await?;
    leader.delete_at_helper(task, location);
    Ok(())
}

async fn prepare(
    leader: &Arc<LeaderState>,
    task: &Arc<ServedTask>,
    job: LeasedJob,
) -> Result<LeaderJob, Unfinished> {
    let (task, keys) = (Arc::clone(task), Arc::clone(&leader.aggregator.keys));
    let prepared = leader.aggregator.pool.run(move || {
        let reports: Vec<&[u8]> = job.records.iter().map(|record| &*record.report).collect();
        let input = JobInput { reports: &reports, now: job.now, batch_id: job.batch_id };
        produce_aggregation_job_init_req(task.aggregator(), &keys, &input)
    });
    Ok(prepared.await??)
}

async fn finish(
    leader: &LeaderState,
    prepared: LeaderJob,
    answer: Bytes,
) -> Result<LeaderOutcome, Unfinished> {
    let pool = &leader.aggregator.pool;
    Ok(pool.run(move || consume_aggregation_job_resp(prepared, &answer)).await??)
}

async fn commit(
    leader: &LeaderState,
    lease: Lease,
    outcome: LeaderOutcome,
) -> Result<(), Unfinished> {
    let aggregated = outcome.buckets.values().map(|bucket| bucket.count).sum();
    let requeued = !outcome.requeue.is_empty();
    let dropped = outcome.rejections.clone();
    leader.store.commit_job(lease, outcome).await?;
    leader.aggregator.health.store_worked(StoreWork::Commit);
    leader.metrics.jobs.committed.increment(1);
    leader.metrics.reports_aggregated.increment(aggregated);
    leader.metrics.reports_dropped.add_all(&dropped);
    if requeued {
        leader.intake.count_at_least_one();
    }
    Ok(())
}

/// The helper did not answer with a result. `Ok` means that the job was abandoned.
async fn give_up_or_wait(
    leader: &LeaderState,
    task: &ServedTask,
    lease: Lease,
    error: &HelperError,
    first_send: bool,
) -> Result<(), Unfinished> {
    leader.metrics.helper_errors.add(error.reason(), 1);
    let fate = Unanswered::of(error, first_send);
    if fate == Unanswered::Retry {
        let pause = leader.pacing.failed(task, error);
        tracing::warn!(reason = error.reason(), "the helper did not answer a job; retrying");
        return Err(Unfinished::Wait(leader.pacing.lock().park(lease.job, pause)));
    }
    // It is up and speaks DAP.
    leader.pacing.succeeded(task);
    if let Unanswered::Stop(reason) = fate {
        return Err(Unfinished::Stop(reason));
    }
    leader.store.abandon_job(lease).await?;
    leader.aggregator.health.store_worked(StoreWork::Commit);
    tracing::error!(reason = error.reason(), "the helper refused a job; its reports are dropped");
    leader.metrics.jobs.abandoned.increment(1);
    Ok(())
}
