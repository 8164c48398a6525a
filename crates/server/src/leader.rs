//! The leader as a server: takes uploads, drives aggregation, answers collectors.
//!
//! [`upload`] and [`collection`] are its resources; [`forming`], [`aggregating`] and [`collecting`]
//! are the loops that drive jobs. Every step loads, calls one function of `sotto_protocol::leader` and
//! commits through the store.

mod aggregating;
mod collecting;
mod collection;
mod forming;
mod intake;
mod metrics;
mod pacing;
mod setback;
mod upload;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use reqwest::Url;
use sotto_store::LeaderStore;
use sotto_wire::Role;
use sotto_wire::size_class::SizeClass;
use tokio::sync::{Notify, mpsc};

use self::intake::Intake;
use self::metrics::LeaderMetrics;
use self::pacing::Pacing;
use crate::aggregator::{Aggregator, forget_tasks, hpke_config};
use crate::config::{AggregationConfig, LeaderConfig};
use crate::error::{BindError, RunError};
use crate::gateway::{GatewayConfig, GatewayResource};
use crate::peer::HelperClient;
use crate::problem::Failure;
use crate::service::{self, Loops, Sockets};
use crate::tasks::{ServedTask, TaskRegistry};
use crate::{recipes, upkeep};

/// Resources of the helper that wait to be deleted. More are forgotten: the helper deletes them
/// itself with the batch.
const MAX_DELETIONS: usize = 256;

/// More than an encapsulated upload has besides the upload: method, URL, fields with the announcement of
/// a task, and what sealing adds.
const MAX_INNER_HEAD: usize = 64 * 1024;

/// Collections that are worked on at once.
const COLLECTION_WORKERS: usize = 2;

/// A leader that listens and is not yet serving.
pub struct Leader {
    state: Arc<LeaderState>,
    gateway: Option<Arc<GatewayResource>>,
    sockets: Sockets,
    deletions: mpsc::Receiver<Deletion>,
}

impl Leader {
    /// Checks the configuration against the store and binds the sockets.
    pub async fn bind(
        config: LeaderConfig,
        store: Arc<dyn LeaderStore>,
    ) -> Result<Self, BindError> {
        let LeaderConfig { server, aggregation, helper_certificates } = config;
        // Another part of the process may have chosen one; ours are given their provider by hand.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let helper = HelperClient::new(aggregation.helper_timeout, helper_certificates.as_deref())?;
        let sockets = Sockets::bind(&server.http).await?;
        // Before the keys are checked: those of forgotten reports are not needed any more.
        forget_tasks(&server, &*store).await?;
        check_keys(&server.hpke_keys, &*store).await?;
        let tasks = Arc::clone(&store);
        let (gateway, body_timeout) = (server.gateway.clone(), server.http.body_timeout);
        let aggregator = Arc::new(Aggregator::new(Role::Leader, server, tasks).await?);
        let (deletion_sender, deletions) = mpsc::channel(MAX_DELETIONS);
        let state = LeaderState {
            intake: Intake::new(aggregation.max_job_reports, aggregation.max_job_bytes),
            pacing: Pacing::new(
                aggregation.min_backoff,
                aggregation.max_backoff,
                Arc::clone(&aggregator.health),
            ),
            metrics: LeaderMetrics::new(&aggregator.metrics),
            helper,
            config: aggregation,
            store,
            aggregator,
            deletions: deletion_sender,
            jobs_ready: Notify::new(),
            job_ended: Notify::new(),
            collections_ready: Notify::new(),
            uploads_paused: AtomicBool::new(false),
        };
        let state = Arc::new(state);
        let gateway =
            gateway.map(|config| open_gateway(config, body_timeout, &state)).transpose()?;
        Ok(Self { state, gateway, sockets, deletions })
    }

    /// Where the leader listens.
    pub fn addr(&self) -> SocketAddr {
        self.sockets.main.address()
    }

    /// Where the operator's listener is, if there is one.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.sockets.admin_address()
    }

    /// The tasks; more can be added at any time.
    pub fn tasks(&self) -> Arc<TaskRegistry> {
        Arc::clone(&self.state.aggregator.tasks)
    }

    /// Serves until `shutdown` resolves, then drains: accepts no more, gives leases back at once,
    /// finishes requests in flight within the deadline. To end on the spot, drop the future.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        let Self { state, gateway, sockets, deletions } = self;
        let router = router(&state, gateway);
        let aggregator = Arc::clone(&state.aggregator);
        service::serve(aggregator.vitals(), sockets, router, shutdown, |loops| {
            start_loops(&state, deletions, loops);
        })
        .await
    }
}

impl std::fmt::Debug for Leader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leader").finish_non_exhaustive()
    }
}

/// Shared by all requests and loops of the leader.
struct LeaderState {
    aggregator: Arc<Aggregator>,
    store: Arc<dyn LeaderStore>,
    config: AggregationConfig,
    metrics: LeaderMetrics,
    intake: Intake,
    pacing: Pacing,
    helper: HelperClient,
    deletions: mpsc::Sender<Deletion>,
    /// A job was formed, or given back.
    jobs_ready: Notify,
    /// A job was committed: there is room for another.
    job_ended: Notify,
    /// A collection was asked for.
    collections_ready: Notify,
    /// The disk holds too much.
    uploads_paused: AtomicBool,
}

/// A resource of the helper that is not needed any more.
struct Deletion {
    task: Arc<ServedTask>,
    location: Url,
}

impl LeaderState {
    /// Tells the helper, when there is time, that a resource is not needed any more.
    fn delete_at_helper(&self, task: Arc<ServedTask>, location: Option<Url>) {
        if let Some(location) = location {
            let _ = self.deletions.try_send(Deletion { task, location });
        }
    }
}

fn router(state: &Arc<LeaderState>, gateway: Option<Arc<GatewayResource>>) -> Router {
    let base = &state.aggregator.base_path;
    let tasks = format!("{base}/tasks/{{task_id}}");
    uploads(base)
        .route(&format!("{tasks}/collection_jobs"), post(collection::post))
        .route(
            &format!("{tasks}/collection_jobs/{{collection_job_id}}"),
            get(collection::get).delete(collection::delete),
        )
        .with_state(Arc::clone(state))
        .route(&format!("{base}/hpke_config"), get(hpke_config))
        .merge(gateway.map(|gateway| gateway.router(base)).unwrap_or_default())
        .fallback(async || Failure::NotFound.into_response())
        .method_not_allowed_fallback(async || Failure::MethodNotAllowed.into_response())
        .with_state(Arc::clone(&state.aggregator))
}

/// What devices may use.
fn uploads(base_path: &str) -> Router<Arc<LeaderState>> {
    Router::new().route(&format!("{base_path}/tasks/{{task_id}}/reports"), post(upload::post))
}

/// A gateway to uploads and nothing else.
fn open_gateway(
    config: GatewayConfig,
    body_timeout: Duration,
    state: &Arc<LeaderState>,
) -> Result<Arc<GatewayResource>, BindError> {
    let aggregator = &state.aggregator;
    let router = uploads(&aggregator.base_path)
        .fallback(async || Failure::NotFound.into_response())
        .method_not_allowed_fallback(async || Failure::MethodNotAllowed.into_response())
        .with_state(Arc::clone(state));
    let max_upload = aggregator.body_limits.max_upload;
    let longest = SizeClass::holding(max_upload.saturating_add(MAX_INNER_HEAD));
    let max_request = longest.unwrap_or(SizeClass::MAX_REQUEST).bytes();
    GatewayResource::inside(config, router, max_request, body_timeout, &aggregator.metrics)
}

fn start_loops(state: &Arc<LeaderState>, deletions: mpsc::Receiver<Deletion>, loops: &mut Loops) {
    let workers = state.config.workers.unwrap_or(state.aggregator.cpu_threads + 1).max(1);
    loops.spawn("forming", forming::run(Arc::clone(state), loops.shutdown()));
    for _ in 0..workers {
        loops.spawn("aggregation", aggregating::run(Arc::clone(state), loops.shutdown()));
    }
    for _ in 0..COLLECTION_WORKERS {
        loops.spawn("collection", collecting::run(Arc::clone(state), loops.shutdown()));
    }
    loops.spawn("deletion", delete_loop(Arc::clone(state), deletions, loops.shutdown()));
    loops.spawn("load", metrics::run(Arc::clone(state), loops.shutdown()));
    if state.aggregator.recipes.is_some() {
        loops.spawn("recipes", recipes::run(Arc::clone(&state.aggregator), loops.shutdown()));
    }
    let store = Arc::clone(&state.store);
    loops.spawn("upkeep", upkeep::run(Arc::clone(&state.aggregator), store, loops.shutdown()));
}

async fn delete_loop(
    state: Arc<LeaderState>,
    mut deletions: mpsc::Receiver<Deletion>,
    mut shutdown: crate::shutdown::Shutdown,
) {
    let delete_all = async {
        while let Some(Deletion { task, location }) = deletions.recv().await {
            state.helper.delete(&task, location).await;
        }
    };
    tokio::select! {
        () = shutdown.begun() => {}
        () = delete_all => {}
    }
}

/// Stored reports can only be opened with the keys that they name.
async fn check_keys(
    keys: &[sotto_crypto::HpkeKeypair],
    store: &dyn LeaderStore,
) -> Result<(), BindError> {
    let missing: Vec<u8> = store
        .live_hpke_configs()
        .await?
        .into_iter()
        .filter(|id| !keys.iter().any(|key| key.config().id() == *id))
        .map(|id| id.value())
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(BindError::MissingKeys(missing)) }
}
