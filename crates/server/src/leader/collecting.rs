//! Processes collection jobs: close the batch, wait until it has drained, ask the helper for its
//! share, seal our own, finish.

use std::sync::Arc;
use std::time::Duration;

use sotto_protocol::leader::HelperError;
use sotto_protocol::leader::collect::{
    produce_aggregate_share_req, produce_collection_job_resp, too_early,
};
use sotto_protocol::leader::pacing::JobKind;
use sotto_protocol::leader::unfinished::Unfinished;
use sotto_protocol::leader::waits::DRAIN_PAUSE;
use sotto_protocol::{Abort, BucketAggregate, Failure, RequestKind, request_digest};
use sotto_store::{Closing, Lease, LeasedCollection, Release, StoreError, Turn};
use sotto_wire::{BatchSelector, ProblemType, TaskId};
use tokio::sync::Notify;

use super::LeaderState;
use super::attempts::{Attempt, Kind};
use crate::health::StoreWork;
use crate::peer::Resource;

/// How often a batch that may not be released yet is looked at.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Collection jobs.
pub(super) struct Collecting;

impl Kind for Collecting {
    const KIND: JobKind = JobKind::Collection;
    type Job = LeasedCollection;

    fn ready(leader: &LeaderState) -> &Notify {
        &leader.collections_ready
    }

    async fn lease(
        leader: &LeaderState,
        turn: Turn,
    ) -> Result<Option<LeasedCollection>, StoreError> {
        leader.store.lease_collection(leader.config.lease, turn).await
    }

    fn lease_of(job: &LeasedCollection) -> (Lease, TaskId) {
        (job.lease, job.task_id)
    }

    async fn work(
        leader: &Arc<LeaderState>,
        attempt: &Attempt,
        job: LeasedCollection,
    ) -> Result<(), Unfinished> {
        let number = job.lease.job;
        work(leader, attempt, job).await?;
        leader.aggregator.health.store_worked(StoreWork::Collect);
        leader.waits().end(number);
        Ok(())
    }
}

async fn work(
    leader: &Arc<LeaderState>,
    attempt: &Attempt,
    job: LeasedCollection,
) -> Result<(), Unfinished> {
    let now = leader.aggregator.environment.now();
    if let Some(early) = too_early(attempt.task.aggregator(), &job.request, now) {
        return Err(Unfinished::Wait(early.min(LONGEST_WAIT)));
    }
    let min_batch_size = attempt.task.aggregator().task.configuration().min_batch_size();
    match leader.store.close_batch(job.lease, min_batch_size).await? {
        Closing::TooFew => Err(Unfinished::Wait(leader.waits().next(job.lease.job))),
        Closing::Draining => {
            leader.intake.hurry();
            Err(Unfinished::Wait(DRAIN_PAUSE))
        }
        Closing::Drained { selector, aggregate } => {
            collect(leader, attempt, &job, selector, aggregate).await
        }
    }
}

/// Asks the helper for its share of a drained batch and finishes the job.
async fn collect(
    leader: &Arc<LeaderState>,
    attempt: &Attempt,
    job: &LeasedCollection,
    selector: BatchSelector,
    aggregate: BucketAggregate,
) -> Result<(), Unfinished> {
    let task = &attempt.task;
    let request =
        match produce_aggregate_share_req(task.aggregator(), &job.request, &selector, &aggregate) {
            Ok(request) => request,
            Err(Failure::Fault(fault)) => return Err(fault.into()),
            Err(Failure::Abort(abort)) => return fail(leader, job.lease, &abort).await,
        };
    let digest = request_digest(task.id(), RequestKind::AggregateShare, &request);
    leader.store.mark_sent(job.lease, digest).await?;
    let created = match attempt.create(Resource::AggregateShare, request).await {
        Ok(created) => created,
        Err(error) => return refused(leader, attempt, job.lease, &error).await,
    };
    let receipt = leader.aggregator.released(task, &selector, &aggregate)?;
    let environment = leader.aggregator.environment.clone();
    let (sealing, collection_request) = (Arc::clone(task), job.request.clone());
    let response = leader.aggregator.pool.run(move || {
        produce_collection_job_resp(
            sealing.aggregator(),
            &collection_request,
            &selector,
            &aggregate,
            &created.body,
            &mut environment.rng()?,
        )
        .map(|response| (response, created.location))
    });
    let (response, location) = response.await??;
    leader.store.finish_collection(job.lease, Release { response, receipt }).await?;
    leader.aggregator.send_receipts();
    leader.metrics.collections.finished.increment(1);
    leader.collections_finished.notify_waiters();
    leader.delete_at_helper(Arc::clone(task), location);
    Ok(())
}

/// The helper gave no share. What it says about the batch is final; other errors may be temporary.
async fn refused(
    leader: &LeaderState,
    attempt: &Attempt,
    lease: Lease,
    error: &HelperError,
) -> Result<(), Unfinished> {
    let Some(problem) = error.refuses_batch_for_good() else {
        return Err(attempt.failed(error));
    };
    attempt.succeeded();
    let reason = match problem {
        ProblemType::BatchInvalid => {
            "The helper refused the batch: by its own count it covers more time, or holds more \
             reports, than the recipe allows."
        }
        _ => "The helper refused the batch.",
    };
    fail(leader, lease, &Abort::new(problem, reason)).await
}

/// Ends a collection without a result.
async fn fail(leader: &LeaderState, lease: Lease, abort: &Abort) -> Result<(), Unfinished> {
    tracing::error!(reason = %abort, "a collection failed");
    leader.store.fail_collection(lease, abort.problem.urn(), abort.detail.clone()).await?;
    leader.metrics.collections.failed.increment(1);
    leader.collections_finished.notify_waiters();
    Ok(())
}
