//! What the operator of a relay decides.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use sotto_protocol::relay::PoolRule;
use sotto_wire::KeyName;

use crate::config::{ConnectionLimits, HttpConfig, HttpFile};
use crate::settings::settings;

settings! {
    /// The relay passes on devices' sealed requests without saying who they are from.
    #[derive(Debug)]
    pub struct RelayFile {
        /// The gateways to which requests may go. Devices name the operator. Required.
        ["gateways"] pub gateways: Vec<RelayGatewayTable>,
        [group] pub http: HttpFile = relay_http(HttpFile::on_port(8084).http.listen).into(),
        [group] pub relay: RelayConfig,
        /// Requests of one size for one gateway wait until they come from this many sources. Then they
        /// go on together, in a random order. 1 mixes nothing.
        ["pool.min"] pub pool_min: usize = PoolRule::default().min,
        /// They also go on once the first of them has waited this long. At most 60000: gateways
        /// remember requests only for a while.
        ["pool.wait_ms"] pub pool_wait_ms: u64 = PoolRule::default().wait_ms,
        [group] pub sources: SourceRule,
    }
}

settings! {
    /// A gateway that requests may go to, as it is written in the file.
    #[derive(Debug)]
    pub struct RelayGatewayTable {
        /// The operator of the gateway.
        ["operator", required "\"leader.example\""] pub operator: String,
        /// The URL of the gateway.
        ["url", required "\"https://leader.example/gateway\""] pub url: String,
        /// `min` and `wait_ms` for this gateway, if they differ from those in `[pool]`.
        ["pool", example "{ min = 64, wait_ms = 10000 }"] pub pool: Option<PoolTable>,
    }
}

settings! {
    /// What differs from `[pool]`.
    #[derive(Debug)]
    pub struct PoolTable {
        /// How many sources requests must come from.
        ["min", example "64"] pub min: Option<usize>,
        /// How long the first may wait.
        ["wait_ms", example "10000"] pub wait_ms: Option<u64>,
    }
}

settings! {
    /// A relay.
    #[derive(Debug)]
    pub struct RelayConfig {
        /// The folder in which larger bodies wait, in files without a name. Unless set, /var/tmp or the
        /// system's folder for temporary files.
        ["spool_dir", example "\"/var/spool/sotto\""] pub spool_dir: PathBuf = default_spool_dir(),
        /// Bodies up to this length wait in memory, longer ones in files.
        ["memory_body_max_bytes"] pub memory_body_max: usize = 64 * 1024,
        /// Bytes that all requests in files may have together, and all answers. Beyond that, devices
        /// get 429 or 503.
        ["max_spool_bytes"] pub max_spool_bytes: u64 = 4 * 1024 * 1024 * 1024,
        /// How long a gateway may take over the head of its answer, and then over its content.
        ["gateway_timeout_s"] pub gateway_timeout: Duration = Duration::from_secs(30),
        /// How it is reached. Requests that wait in memory get one half of `max_memory`, answers the
        /// other.
        [loaded] pub http: HttpConfig,
        /// Where requests may go, and nowhere else.
        [loaded] pub gateways: Vec<RelayGateway>,
        /// When requests go on, unless the gateway says otherwise.
        [loaded] pub pool: PoolRule,
        /// What one source may do. Behind a proxy, where all devices have one address, there should be
        /// no limit.
        [loaded] pub source_limit: Option<SourceRule> = Some(SourceRule::default()),
        /// PEM certificates that may vouch for gateways, beside those of the operating system.
        [loaded] pub gateway_certificates: Option<Vec<u8>>,
    }
}

impl RelayConfig {
    /// A relay that listens at `listen` for these gateways. Everything else has a default.
    pub fn new(listen: SocketAddr, gateways: Vec<RelayGateway>) -> Self {
        Self { http: relay_http(listen), gateways, ..Self::default() }
    }
}

fn relay_http(listen: SocketAddr) -> HttpConfig {
    HttpConfig {
        // Requests are held for a while: half of this allows one of 16 KiB on each connection.
        max_memory: 128 * 1024 * 1024,
        // Enough for 64 KiB from a phone with a poor connection. Others are given up earlier.
        body_timeout: Duration::from_secs(120),
        connections: ConnectionLimits { max_per_source: 256, ..ConnectionLimits::default() },
        ..HttpConfig::new(listen)
    }
}

/// A gateway that requests may go to.
#[derive(Clone, Debug)]
pub struct RelayGateway {
    /// Its operator. Devices name it in the path of their requests.
    pub operator: KeyName,
    /// The URL of the gateway itself.
    pub url: String,
    /// When requests are forwarded to it, if that differs from the others.
    pub pool: Option<PoolRule>,
}

settings! {
    /// What one source may do: an IPv4 address, or the first 64 bits of an IPv6 address. Many devices
    /// may share an address, and one that starts reads a whole log.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SourceRule {
        /// Requests that one source (an IPv4 address, an IPv6 /64) may send in a window. 0 removes
        /// this limit and limits.max_connections_per_source. That is right behind a proxy, where all devices have
        /// one address; each request then counts as a source of its own for pool.min.
        ["sources.max"] pub max: u32 = 1_000,
        /// The window. At its end every source is forgotten. Sources are never written down.
        ["sources.window_s"] pub window: Duration = Duration::from_secs(60),
    }
}

/// On many systems the folder for temporary files is in memory, where large bodies should not be.
fn default_spool_dir() -> PathBuf {
    let on_disk = PathBuf::from("/var/tmp");
    if on_disk.is_dir() { on_disk } else { std::env::temp_dir() }
}
