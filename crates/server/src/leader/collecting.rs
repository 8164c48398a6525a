//! Processes collection jobs: close the batch, wait until it has drained, ask the helper for its
//! share, seal our own, finish.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sotto_protocol::leader::HelperError;
use sotto_protocol::leader::collect::{produce_aggregate_share_req, produce_collection_job_resp};
use sotto_protocol::leader::pacing::JobKind;
use sotto_protocol::leader::unfinished::{IDLE_PAUSE, Unfinished};
use sotto_protocol::leader::waits::{DRAIN_PAUSE, Waits};
use sotto_protocol::{Abort, BucketAggregate, Failure, RequestKind, request_digest};
use sotto_store::{Closing, Lease, LeasedCollection};
use sotto_wire::{BatchSelector, ProblemType};

use super::LeaderState;
use crate::environment::timeout;
use crate::health::StoreWork;
use crate::peer::Resource;
use crate::shutdown::Shutdown;
use crate::tasks::ServedTask;

pub(super) async fn run(leader: Arc<LeaderState>, mut shutdown: Shutdown) {
    let mut waits = Waits::default();
    while !shutdown.has_begun() {
        let leased = leader.store.lease_collection(leader.config.lease).await;
        if let Ok(Some(job)) = leader.aggregator.health.noted(StoreWork::Lease, leased) {
            leader.collections_ready.notify_one();
            let lease = job.lease;
            if shutdown.or(work(&leader, job, &mut waits)).await.is_none() {
                leader.give_back(JobKind::Collection, lease, Duration::ZERO).await;
            }
            continue;
        }
        shutdown.or(timeout(IDLE_PAUSE, leader.collections_ready.notified())).await;
    }
}

async fn work(leader: &Arc<LeaderState>, job: LeasedCollection, waits: &mut Waits) {
    let lease = job.lease;
    leader.pacing.resume(JobKind::Collection, lease.job);
    match attempt(leader, job, waits).await {
        Ok(()) => {
            leader.aggregator.health.store_worked(StoreWork::Collect);
            waits.end(lease.job);
        }
        Err(unfinished) => leader.release_unfinished(JobKind::Collection, lease, unfinished).await,
    }
}

async fn attempt(
    leader: &Arc<LeaderState>,
    job: LeasedCollection,
    waits: &mut Waits,
) -> Result<(), Unfinished> {
    let task =
        leader.aggregator.tasks.task(&job.task_id).ok_or_else(|| {
            Unfinished::Stop(format!("task {} is no longer configured", job.task_id))
        })?;
    let min_batch_size = task.aggregator().task.configuration().min_batch_size();
    match leader.store.close_batch(job.lease, min_batch_size).await? {
        Closing::TooFew => Err(Unfinished::Wait(waits.next(job.lease.job))),
        Closing::Draining => {
            leader.intake.hurry();
            Err(Unfinished::Wait(DRAIN_PAUSE))
        }
        Closing::Drained { selector, aggregate } => {
            collect(leader, &task, &job, selector, aggregate).await
        }
    }
}

/// Asks the helper for its share of a drained batch and finishes the job.
async fn collect(
    leader: &Arc<LeaderState>,
    task: &Arc<ServedTask>,
    job: &LeasedCollection,
    selector: BatchSelector,
    aggregate: BucketAggregate,
) -> Result<(), Unfinished> {
    let request =
        match produce_aggregate_share_req(task.aggregator(), &job.request, &selector, &aggregate) {
            Ok(request) => request,
            Err(Failure::Fault(fault)) => return Err(fault.into()),
            Err(Failure::Abort(abort)) => return fail(leader, job.lease, &abort).await,
        };
    leader.pacing.admit(task).map_err(Unfinished::Wait)?;
    let digest = request_digest(task.id(), RequestKind::AggregateShare, &request);
    leader.store.mark_sent(job.lease, digest).await?;
    let created =
        match leader.helper.create(task, Resource::AggregateShare, Bytes::from(request)).await {
            Ok(created) => created,
            Err(error) => return refused(leader, task, job.lease, &error).await,
        };
    leader.pacing.succeeded(task);
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
    leader.store.finish_collection(job.lease, response).await?;
    leader.metrics.collections.finished.increment(1);
    leader.delete_at_helper(Arc::clone(task), location);
    Ok(())
}

/// The helper gave no share. What it says about the batch is final; other errors may be temporary.
async fn refused(
    leader: &LeaderState,
    task: &ServedTask,
    lease: Lease,
    error: &HelperError,
) -> Result<(), Unfinished> {
    leader.metrics.helper_errors.add(error.reason(), 1);
    let Some(problem) = error.refuses_batch_for_good() else {
        tracing::warn!(reason = error.reason(), "the helper gave no share; retrying");
        return Err(Unfinished::Wait(leader.pacing.failed(task, error)));
    };
    leader.pacing.succeeded(task);
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
    Ok(())
}
