//! Collection jobs at the leader. DAP, section "Collecting Results", leader's side.
//!
//! Leaves to the store: that a bucket is collected once, and that a batch is closed and drained
//! before the helper is asked for its share.

use std::time::Duration;

use rand_core::CryptoRng;
use sotto_wire::{
    AggregateShare, AggregateShareReq, BatchSelector, CollectionJobReq, CollectionJobResp, Decode,
    DecodeError, Encode, ProblemType, Query, Role,
};

use crate::aggregate_share::{check_agg_param, check_collection_extensions, seal_aggregate_share};
use crate::release::{check_batch, check_window, released_from};
use crate::{Abort, AggregatorTask, BucketAggregate, Failure, Fault, Moment};

/// Judges a collector's request, in the order of DAP, section "Collection Job Initialization".
/// Returns the query. The store says whether its buckets were collected before (`batchOverlap`).
pub fn consume_collection_job_req(task: &AggregatorTask, body: &[u8]) -> Result<Query, Abort> {
    judge(task, body).map_err(|abort| abort.for_task(*task.task.id()))
}

/// How long it still takes until the batch of a collection may be closed and released, if its time
/// has not come: nothing is said about it before, not even whether it is full.
pub fn too_early(
    task: &AggregatorTask,
    collection_request: &[u8],
    now: Moment,
) -> Option<Duration> {
    let Query::TimeInterval(interval) =
        CollectionJobReq::from_bytes(collection_request).ok()?.query
    else {
        return None;
    };
    let early_s = released_from(task, interval).0.checked_sub(now.0)?;
    (early_s > 0).then_some(Duration::from_secs(early_s))
}

/// Writes the request for the helper's share of a drained batch. Deterministic: a retry sends the
/// same bytes. A batch that breaks a rule of release aborts the collection permanently.
pub fn produce_aggregate_share_req(
    task: &AggregatorTask,
    collection_request: &[u8],
    selector: &BatchSelector,
    aggregate: &BucketAggregate,
) -> Result<Vec<u8>, Failure> {
    check_minimum(task, aggregate)?;
    check_batch(task, aggregate)?.map_err(|abort| abort.for_task(*task.task.id()))?;
    let collection_job_req = CollectionJobReq::from_bytes(collection_request)
        .map_err(|error| Fault(format!("the stored collection request: {error}")))?;
    let request = AggregateShareReq {
        collection_job_req,
        batch_selector: *selector,
        report_count: aggregate.count,
        checksum: aggregate.checksum,
    };
    Ok(request.to_bytes())
}

/// Reads the helper's share (an encoded `AggregateShare`), seals the leader's, and writes the
/// answer to the collector. Its interval is the smallest one that covers the timestamps of the
/// batch.
pub fn produce_collection_job_resp(
    task: &AggregatorTask,
    collection_request: &[u8],
    selector: &BatchSelector,
    aggregate: &BucketAggregate,
    helper_share: &[u8],
    rng: &mut dyn CryptoRng,
) -> Result<Vec<u8>, Fault> {
    check_minimum(task, aggregate)?;
    let interval = aggregate.interval()?;
    check_batch(task, aggregate)?.map_err(|abort| Fault(abort.to_string()))?;
    if let BatchSelector::TimeInterval(selected) = selector
        && !selected.contains_interval(&interval)
    {
        return Err(Fault("the batch holds reports from outside its interval".into()));
    }
    let helper_share = AggregateShare::from_bytes(helper_share)
        .map_err(|error| Fault(format!("the helper's aggregate share does not decode: {error}")))?;
    let leader_share =
        seal_aggregate_share(task, Role::Leader, collection_request, &aggregate.share, rng)?;
    let response = CollectionJobResp {
        report_count: aggregate.count,
        interval,
        leader_encrypted_agg_share: leader_share,
        helper_encrypted_agg_share: helper_share.encrypted_aggregate_share,
    };
    Ok(response.to_bytes())
}

/// Makes the section's checks, in its order.
fn judge(task: &AggregatorTask, body: &[u8]) -> Result<Query, Abort> {
    let request = CollectionJobReq::from_bytes(body).map_err(|error| {
        let problem = match error {
            DecodeError::ExtensionsOutOfOrder => ProblemType::InvalidExtension,
            _ => ProblemType::InvalidMessage,
        };
        Abort::new(problem, format!("collection job request: {error}"))
    })?;
    if request.query.batch_mode() != task.task.configuration().batch_mode() {
        return Err(Abort::new(
            ProblemType::InvalidMessage,
            "the query is not of the task's batch mode",
        ));
    }
    check_agg_param(task, &request)?;
    if let Query::TimeInterval(interval) = request.query
        && interval.is_empty()
    {
        return Err(Abort::new(ProblemType::BatchInvalid, "the batch interval is empty"));
    }
    check_collection_extensions(&request)?;
    if let Query::TimeInterval(interval) = request.query {
        check_window(task, interval)?;
    }
    Ok(request.query)
}

/// The store does not release a smaller batch. This checks again, before anything that depends on
/// the count leaves.
fn check_minimum(task: &AggregatorTask, aggregate: &BucketAggregate) -> Result<(), Fault> {
    if aggregate.count < task.task.configuration().min_batch_size() {
        return Err(Fault("the batch is below the task's minimum".into()));
    }
    Ok(())
}
