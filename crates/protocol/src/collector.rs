//! The collector: requests batches and combines the two shares. DAP, section "Collecting Results".
//!
//! Leaves to others: sending, polling, deleting finished jobs, and differential privacy.

use sotto_crypto::{HpkeError, HpkeKeypair, hpke};
use sotto_vdaf::{AggregateResult, AggregateShare, AggregateShareError, UnshardError};
use sotto_wire::labels::aggregate_share_info;
use sotto_wire::{
    AggregateShareAad, CollectionJobReq, CollectionJobResp, Decode, DecodeError, Encode,
    HpkeCiphertext, Interval, Query, Role,
};

use crate::Task;

/// Why a collection was not requested, or its result was not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectorError {
    /// The query's batch mode is not the task's.
    #[error("the query is not of the task's batch mode")]
    BatchMode,
    /// The query's interval is empty.
    #[error("the batch interval is empty")]
    EmptyInterval,
    /// The answer, or our stored request, does not decode.
    #[error("the message does not decode: {0}")]
    Decode(#[from] DecodeError),
    /// The batch has fewer reports than the task promises its devices.
    #[error("the batch has {report_count} reports, fewer than the task's minimum of {minimum}")]
    BatchTooSmall {
        /// The number of reports, according to the leader.
        report_count: u64,
        /// The task's minimum batch size.
        minimum: u64,
    },
    /// The leader's answer covers reports from outside the queried interval.
    #[error("the batch reaches outside the queried interval")]
    OutsideQuery,
    /// A share does not open: the aggregators used another key, task configuration or request.
    #[error("the {} share: {error}", role_name(*.role))]
    Hpke {
        /// Whose share.
        role: Role,
        /// What failed.
        error: HpkeError,
    },
    /// A share does not belong to the task's VDAF.
    #[error(transparent)]
    Share(#[from] AggregateShareError),
    /// So many reports that their sum may have wrapped around in the VDAF's field.
    #[error("the batch has {report_count} reports: the sum of more than {most} may wrap around")]
    BatchTooLarge {
        /// The number of reports, according to the leader.
        report_count: u64,
        /// The most reports whose sum cannot wrap around.
        most: u64,
    },
    /// The shares do not combine.
    #[error(transparent)]
    Unshard(#[from] UnshardError),
}

/// A collected batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Collection {
    /// How many reports are in it, according to the leader. The helper compared it with its own
    /// count, but nothing authenticates it to the collector.
    pub report_count: u64,
    /// The smallest interval that covers their timestamps.
    pub interval: Interval,
    /// The sum, with the noise of both aggregators if the task has any.
    pub result: AggregateResult,
}

/// Makes the request for a collection job. Keep the bytes: the shares are bound to them.
pub fn produce_collection_job_req(task: &Task, query: &Query) -> Result<Vec<u8>, CollectorError> {
    if query.batch_mode() != task.configuration().batch_mode() {
        return Err(CollectorError::BatchMode);
    }
    if let Query::TimeInterval(interval) = query
        && interval.is_empty()
    {
        return Err(CollectorError::EmptyInterval);
    }
    Ok(CollectionJobReq::new(*query).to_bytes())
}

/// Opens both shares of a finished collection job and combines them.
///
/// `request` is the body that created the job. A batch below the task's minimum is rejected: an
/// honest leader never returns one.
pub fn consume_collection_job_resp(
    task: &Task,
    key: &HpkeKeypair,
    request: &[u8],
    resp: &[u8],
) -> Result<Collection, CollectorError> {
    let asked = CollectionJobReq::from_bytes(request)?;
    let resp = CollectionJobResp::from_bytes(resp)?;
    let (report_count, minimum) = (resp.report_count, task.configuration().min_batch_size());
    if report_count < minimum {
        return Err(CollectorError::BatchTooSmall { report_count, minimum });
    }
    let most = task.max_reports();
    if report_count > most {
        return Err(CollectorError::BatchTooLarge { report_count, most });
    }
    if let Query::TimeInterval(queried) = asked.query
        && !queried.contains_interval(&resp.interval)
    {
        return Err(CollectorError::OutsideQuery);
    }
    let aad = AggregateShareAad {
        task_id: *task.id(),
        task_configuration: task.encoded_configuration(),
        collection_job_req: request,
    }
    .to_bytes();
    let leader = open(task, key, Role::Leader, &aad, &resp.leader_encrypted_agg_share)?;
    let helper = open(task, key, Role::Helper, &aad, &resp.helper_encrypted_agg_share)?;
    let result = task.vdaf().unshard(&leader, &helper, report_count)?;
    Ok(Collection { report_count, interval: resp.interval, result })
}

/// Opens one aggregate share. DAP, section "Aggregate Share Encryption".
fn open(
    task: &Task,
    key: &HpkeKeypair,
    role: Role,
    aad: &[u8],
    ciphertext: &HpkeCiphertext<'_>,
) -> Result<AggregateShare, CollectorError> {
    let plaintext = hpke::open(key, &aggregate_share_info(role), aad, ciphertext)
        .map_err(|error| CollectorError::Hpke { role, error })?;
    Ok(task.vdaf().decode_aggregate_share(&plaintext)?)
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Leader => "leader's",
        Role::Helper => "helper's",
        Role::Collector | Role::Client => "other",
    }
}
