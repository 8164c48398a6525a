//! Aggregate shares at the helper. DAP, section "Obtaining Aggregate Shares", helper's side.
//!
//! The helper enforces the minimum batch size and the rules of release by its own count and
//! timestamps, whatever the leader says.

use rand_core::CryptoRng;
use sotto_wire::{
    AggregateShare, AggregateShareReq, BatchSelector, Decode, Encode, ProblemType, Query,
    ReportIdChecksum, Role,
};

use crate::aggregate_share::{check_agg_param, check_collection_extensions, seal_aggregate_share};
use crate::release::{check_batch, check_window, released_from};
use crate::{Abort, AggregatorTask, BucketAggregate, Failure, MAX_CLOCK_SKEW_S, Moment};

/// A request that names a batch of the task.
#[derive(Clone, Debug)]
pub struct ParsedAggregateShareReq {
    request: AggregateShareReq,
}

impl ParsedAggregateShareReq {
    /// The batch.
    pub fn selector(&self) -> BatchSelector {
        self.request.batch_selector
    }

    /// The leader's count.
    pub fn report_count(&self) -> u64 {
        self.request.report_count
    }

    /// The leader's checksum.
    pub fn checksum(&self) -> ReportIdChecksum {
        self.request.checksum
    }
}

/// Reads a request and finds the batch that it names: the section's checks up to the first one that
/// needs the batch.
pub fn parse_aggregate_share_req(
    task: &AggregatorTask,
    body: &[u8],
    now: Moment,
) -> Result<ParsedAggregateShareReq, Abort> {
    parse(task, body, now).map_err(|abort| abort.for_task(*task.task.id()))
}

/// Makes the remaining checks against the helper's own batch, in the order of the section, and
/// seals its share: the encoded `AggregateShare`.
///
/// `batch` is `None` if it is empty; `collected` says whether any of its buckets was collected.
pub fn consume_aggregate_share_req(
    task: &AggregatorTask,
    parsed: &ParsedAggregateShareReq,
    batch: Option<&BucketAggregate>,
    collected: bool,
    rng: &mut dyn CryptoRng,
) -> Result<Vec<u8>, Failure> {
    let for_task = |abort: Abort| abort.for_task(*task.task.id());
    let batch = judge(task, &parsed.request, batch, collected).map_err(for_task)?;
    check_batch(task, batch)?.map_err(for_task)?;
    // Encodings are canonical: these are the bytes that the collector sent.
    let collection_request = parsed.request.collection_job_req.to_bytes();
    let encrypted_aggregate_share =
        seal_aggregate_share(task, Role::Helper, &collection_request, &batch.share, rng)?;
    Ok(AggregateShare { encrypted_aggregate_share }.to_bytes())
}

fn parse(
    task: &AggregatorTask,
    body: &[u8],
    now: Moment,
) -> Result<ParsedAggregateShareReq, Abort> {
    let invalid = |detail: String| Abort::new(ProblemType::InvalidMessage, detail);
    let request = AggregateShareReq::from_bytes(body)
        .map_err(|error| invalid(format!("aggregate share request: {error}")))?;
    let (mode, query) = (task.task.configuration().batch_mode(), request.collection_job_req.query);
    if request.batch_selector.batch_mode() != mode || query.batch_mode() != mode {
        return Err(invalid("the batch is not of the task's batch mode".into()));
    }
    // The selector must name at least one bucket, and only buckets that the collector asked for.
    if let (BatchSelector::TimeInterval(selected), Query::TimeInterval(queried)) =
        (request.batch_selector, query)
        && (selected.is_empty() || !queried.contains_interval(&selected))
    {
        return Err(Abort::new(
            ProblemType::BatchInvalid,
            "the selected interval is empty or not within the queried one",
        ));
    }
    if let BatchSelector::TimeInterval(selected) = request.batch_selector {
        check_window(task, selected)?;
        // The leader's clock may be ahead.
        if now.0.saturating_add(MAX_CLOCK_SKEW_S) < released_from(task, selected).0 {
            let detail = "it is too early: devices may still send reports of this interval";
            return Err(Abort::new(ProblemType::BatchInvalid, detail));
        }
    }
    Ok(ParsedAggregateShareReq { request })
}

fn judge<'a>(
    task: &AggregatorTask,
    request: &AggregateShareReq,
    batch: Option<&'a BucketAggregate>,
    collected: bool,
) -> Result<&'a BucketAggregate, Abort> {
    if collected {
        return Err(Abort::new(
            ProblemType::BatchOverlap,
            "part of the batch was collected before",
        ));
    }
    // Distinguished from a mismatch before the counts are compared: nothing that depends on the
    // count of a batch below the minimum may leave.
    let batch = batch
        .filter(|batch| batch.count >= task.task.configuration().min_batch_size())
        .ok_or_else(|| {
            Abort::new(ProblemType::InvalidBatchSize, "the batch is below the task's minimum")
        })?;
    check_agg_param(task, &request.collection_job_req)?;
    check_collection_extensions(&request.collection_job_req)?;
    if request.report_count != batch.count || request.checksum != batch.checksum {
        return Err(Abort::new(
            ProblemType::BatchMismatch,
            "the aggregators hold different reports in the batch",
        ));
    }
    Ok(batch)
}
