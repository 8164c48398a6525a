//! The witness as a server (C2SP `tlog-witness`): cosigns what extends what it cosigned before.
//!
//! A request is decoded, decided and made durable by [`WitnessDir`], one at a time; here it only
//! travels. `POST add-checkpoint` is for logs, `GET <hex SHA-256 of the origin>/checkpoint` for
//! monitors, who learn from it what this witness has seen.

mod config;
mod metrics;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::response::Response;
use axum::routing::{get, post};
use sotto_protocol::Fault;
use sotto_store::{WitnessDir, WitnessDirError};
use sotto_wire::limits::MAX_ADD_CHECKPOINT_LEN;
use sotto_wire::{TlogPolicy, VerifierKey};
use tokio::sync::Semaphore;

pub use self::config::{WitnessConfig, WitnessFile};
use self::metrics::WitnessMetrics;
use crate::aggregator::{base_path, now};
use crate::error::{BindError, RunError};
use crate::health::{Health, StoreWork};
use crate::http::BodyReader;
use crate::metrics::MetricsRegistry;
use crate::problem::{Failure, RETRY_SOON};
use crate::service::{self, Sockets, Vitals, answer};
use crate::upkeep;

/// Requests that are worked on at once. They end up behind one lock; more threads would only wait.
const MAX_AT_WORK: usize = 16;

/// A witness that listens and is not yet serving.
pub struct Witness {
    state: Arc<WitnessState>,
    vitals: Vitals,
    sockets: Sockets,
}

impl Witness {
    /// Checks the configuration and binds the sockets.
    pub async fn bind(config: WitnessConfig, dir: WitnessDir) -> Result<Self, BindError> {
        let logs = known_logs(&config.logs)?;
        let sockets = Sockets::bind(&config.http).await?;
        let metrics = Arc::new(MetricsRegistry::new()?);
        let vitals = Vitals {
            health: Arc::default(),
            metrics: Arc::clone(&metrics),
            drain_deadline: config.http.drain_deadline,
        };
        let state = WitnessState {
            origins: config.logs.iter().map(|key| origin_entry(key.name().as_str())).collect(),
            logs,
            dir,
            base_path: base_path(&config.http.base_path)?,
            bodies: BodyReader::new(config.http.max_body_memory, config.http.body_timeout),
            at_work: Semaphore::new(MAX_AT_WORK),
            health: Arc::clone(&vitals.health),
            metrics: WitnessMetrics::new(&metrics),
        };
        Ok(Self { state: Arc::new(state), vitals, sockets })
    }

    /// Where the witness listens.
    pub fn addr(&self) -> SocketAddr {
        self.sockets.main.address()
    }

    /// Where the operator's listener is, if there is one.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.sockets.admin_address()
    }

    /// Serves until `shutdown` resolves, then drains: accepts no more and finishes requests in flight
    /// within the deadline. To end on the spot, drop the future.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        let Self { state, vitals, sockets } = self;
        let router = router(state);
        let metrics = Arc::clone(&vitals.metrics);
        service::serve(vitals, sockets, router, shutdown, |loops| {
            loops.spawn("metrics", upkeep::fold_metrics(metrics, loops.shutdown()));
        })
        .await
    }
}

impl std::fmt::Debug for Witness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Witness").finish_non_exhaustive()
    }
}

/// Shared by all requests.
struct WitnessState {
    dir: WitnessDir,
    logs: TlogPolicy,
    /// The known origins by the name under which monitors ask for them.
    origins: BTreeMap<String, String>,
    base_path: String,
    bodies: BodyReader,
    at_work: Semaphore,
    health: Arc<Health>,
    metrics: WitnessMetrics,
}

impl WitnessState {
    /// Works with the files on a thread that may wait for the disk.
    async fn at_disk<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, WitnessDirError> + Send + 'static,
    ) -> Result<T, Failure> {
        let gone = |_| Failure::Fault(Fault("the witness's thread has panicked".into()));
        let _place = self.at_work.acquire().await.map_err(|error| Fault(error.to_string()))?;
        let state = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&state)).await.map_err(gone)?;
        match done {
            Ok(value) => {
                self.health.store_worked(StoreWork::Commit);
                Ok(value)
            }
            Err(error) => {
                tracing::error!(%error, "the witness's files failed");
                self.health.store_failed(StoreWork::Commit);
                let detail = "The witness has trouble of its own.".to_owned();
                Err(Failure::Unavailable(detail, RETRY_SOON))
            }
        }
    }
}

fn router(state: Arc<WitnessState>) -> Router {
    let base = &state.base_path;
    Router::new()
        .route(&format!("{base}/add-checkpoint"), post(add_checkpoint))
        .route(&format!("{base}/{{origin}}/checkpoint"), get(checkpoint))
        .fallback(async || Failure::NotFound.into_response())
        .method_not_allowed_fallback(async || Failure::MethodNotAllowed.into_response())
        .with_state(state)
}

/// `POST add-checkpoint`. Statuses and bodies are those of C2SP `tlog-witness`.
async fn add_checkpoint(State(state): State<Arc<WitnessState>>, body: Body) -> Response {
    answer(&state.metrics.add_checkpoint, async {
        let body = state.bodies.read(body, MAX_ADD_CHECKPOINT_LEN).await?;
        let bytes = body.bytes().clone();
        let answer = state
            .at_disk(move |state| state.dir.add_checkpoint(&bytes, &state.logs, now()))
            .await?;
        state.metrics.count(answer.status);
        let status = StatusCode::from_u16(answer.status);
        let status = status.map_err(|error| Fault(error.to_string()))?;
        Ok(text(status, answer.media_type, answer.body))
    })
    .await
}

/// `GET <hex SHA-256 of the origin>/checkpoint`, for monitors.
async fn checkpoint(
    State(state): State<Arc<WitnessState>>,
    Path(origin): Path<String>,
) -> Response {
    answer(&state.metrics.checkpoint, async {
        let origin = state.origins.get(&origin).cloned().ok_or(Failure::NotFound)?;
        let stored = state.at_disk(move |state| state.dir.stored(&origin)).await?;
        let note = stored.ok_or(Failure::NotFound)?;
        let mut response = text(StatusCode::OK, "text/plain; charset=utf-8", note.to_bytes());
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(response)
    })
    .await
}

fn text(status: StatusCode, media_type: &'static str, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// The logs in the form in which checkpoints are checked. It also refuses a key that comes twice.
fn known_logs(keys: &[VerifierKey]) -> Result<TlogPolicy, BindError> {
    if keys.is_empty() {
        return Err(BindError::Config("a witness needs the key of at least one log".into()));
    }
    let lines: String = keys.iter().map(|key| format!("log {key}\n")).collect();
    TlogPolicy::parse(&format!("{lines}quorum none\n"))
        .map_err(|error| BindError::Config(format!("the logs of the witness: {error}")))
}

fn origin_entry(origin: &str) -> (String, String) {
    (origin_name(origin), origin.to_owned())
}

/// The name under which monitors ask a witness for a log.
pub(crate) fn origin_name(origin: &str) -> String {
    let hash = digest(&SHA256, origin.as_bytes());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
