//! The log as a server: accepts entries, has them witnessed, and serves the tree as plain files.
//!
//! Writing: [`add`] checks a submission by itself and hands it to the one [`sequencer`], which
//! appends batches, asks the [`witnesses`] and publishes. Reading: [`files`] serves the public
//! folder of the [`LogDir`] and touches neither lock nor sequencer, so any web server or CDN can do
//! the same. [`LogDir`] decides what is durable when; `sotto_protocol::log::witnessing` decides
//! what the answer of a witness means.

mod add;
mod config;
mod files;
mod folder;
mod metrics;
mod sequencer;
mod witnesses;

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
use crate::config::HttpConfig;
use crate::environment::Environment;
use crate::error::BindError;
use crate::gateway::{Destination, GatewayResource};
use crate::http::{BodyReader, Budget};
use crate::service::{Role, Server, with_fallbacks};

/// Submissions that may wait for the sequencer; beyond that, submitters get 429.
const MAX_WAITING: usize = 1024;

/// The longest encapsulated request for a file, in bytes: a path and a few fields, padded by
/// devices that want to look like an upload.
const MAX_READ_REQUEST: usize = 64 * 1024;

/// The log, for [`Server::bind`].
pub struct Log {
    /// What its operator decides.
    pub config: LogConfig,
    /// Where the tree is kept. Its key must be that of the policy's log.
    pub dir: LogDir,
}

impl Log {
    /// Checks the configuration and binds the sockets. The key of `dir` must be that of the log in
    /// the policy.
    pub async fn bind(config: LogConfig, dir: LogDir) -> Result<Server, BindError> {
        Server::bind(Self { config, dir }, Environment::default()).await
    }
}

impl Role for Log {
    fn http(&self) -> &HttpConfig {
        &self.config.http
    }

    /// Submitters that wait when the server drains are answered within the deadline. What has been
    /// signed but not published by then is finished at the next start.
    async fn open(self, server: &mut Server) -> Result<Router, BindError> {
        let Self { config, dir } = self;
        check_policy(&config.policy, &dir)?;
        let witnesses = WitnessPool::new(&config)?;
        let metrics = Arc::new(LogMetrics::new(&server.metrics));
        let memory = server.memory.all();
        let signed_size = Arc::new(AtomicU64::new(dir.signed_size()));
        let (inbox_sender, inbox) = mpsc::channel(MAX_WAITING);
        let state = Arc::new(LogState {
            rules: AdmissionRules {
                origin: dir.origin().to_owned(),
                signers: config.submitters.clone(),
            },
            public: dir.public().to_owned(),
            signed_size: Arc::clone(&signed_size),
            bodies: BodyReader::new(memory.clone(), config.http.body_timeout),
            base_path: server.base_path.clone(),
            inbox: inbox_sender,
            metrics: Arc::clone(&metrics),
        });
        let gateway = open_gateway(&config, memory, &state, server)?;
        let sequencer = Sequencer::new(config, dir, witnesses, inbox, signed_size, metrics, server);
        server.add_loop("sequencer", |shutdown| sequencer.run(shutdown));
        // The router holds the last sender to the sequencer, which ends when all senders are gone.
        Ok(router(state, gateway, server))
    }
}

/// Shared by all requests.
struct LogState {
    rules: AdmissionRules,
    /// The folder that is served.
    public: PathBuf,
    /// The size of the tree that the log has committed to by its signature.
    signed_size: Arc<AtomicU64>,
    bodies: BodyReader,
    base_path: String,
    inbox: mpsc::Sender<Submission>,
    metrics: Arc<LogMetrics>,
}

fn router(state: Arc<LogState>, gateway: Option<Arc<GatewayResource>>, server: &Server) -> Router {
    let (base, metrics) = (&server.base_path, &server.metrics);
    public_files(server)
        .route(&format!("{base}/add"), post(metrics.measured("log_add", add::post)))
        .merge(gateway.map(|gateway| gateway.router(base, metrics)).unwrap_or_default())
        .with_state(state)
}

fn public_files(server: &Server) -> Router<Arc<LogState>> {
    let file = get(server.metrics.measured("log_file", files::get));
    let paths = ["checkpoint", "tile/{*path}", "by-id/{bucket}", "first/{*path}"];
    paths.into_iter().fold(Router::new(), |router, path| {
        router.route(&format!("{}/{path}", server.base_path), file.clone())
    })
}

/// A gateway to the files and nothing else.
fn open_gateway(
    config: &LogConfig,
    memory: Budget,
    state: &Arc<LogState>,
    server: &Server,
) -> Result<Option<Arc<GatewayResource>>, BindError> {
    let Some(gateway) = config.gateway.clone() else { return Ok(None) };
    let router = with_fallbacks(public_files(server)).with_state(Arc::clone(state));
    let destination = Destination::inside(gateway.origin.as_deref(), router)?;
    let timeout = config.http.body_timeout;
    GatewayResource::new(gateway, destination, MAX_READ_REQUEST, memory, timeout, server).map(Some)
}

/// The policy by which this log publishes must be for this log and no other.
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
