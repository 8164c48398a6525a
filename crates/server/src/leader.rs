//! The leader as a server: accepts uploads, drives aggregation, answers collectors.
//!
//! [`upload`] and [`collection`] are its resources. [`forming`] forms jobs; [`attempts`] is the loop
//! that works on them, as [`aggregating`] and [`collecting`] say. Every step loads, calls one
//! function of `sotto_protocol::leader` and commits through the store. That crate also decides what
//! the loops do next and how long they sleep.

mod aggregating;
mod attempts;
mod collecting;
mod collection;
mod forming;
mod intake;
mod metrics;
mod pacing;
mod probing;
mod unfinished;
mod upload;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use sotto_protocol::leader::aggregate::JobLimits;
use sotto_protocol::leader::forming::FormingLimits;
use sotto_protocol::leader::pacing::PacingLimits;
use sotto_protocol::leader::room::Longest;
use sotto_protocol::leader::waits::Waits;
use sotto_store::LeaderStore;
use sotto_wire::size_class::SizeClass;
use sotto_wire::{self as wire, HttpUrl, TaskId};
use tokio::sync::{Notify, mpsc};

use self::aggregating::Aggregation;
use self::collecting::Collecting;
use self::intake::SharedIntake;
use self::metrics::LeaderMetrics;
use self::pacing::SharedPacing;
use crate::aggregator::{Aggregator, forget_tasks};
use crate::config::{AggregationConfig, HttpConfig, LeaderConfig};
use crate::environment::Environment;
use crate::error::BindError;
use crate::gateway::{Destination, GatewayConfig, GatewayResource};
use crate::peer::HelperClient;
use crate::service::{Role, Server, with_fallbacks};
use crate::tasks::ServedTask;

/// Resources at the helper that wait to be deleted. Further ones are dropped: the helper deletes
/// them itself with the batch.
const MAX_DELETIONS: usize = 256;

/// An upper bound on what an encapsulated upload adds to the upload: method, URL, fields with the
/// announcement of a task, and sealing.
const MAX_INNER_HEAD: usize = 64 * 1024;

/// Attempts at collections that may be in flight at one helper.
const MAX_COLLECTIONS: usize = 2;

/// The leader, for [`Server::bind`].
pub struct Leader {
    /// What its operator decides.
    pub config: LeaderConfig,
    /// Where reports, jobs and batches are kept.
    pub store: Arc<dyn LeaderStore>,
}

impl Leader {
    /// Checks the configuration against the store and binds the sockets.
    pub async fn bind(
        config: LeaderConfig,
        store: Arc<dyn LeaderStore>,
    ) -> Result<Server, BindError> {
        Server::bind(Self { config, store }, Environment::default()).await
    }
}

impl Role for Leader {
    fn http(&self) -> &HttpConfig {
        &self.config.server.http
    }

    async fn open(self, server: &mut Server) -> Result<Router, BindError> {
        let Self {
            config: LeaderConfig { server: config, aggregation, helper_certificates },
            store,
        } = self;
        let helper = HelperClient::new(aggregation.helper_timeout, helper_certificates.as_deref())?;
        // Before the keys are checked: those of forgotten reports are no longer needed.
        forget_tasks(&config, &*store).await?;
        check_keys(&config.hpke_keys, &*store).await?;
        let gateway = config.gateway.clone();
        let tasks = Arc::clone(&store);
        let body_timeout = config.http.body_timeout;
        let data_dir = config.http.data_dir.clone();
        let aggregator = Aggregator::new(wire::Role::Leader, config, tasks, server).await?;
        let (deletion_sender, deletions) = mpsc::channel(MAX_DELETIONS);
        let state = Arc::new(LeaderState {
            // A report takes at least twice its length.
            intake: SharedIntake::new(aggregation.max_job_reports, aggregation.max_job_bytes / 2),
            pacing: SharedPacing::new(
                PacingLimits {
                    min_pause: aggregation.min_backoff,
                    max_pause: aggregation.max_backoff,
                    max_aggregations: aggregation.workers.unwrap_or(aggregator.cpu_threads + 1),
                    max_collections: MAX_COLLECTIONS,
                    max_memory: server.memory.half_bytes() as u64,
                },
                JobLimits {
                    max_job_reports: aggregation.max_job_reports,
                    max_job_bytes: aggregation.max_job_bytes,
                },
                server.memory.clone(),
                Arc::clone(&aggregator.health),
                aggregator.environment.clone(),
            ),
            limits: FormingLimits {
                job: JobLimits {
                    max_job_reports: aggregation.max_job_reports,
                    max_job_bytes: aggregation.max_job_bytes,
                },
                max_open_jobs: aggregation.max_open_jobs,
                job_delay: aggregation.job_delay,
            },
            metrics: LeaderMetrics::new(&aggregator.metrics),
            helper,
            config: aggregation,
            store,
            aggregator,
            deletions: deletion_sender,
            jobs_ready: Notify::new(),
            collections_ready: Notify::new(),
            collections_finished: Notify::new(),
            waits: Mutex::default(),
            data_dir,
            uploads_paused: AtomicBool::new(false),
            disk_full: AtomicBool::new(false),
            full_tasks: Mutex::default(),
            longest: Mutex::default(),
        });
        let gateway =
            gateway.map(|config| open_gateway(config, body_timeout, &state, server)).transpose()?;
        add_loops(&state, deletions, server);
        Ok(router(&state, gateway))
    }
}

/// Shared by all requests and loops of the leader.
struct LeaderState {
    aggregator: Arc<Aggregator>,
    store: Arc<dyn LeaderStore>,
    config: AggregationConfig,
    metrics: LeaderMetrics,
    intake: SharedIntake,
    pacing: SharedPacing,
    limits: FormingLimits,
    helper: HelperClient,
    deletions: mpsc::Sender<Deletion>,
    /// A job was formed, or an attempt has ended.
    jobs_ready: Notify,
    /// A collection was requested, or an attempt has ended.
    collections_ready: Notify,
    /// A collection has a result, or has failed.
    collections_finished: Notify,
    waits: Mutex<Waits>,
    /// Too many bytes of reports are on disk.
    uploads_paused: AtomicBool,
    /// Too few bytes of the disk are free.
    disk_full: AtomicBool,
    data_dir: Option<PathBuf>,
    /// Tasks that hold too much of the room on disk.
    full_tasks: Mutex<HashSet<TaskId>>,
    longest: Mutex<Longest>,
}

/// A resource at the helper that is no longer needed.
struct Deletion {
    task: Arc<ServedTask>,
    location: HttpUrl,
}

impl LeaderState {
    /// Whether the helper of a task fails or hangs.
    fn is_in_trouble(&self, task_id: &TaskId) -> bool {
        self.aggregator.tasks.task(task_id).is_some_and(|task| self.pacing.is_in_trouble(&task))
    }

    fn full_tasks(&self) -> MutexGuard<'_, HashSet<TaskId>> {
        self.full_tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn longest(&self) -> MutexGuard<'_, Longest> {
        self.longest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long collections wait for their batches.
    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message to the helper that a resource is no longer needed.
    fn delete_at_helper(&self, task: Arc<ServedTask>, location: Option<HttpUrl>) {
        if let Some(location) = location {
            let _ = self.deletions.try_send(Deletion { task, location });
        }
    }
}

fn router(state: &Arc<LeaderState>, gateway: Option<Arc<GatewayResource>>) -> Router {
    let (base, metrics) = (&state.aggregator.base_path, &state.aggregator.metrics);
    let collections = format!("{base}/tasks/{{task_id}}/collection_jobs");
    uploads(&state.aggregator)
        .route(
            &collections,
            post(metrics.measured("collection_post", collection::post))
                .get(metrics.measured("collection_list", collection::list)),
        )
        .route(
            &format!("{collections}/{{collection_job_id}}"),
            get(metrics.measured("collection_get", collection::get))
                .delete(metrics.measured("collection_delete", collection::delete)),
        )
        .with_state(Arc::clone(state))
        .merge(state.aggregator.router())
        .merge(gateway.map(|gateway| gateway.router(base, metrics)).unwrap_or_default())
}

/// The routes that devices may use.
fn uploads(aggregator: &Aggregator) -> Router<Arc<LeaderState>> {
    let path = format!("{}/tasks/{{task_id}}/reports", aggregator.base_path);
    Router::new().route(&path, post(aggregator.metrics.measured("upload", upload::post)))
}

/// A gateway to uploads and nothing else.
fn open_gateway(
    config: GatewayConfig,
    body_timeout: Duration,
    state: &Arc<LeaderState>,
    server: &Server,
) -> Result<Arc<GatewayResource>, BindError> {
    let aggregator = &state.aggregator;
    let router = with_fallbacks(uploads(aggregator)).with_state(Arc::clone(state));
    let destination = Destination::inside(config.origin.as_deref(), router)?;
    let max_upload = aggregator.body_limits.max_upload;
    let longest = SizeClass::holding(max_upload.saturating_add(MAX_INNER_HEAD));
    let max_request = longest.unwrap_or(SizeClass::MAX_REQUEST).bytes();
    let memory = aggregator.bodies.budget();
    GatewayResource::new(config, destination, max_request, memory, body_timeout, server)
}

fn add_loops(state: &Arc<LeaderState>, deletions: mpsc::Receiver<Deletion>, server: &mut Server) {
    let leader = || Arc::clone(state);
    let forming = leader();
    server.add_loop("forming", |shutdown| forming::run(forming, shutdown));
    let (aggregating, collecting) = (leader(), leader());
    server.add_loop("aggregation", |shutdown| attempts::run::<Aggregation>(aggregating, shutdown));
    server.add_loop("collection", |shutdown| attempts::run::<Collecting>(collecting, shutdown));
    let probing = leader();
    server.add_loop("probing", |shutdown| probing::run(probing, shutdown));
    let deleting = leader();
    server.add_loop("deletion", |shutdown| delete_loop(deleting, deletions, shutdown));
    let measured = leader();
    server.add_loop("load", |shutdown| metrics::run(measured, shutdown));
    let store = Arc::clone(&state.store);
    state.aggregator.add_loops(store, server);
}

async fn delete_loop(
    state: Arc<LeaderState>,
    mut deletions: mpsc::Receiver<Deletion>,
    mut shutdown: crate::shutdown::Shutdown,
) {
    while let Some(Some(Deletion { task, location })) = shutdown.or(deletions.recv()).await {
        shutdown.or(state.helper.delete(&task, location)).await;
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
