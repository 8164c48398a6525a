//! `tasks/{task-id}/aggregate_shares`. DAP, section "Obtaining Aggregate Shares".

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use sotto_protocol::helper::{
    ParsedAggregateShareReq, consume_aggregate_share_req, parse_aggregate_share_req,
};
use sotto_protocol::{Digest, RequestKind, request_digest};
use sotto_store::Committed;
use sotto_wire::limits::MAX_AGGREGATE_SHARE_REQ_LEN;
use sotto_wire::{AggregateShareId, MediaType};

use super::{HelperState, MAX_CONFLICTS};
use crate::aggregator::Peer;
use crate::health::StoreWork;
use crate::http;
use crate::problem::Failure;
use crate::service::answer;
use crate::tasks::ServedTask;

pub(super) async fn post(
    State(helper): State<Arc<HelperState>>,
    Path(task_id): Path<String>,
    request: Request,
) -> Response {
    let created = async {
        let created = create(&helper, &task_id, request).await;
        created.inspect_err(|failure| helper.aggregator.note_failure(StoreWork::Collect, failure))
    };
    answer(&helper.metrics.share_post, created).await
}

pub(super) async fn get(
    State(helper): State<Arc<HelperState>>,
    Path((task_id, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    answer(&helper.metrics.share_get, poll(&helper, &task_id, &id, &headers)).await
}

pub(super) async fn delete(
    State(helper): State<Arc<HelperState>>,
    Path((task_id, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    answer(&helper.metrics.share_delete, remove(&helper, &task_id, &id, &headers)).await
}

async fn create(
    helper: &HelperState,
    task_id: &str,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let aggregator = &helper.aggregator;
    let task = aggregator.authenticated_task(task_id, &parts.headers, Peer::Leader).await?;
    http::expect_media_type(&parts.headers, MediaType::AggregateShareReq)?;
    let body = aggregator.bodies.read(body, MAX_AGGREGATE_SHARE_REQ_LEN).await?;
    let digest = request_digest(task.id(), RequestKind::AggregateShare, body.bytes());
    let response = match helper.store.response(*task.id(), digest).await? {
        Some(stored) => {
            helper.metrics.shares.replayed.increment(1);
            stored
        }
        None => {
            let parsed = parse_aggregate_share_req(task.aggregator(), body.bytes())?;
            collect(helper, &task, parsed, digest).await?
        }
    };
    let id = AggregateShareId::new(digest);
    let location = aggregator.path(&task, &format!("aggregate_shares/{id}"));
    let message = http::message(StatusCode::CREATED, MediaType::AggregateShare, response);
    Ok(http::at(message, &location))
}

/// Seals the share of a batch and marks the batch collected, in one commit.
async fn collect(
    helper: &HelperState,
    task: &Arc<ServedTask>,
    parsed: ParsedAggregateShareReq,
    digest: Digest,
) -> Result<Vec<u8>, Failure> {
    let parsed = Arc::new(parsed);
    let selector = parsed.selector();
    let expected = (parsed.report_count(), *parsed.checksum().as_bytes());
    for _ in 0..MAX_CONFLICTS {
        let batch = helper.store.batch(*task.id(), selector).await?;
        let (sealing, request) = (Arc::clone(task), Arc::clone(&parsed));
        let mut rng = helper.aggregator.environment.rng()?;
        let sealed = helper.aggregator.pool.try_run(move || {
            let (aggregate, collected) = (batch.aggregate.as_ref(), batch.collected);
            let task = sealing.aggregator();
            let sealed =
                consume_aggregate_share_req(task, &request, aggregate, collected, &mut rng)?;
            Ok::<_, Failure>(sealed)
        });
        let response = sealed.await??;
        let stored = response.clone();
        let collected =
            helper.store.collect_batch(*task.id(), selector, expected, digest, stored).await?;
        helper.aggregator.health.store_worked(StoreWork::Collect);
        match collected {
            Committed::Done => {
                helper.metrics.shares.collected.increment(1);
                return Ok(response);
            }
            Committed::Already(stored) => {
                helper.metrics.shares.replayed.increment(1);
                return Ok(stored);
            }
            Committed::Conflict => helper.metrics.shares.conflicted.increment(1),
        }
    }
    Err(Failure::Contended)
}

async fn poll(
    helper: &HelperState,
    task_id: &str,
    id: &str,
    headers: &HeaderMap,
) -> Result<Response, Failure> {
    let task = helper.aggregator.authenticated_task(task_id, headers, Peer::Leader).await?;
    let id = parse_id(id).ok_or(Failure::NotFound)?;
    let stored = helper.store.response(*task.id(), *id.as_bytes()).await?;
    let response = stored.ok_or(Failure::NotFound)?;
    Ok(http::message(StatusCode::OK, MediaType::AggregateShare, response))
}

async fn remove(
    helper: &HelperState,
    task_id: &str,
    id: &str,
    headers: &HeaderMap,
) -> Result<Response, Failure> {
    let task = helper.aggregator.authenticated_task(task_id, headers, Peer::Leader).await?;
    if let Some(id) = parse_id(id) {
        helper.store.forget_response(*task.id(), *id.as_bytes()).await?;
    }
    Ok(http::empty(StatusCode::NO_CONTENT))
}

fn parse_id(text: &str) -> Option<AggregateShareId> {
    text.parse().ok()
}
