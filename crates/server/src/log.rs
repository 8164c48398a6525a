//! The log as a server: takes entries, has them witnessed, and serves the tree as plain files.
//!
//! Writing: [`add`] checks a submission by itself and hands it to the one [`sequencer`], which appends
//! batches, asks the [`witnesses`] and publishes. Reading: [`files`] serves what lies in the public folder
//! of the [`LogDir`] and touches neither lock nor sequencer, so any web server or CDN can do
//! the same. What is durable when is the folder's part; what an answer of a witness means is
//! `sotto_protocol::log::witnessing`'s.

mod add;
mod backoff;
mod config;
mod desk;
mod files;
mod metrics;
mod sequencer;
mod witnesses;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use axum::Router;
use axum::routing::{get, post};
use sotto_crypto::note;
use sotto_protocol::log::admit::AdmissionRules;
use sotto_store::LogDir;
use sotto_wire::TlogPolicy;
use tokio::sync::mpsc;

pub use self::config::{LogConfig, LogFile};
use self::metrics::LogMetrics;
use self::sequencer::{Sequencer, Submission};
use self::witnesses::WitnessPool;
use crate::aggregator::base_path;
use crate::error::{BindError, RunError};
use crate::gateway::GatewayResource;
use crate::http::BodyReader;
use crate::metrics::MetricsRegistry;
use crate::problem::Failure;
use crate::service::{self, Sockets, Vitals};
use crate::upkeep;

/// Submissions that may wait for the sequencer; beyond that, submitters get 429.
const MAX_WAITING: usize = 1024;

/// The bytes of the longest encapsulated request for a file: a path and a few fields, padded by whoever
/// wants to look like an upload.
const MAX_READ_REQUEST: usize = 64 * 1024;

/// A log that listens and is not yet serving.
pub struct Log {
    state: Arc<LogState>,
    gateway: Option<Arc<GatewayResource>>,
    sequencer: Sequencer,
    vitals: Vitals,
    sockets: Sockets,
}

impl Log {
    /// Checks the configuration and binds the sockets. The key of `dir` must be that of the policy's
    /// log.
    pub async fn bind(config: LogConfig, dir: LogDir) -> Result<Self, BindError> {
        check_policy(&config.policy, &dir)?;
        // Another part of the process may have chosen one; ours are given their provider by hand.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let witnesses = WitnessPool::new(&config)?;
        let sockets = Sockets::bind(&config.http).await?;
        let registry = Arc::new(MetricsRegistry::new()?);
        let metrics = Arc::new(LogMetrics::new(&registry));
        let vitals = Vitals {
            health: Arc::default(),
            metrics: registry,
            drain_deadline: config.http.drain_deadline,
        };
        let signed_size = Arc::new(AtomicU64::new(dir.signed_size()));
        let (inbox_sender, inbox) = mpsc::channel(MAX_WAITING);
        let state = LogState {
            rules: AdmissionRules {
                origin: dir.origin().to_owned(),
                signers: config.submitters.clone(),
            },
            public: dir.public().to_owned(),
            signed_size: Arc::clone(&signed_size),
            bodies: BodyReader::new(config.http.max_body_memory, config.http.body_timeout),
            base_path: base_path(&config.http.base_path)?,
            inbox: inbox_sender,
            metrics: Arc::clone(&metrics),
        };
        let state = Arc::new(state);
        let gateway = open_gateway(&config, &state, &vitals.metrics)?;
        let health = Arc::clone(&vitals.health);
        let sequencer = Sequencer::new(config, dir, witnesses, inbox, signed_size, metrics, health);
        Ok(Self { state, gateway, sequencer, vitals, sockets })
    }

    /// Where the log listens.
    pub fn addr(&self) -> SocketAddr {
        self.sockets.main.address()
    }

    /// Where the operator's listener is, if there is one.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.sockets.admin_address()
    }

    /// Serves until `shutdown` resolves, then drains: accepts no more and answers those who wait
    /// within the deadline. What was signed and not published by then is finished at the next start.
    /// To end on the spot, drop the future.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        let Self { state, gateway, sequencer, vitals, sockets } = self;
        let metrics = Arc::clone(&vitals.metrics);
        // The router has the last sender to the sequencer, which ends when all are gone.
        let router = router(state, gateway);
        service::serve(vitals, sockets, router, shutdown, |loops| {
            loops.spawn("sequencer", sequencer.run(loops.shutdown()));
            loops.spawn("metrics", upkeep::fold_metrics(metrics, loops.shutdown()));
        })
        .await
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}

/// Shared by all requests.
struct LogState {
    rules: AdmissionRules,
    /// The folder that is served.
    public: PathBuf,
    /// The size of the tree that the log is bound to by its signature.
    signed_size: Arc<AtomicU64>,
    bodies: BodyReader,
    base_path: String,
    inbox: mpsc::Sender<Submission>,
    metrics: Arc<LogMetrics>,
}

fn router(state: Arc<LogState>, gateway: Option<Arc<GatewayResource>>) -> Router {
    let base = &state.base_path;
    public_files(base)
        .route(&format!("{base}/add"), post(add::post))
        .merge(gateway.map(|gateway| gateway.router(base)).unwrap_or_default())
        .fallback(async || Failure::NotFound.into_response())
        .method_not_allowed_fallback(async || Failure::MethodNotAllowed.into_response())
        .with_state(state)
}

fn public_files(base_path: &str) -> Router<Arc<LogState>> {
    Router::new()
        .route(&format!("{base_path}/checkpoint"), get(files::get))
        .route(&format!("{base_path}/tile/{{*path}}"), get(files::get))
        .route(&format!("{base_path}/by-id/{{bucket}}"), get(files::get))
        .route(&format!("{base_path}/first/{{*path}}"), get(files::get))
}

/// A gateway to the files and nothing else.
fn open_gateway(
    config: &LogConfig,
    state: &Arc<LogState>,
    metrics: &MetricsRegistry,
) -> Result<Option<Arc<GatewayResource>>, BindError> {
    let Some(gateway) = config.gateway.clone() else { return Ok(None) };
    let router = public_files(&state.base_path)
        .fallback(async || Failure::NotFound.into_response())
        .method_not_allowed_fallback(async || Failure::MethodNotAllowed.into_response())
        .with_state(Arc::clone(state));
    let timeout = config.http.body_timeout;
    GatewayResource::inside(gateway, router, MAX_READ_REQUEST, timeout, metrics).map(Some)
}

/// The policy by which this log publishes must be about this log and no other.
fn check_policy(policy: &TlogPolicy, dir: &LogDir) -> Result<(), BindError> {
    let signed = dir.pending().map(|staged| staged.note).or_else(|| dir.published().cloned());
    let is_own = match policy.logs() {
        [log] => {
            log.key.name().as_str() == dir.origin()
                && signed.is_none_or(|note| note::verify(&note, &log.key).is_ok())
        }
        _ => false,
    };
    match is_own {
        true => Ok(()),
        false => Err(BindError::Config(format!(
            "the policy must have one log line, with the key of {}",
            dir.origin()
        ))),
    }
}
