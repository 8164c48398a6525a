//! What the operator of a gateway decides.

use std::sync::Arc;
use std::time::Duration;

use sotto_protocol::gateway::ReplayWindow;

use crate::rotating::GatewayKeys;

/// A gateway, whichever server it belongs to.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Its keys. They may be replaced while it runs.
    pub keys: Arc<GatewayKeys>,
    /// How long after its date a request is taken, and remembered so that it is taken once. At least 20
    /// minutes: dates are rounded down to ten, and relays hold requests.
    pub window: Duration,
    /// Requests that are remembered at once. Beyond that, leader and log take requests without remembering
    /// them, for replays do no harm there; a gateway of its own takes none.
    pub max_remembered: usize,
    /// Scheme and authority of the requests inside, such as `https://leader.example`; others are refused.
    /// Without it, all are taken for this server.
    pub origin: Option<String>,
    /// Bytes that requests and answers in flight may hold together, opened and sealed. The longest answer of
    /// all takes about 150 MiB.
    pub max_memory: usize,
}

impl GatewayConfig {
    /// What requests and answers may hold, unless the operator says otherwise.
    pub const DEFAULT_MAX_MEMORY: usize = 256 * 1024 * 1024;

    /// A gateway with these keys and defaults for everything else.
    pub fn new(keys: Arc<GatewayKeys>) -> Self {
        Self {
            keys,
            window: Duration::from_secs(ReplayWindow::DEFAULT_WINDOW_S),
            max_remembered: ReplayWindow::DEFAULT_MAX,
            origin: None,
            max_memory: Self::DEFAULT_MAX_MEMORY,
        }
    }
}
