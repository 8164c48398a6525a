//! What an attester counts. No label names a device, an issuer or an origin.

use metrics::Counter;

use super::request::Refusal;
use crate::metrics::{CountersByName, MetricsRegistry};

pub(super) struct AttesterMetrics {
    /// Tokens granted.
    pub(super) granted: Counter,
    /// Stored responses sent again.
    pub(super) repeated: Counter,
    /// Messages to issuers.
    pub(super) batches: Counter,
    /// Requests in them.
    pub(super) batched: Counter,
    pub(super) refused: CountersByName,
}

impl AttesterMetrics {
    pub(super) fn new(registry: &MetricsRegistry) -> Self {
        Self {
            granted: registry.counter("sotto_attester_granted_total", "Tokens granted."),
            repeated: registry
                .counter("sotto_attester_repeated_total", "Stored responses sent again."),
            batches: registry.counter("sotto_attester_batches_total", "Batches sent to issuers."),
            batched: registry
                .counter("sotto_attester_batched_total", "Token requests in those batches."),
            refused: registry.by_name(
                "sotto_attester_refused_total",
                "Token requests that got no token, by reason.",
                "reason",
                Refusal::names(),
            ),
        }
    }
}
