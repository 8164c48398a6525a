//! `tasks/{task-id}/aggregate_shares`. DAP, section "Obtaining Aggregate Shares".

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use sotto_protocol::helper::{
    ParsedAggregateShareReq, consume_aggregate_share_req, parse_aggregate_share_req,
};
use sotto_protocol::{Digest, RequestKind, memory, request_digest};
use sotto_store::{Committed, Release};
use sotto_wire::limits::MAX_AGGREGATE_SHARE_REQ_LEN;
use sotto_wire::{AggregateShareId, MediaType};

use super::{HelperState, MAX_CONFLICTS};
use crate::health::StoreWork;
use crate::http;
use crate::problem::Failure;
use crate::tasks::ServedTask;

pub(super) async fn post(
    State(helper): State<Arc<HelperState>>,
    Path(task_id): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let created = async {
        let (media_type, limit) = (MediaType::AggregateShareReq, MAX_AGGREGATE_SHARE_REQ_LEN);
        let (task, body) = helper.receive(&task_id, request, media_type, limit).await?;
        let digest = request_digest(task.id(), RequestKind::AggregateShare, body.bytes());
        let response = match helper.store.response(*task.id(), digest).await? {
            Some(stored) => {
                helper.metrics.shares.replayed.increment(1);
                stored
            }
            None => {
                let now = helper.aggregator.environment.now();
                let parsed = parse_aggregate_share_req(task.aggregator(), body.bytes(), now)?;
                collect(&helper, &task, parsed, digest).await?
            }
        };
        let id = AggregateShareId::new(digest);
        let location = helper.aggregator.path(&task, &format!("aggregate_shares/{id}"));
        let message = http::message(StatusCode::CREATED, MediaType::AggregateShare, response);
        Ok(http::at(message, &location))
    };
    let noted = |failure: &Failure| helper.aggregator.note_failure(StoreWork::Collect, failure);
    created.await.inspect_err(noted)
}

/// Seals the share of a batch and marks the batch collected, in one commit.
async fn collect(
    helper: &HelperState,
    task: &Arc<ServedTask>,
    parsed: ParsedAggregateShareReq,
    digest: Digest,
) -> Result<Vec<u8>, Failure> {
    let needed = memory::collection(&task.aggregator().task.vdaf().sizes());
    let needed = usize::try_from(needed).unwrap_or(usize::MAX);
    let _memory = helper.aggregator.bodies.reserve_for_work(needed)?;
    let parsed = Arc::new(parsed);
    let selector = parsed.selector();
    let expected = (parsed.report_count(), *parsed.checksum().as_bytes());
    for _ in 0..MAX_CONFLICTS {
        let batch = helper.store.batch(*task.id(), selector).await?;
        // A copy of this request may have been faster since its answer was looked for.
        if batch.collected
            && let Some(stored) = helper.store.response(*task.id(), digest).await?
        {
            helper.metrics.shares.replayed.increment(1);
            return Ok(stored);
        }
        let (sealing, request) = (Arc::clone(task), Arc::clone(&parsed));
        let aggregator = Arc::clone(&helper.aggregator);
        let mut rng = helper.aggregator.environment.rng()?;
        let sealed = helper.aggregator.pool.try_run(move || {
            let (aggregate, collected) = (batch.aggregate.as_ref(), batch.collected);
            let task = sealing.aggregator();
            let response =
                consume_aggregate_share_req(task, &request, aggregate, collected, &mut rng)?;
            let receipt = aggregate.map(|batch| aggregator.released(&sealing, &selector, batch));
            Ok::<_, Failure>(Release { response, receipt: receipt.transpose()?.flatten() })
        });
        let release = sealed.await??;
        let response = release.response.clone();
        let collected =
            helper.store.collect_batch(*task.id(), selector, expected, digest, release).await?;
        helper.aggregator.health.store_worked(StoreWork::Collect);
        match collected {
            Committed::Done => {
                helper.metrics.shares.collected.increment(1);
                helper.aggregator.send_receipts();
                return Ok(response);
            }
            Committed::Already(stored) => {
                helper.metrics.shares.replayed.increment(1);
                return Ok(stored);
            }
            Committed::Conflict => helper.metrics.shares.conflicted.increment(1),
        }
    }
    Err(super::contended())
}

pub(super) async fn get(
    State(helper): State<Arc<HelperState>>,
    Path((task_id, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let task = helper.task(&task_id, &headers).await?;
    let response = helper.stored(&task, &id).await?.ok_or(Failure::NotFound)?;
    Ok(http::message(StatusCode::OK, MediaType::AggregateShare, response))
}
