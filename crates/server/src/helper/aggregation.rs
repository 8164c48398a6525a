//! `tasks/{task-id}/aggregation_jobs`. DAP, section "Aggregate Initialization" and following.
//!
//! The id of a job is the digest of the request that created it, so that creation is idempotent.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use sotto_protocol::helper::{
    HelperOutcome, consume_aggregation_job_continue_req, consume_aggregation_job_init_req,
    parse_aggregation_job_init_req,
};
use sotto_protocol::{Abort, Digest, Rejection, RequestKind, request_digest};
use sotto_store::Committed;
use sotto_wire::{AggregationJobId, MediaType, ProblemType};

use super::{HelperState, MAX_CONFLICTS};
use crate::health::StoreWork;
use crate::http::{self, ReadBody};
use crate::problem::Failure;
use crate::tasks::ServedTask;

pub(super) async fn post(
    State(helper): State<Arc<HelperState>>,
    Path(task_id): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let created = async {
        let (media_type, limit) = (MediaType::AggregationJobInitReq, helper.max_job());
        let (task, body) = helper.receive(&task_id, request, media_type, limit).await?;
        let body = Arc::new(body);
        let digest = digest(&helper, &task, &body).await?;
        let response = match helper.store.response(*task.id(), digest).await? {
            Some(stored) => {
                helper.metrics.jobs.replayed.increment(1);
                stored
            }
            None => aggregate(&helper, &task, &body, digest).await?,
        };
        let id = AggregationJobId::new(digest);
        let location = helper.aggregator.path(&task, &format!("aggregation_jobs/{id}?step=0"));
        let message = http::message(StatusCode::CREATED, MediaType::AggregationJobResp, response);
        Ok(http::at(message, &location))
    };
    let noted = |failure: &Failure| helper.aggregator.note_failure(StoreWork::Commit, failure);
    created.await.inspect_err(noted)
}

/// Verifies, sums and commits a job. Starts again if the commit finds a conflict.
///
/// Reports of an honest leader are new, so at first nothing is looked up: the commit claims the ids
/// or reports a conflict, and only then is the store asked which ids are taken. A lookup per report
/// would cost a third of what claiming its id does.
async fn aggregate(
    helper: &HelperState,
    task: &Arc<ServedTask>,
    body: &Arc<ReadBody>,
    digest: Digest,
) -> Result<Vec<u8>, Failure> {
    let parsed = parse_aggregation_job_init_req(task.aggregator(), body.bytes())?;
    // Held until the sums are committed. If there is no room, the leader asks again later.
    let needed = parsed.memory(task.aggregator());
    let _memory = helper.aggregator.bodies.reserve_for_work(needed)?;
    let reports = parsed.reports();
    let scope = task.aggregator().replay_scope();
    for attempt in 0..MAX_CONFLICTS {
        let spent = match attempt {
            0 => vec![None; reports.len()],
            _ => helper.store.spent_reports(*task.id(), scope, reports.clone()).await?,
        };
        let outcome = verify(helper, task, body, spent).await?;
        let aggregated = outcome.reports.len() as u64;
        let (rejections, response) = (outcome.rejections.clone(), outcome.response.clone());
        let committed = helper.store.commit_helper_job(*task.id(), digest, outcome).await?;
        helper.aggregator.health.store_worked(StoreWork::Commit);
        match committed {
            Committed::Done => {
                helper.metrics.jobs.committed.increment(1);
                helper.metrics.reports_aggregated.increment(aggregated);
                helper.metrics.reports_dropped.add_all(&rejections);
                return Ok(response);
            }
            Committed::Already(stored) => {
                helper.metrics.jobs.replayed.increment(1);
                return Ok(stored);
            }
            Committed::Conflict => helper.metrics.jobs.conflicted.increment(1),
        }
    }
    Err(super::contended())
}

async fn verify(
    helper: &HelperState,
    task: &Arc<ServedTask>,
    body: &Arc<ReadBody>,
    spent: Vec<Option<Rejection>>,
) -> Result<HelperOutcome, Failure> {
    let (task, body) = (Arc::clone(task), Arc::clone(body));
    let keys = Arc::clone(&helper.aggregator.keys);
    let now = helper.aggregator.environment.now();
    let verified = helper.aggregator.pool.try_run(move || {
        // Parsing again is cheap compared to opening and verifying.
        let parsed = parse_aggregation_job_init_req(task.aggregator(), body.bytes())?;
        let outcome =
            consume_aggregation_job_init_req(task.aggregator(), &keys, parsed, &spent, now)?;
        Ok::<_, Failure>(outcome)
    });
    verified.await?
}

/// The digest of a request, on the pool: a large one takes milliseconds to hash.
async fn digest(
    helper: &HelperState,
    task: &ServedTask,
    body: &Arc<ReadBody>,
) -> Result<Digest, Failure> {
    let (task_id, body) = (*task.id(), Arc::clone(body));
    let hash = move || request_digest(&task_id, RequestKind::AggregationJobInit, body.bytes());
    Ok(helper.aggregator.pool.try_run(hash).await?)
}

pub(super) async fn get(
    State(helper): State<Arc<HelperState>>,
    Path((task_id, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let task = helper.task(&task_id, &headers).await?;
    let abort =
        |problem, detail: &str| Failure::from(Abort::new(problem, detail).for_task(*task.id()));
    let response = helper.stored(&task, &id).await?.ok_or_else(|| {
        abort(ProblemType::UnrecognizedAggregationJob, "There is no such aggregation job.")
    })?;
    match step(&query.unwrap_or_default()) {
        Some(0) => Ok(http::message(StatusCode::OK, MediaType::AggregationJobResp, response)),
        Some(_) => Err(abort(ProblemType::StepMismatch, "The job is finished after step 0.")),
        None => Err(abort(ProblemType::InvalidMessage, "The query names no step.")),
    }
}

/// `POST` to a job that exists: Prio3 has no second step.
pub(super) async fn resume(
    State(helper): State<Arc<HelperState>>,
    Path((task_id, id)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Failure> {
    let (media_type, limit) = (MediaType::AggregationJobContinueReq, helper.max_job());
    let (task, body) = helper.receive(&task_id, request, media_type, limit).await?;
    let known = helper.stored(&task, &id).await?.is_some();
    Err(consume_aggregation_job_continue_req(task.aggregator(), body.bytes(), known).into())
}

fn step(query: &str) -> Option<u16> {
    query.split('&').find_map(|pair| pair.strip_prefix("step="))?.parse().ok()
}
