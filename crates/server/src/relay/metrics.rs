//! What a relay counts. No label names a gateway, a source or a size.

use metrics::{Counter, Gauge};

use crate::metrics::{MetricsRegistry, table};

pub(super) struct RelayMetrics {
    /// Requests in pools.
    pub(super) held: Gauge,
    /// Bodies that were written to a file.
    pub(super) spooled: Counter,
    /// Requests of sources that had sent too many.
    pub(super) limited: Counter,
    pools: [Counter; 3],
    exchanges: [Counter; 5],
}

/// Why a pool was emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Emission {
    Full,
    Waited,
    Drain,
}

/// The outcome of a request at the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exchange {
    Answered,
    Unreachable,
    Late,
    /// The answer started but did not arrive completely.
    Broken,
    /// What answered is not a gateway.
    Foreign,
}

impl RelayMetrics {
    pub(super) fn new(registry: &MetricsRegistry) -> Self {
        Self {
            held: registry.gauge(&table::RELAY_HELD),
            spooled: registry.counter(&table::RELAY_SPOOLED),
            limited: registry.counter(&table::RELAY_LIMITED),
            pools: registry.counters(&table::RELAY_POOLS, ["full", "waited", "drain"]),
            exchanges: registry.counters(
                &table::RELAY_EXCHANGES,
                ["answered", "unreachable", "late", "broken", "foreign"],
            ),
        }
    }

    pub(super) fn emitted(&self, why: Emission) {
        let [full, waited, drain] = &self.pools;
        match why {
            Emission::Full => full,
            Emission::Waited => waited,
            Emission::Drain => drain,
        }
        .increment(1);
    }

    pub(super) fn exchanged(&self, outcome: Exchange) {
        let [answered, unreachable, late, broken, foreign] = &self.exchanges;
        match outcome {
            Exchange::Answered => answered,
            Exchange::Unreachable => unreachable,
            Exchange::Late => late,
            Exchange::Broken => broken,
            Exchange::Foreign => foreign,
        }
        .increment(1);
    }
}
