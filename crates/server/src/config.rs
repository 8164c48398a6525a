//! What an operator decides. Reading it from files is the program's part.
//!
//! `new` fills in defaults that suit a small machine; every field may be changed afterwards.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::taskprov::TaskprovPolicy;
use sotto_protocol::trust::Trust;
use sotto_wire::limits::{MAX_AGGREGATION_JOB_LEN, MAX_UPLOAD_REQUEST_LEN};
use sotto_wire::{KeyName, TaskId, VerifierKey};

use crate::auth::AuthToken;
use crate::gateway::GatewayConfig;
use crate::tasks::ServedTask;

/// A leader.
#[derive(Debug)]
pub struct LeaderConfig {
    /// What it has in common with a helper.
    pub server: ServerConfig,
    /// How reports are aggregated.
    pub aggregation: AggregationConfig,
    /// PEM certificates that may vouch for helpers, beside those of the operating system.
    pub helper_certificates: Option<Vec<u8>>,
}

impl LeaderConfig {
    /// A leader that listens at `listen` and has these keys.
    pub fn new(listen: SocketAddr, hpke_keys: Vec<HpkeKeypair>) -> Self {
        Self {
            server: ServerConfig::new(listen, hpke_keys),
            aggregation: AggregationConfig::default(),
            helper_certificates: None,
        }
    }
}

/// A helper.
#[derive(Debug)]
pub struct HelperConfig {
    /// What it has in common with a leader.
    pub server: ServerConfig,
}

impl HelperConfig {
    /// A helper that listens at `listen` and has these keys.
    pub fn new(listen: SocketAddr, hpke_keys: Vec<HpkeKeypair>) -> Self {
        Self { server: ServerConfig::new(listen, hpke_keys) }
    }
}

/// What leader and helper have in common.
#[derive(Debug)]
pub struct ServerConfig {
    /// Where the aggregator listens. Port 0 lets the operating system choose.
    pub listen: SocketAddr,
    /// The path of the public URL, under which all resources lie. Empty for none.
    pub base_path: String,
    /// Certificates. Without them the listener speaks plain HTTP.
    pub tls: Option<TlsConfig>,
    /// Allows plain HTTP away from loopback: of either listener, and to a helper. Tokens and shares'
    /// sizes then travel in the clear.
    pub insecure_http: bool,
    /// Where `/livez`, `/readyz` and `/metrics` are served, in plain HTTP.
    pub admin_listen: Option<SocketAddr>,
    /// HPKE keys, the preferred one first. A key must stay until no stored report names it.
    pub hpke_keys: Vec<HpkeKeypair>,
    /// Tasks served from the start.
    pub tasks: Vec<ServedTask>,
    /// Tasks whose data is deleted at the start: reports, jobs, batches, report ids. For tasks that
    /// are not configured any more; it cannot be undone, and a task that was forgotten must not be
    /// served again, because its reports could count twice.
    pub forget_tasks: Vec<TaskId>,
    /// Takes part in tasks that peers announce in the `DAP-Taskprov` header.
    pub taskprov: Option<TaskprovConfig>,
    /// Takes part in recipes that a public log holds.
    pub recipes: Option<RecipesConfig>,
    /// Takes uploads through relays. Leaders only: devices never talk to a helper.
    pub gateway: Option<GatewayConfig>,
    /// Serves plain DAP tasks, with no recipe behind them: devices then cannot check what they take
    /// part in.
    pub insecure_plain_tasks: bool,
    /// Threads for cryptography.
    pub cpu_threads: usize,
    /// Pieces of work that may wait for such a thread.
    pub cpu_queue: usize,
    /// Bounds of connections.
    pub connections: ConnectionLimits,
    /// Bounds of request bodies.
    pub bodies: BodyLimits,
    /// How long requests in flight may take once the server is told to end.
    pub drain_deadline: Duration,
    /// How long a task's data is kept after its interval has ended, for the collector.
    pub retention_grace: Duration,
    /// How long others may keep the answer of `hpke_config`. Old keys must be kept twice as long.
    pub hpke_config_max_age: Duration,
}

impl ServerConfig {
    /// Defaults for everything but the address and the keys.
    pub fn new(listen: SocketAddr, hpke_keys: Vec<HpkeKeypair>) -> Self {
        let cpu_threads = thread::available_parallelism().map_or(1, usize::from);
        Self {
            listen,
            base_path: String::new(),
            tls: None,
            insecure_http: false,
            admin_listen: None,
            hpke_keys,
            tasks: Vec::new(),
            forget_tasks: Vec::new(),
            taskprov: None,
            recipes: None,
            gateway: None,
            insecure_plain_tasks: false,
            cpu_threads,
            cpu_queue: 4 * cpu_threads,
            connections: ConnectionLimits::default(),
            bodies: BodyLimits::default(),
            drain_deadline: Duration::from_secs(10),
            retention_grace: Duration::from_secs(14 * 24 * 3600),
            hpke_config_max_age: Duration::from_secs(24 * 3600),
        }
    }
}

/// How a log or a witness is reached.
#[derive(Debug)]
pub struct HttpConfig {
    /// Where it listens. Port 0 lets the operating system choose.
    pub listen: SocketAddr,
    /// The path of the public URL, under which all resources lie. Empty for none.
    pub base_path: String,
    /// Certificates. Without them the listener speaks plain HTTP.
    pub tls: Option<TlsConfig>,
    /// Allows plain HTTP away from loopback: of either listener, and to witnesses.
    pub insecure_http: bool,
    /// Where `/livez`, `/readyz` and `/metrics` are served, in plain HTTP.
    pub admin_listen: Option<SocketAddr>,
    /// Bounds of connections.
    pub connections: ConnectionLimits,
    /// How long a body may take to arrive. One that trickles is given up earlier.
    pub body_timeout: Duration,
    /// Bytes that all bodies in flight may hold together.
    pub max_body_memory: usize,
    /// How long requests in flight may take once the server is told to end.
    pub drain_deadline: Duration,
}

impl HttpConfig {
    /// Defaults for everything but the address.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            base_path: String::new(),
            tls: None,
            insecure_http: false,
            admin_listen: None,
            connections: ConnectionLimits::default(),
            body_timeout: Duration::from_secs(30),
            max_body_memory: 32 * 1024 * 1024,
            drain_deadline: Duration::from_secs(10),
        }
    }
}

/// Certificates of a listener.
#[derive(Debug)]
pub struct TlsConfig {
    /// PEM: the server's certificate, then those between it and the root.
    pub certificate_chain: Vec<u8>,
    /// PEM: the private key.
    pub private_key: Secret<Vec<u8>>,
}

/// Bounds of connections.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// Connections at once; further ones wait in the operating system's queue.
    pub max_connections: usize,
    /// How long a TLS handshake, the wait for a request and the arrival of its head may take.
    pub header_timeout: Duration,
    /// How long the peer may leave an answer untaken.
    pub write_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            max_connections: 4096,
            header_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
        }
    }
}

/// Bounds of request bodies.
#[derive(Clone, Debug)]
pub struct BodyLimits {
    /// How long a body may take to arrive. One that trickles is given up earlier.
    pub timeout: Duration,
    /// Bytes that all bodies in flight may hold together.
    pub max_memory: usize,
    /// Bytes of one upload.
    pub max_upload: usize,
    /// Bytes of one aggregation job.
    pub max_aggregation_job: usize,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            max_memory: 128 * 1024 * 1024,
            max_upload: MAX_UPLOAD_REQUEST_LEN,
            max_aggregation_job: MAX_AGGREGATION_JOB_LEN,
        }
    }
}

/// How a leader aggregates.
#[derive(Clone, Debug)]
pub struct AggregationConfig {
    /// Reports in one job.
    pub max_job_reports: usize,
    /// Bytes of reports in one job.
    pub max_job_bytes: usize,
    /// How long reports wait for their job to fill.
    pub job_delay: Duration,
    /// Jobs that are worked on at once; by default one more than there are CPU threads, so that
    /// while one waits for the helper another computes.
    pub workers: Option<usize>,
    /// Jobs that may wait for a worker before no more are formed.
    pub max_open_jobs: usize,
    /// How long a worker may take over a job before another may try.
    pub lease: Duration,
    /// How long the helper may take over an answer.
    pub helper_timeout: Duration,
    /// The pause after the first failure of the helper. It doubles with each further one.
    pub min_backoff: Duration,
    /// The longest pause.
    pub max_backoff: Duration,
    /// Bytes of reports on disk at which uploads are turned away, whatever they wait for.
    pub max_segment_bytes: u64,
}

impl Default for AggregationConfig {
    fn default() -> Self {
        Self {
            max_job_reports: 512,
            max_job_bytes: 8 * 1024 * 1024,
            job_delay: Duration::from_millis(200),
            workers: None,
            max_open_jobs: 16,
            lease: Duration::from_secs(60),
            helper_timeout: Duration::from_secs(30),
            min_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(2),
            max_segment_bytes: 64 * 1024 * 1024 * 1024,
        }
    }
}

/// How an aggregator takes part in tasks that are announced to it.
#[derive(Debug)]
pub struct TaskprovConfig {
    /// Which tasks, and the secrets that their keys are made of.
    pub policy: TaskprovPolicy,
    /// Between leader and helper.
    pub leader_token: Arc<AuthToken>,
    /// Between collector and leader; the helper has none.
    pub collector_token: Option<Arc<AuthToken>>,
    /// Announced tasks at once. Anybody can announce one with an upload.
    pub max_tasks: usize,
}

/// How an aggregator takes part in the recipes of a public log.
#[derive(Debug)]
pub struct RecipesConfig {
    /// What it takes on trust. It checks recipes as a device with these anchors would.
    pub trust: Trust,
    /// The operator of this aggregator: recipes name it.
    pub operator: KeyName,
    /// The URL of this aggregator in the spelling of the recipes.
    pub public_url: String,
    /// Where the files of the log lie.
    pub log_url: String,
    /// PEM certificates that may vouch for the log, beside those of the operating system.
    pub log_certificates: Option<Vec<u8>>,
    /// The secret shared with the other aggregator, from which verification keys are derived.
    pub verify_key_init: Secret<[u8; 32]>,
    /// Between leader and helper.
    pub leader_token: Arc<AuthToken>,
    /// Whose recipes are served.
    pub authors: Vec<RecipeAuthor>,
    /// How often the log is read.
    pub poll: Duration,
}

/// An author whose recipes are served.
#[derive(Debug)]
pub struct RecipeAuthor {
    /// Signs the recipes.
    pub key: VerifierKey,
    /// Between the author's collector and the leader; the helper has none.
    pub collector_token: Option<Arc<AuthToken>>,
}
