//! What an operator decides: how a server is reached, and everything about an aggregator.
//!
//! A type that ends in `File` or `Table` is a configuration file, or a table in one. It holds paths
//! and names. The program loads them and fills in the type that ends in `Config`, which a server
//! gets. Both hold the plain settings, which are defined once ([`settings!`](crate::settings)).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde::de::{Deserializer, Error};
use sotto_crypto::note::NoteKey;
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::sources::ConnectionRule;
use sotto_protocol::taskprov::TaskprovPolicy;
use sotto_protocol::trust::Trust;
use sotto_wire::limits::{MAX_AGGREGATION_JOB_LEN, MAX_UPLOAD_REQUEST_LEN};
use sotto_wire::{KeyName, TaskId, VerifierKey};

use crate::auth::AuthToken;
use crate::gateway::{GatewayConfig, GatewayTable};
use crate::settings::{Setting, settings};
use crate::tasks::ServedTask;

settings! {
    /// How a server is reached.
    #[derive(Debug)]
    pub struct HttpConfig {
        /// Where the server listens. Port 0 lets the system choose (see --ready-file).
        ["listen"] pub listen: SocketAddr = loopback(0),
        /// Where /livez, /readyz, /status and /metrics are served, in plain HTTP. Off unless set.
        ["admin_listen", example "\"127.0.0.1:9080\""] pub admin_listen: Option<SocketAddr>,
        [group] pub connections: ConnectionLimits,
        /// How long a request body may take to arrive. It is given up earlier (408) if it is slower
        /// than 512 bytes per second on average, after the first 30 seconds: phones with a poor
        /// connection are faster.
        ["limits.body_timeout_s"] pub body_timeout: Duration = Duration::from_secs(60),
        /// Bytes that everything in flight may hold together: requests and answers, and the jobs of
        /// leader and helper. Beyond that, requests get 429 or 503 with the time after which to
        /// retry, and jobs wait. /readyz says how much is held.
        ["limits.max_memory_bytes"] pub max_memory: usize = 32 * 1024 * 1024,
        /// How long requests in flight may take once the server is told to stop.
        ["limits.drain_deadline_s"] pub drain_deadline: Duration = Duration::from_secs(10),
        /// The path of the public URL. All resources are under it. Empty for none.
        [loaded] pub base_path: String,
        /// Certificates. Without them the listener speaks plain HTTP.
        [loaded] pub tls: Option<TlsConfig>,
        /// The folder of the server's data: the disk that it is on is measured.
        [loaded] pub data_dir: Option<PathBuf>,
        /// Checks everything, and binds no socket. Such a server only waits until it is stopped.
        [loaded] pub check_only: bool,
        /// Allows plain HTTP beyond loopback, for both listeners and to other servers. Tokens and the
        /// sizes of shares are then visible on the network.
        [loaded] pub insecure_http: bool,
    }
}

impl HttpConfig {
    /// Defaults for everything but the address.
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen, ..Self::default() }
    }
}

settings! {
    /// Limits on connections.
    #[derive(Clone, Debug)]
    pub struct ConnectionLimits {
        /// Connections at once. Further ones wait in the system's queue.
        ["limits.max_connections"] pub max_connections: usize = 4096,
        /// Connections at once from one source: an IPv4 address, or the first 64 bits of an IPv6
        /// address. One more is closed. Sources are never written down. 0 is no limit. That is right
        /// behind a proxy or load balancer, where all have one address; limit them there.
        ["limits.max_connections_per_source"] pub max_per_source: usize = 1024,
        /// Addresses of peers, such as `"192.0.2.7"`: the leader at a helper, relays at a gateway,
        /// collectors at a leader. Their connections have places of their own, so that they get
        /// through however many strangers connect. If any is listed, connections beyond
        /// max_connections are closed instead of waiting.
        ["limits.peer_addresses"] pub peers: Vec<IpAddr>,
        /// Connections at once from peer_addresses. Each address has an equal share of them. Beyond
        /// it, an address counts like any other source.
        ["limits.max_peer_connections"] pub max_peer_connections: usize = 1024,
        /// How long a TLS handshake may take, and the wait for the head of a request.
        ["limits.header_timeout_s"] pub header_timeout: Duration = Duration::from_secs(30),
        /// How long a peer may leave an answer unread.
        ["limits.write_timeout_s"] pub write_timeout: Duration = Duration::from_secs(30),
    }
}

impl ConnectionLimits {
    /// Which connections are accepted.
    pub(crate) fn rule(&self) -> ConnectionRule {
        ConnectionRule {
            max_per_source: self.max_per_source,
            peers: self.peers.clone(),
            max_peer_connections: self.max_peer_connections,
        }
    }
}

settings! {
    /// The part of every configuration file that says how the server is reached.
    #[derive(Debug)]
    pub struct HttpFile {
        [group] pub http: HttpConfig,
        /// The URL that others know. Set it if it has a path: resources are then under that path.
        ["public_url", example "\"https://sotto.example/path/\""] pub public_url: Option<String>,
        /// The certificate chain, PEM. Without certificate and key, only loopback is served, unless
        /// --insecure-http is given.
        ["tls.cert", example "\"fullchain.pem\""] pub cert: Option<PathBuf>,
        /// The private key, PEM.
        ["tls.key", example "\"privkey.pem\""] pub key: Option<PathBuf>,
        /// Authorities that may vouch for the servers that this one talks to, beside the system's. PEM.
        ["tls.ca", example "\"ca.pem\""] pub ca: Option<PathBuf>,
    }
}

impl HttpFile {
    /// Defaults, on this port of loopback: servers of two roles on one machine do not collide.
    pub(crate) fn on_port(port: u16) -> Self {
        HttpConfig::new(loopback(port)).into()
    }
}

impl From<HttpConfig> for HttpFile {
    fn from(http: HttpConfig) -> Self {
        Self { http, ..Self::default() }
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

settings! {
    /// The leader takes uploads, drives the aggregation and answers the collector. With `[taskprov]`
    /// or `[recipes]` the file holds secrets: keep it at mode 0600.
    #[derive(Debug)]
    pub struct LeaderFile {
        [group] pub aggregator: AggregatorFile = AggregatorFile::on_port(8080, "leader-data"),
        [group] pub leader: LeaderTables,
    }
}

settings! {
    /// The helper answers the leader. With `[taskprov]` or `[recipes]` the file holds secrets: keep it
    /// at mode 0600.
    #[derive(Debug)]
    pub struct HelperFile {
        [group] pub aggregator: AggregatorFile = AggregatorFile::on_port(8081, "helper-data"),
        [hidden] pub leader: LeaderTables,
    }
}

settings! {
    /// The settings that only a leader uses.
    #[derive(Debug)]
    pub struct LeaderTables {
        [group] pub aggregation: AggregationConfig,
        /// Accepts uploads through a relay, so that the leader does not see who they are from.
        ["gateway"] pub gateway: Option<GatewayTable>,
    }
}

settings! {
    /// The file of a leader or helper, without what only a leader uses.
    #[derive(Debug)]
    pub struct AggregatorFile {
        [group] pub http: HttpFile,
        /// The folder of the store: one SQLite file, and segments of reports.
        ["data_dir"] pub data_dir: PathBuf,
        /// Keeps everything in a PostgreSQL database instead, which any number of processes of this
        /// role share. Then hpke_keys must list the same files for all of them.
        ["postgres"] pub postgres: Option<PostgresTable>,
        /// HPKE key files (`sotto keys new`), the preferred one first: a hybrid one, and an X25519 one
        /// for older devices and other implementations of DAP. If none is listed, the server makes one
        /// of each in data_dir. Keep an old key listed for at least twice hpke_config_max_age_s. An id
        /// never comes back with another key: data_dir/hpke_keys_seen.toml records which ids were used.
        ["hpke_keys"] pub hpke_keys: Vec<PathBuf>,
        /// Task files of this role (`sotto task new`), or folders of them.
        ["tasks"] pub tasks: Vec<PathBuf>,
        [group] pub server: ServerConfig,
        /// Takes part in tasks that peers announce in the `DAP-Taskprov` header, all between the same
        /// leader, helper and collector.
        ["taskprov"] pub taskprov: Option<TaskprovTable>,
        /// Takes part in recipes of a public log that name this operator at public_url, which must
        /// then be set.
        ["recipes"] pub recipes: Option<RecipesTable>,
    }
}

impl AggregatorFile {
    fn on_port(port: u16, data_dir: &str) -> Self {
        let http = aggregator_http(loopback(port)).into();
        Self { http, data_dir: data_dir.into(), ..Self::default() }
    }
}

settings! {
    /// A PostgreSQL database (version 14 or later). `sotto db migrate` makes its tables.
    #[derive(Debug)]
    pub struct PostgresTable {
        /// The database: `postgres://user@host/database`, or `host=... dbname=... user=...`. It may
        /// have a password; keep the file at mode 0600 then.
        ["url", required "\"postgres://sotto@database.example/leader\""] pub url: Secret<String> =
            no_secret(),
        /// Files with the keys that seal what the database holds of reports (`sotto keys store`), the
        /// one in use first. Keep an older one listed until no report that it sealed waits.
        ["keys", required "[\"store.key\"]"] pub keys: Vec<PathBuf>,
        /// Certificates of the authorities that vouch for the database, PEM. Required unless the
        /// database is on this machine.
        ["ca", example "\"database-ca.pem\""] pub ca: Option<PathBuf>,
        /// Connections that this process may open.
        ["max_connections"] pub max_connections: usize = 12,
        /// Bytes of reports that may wait for jobs, of all processes together. Beyond that, uploads get
        /// 503.
        ["max_backlog_bytes"] pub max_backlog: u64 = 16 << 30,
        /// Bytes of reports that are also kept in memory until they are counted.
        ["cache_bytes"] pub cache: usize = 64 << 20,
    }
}

settings! {
    /// What leader and helper have in common.
    #[derive(Debug)]
    pub struct ServerConfig {
        /// Ids of tasks that are no longer configured and whose data is deleted at the start, for good:
        /// reports, jobs, batches, report ids. Such a task is never served again, because its
        /// reports could count twice. Without this a leader keeps the task's waiting reports until the
        /// task is configured again. A series is listed like a task whose id is that of its header: this
        /// deletes which of its tokens were spent, and no round of it is served again.
        ["forget_tasks"] pub forget_tasks: Vec<TaskId>,
        /// Serves plain DAP tasks, which have no recipe that devices could check.
        ["insecure_plain_tasks"] pub insecure_plain_tasks: bool,
        /// Threads for cryptography. One per processor unless set.
        ["limits.cpu_threads", example "2"] pub cpu_threads: usize = processors(),
        /// Work items that may wait for such a thread. Beyond that, peers get 429. Four per thread
        /// unless set.
        ["limits.cpu_queue", example "8"] pub cpu_queue: Option<usize>,
        [group] pub bodies: BodyLimits,
        /// How long a task's data is kept after its interval has ended, for the collector.
        ["limits.retention_grace_s"] pub retention_grace: Duration =
            Duration::from_secs(14 * 24 * 3600),
        /// How long devices may cache the HPKE keys. Old keys must be kept twice as long.
        ["limits.hpke_config_max_age_s"] pub hpke_config_max_age: Duration =
            Duration::from_secs(24 * 3600),
        /// How it is reached.
        [loaded] pub http: HttpConfig,
        /// HPKE keys, the preferred one first. A key must stay until no stored report names it.
        [loaded] pub hpke_keys: Vec<HpkeKeypair>,
        /// Tasks served from the start.
        [loaded] pub tasks: Vec<ServedTask>,
        /// Takes part in tasks that peers announce in the `DAP-Taskprov` header.
        [loaded] pub taskprov: Option<TaskprovConfig>,
        /// Takes part in recipes that a public log holds.
        [loaded] pub recipes: Option<RecipesConfig>,
        /// Takes uploads through relays. Leaders only: devices never talk to a helper.
        [loaded] pub gateway: Option<GatewayConfig>,
    }
}

impl ServerConfig {
    /// Defaults for everything but the address and the keys.
    pub fn new(listen: SocketAddr, hpke_keys: Vec<HpkeKeypair>) -> Self {
        Self { http: aggregator_http(listen), hpke_keys, ..Self::default() }
    }

    /// Work items that may wait for a thread.
    pub fn cpu_queue_len(&self) -> usize {
        self.cpu_queue.unwrap_or(4 * self.cpu_threads)
    }
}

/// Aggregators hold larger bodies than the other roles, and jobs.
fn aggregator_http(listen: SocketAddr) -> HttpConfig {
    HttpConfig { max_memory: 320 * 1024 * 1024, ..HttpConfig::new(listen) }
}

settings! {
    /// Limits on the request bodies of aggregators.
    #[derive(Clone, Debug)]
    pub struct BodyLimits {
        /// Bytes of one upload.
        ["limits.max_upload_bytes"] pub max_upload: usize = MAX_UPLOAD_REQUEST_LEN,
        /// Bytes of one aggregation job.
        ["limits.max_aggregation_job_bytes"] pub max_aggregation_job: usize =
            MAX_AGGREGATION_JOB_LEN,
    }
}

settings! {
    /// How a leader aggregates.
    #[derive(Clone, Debug)]
    pub struct AggregationConfig {
        /// Bytes of reports on disk at which uploads are refused. A task may hold as much as is free,
        /// so one task alone fills half of it.
        ["limits.max_stored_report_bytes"] pub max_segment_bytes: u64 = 64 * 1024 * 1024 * 1024,
        /// Free bytes on the disk of data_dir below which uploads are refused (503), so that jobs that
        /// have begun can still be finished. 0 is no limit.
        ["limits.min_free_disk_bytes"] pub min_free_disk: u64 = 1024 * 1024 * 1024,
        /// Reports in one job.
        ["jobs.max_reports"] pub max_job_reports: usize = 512,
        /// Bytes of memory for the reports of one job: as they came, opened, and what is added to the
        /// sums. A single report may need more.
        ["jobs.max_bytes"] pub max_job_bytes: usize = 24 * 1024 * 1024,
        /// How long reports wait for their job to fill.
        ["jobs.delay_ms"] pub job_delay: Duration = Duration::from_millis(200),
        /// Jobs that are worked on at once for one helper. Unless set, one more than there are CPU
        /// threads: while one waits for the helper, another computes. All jobs together get half of
        /// limits.max_memory_bytes, those for one helper at most three quarters of that.
        ["jobs.workers", example "3"] pub workers: Option<usize>,
        /// Open jobs of one task beyond which its reports give no reason to form more.
        ["jobs.max_open"] pub max_open_jobs: usize = 16,
        /// How long a worker may take over a job before another may try. A restart does not wait for it.
        ["jobs.lease_s"] pub lease: Duration = Duration::from_secs(60),
        /// How long the helper may take to answer.
        ["jobs.helper_timeout_s"] pub helper_timeout: Duration = Duration::from_secs(30),
        /// The pause after the helper's first failure. It doubles with each further one.
        ["jobs.min_backoff_ms"] pub min_backoff: Duration = Duration::from_millis(100),
        /// The longest pause.
        ["jobs.max_backoff_ms"] pub max_backoff: Duration = Duration::from_secs(2),
    }
}

settings! {
    /// How an aggregator takes part in announced tasks, as it is written in the file.
    #[derive(Debug)]
    pub struct TaskprovTable {
        /// The leader's URL in announced tasks.
        ["leader", required "\"https://leader.example/\""] pub leader: String,
        /// The helper's URL in announced tasks.
        ["helper", required "\"https://helper.example/\""] pub helper: String,
        /// 32 bytes in base64url, shared by leader and helper (`sotto keys secret`).
        ["verify_key_init", required "\"...\""] pub verify_key_init: Secret<String> = no_secret(),
        /// The token with which the leader authenticates to the helper.
        ["leader_authentication_token", required "\"...\""]
        pub leader_authentication_token: Secret<String> = no_secret(),
        /// The token with which the collector authenticates. Required at the leader, absent at the
        /// helper.
        ["collector_authentication_token", example "\"...\""]
        pub collector_authentication_token: Option<Secret<String>>,
        /// The key to which aggregate shares are sealed.
        ["collector_hpke_config", required "\"...\""] pub collector_hpke_config: String,
        /// Tasks with a smaller minimum batch size are refused.
        ["min_batch_size", required "1000"] pub min_batch_size: u64,
        /// Tasks that live longer, or end later than this from now, are refused.
        ["max_lifetime_s"] pub max_lifetime_s: u64 = 366 * 86_400,
        /// Announced tasks at once. Anybody can announce one with an upload.
        ["max_tasks"] pub max_tasks: usize = 1_000,
    }
}

/// How an aggregator takes part in tasks that peers announce.
#[derive(Debug)]
pub struct TaskprovConfig {
    /// Which tasks to join, and the secrets that their keys are derived from.
    pub policy: TaskprovPolicy,
    /// Between leader and helper.
    pub leader_token: Arc<AuthToken>,
    /// Between collector and leader; the helper has none.
    pub collector_token: Option<Arc<AuthToken>>,
    /// The most announced tasks at once. Anybody can announce one with an upload.
    pub max_tasks: usize,
}

settings! {
    /// How an aggregator takes part in recipes, as it is written in the file.
    #[derive(Debug)]
    pub struct RecipesTable {
        /// The trust file that devices have. Recipes are checked by it.
        ["trust", required "\"trust.toml\""] pub trust: PathBuf,
        /// The name of this operator. The trust file pins its key, and recipes name it.
        ["operator", required "\"leader.example\""] pub operator: String,
        /// How often the log is read.
        ["poll_s"] pub poll: Duration = Duration::from_secs(60),
        /// Where the files of the log are. Unless set, where the policy in the trust file says.
        ["log_url", example "\"https://log.example/\""] pub log_url: Option<String>,
        /// Releases batches before their interval is over, and half a day more. For tests: who sees
        /// when a batch is full, and who has just sent something, knows who answered.
        ["insecure_early_release"] pub insecure_early_release: bool,
        /// Writes a receipt of every release into the log: recipe, interval, and the number of reports
        /// rounded down to a power of two. A log that is away never delays a release.
        ["receipts"] pub receipts: Option<ReceiptsTable>,
        [hidden] pub moved: MovedSecrets,
        /// The aggregators with which this one serves recipes: helpers at a leader, leaders at a
        /// helper. A recipe whose other aggregator is not listed, at exactly this URL, is not
        /// served. At least one.
        ["peers", required] pub peers: Vec<RecipePeerTable>,
        /// The authors whose recipes are served. At least one.
        ["authors", required] pub authors: Vec<RecipeAuthorTable>,
    }
}

settings! {
    /// How an aggregator writes receipts, as it is written in the file.
    #[derive(Debug)]
    pub struct ReceiptsTable {
        /// The file of the key that signs receipts (`sotto keys signer`), with the operator's name.
        /// Make one for this purpose: name it in the operator's key set (`sotto keys publish
        /// --receipt-key`), and give its line to the log's operator, who must list it.
        ["key", required "\"leader-receipts.key\""] pub key: PathBuf,
        /// Where the log takes entries. Unless set, where its files are.
        ["log_url", example "\"https://log.example/\""] pub log_url: Option<String>,
    }
}

settings! {
    /// Secrets that were in `[recipes]` when all peers shared them.
    #[derive(Debug)]
    pub struct MovedSecrets {
        /// Now in each `[[recipes.peers]]`.
        ["verify_key_init"] pub verify_key_init: Moved,
        /// Now `authentication_token` in each `[[recipes.peers]]`.
        ["leader_authentication_token"] pub leader_authentication_token: Moved,
    }
}

/// A setting of an earlier version. A file that has it is told where it is now.
#[derive(Debug, Default)]
pub struct Moved;

impl Setting for Moved {
    fn read<'de, D: Deserializer<'de>>(key: &str, _value: D) -> Result<Self, D::Error> {
        Err(D::Error::custom(format!(
            "{key} is no longer in [recipes]: list each other aggregator under [[recipes.peers]], with \
             its operator and url, and an authentication_token and a verify_key_init of its own"
        )))
    }
}

settings! {
    /// The other aggregator of recipes, as it is written in the file.
    #[derive(Debug)]
    pub struct RecipePeerTable {
        /// The name of its operator in recipes.
        ["operator", required "\"helper.example\""] pub operator: String,
        /// Its URL, exactly as recipes and the operator's key set spell it.
        ["url", required "\"https://helper.example/\""] pub url: String,
        /// The token with which the leader of the two authenticates to the helper. No other peer may
        /// have it (`sotto keys secret`).
        ["authentication_token", required "\"...\""]
        pub authentication_token: Secret<String> = no_secret(),
        /// 32 bytes in base64url, shared with this peer and no other (`sotto keys secret`).
        ["verify_key_init", required "\"...\""] pub verify_key_init: Secret<String> = no_secret(),
        /// The leader may connect to this peer at loopback, link-local, private and other addresses
        /// that are not public. Otherwise it never does, whatever the name of the host resolves to.
        ["private_addresses"] pub private_addresses: bool,
    }
}

settings! {
    /// An author whose recipes are served, as it is written in the file.
    #[derive(Debug)]
    pub struct RecipeAuthorTable {
        /// The author's public key (`sotto keys signer`).
        ["key", required "\"author.example+1a2b3c4d+AT...\""] pub key: String,
        /// The token with which this author's collector authenticates. Required at the leader,
        /// absent at the helper.
        ["collector_authentication_token", example "\"...\""]
        pub collector_authentication_token: Option<Secret<String>>,
    }
}

/// How an aggregator takes part in the recipes of a public log.
#[derive(Debug)]
pub struct RecipesConfig {
    /// The trust anchors. The aggregator checks recipes as a device with these anchors would.
    pub trust: Trust,
    /// The operator of this aggregator: recipes name it.
    pub operator: KeyName,
    /// The URL of this aggregator, spelled as in the recipes.
    pub public_url: String,
    /// Where the files of the log are.
    pub log_url: String,
    /// PEM certificates that may vouch for the log, beside those of the operating system.
    pub log_certificates: Option<Vec<u8>>,
    /// With whom recipes are served.
    pub peers: Vec<RecipePeer>,
    /// Whose recipes are served.
    pub authors: Vec<RecipeAuthor>,
    /// How often the log is read.
    pub poll: Duration,
    /// Releases batches before their time, for tests.
    pub insecure_early_release: bool,
    /// Writes receipts of releases.
    pub receipts: Option<ReceiptsConfig>,
}

/// How an aggregator writes receipts of releases.
#[derive(Debug)]
pub struct ReceiptsConfig {
    /// Signs them. It has the operator's name.
    pub key: NoteKey,
    /// Where the log takes entries.
    pub log_url: String,
}

/// The other aggregator of recipes.
#[derive(Debug)]
pub struct RecipePeer {
    /// Who runs it: recipes name this operator.
    pub operator: KeyName,
    /// Where it is, spelled as in the recipes.
    pub url: String,
    /// Between leader and helper.
    pub token: Arc<AuthToken>,
    /// Verification keys are derived from it.
    pub verify_key_init: Secret<[u8; 32]>,
    /// Whether the leader may connect to addresses that are not public.
    pub private_addresses: bool,
}

/// An author whose recipes are served.
#[derive(Debug)]
pub struct RecipeAuthor {
    /// Signs the recipes.
    pub key: VerifierKey,
    /// Between the author's collector and the leader; the helper has none.
    pub collector_token: Option<Arc<AuthToken>>,
}

/// A port on loopback.
fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The value of a required secret before it is read.
pub(crate) fn no_secret() -> Secret<String> {
    Secret::new(String::new())
}
