//! The test API of the collector.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, anyhow, bail, ensure};
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use sotto_client::{AuthToken, CollectionJob, Collector, HttpTransport, Poll};
use sotto_crypto::Secret;
use sotto_protocol::collector::Collection;
use sotto_wire::{BatchMode, Duration, Interval, KeySet, Query, TaskId, Time, TimePrecision};

use super::api::{self, Integer, TaskDescription, answer, blocking, request};
use crate::connection::{ConnectionArgs, retry};
use crate::task_file::secret;
use crate::workers::lock;
use crate::{keys, random};

/// `/internal/test/add_task`
#[derive(Deserialize)]
struct AddTaskRequest {
    #[serde(flatten)]
    task: TaskDescription,
    #[serde(deserialize_with = "secret")]
    collector_authentication_token: Secret<String>,
}

/// `/internal/test/collection_start`
#[derive(Deserialize)]
struct StartRequest {
    task_id: String,
    #[serde(default)]
    agg_param: String,
    query: QueryDescription,
}

#[derive(Deserialize)]
struct QueryDescription {
    #[serde(rename = "type")]
    batch_mode: Integer,
    batch_interval_start: Option<Integer>,
    batch_interval_duration: Option<Integer>,
    /// Requests a batch by its id, which DAP no longer supports.
    batch_id: Option<String>,
}

/// `/internal/test/collection_poll`
#[derive(Deserialize)]
struct PollRequest {
    handle: String,
}

struct Collectors {
    transport: Arc<HttpTransport>,
    tasks: Mutex<HashMap<TaskId, Arc<Collector>>>,
    /// By handle.
    jobs: Mutex<HashMap<String, Arc<Mutex<Job>>>>,
}

/// A collection under way or done.
struct Job {
    collector: Arc<Collector>,
    job: CollectionJob,
    done: Option<Collection>,
    /// Whether the leader has deleted the job, which it must before it hands out the next batch.
    finished: bool,
}

pub(super) fn router() -> Result<Router> {
    let connection = ConnectionArgs { insecure_http: true, ..ConnectionArgs::default() };
    let state = Collectors {
        transport: connection.transport(4)?,
        tasks: Mutex::default(),
        jobs: Mutex::default(),
    };
    Ok(Router::new()
        .route("/internal/test/ready", post(api::ready))
        .route("/internal/test/add_task", post(add_task))
        .route("/internal/test/collection_start", post(collection_start))
        .route("/internal/test/collection_poll", post(collection_poll))
        .with_state(Arc::new(state)))
}

async fn add_task(State(state): State<Arc<Collectors>>, body: Bytes) -> Json<Value> {
    answer(blocking(move || state.add_task(request(&body)?)).await)
}

async fn collection_start(State(state): State<Arc<Collectors>>, body: Bytes) -> Json<Value> {
    answer(blocking(move || state.start(&request(&body)?)).await)
}

async fn collection_poll(State(state): State<Arc<Collectors>>, body: Bytes) -> Json<Value> {
    answer(blocking(move || state.poll(&request(&body)?)).await)
}

impl Collectors {
    fn add_task(&self, request: AddTaskRequest) -> Result<Value> {
        let task = request.task.task()?;
        let (id, key) = (*task.id(), keys::generate(1));
        let config = KeySet::config_text(key.config());
        let auth = AuthToken::DapAuth(request.collector_authentication_token);
        // The caller polls, so it handles a leader that does not answer.
        let collector =
            Collector::new(task, key, auth, self.transport.clone()).with_retry(retry(2));
        let mut tasks = lock(&self.tasks);
        ensure!(!tasks.contains_key(&id), "the task was added before");
        tasks.insert(id, Arc::new(collector));
        Ok(json!({ "status": "success", "collector_hpke_config": config }))
    }

    fn start(&self, request: &StartRequest) -> Result<Value> {
        let id = api::task_id(&request.task_id)?;
        let collector = lock(&self.tasks).get(&id).cloned().context("the task is not known")?;
        ensure!(request.agg_param.is_empty(), "the VDAF has no aggregation parameter");
        let precision = collector.task().configuration().time_precision();
        let query = request.query.query(precision)?;
        let (job, poll) = collector.start(&query, &mut random::system())?;
        let handle = random::text::<16>().to_string();
        let mut job = Job { collector, job, done: None, finished: false };
        job.note(poll);
        lock(&self.jobs).insert(handle.clone(), Arc::new(Mutex::new(job)));
        Ok(json!({ "status": "success", "handle": handle }))
    }

    fn poll(&self, request: &PollRequest) -> Result<Value> {
        let job =
            lock(&self.jobs).get(&request.handle).cloned().context("the handle is not known")?;
        let mut job = lock(&job);
        if job.done.is_none() {
            let poll = job.collector.poll(&job.job, &mut random::system())?;
            job.note(poll);
        }
        Ok(job.answer())
    }
}

impl Job {
    fn note(&mut self, poll: Poll) {
        if let Poll::Ready(collection) = poll {
            self.done = Some(collection);
        }
        let configuration = self.collector.task().configuration();
        let next_waits = configuration.batch_mode() == BatchMode::LeaderSelected;
        if next_waits && self.done.is_some() && !self.finished {
            // The result has arrived. The job must still be deleted to get the next batch.
            self.finished = self.collector.finish(&self.job, &mut random::system()).is_ok();
        }
    }

    fn answer(&self) -> Value {
        let Some(collection) = &self.done else { return json!({ "status": "in progress" }) };
        let precision = self.collector.task().configuration().time_precision();
        json!({
            "status": "complete",
            "report_count": collection.report_count,
            "interval_start": collection.interval.start().start_seconds(precision),
            "interval_duration": collection.interval.duration().as_seconds(precision),
            "result": collection.result.to_json_strings(),
        })
    }
}

impl QueryDescription {
    fn query(&self, precision: TimePrecision) -> Result<Query> {
        match api::batch_mode(self.batch_mode)? {
            BatchMode::TimeInterval => {
                let (Integer(start), Integer(duration)) = self
                    .batch_interval_start
                    .zip(self.batch_interval_duration)
                    .ok_or_else(|| anyhow!("the query has no interval"))?;
                let unit = precision.as_seconds();
                ensure!(
                    start.is_multiple_of(unit) && duration.is_multiple_of(unit),
                    "the interval is not a multiple of the time precision"
                );
                let interval =
                    Interval::new(Time::new(start / unit), Duration::new(duration / unit))?;
                Ok(Query::TimeInterval(interval))
            }
            BatchMode::LeaderSelected if self.batch_id.is_some() => {
                bail!("batches cannot be requested by id")
            }
            BatchMode::LeaderSelected => Ok(Query::LeaderSelected),
        }
    }
}
