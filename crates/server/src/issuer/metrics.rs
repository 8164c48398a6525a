//! What an issuer counts: totals and reasons. No label names an origin, an author or an attester.

use metrics::{Counter, Gauge};
use sotto_protocol::issuer::IssuerRefusal;

use crate::metrics::{CountersByName, MetricsRegistry, table};

pub(super) struct IssuerMetrics {
    pub(super) keys_made: Counter,
    pub(super) keys_deleted: Counter,
    pub(super) live_keys: Gauge,
    pub(super) issued: Counter,
    pub(super) refused: CountersByName,
}

impl IssuerMetrics {
    pub(super) fn new(registry: &MetricsRegistry) -> Self {
        Self {
            keys_made: registry.counter(&table::ISSUER_KEYS_MADE),
            keys_deleted: registry.counter(&table::ISSUER_KEYS_DELETED),
            live_keys: registry.gauge(&table::ISSUER_KEYS),
            issued: registry.counter(&table::ISSUER_ISSUED),
            refused: registry
                .by_name(&table::ISSUER_REFUSED, IssuerRefusal::ALL.map(IssuerRefusal::name)),
        }
    }
}
