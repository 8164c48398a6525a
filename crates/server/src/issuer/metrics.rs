//! What an issuer counts: totals and reasons. No label names an origin, an author or an attester.

use metrics::{Counter, Gauge};
use sotto_protocol::issuer::IssuerRefusal;

use crate::metrics::{CountersByName, MetricsRegistry};

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
            keys_made: registry.counter("sotto_issuer_keys_made_total", "Token keys made."),
            keys_deleted: registry.counter(
                "sotto_issuer_keys_deleted_total",
                "Token keys deleted after their expiry.",
            ),
            live_keys: registry.gauge("sotto_issuer_keys", "Token keys that are stored."),
            issued: registry.counter("sotto_issuer_issued_total", "Tokens issued."),
            refused: registry.by_name(
                "sotto_issuer_refused_total",
                "Token requests refused, by reason.",
                "reason",
                IssuerRefusal::ALL.map(IssuerRefusal::name),
            ),
        }
    }
}
