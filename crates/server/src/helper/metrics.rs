//! What a helper counts.

use std::sync::Arc;
use std::time::Duration;

use metrics::Counter;

use super::HelperState;
use crate::health::StoreWork;
use crate::metrics::{CountersByName, MetricsRegistry, table};
use crate::shutdown::Shutdown;

/// How often to check whether the store still answers.
const CHECK_PAUSE: Duration = Duration::from_secs(5);

pub(super) struct HelperMetrics {
    pub(super) reports_aggregated: Counter,
    pub(super) reports_dropped: CountersByName,
    pub(super) jobs: JobCounters,
    pub(super) shares: ShareCounters,
}

pub(super) struct JobCounters {
    pub(super) committed: Counter,
    pub(super) replayed: Counter,
    pub(super) conflicted: Counter,
}

pub(super) struct ShareCounters {
    pub(super) collected: Counter,
    pub(super) replayed: Counter,
    pub(super) conflicted: Counter,
}

impl HelperMetrics {
    pub(super) fn new(registry: &MetricsRegistry) -> Self {
        let [committed, replayed, conflicted] =
            registry.counters(&table::JOBS, ["committed", "replayed", "conflicted"]);
        let jobs = JobCounters { committed, replayed, conflicted };
        let [collected, replayed, conflicted] =
            registry.counters(&table::SHARES, ["collected", "replayed", "conflicted"]);
        Self {
            reports_aggregated: registry.counter(&table::REPORTS_AGGREGATED),
            reports_dropped: registry.rejections(&table::REPORTS_DROPPED),
            jobs,
            shares: ShareCounters { collected, replayed, conflicted },
        }
    }
}

/// Checks whether the store still answers.
pub(super) async fn run(helper: Arc<HelperState>, mut shutdown: Shutdown) {
    loop {
        let _ = helper.aggregator.health.noted(StoreWork::Load, helper.store.load().await);
        if shutdown.begins_within(CHECK_PAUSE).await {
            return;
        }
    }
}
