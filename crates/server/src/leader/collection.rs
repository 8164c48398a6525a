//! `tasks/{task-id}/collection_jobs`. DAP, section "Collection Job Initialization" and following.
//!
//! The collector learns nothing before its batch is complete, not even how many reports there are.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::header::IF_NONE_MATCH;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use sotto_protocol::Abort;
use sotto_protocol::leader::collect::consume_collection_job_req;
use sotto_store::{CollectionCreated, CollectionDeleted, CollectionState};
use sotto_wire::limits::MAX_COLLECTION_JOB_REQ_LEN;
use sotto_wire::{
    CollectionJobId, CollectionJobList, ListedInterval, ListedJob, MediaType, ProblemType, TaskId,
};

use super::LeaderState;
use crate::aggregator::Peer;
use crate::environment::{instant, timeout};
use crate::http;
use crate::problem::Failure;

/// The condition of a collector that has not seen a result (RFC 9110 §13.1.2): delete only what
/// has none. Without it, a job that finishes at the last moment would be lost with its batch.
const NO_RESULT: &str = "*";

const PREFER: &str = "prefer";

/// How long a collector should wait before it polls again.
const POLL_PAUSE: Duration = Duration::from_secs(1);

/// How long a poll may wait for its result, whatever the collector prefers.
const LONGEST_POLL: Duration = Duration::from_secs(20);

/// How often a waiting poll looks, in case that the job is finished where we do not hear of it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub(super) async fn post(
    State(leader): State<Arc<LeaderState>>,
    Path(task_id): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let aggregator = &leader.aggregator;
    let (media_type, limit) = (MediaType::CollectionJobReq, MAX_COLLECTION_JOB_REQ_LEN);
    let preferred = preferred_wait(request.headers());
    let received = aggregator.receive(&task_id, request, Peer::Collector, media_type, limit);
    let (task, body) = received.await?;
    let query = consume_collection_job_req(task.aggregator(), body.bytes())?;
    let created = leader.store.create_collection(*task.id(), body.bytes().to_vec(), query).await?;
    let id = match created {
        CollectionCreated::Created(id) => {
            leader.metrics.collections.created.increment(1);
            leader.collections_ready.notify_one();
            id
        }
        CollectionCreated::Existing(id) => id,
        CollectionCreated::Overlap => {
            let detail = "Part of the batch is collected, or another collection job covers it.";
            let abort = Abort::new(ProblemType::BatchOverlap, detail).for_task(*task.id());
            return Err(abort.into());
        }
    };
    let location = aggregator.path(&task, &format!("collection_jobs/{id}"));
    let answer = match leader.store.collection(*task.id(), id).await? {
        Some(state) => state_answer(state, StatusCode::CREATED, *task.id()).into_response(),
        None => http::not_ready(StatusCode::CREATED, POLL_PAUSE),
    };
    Ok(http::at(applied(answer, preferred), &location))
}

/// The jobs of a task: a collector that died finds here what it left behind.
pub(super) async fn list(
    State(leader): State<Arc<LeaderState>>,
    Path(task_id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let task = leader.aggregator.authenticated_task(&task_id, &headers, Peer::Collector).await?;
    let precision = task.aggregator().task.configuration().time_precision();
    let jobs = leader.store.collections(*task.id()).await?.into_iter();
    let jobs = jobs.map(|(id, interval, state)| ListedJob {
        id: id.to_string(),
        interval: interval.map(|interval| ListedInterval {
            start: interval.start().start_seconds(precision),
            duration: interval.duration().as_seconds(precision),
        }),
        state,
    });
    Ok(Json(CollectionJobList { jobs: jobs.collect() }).into_response())
}

pub(super) async fn get(
    State(leader): State<Arc<LeaderState>>,
    Path((task_id, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let task = leader.aggregator.authenticated_task(&task_id, &headers, Peer::Collector).await?;
    let id = parse_id(&id)?;
    let preferred = preferred_wait(&headers);
    let deadline = instant() + preferred.unwrap_or_default();
    loop {
        // Before the look, so that what is finished in between is heard.
        let finished = leader.collections_finished.notified();
        let state = leader.store.collection(*task.id(), id).await?.ok_or(Failure::NotFound)?;
        let left = deadline.saturating_duration_since(instant());
        if left.is_zero() || !matches!(state, CollectionState::Pending) {
            let answer = state_answer(state, StatusCode::ACCEPTED, *task.id())?;
            return Ok(applied(answer, preferred));
        }
        let _ = timeout(left.min(LOOK_AGAIN), finished).await;
    }
}

/// How long a collector would rather wait than poll again (RFC 7240 §4.3), at most so long as we
/// allow.
fn preferred_wait(headers: &HeaderMap) -> Option<Duration> {
    let prefer = headers.get(PREFER)?.to_str().ok()?;
    let mut preferences = prefer.split(',').filter_map(|one| one.trim().split_once('='));
    let (_, seconds) = preferences.find(|(name, _)| name.trim().eq_ignore_ascii_case("wait"))?;
    let seconds = seconds.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_POLL))
}

/// Tells a collector that a poll waits.
fn applied(mut answer: Response, preferred: Option<Duration>) -> Response {
    if preferred.is_some() {
        let name = HeaderName::from_static("preference-applied");
        answer.headers_mut().insert(name, HeaderValue::from_static("wait"));
    }
    answer
}

pub(super) async fn delete(
    State(leader): State<Arc<LeaderState>>,
    Path((task_id, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let task = leader.aggregator.authenticated_task(&task_id, &headers, Peer::Collector).await?;
    let (store, id) = (&leader.store, parse_id(&id)?);
    let deleted = match headers.get(IF_NONE_MATCH) {
        Some(condition) if condition == NO_RESULT => {
            store.cancel_collection(*task.id(), id).await?
        }
        _ => store.delete_collection(*task.id(), id).await?,
    };
    match deleted {
        CollectionDeleted::Deleted => {
            leader.metrics.collections.deleted.increment(1);
            Ok(http::empty(StatusCode::NO_CONTENT))
        }
        CollectionDeleted::UnderWay => Err(Failure::refused(
            StatusCode::CONFLICT,
            "The batch is being closed: the job must finish first, or the batch would be lost.",
        )),
        CollectionDeleted::Finished => Err(Failure::refused(
            StatusCode::PRECONDITION_FAILED,
            "The job has a result, which would be lost.",
        )),
    }
}

/// `pending` is the status of a job that is not finished.
fn state_answer(
    state: CollectionState,
    pending: StatusCode,
    task_id: TaskId,
) -> Result<Response, Failure> {
    match state {
        CollectionState::Pending => Ok(http::not_ready(pending, POLL_PAUSE)),
        CollectionState::Finished(response) => {
            Ok(http::message(StatusCode::OK, MediaType::CollectionJobResp, response))
        }
        CollectionState::Failed { problem, detail } => {
            Err(Failure::Stored { problem, detail, task_id })
        }
    }
}

fn parse_id(text: &str) -> Result<CollectionJobId, Failure> {
    // An id that we cannot have issued names nothing.
    text.parse().map_err(|_| Failure::NotFound)
}
