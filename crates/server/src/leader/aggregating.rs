//! Processes aggregation jobs: open and start to verify, ask the helper, finish, commit.
//!
//! A retry recomputes the request from the fixed set and must get the same digest.
//! `sotto_protocol::leader::unfinished` decides what happens to a job without an answer.

use std::sync::Arc;

use bytes::Bytes;
use sotto_protocol::Rejection;
use sotto_protocol::leader::HelperError;
use sotto_protocol::leader::aggregate::{
    JobInput, LeaderJob, LeaderOutcome, consume_aggregation_job_resp,
    produce_aggregation_job_init_req,
};
use sotto_protocol::leader::pacing::JobKind;
use sotto_protocol::leader::unfinished::{Unanswered, Unfinished};
use sotto_store::{Lease, LeasedJob, StoreError, Turn};
use sotto_wire::TaskId;
use tokio::sync::Notify;

use super::LeaderState;
use super::attempts::{Attempt, Kind};
use crate::health::StoreWork;
use crate::peer::{Created, Resource};
use crate::tasks::ServedTask;

/// Aggregation jobs.
pub(super) struct Aggregation;

impl Kind for Aggregation {
    const KIND: JobKind = JobKind::Aggregation;
    type Job = LeasedJob;

    fn ready(leader: &LeaderState) -> &Notify {
        &leader.jobs_ready
    }

    async fn lease(leader: &LeaderState, turn: Turn) -> Result<Option<LeasedJob>, StoreError> {
        leader.store.lease_job(leader.config.lease, turn).await
    }

    fn lease_of(job: &LeasedJob) -> (Lease, TaskId) {
        (job.lease, job.task_id)
    }

    async fn work(
        leader: &Arc<LeaderState>,
        attempt: &Attempt,
        job: LeasedJob,
    ) -> Result<(), Unfinished> {
        work(leader, attempt, job).await?;
        // There may be room for another job of the task.
        leader.intake.wake();
        Ok(())
    }
}

async fn work(
    leader: &Arc<LeaderState>,
    attempt: &Attempt,
    job: LeasedJob,
) -> Result<(), Unfinished> {
    let (lease, task) = (job.lease, &attempt.task);
    let (first_send, reports) = (job.request_digest.is_none(), job.records.len());
    let mut prepared = prepare(leader, task, job).await?;
    if prepared.is_empty() {
        let outcome = finish(leader, prepared, Bytes::new()).await?;
        return commit(leader, lease, outcome).await;
    }
    leader.store.mark_sent(lease, prepared.digest).await?;
    let request = std::mem::take(&mut prepared.request);
    let created = match attempt.create(Resource::AggregationJob, request).await {
        Ok(created) => created,
        Err(error) => {
            give_up_or_wait(leader, attempt, lease, &error, first_send).await?;
            leader.metrics.reports_dropped.add(Rejection::JobAbandoned.name(), reports as u64);
            return Ok(());
        }
    };
    let Created { body, location } = created;
    let outcome = finish(leader, prepared, body).await?;
    commit(leader, lease, outcome).await?;
    leader.delete_at_helper(Arc::clone(task), location);
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
    attempt: &Attempt,
    lease: Lease,
    error: &HelperError,
    first_send: bool,
) -> Result<(), Unfinished> {
    let fate = Unanswered::of(error, first_send);
    if fate == Unanswered::Retry {
        return Err(attempt.failed(error));
    }
    attempt.succeeded();
    if let Unanswered::Stop(reason) = fate {
        return Err(Unfinished::Stop(reason));
    }
    leader.store.abandon_job(lease).await?;
    leader.aggregator.health.store_worked(StoreWork::Commit);
    let helper = attempt.task.helper.as_ref().map(|helper| &*helper.base);
    let reason = error.reason();
    tracing::error!(helper, reason, "the helper refused a job; its reports are dropped");
    leader.metrics.jobs.abandoned.increment(1);
    Ok(())
}
