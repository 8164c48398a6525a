//! What the operator of a gateway decides.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sotto_protocol::gateway::ReplayWindow;

use crate::config::{HttpConfig, HttpFile};
use crate::rotating::GatewayKeys;
use crate::settings::settings;

settings! {
    /// The limits of a gateway.
    #[derive(Clone, Debug)]
    pub struct GatewayLimits {
        /// How old the date of a request may be. Requests are remembered for as long, so that none is
        /// accepted twice. At least 1200: dates are rounded down to ten minutes, and relays hold
        /// requests.
        ["window_s"] pub window: Duration = Duration::from_secs(ReplayWindow::DEFAULT_WINDOW_S),
        /// How many requests are remembered, at about 20 bytes each. Beyond that, leader and log serve
        /// requests without remembering them, because replays do no harm there. `sotto serve gateway`
        /// refuses them.
        ["max_remembered"] pub max_remembered: usize = ReplayWindow::DEFAULT_MAX,
    }
}

settings! {
    /// A gateway, as it is written in the file.
    #[derive(Debug)]
    pub struct GatewayTable {
        /// Key files (`sotto keys new`), or folders of them. They are read again when they change, so
        /// keys can rotate while the server runs. If none is listed, the server makes a hybrid key and
        /// an X25519 key in data_dir/gateway-keys. Devices use the keys in the operator's newest key
        /// set in the log (`sotto keys publish --gateway-key`).
        ["keys"] pub keys: Vec<PathBuf>,
        [group] pub limits: GatewayLimits,
    }
}

/// A gateway, for any server.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Its keys. They may be replaced while it runs.
    pub keys: Arc<GatewayKeys>,
    /// Scheme and authority of the requests inside, such as `https://leader.example`; others are
    /// refused. Without it, all requests are for this server.
    pub origin: Option<String>,
    /// Its limits.
    pub limits: GatewayLimits,
}

impl GatewayConfig {
    /// A gateway with these keys and defaults for everything else.
    pub fn new(keys: Arc<GatewayKeys>) -> Self {
        Self { keys, origin: None, limits: GatewayLimits::default() }
    }
}

settings! {
    /// A gateway for servers that have none of their own: it opens what comes through relays. Leader
    /// and log have a gateway built in (`[gateway]` in their files); prefer that.
    #[derive(Debug)]
    pub struct GatewayFile {
        /// The servers to which the gateway passes requests. Whatever they allow strangers to do, they
        /// allow devices to do. Required.
        ["targets"] pub targets: Vec<GatewayTargetTable>,
        [group] pub http: HttpFile = gateway_http(HttpFile::on_port(8085).http.listen).into(),
        /// The folder of its keys, if none are listed.
        ["data_dir"] pub data_dir: PathBuf = "gateway-data".into(),
        [group] pub gateway: GatewayTable,
        /// How long a target may take to answer.
        ["target_timeout_s"] pub timeout: Duration = GatewayServerConfig::DEFAULT_TIMEOUT,
    }
}

settings! {
    /// A server behind a gateway, as it is written in the file.
    #[derive(Debug)]
    pub struct GatewayTargetTable {
        /// Scheme and authority that requests name.
        ["origin", required "\"https://leader.example\""] pub origin: String,
        /// Where the server is, if that is elsewhere.
        ["url", example "\"http://127.0.0.1:8080\""] pub url: Option<String>,
    }
}

/// A standalone gateway.
#[derive(Debug)]
pub struct GatewayServerConfig {
    /// How it is reached.
    pub http: HttpConfig,
    /// Its keys and limits. It has no `origin`: each target has one.
    pub gateway: GatewayConfig,
    /// The servers to which it passes requests. Whatever they allow strangers to do, they allow
    /// devices to do.
    pub targets: Vec<GatewayTarget>,
    /// How long a target may take to answer.
    pub timeout: Duration,
    /// PEM certificates that may vouch for targets, beside those of the operating system.
    pub certificates: Option<Vec<u8>>,
}

impl GatewayServerConfig {
    const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

    /// A gateway that listens at `listen`. Everything else has a default.
    pub fn new(listen: SocketAddr, gateway: GatewayConfig, targets: Vec<GatewayTarget>) -> Self {
        Self {
            http: gateway_http(listen),
            gateway,
            targets,
            timeout: Self::DEFAULT_TIMEOUT,
            certificates: None,
        }
    }
}

/// The longest answer, a bundle of a log's entries, takes about 150 MiB.
pub(crate) fn gateway_http(listen: SocketAddr) -> HttpConfig {
    HttpConfig { max_memory: 256 * 1024 * 1024, ..HttpConfig::new(listen) }
}

/// A server behind a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayTarget {
    /// Scheme and authority of the requests that are for it, such as `https://leader.example`.
    pub origin: String,
    /// Where it is, such as `http://127.0.0.1:8080`. The path is that of the request, and `host` is
    /// that of the origin.
    pub url: String,
}
