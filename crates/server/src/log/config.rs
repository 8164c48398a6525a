//! What the operator of a log decides.

use std::net::SocketAddr;
use std::time::Duration;

use sotto_protocol::log::admit::Signers;
use sotto_wire::TlogPolicy;

use crate::config::HttpConfig;
use crate::gateway::GatewayConfig;

/// A log. Its key, and so its origin, is the one with which its folder was opened.
#[derive(Debug)]
pub struct LogConfig {
    /// How it is reached.
    pub http: HttpConfig,
    /// The witnesses, where they are, and how many must cosign before anything is published. Its one
    /// log is this one.
    pub policy: TlogPolicy,
    /// Whose entries the log takes.
    pub submitters: Signers,
    /// How long the first entry of a batch waits for others.
    pub batch_delay: Duration,
    /// Entries in one batch.
    pub max_batch: usize,
    /// After how long an unchanged tree is cosigned again, so that the witnessed time moves on.
    pub refresh: Duration,
    /// How long one witness may take over its answer.
    pub witness_timeout: Duration,
    /// PEM certificates that may vouch for witnesses, beside those of the operating system.
    pub witness_certificates: Option<Vec<u8>>,
    /// The pause after witnesses failed to make a quorum. It doubles with each further time.
    pub min_backoff: Duration,
    /// The longest pause.
    pub max_backoff: Duration,
    /// Serves the files of the log through relays.
    pub gateway: Option<GatewayConfig>,
}

impl LogConfig {
    /// A log that listens at `listen`. Everything else has a default.
    pub fn new(listen: SocketAddr, policy: TlogPolicy, submitters: Signers) -> Self {
        Self {
            http: HttpConfig::new(listen),
            policy,
            submitters,
            batch_delay: Duration::from_millis(200),
            max_batch: 256,
            refresh: Duration::from_secs(600),
            witness_timeout: Duration::from_secs(5),
            witness_certificates: None,
            min_backoff: Duration::from_millis(500),
            max_backoff: Duration::from_secs(30),
            gateway: None,
        }
    }
}
