//! What the operator of a relay decides.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use sotto_protocol::relay::PoolRule;
use sotto_wire::KeyName;

use crate::config::HttpConfig;

/// A relay.
#[derive(Debug)]
pub struct RelayConfig {
    /// How it is reached. `max_body_memory` bounds the requests that wait in memory, and once more the
    /// answers.
    pub http: HttpConfig,
    /// Where requests may go, and nowhere else.
    pub gateways: Vec<RelayGateway>,
    /// When requests go on, unless the gateway says otherwise.
    pub pool: PoolRule,
    /// Longer bodies wait in files.
    pub memory_body_max: usize,
    /// The folder of those files. They have no name in it.
    pub spool_dir: PathBuf,
    /// Bytes that all requests in files may have together, and all answers.
    pub max_spool_bytes: u64,
    /// What one source may do. Behind a proxy, where all devices have one address, there should be none.
    pub source_limit: Option<SourceRule>,
    /// How long a gateway may take over the head of its answer, and then over its content.
    pub gateway_timeout: Duration,
    /// PEM certificates that may vouch for gateways, beside those of the operating system.
    pub gateway_certificates: Option<Vec<u8>>,
}

impl RelayConfig {
    /// A relay that listens at `listen` for these gateways. Everything else has a default.
    pub fn new(listen: SocketAddr, gateways: Vec<RelayGateway>) -> Self {
        let mut http = HttpConfig::new(listen);
        // Requests are held for a while: this is one of 16 KiB on each connection.
        http.max_body_memory = 64 * 1024 * 1024;
        // The largest body over a slow uplink. One that trickles is still given up early.
        http.body_timeout = Duration::from_secs(120);
        Self {
            http,
            gateways,
            pool: PoolRule::default(),
            memory_body_max: 64 * 1024,
            spool_dir: default_spool_dir(),
            max_spool_bytes: 4 * 1024 * 1024 * 1024,
            source_limit: Some(SourceRule::default()),
            gateway_timeout: Duration::from_secs(30),
            gateway_certificates: None,
        }
    }
}

/// A gateway that requests may go to.
#[derive(Clone, Debug)]
pub struct RelayGateway {
    /// Its operator. Devices name it in the path of their requests.
    pub operator: KeyName,
    /// The URL of the gateway itself.
    pub url: String,
    /// When requests go on to it, if not as to the others.
    pub pool: Option<PoolRule>,
}

/// What one source may do: an IPv4 address, or the first 64 bits of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRule {
    /// Requests in one window.
    pub max: u32,
    /// The window. At its end every source is forgotten.
    pub window: Duration,
    /// Connections at once. One more is closed.
    pub max_connections: u32,
}

impl Default for SourceRule {
    /// Many devices may share one address, and one that starts reads a whole log.
    fn default() -> Self {
        Self { max: 1_000, window: Duration::from_secs(60), max_connections: 256 }
    }
}

/// The system's folder for temporary files lies in memory on many systems, which is not where large
/// bodies should be.
fn default_spool_dir() -> PathBuf {
    let on_disk = PathBuf::from("/var/tmp");
    if on_disk.is_dir() { on_disk } else { std::env::temp_dir() }
}
