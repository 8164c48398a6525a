//! What an attester counts. No label names a device, an issuer or an origin.

use metrics::Counter;

use super::request::Refusal;
use crate::metrics::{CountersByName, MetricsRegistry, table};

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
            granted: registry.counter(&table::ATTESTER_GRANTED),
            repeated: registry.counter(&table::ATTESTER_REPEATED),
            batches: registry.counter(&table::ATTESTER_BATCHES),
            batched: registry.counter(&table::ATTESTER_BATCHED),
            refused: registry.by_name(&table::ATTESTER_REFUSED, Refusal::names()),
        }
    }
}
