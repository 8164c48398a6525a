//! The witness as a server (C2SP `tlog-witness`): cosigns trees that extend those that it cosigned
//! before.
//!
//! [`WitnessDir`] decodes a request, decides about it and makes the decision durable, one request
//! at a time. This module only transports. `POST add-checkpoint` is for logs,
//! `GET <hex SHA-256 of the origin>/checkpoint` is for monitors, which learn from it what this
//! witness has seen.

mod config;
mod metrics;

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, HeaderValue};
use axum::response::Response;
use axum::routing::{get, post};
use sotto_protocol::Fault;
use sotto_store::{WitnessDir, WitnessDirError};
use sotto_wire::limits::MAX_ADD_CHECKPOINT_LEN;
use sotto_wire::{TlogPolicy, VerifierKey};
use tokio::sync::Semaphore;

pub use self::config::{WitnessConfig, WitnessFile};
use self::metrics::WitnessMetrics;
use crate::config::HttpConfig;
use crate::environment::{Environment, spawn_blocking};
use crate::error::BindError;
use crate::health::{Health, StoreWork};
use crate::http::{BodyReader, NOTE_MEDIA_TYPE, content};
use crate::problem::Failure;
use crate::service::{Role, Server};

/// Requests in progress at once. They all need one lock; more threads would only wait.
const MAX_AT_WORK: usize = 16;

/// The witness, for [`Server::bind`].
pub struct Witness {
    /// What its operator decides.
    pub config: WitnessConfig,
    /// What it has cosigned.
    pub dir: WitnessDir,
}

impl Witness {
    /// Checks the configuration and binds the sockets.
    pub async fn bind(config: WitnessConfig, dir: WitnessDir) -> Result<Server, BindError> {
        Server::bind(Self { config, dir }, Environment::default()).await
    }
}

impl Role for Witness {
    fn http(&self) -> &HttpConfig {
        &self.config.http
    }

    async fn open(self, server: &mut Server) -> Result<Router, BindError> {
        let Self { config, dir } = self;
        let state = WitnessState {
            environment: server.environment.clone(),
            origins: config
                .logs
                .iter()
                .map(|key| key.name().as_str().to_owned())
                .map(|origin| (origin_name(&origin), origin))
                .collect(),
            logs: known_logs(&config.logs)?,
            dir,
            bodies: BodyReader::new(server.memory.all(), config.http.body_timeout),
            at_work: Semaphore::new(MAX_AT_WORK),
            health: Arc::clone(&server.health),
            metrics: WitnessMetrics::new(&server.metrics),
        };
        let (base, metrics) = (&server.base_path, &server.metrics);
        Ok(Router::new()
            .route(
                &format!("{base}/add-checkpoint"),
                post(metrics.measured("add_checkpoint", add_checkpoint)),
            )
            .route(
                &format!("{base}/{{origin}}/checkpoint"),
                get(metrics.measured("witness_checkpoint", checkpoint)),
            )
            .with_state(Arc::new(state)))
    }
}

/// Shared by all requests.
struct WitnessState {
    environment: Environment,
    dir: WitnessDir,
    logs: TlogPolicy,
    /// The known origins by the name under which monitors request them.
    origins: BTreeMap<String, String>,
    bodies: BodyReader,
    at_work: Semaphore,
    health: Arc<Health>,
    metrics: WitnessMetrics,
}

impl WitnessState {
    /// Works with the files, on a thread that may wait for the disk.
    async fn at_disk<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, WitnessDirError> + Send + 'static,
    ) -> Result<T, Failure> {
        let gone = |_| Failure::Fault(Fault("the witness's thread has panicked".into()));
        let _place = self.at_work.acquire().await.map_err(|error| Fault(error.to_string()))?;
        let state = Arc::clone(self);
        let done = spawn_blocking(move || work(&state)).await.map_err(gone)?;
        let done = self.health.noted(StoreWork::Commit, done);
        done.map_err(|_| Failure::unavailable("The witness had an internal error."))
    }
}

/// `POST add-checkpoint`. Statuses and bodies are those of C2SP `tlog-witness`.
async fn add_checkpoint(
    State(state): State<Arc<WitnessState>>,
    body: Body,
) -> Result<Response, Failure> {
    let body = state.bodies.read(body, MAX_ADD_CHECKPOINT_LEN).await?;
    let bytes = body.bytes().clone();
    let add = move |state: &WitnessState| {
        state.dir.add_checkpoint(&bytes, &state.logs, state.environment.now())
    };
    let answer = state.at_disk(add).await?;
    state.metrics.count(answer.status);
    let status = StatusCode::from_u16(answer.status);
    let mut response = content(answer.media_type, answer.body);
    *response.status_mut() = status.map_err(|error| Fault(error.to_string()))?;
    Ok(response)
}

/// `GET <hex SHA-256 of the origin>/checkpoint`, for monitors.
async fn checkpoint(
    State(state): State<Arc<WitnessState>>,
    Path(origin): Path<String>,
) -> Result<Response, Failure> {
    let origin = state.origins.get(&origin).cloned().ok_or(Failure::NotFound)?;
    let stored = state.at_disk(move |state| state.dir.stored(&origin)).await?;
    let note = stored.ok_or(Failure::NotFound)?;
    let mut response = content(NOTE_MEDIA_TYPE, note.to_bytes());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

/// The logs in the form in which checkpoints are checked. Also rejects duplicate keys.
fn known_logs(keys: &[VerifierKey]) -> Result<TlogPolicy, BindError> {
    if keys.is_empty() {
        return Err(BindError::Config("a witness needs the key of at least one log".into()));
    }
    let lines: String = keys.iter().map(|key| format!("log {key}\n")).collect();
    TlogPolicy::parse(&format!("{lines}quorum none\n"))
        .map_err(|error| BindError::Config(format!("the logs of the witness: {error}")))
}

/// The name under which monitors request the checkpoint of a log from a witness.
pub(crate) fn origin_name(origin: &str) -> String {
    let hash = digest(&SHA256, origin.as_bytes());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
