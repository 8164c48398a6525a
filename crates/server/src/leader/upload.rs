//! `POST tasks/{task-id}/reports`. DAP, section "Upload Request".

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use sotto_protocol::client::is_cover;
use sotto_protocol::leader::upload::{UploadVerdict, consume_upload_req, produce_upload_errors};
use sotto_protocol::{Fault, Rejection};
use sotto_store::{NewReport, StoreError};
use sotto_wire::{MediaType, TaskId};

use super::LeaderState;
use crate::health::{Concern, StoreWork};
use crate::http;
use crate::problem::Failure;

/// When a device may try again after the disk was full: somebody has to make room.
const DISK_PAUSE: Duration = Duration::from_secs(60);

/// Every report that is acknowledged here is durable.
pub(super) async fn post(
    State(leader): State<Arc<LeaderState>>,
    Path(task_id): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    http::expect_media_type(&parts.headers, MediaType::UploadReq)?;
    let aggregator = &leader.aggregator;
    let task = aggregator.task(&task_id, &parts.headers).await?;
    let limit = aggregator.body_limits.max_upload;
    // Whatever is a part of these bytes keeps their share of the memory.
    let body = aggregator.bodies.read_passed_on(&parts, body, limit).await?.into_bytes();
    if is_cover(&body) {
        cover(&leader, *task.id(), body).await?;
        leader.metrics.cover_dropped.increment(1);
        return Ok(http::empty(StatusCode::OK));
    }
    let now = aggregator.environment.now();
    let mut verdicts = consume_upload_req(task.aggregator(), &aggregator.keys, &body, now)?;
    if !verdicts.is_empty() && verdicts.iter().all(|verdict| verdict.outcome.is_err()) {
        // Its answer must not come earlier than that to cover.
        cover(&leader, *task.id(), vec![0; body.len()].into()).await?;
    }
    accept(&leader, *task.id(), &body, &mut verdicts).await?;

    let failures = verdicts.iter().filter_map(|verdict| {
        let rejection = *verdict.outcome.as_ref().err()?;
        leader.metrics.reports_rejected.add(rejection.name(), 1);
        Some((verdict.report_id, rejection))
    });
    Ok(match produce_upload_errors(failures) {
        None => http::empty(StatusCode::OK),
        Some(errors) => http::message(StatusCode::OK, MediaType::UploadErrors, errors),
    })
}

/// Does for these zeros what is done for a report of their length, so that the answer comes as late, and is
/// the same if there is no room. The record is dropped when jobs are formed.
async fn cover(leader: &LeaderState, task_id: TaskId, zeros: Bytes) -> Result<(), Failure> {
    let length = zeros.len() as u64;
    // A record needs a key that is there: it keeps nothing alive that would not be kept anyway.
    let preferred = leader.aggregator.keys.preferred();
    let hpke_config_id = preferred.ok_or_else(|| Fault("there is no HPKE key".into()))?;
    let record = NewReport { task_id, bucket: None, hpke_config_id, report: zeros };
    store(leader, task_id, vec![record]).await?;
    leader.intake.add(task_id, 1, length);
    leader.longest().add(task_id, 1, length);
    Ok(())
}

/// Stores the reports that may be stored, and records which ones the store refused.
async fn accept(
    leader: &LeaderState,
    task_id: TaskId,
    body: &Bytes,
    verdicts: &mut [UploadVerdict<'_>],
) -> Result<(), Failure> {
    let mut bytes = 0;
    let reports: Vec<_> = verdicts
        .iter()
        .filter_map(|verdict| verdict.outcome.as_ref().ok())
        .map(|accepted| {
            bytes += accepted.raw.len() as u64;
            NewReport {
                task_id,
                bucket: accepted.bucket,
                hpke_config_id: accepted.hpke_config_id,
                report: body.slice_ref(accepted.raw),
            }
        })
        .collect();
    if reports.is_empty() {
        return Ok(());
    }
    let count = reports.len();
    let outcomes = store(leader, task_id, reports).await?;
    let judged = verdicts.iter_mut().filter(|verdict| verdict.outcome.is_ok());
    let mut refused = 0;
    for (verdict, outcome) in judged.zip(outcomes) {
        if let Err(rejection) = outcome {
            verdict.outcome = Err(rejection);
            refused += 1;
        }
    }
    let accepted = (count - refused) as u64;
    if accepted > 0 {
        leader.metrics.reports_accepted.increment(accepted);
        leader.intake.add(task_id, accepted, bytes);
        leader.longest().add(task_id, accepted, bytes);
    }
    Ok(())
}

/// Appends records to the backlog. They are durable when this returns.
async fn store(
    leader: &LeaderState,
    task_id: TaskId,
    records: Vec<NewReport>,
) -> Result<Vec<Result<(), Rejection>>, Failure> {
    if leader.uploads_paused.load(Ordering::Relaxed) {
        return Err(throttled(leader).into());
    }
    if leader.disk_full.load(Ordering::Relaxed) {
        leader.metrics.uploads_throttled.increment(1);
        return Err(Failure::Unavailable("The disk is almost full.".into(), DISK_PAUSE));
    }
    if leader.full_tasks().contains(&task_id) {
        // Of no concern to the operator: others are served.
        leader.metrics.uploads_throttled.increment(1);
        return Err(StoreError::Full.into());
    }
    let outcomes = leader.store.accept_reports(records).await.inspect_err(|error| match error {
        StoreError::Full => drop(throttled(leader)),
        _ => leader.aggregator.health.store_failed(StoreWork::Accept),
    })?;
    leader.aggregator.health.store_worked(StoreWork::Accept);
    Ok(outcomes)
}

/// Records that an upload was rejected.
fn throttled(leader: &LeaderState) -> StoreError {
    leader.metrics.uploads_throttled.increment(1);
    leader.aggregator.health.raise(Concern::BacklogFull, "uploads are rejected");
    StoreError::Full
}
