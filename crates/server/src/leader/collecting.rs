//! Works off collection jobs: close the batch, wait until it has drained, ask the helper for its
//! share, seal our own, finish.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sotto_protocol::leader::collect::{produce_aggregate_share_req, produce_collection_job_resp};
use sotto_protocol::{BucketAggregate, RequestKind, request_digest};
use sotto_store::{Closing, Lease, LeasedCollection};
use sotto_wire::{BatchSelector, ProblemType};

use super::LeaderState;
use super::pacing::JobKind;
use super::setback::Setback;
use crate::environment::timeout;
use crate::health::StoreWork;
use crate::peer::{PeerError, Resource};
use crate::shutdown::Shutdown;
use crate::tasks::ServedTask;

/// How long an idle worker waits before it asks for jobs whose pause is over.
const IDLE_PAUSE: Duration = Duration::from_millis(250);
/// The pause while a closed batch drains.
const DRAIN_PAUSE: Duration = Duration::from_millis(50);
/// The first and the longest pause while a batch has too few reports.
const FILL_PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

pub(super) async fn run(leader: Arc<LeaderState>, mut shutdown: Shutdown) {
    let mut waits = Waits::default();
    while !shutdown.has_begun() {
        match leader.store.lease_collection(leader.config.lease).await {
            Ok(Some(job)) => {
                leader.aggregator.health.store_worked(StoreWork::Lease);
                leader.collections_ready.notify_one();
                let lease = job.lease;
                tokio::select! {
                    biased;
                    () = shutdown.begun() => leader.give_back(JobKind::Collection, lease, Duration::ZERO).await,
                    () = work(&leader, job, &mut waits) => {}
                }
                continue;
            }
            Ok(None) => leader.aggregator.health.store_worked(StoreWork::Lease),
            Err(error) => leader.aggregator.store_failed(StoreWork::Lease, &error),
        }
        let created = leader.collections_ready.notified();
        tokio::select! {
            biased;
            () = shutdown.begun() => return,
            _ = timeout(IDLE_PAUSE, created) => {}
        }
    }
}

async fn work(leader: &Arc<LeaderState>, job: LeasedCollection, waits: &mut Waits) {
    let lease = job.lease;
    leader.pacing.resume(JobKind::Collection, lease.job);
    match attempt(leader, job, waits).await {
        Ok(()) => {
            leader.aggregator.health.store_worked(StoreWork::Collect);
            waits.end(lease);
        }
        Err(setback) => leader.set_back(JobKind::Collection, lease, setback).await,
    }
}

async fn attempt(
    leader: &Arc<LeaderState>,
    job: LeasedCollection,
    waits: &mut Waits,
) -> Result<(), Setback> {
    let task =
        leader.aggregator.tasks.task(&job.task_id).ok_or_else(|| {
            Setback::Stop(format!("task {} is not configured any more", job.task_id))
        })?;
    let min_batch_size = task.aggregator().task.configuration().min_batch_size();
    match leader.store.close_batch(job.lease, min_batch_size).await? {
        Closing::TooFew => Err(Setback::Wait(waits.next(job.lease))),
        Closing::Draining => {
            leader.intake.hurry();
            Err(Setback::Wait(DRAIN_PAUSE))
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
) -> Result<(), Setback> {
    leader.pacing.admit(task).map_err(Setback::Wait)?;
    let request =
        produce_aggregate_share_req(task.aggregator(), &job.request, &selector, &aggregate)?;
    let digest = request_digest(task.id(), RequestKind::AggregateShare, &request);
    leader.store.mark_sent(job.lease, digest).await?;
    let created =
        match leader.helper.create(task, Resource::AggregateShare, Bytes::from(request)).await {
            Ok(created) => created,
            Err(error) => return refused(leader, task, job.lease, &error).await,
        };
    leader.pacing.succeeded(task);
    let (sealing, collection_request) = (Arc::clone(task), job.request.clone());
    let environment = leader.aggregator.environment.clone();
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

/// The helper gave no share. What it says about the batch is final; everything else may pass, also
/// the refusal of a poll: the helper took the request, and has perhaps collected the batch.
async fn refused(
    leader: &LeaderState,
    task: &ServedTask,
    lease: Lease,
    error: &PeerError,
) -> Result<(), Setback> {
    leader.metrics.helper_failed(error);
    let Some(problem) = final_problem(error) else {
        tracing::warn!(reason = error.reason(), "the helper gave no share; it is asked again");
        return Err(Setback::Wait(leader.pacing.failed(task, error)));
    };
    leader.pacing.succeeded(task);
    tracing::error!(reason = problem.token(), "the helper refused a batch; the collection fails");
    let detail = "The helper refused the batch.".to_owned();
    leader.store.fail_collection(lease, problem.urn(), detail).await?;
    leader.metrics.collections.failed.increment(1);
    Ok(())
}

fn final_problem(error: &PeerError) -> Option<ProblemType> {
    let PeerError::Refused { status: 400..=499, problem: Some(problem), polled: false, .. } = error
    else {
        return None;
    };
    match problem {
        ProblemType::InvalidMessage
        | ProblemType::BatchInvalid
        | ProblemType::InvalidBatchSize
        | ProblemType::InvalidAggregationParameter
        | ProblemType::BatchMismatch
        | ProblemType::BatchOverlap
        | ProblemType::UnsupportedExtension
        | ProblemType::InvalidExtension => Some(*problem),
        ProblemType::UnrecognizedTask
        | ProblemType::UnrecognizedAggregationJob
        | ProblemType::StepMismatch
        | ProblemType::InvalidTask => None,
    }
}

/// The last pause of each collection that has found too few reports.
#[derive(Default)]
struct Waits(HashMap<u64, Duration>);

/// Collections whose pauses are remembered. Some are deleted meanwhile, and nobody tells us.
const MAX_WAITS: usize = 4096;

impl Waits {
    fn next(&mut self, lease: Lease) -> Duration {
        let (first, longest) = FILL_PAUSES;
        let pause = self.0.get(&lease.job).map_or(first, |last| (*last * 2).min(longest));
        if self.0.len() >= MAX_WAITS {
            self.0.clear();
        }
        self.0.insert(lease.job, pause);
        pause
    }

    fn end(&mut self, lease: Lease) {
        self.0.remove(&lease.job);
    }
}
