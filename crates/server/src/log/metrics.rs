//! What a log counts.

use metrics::{Counter, Gauge};

use crate::metrics::{MetricsRegistry, table};

pub(super) struct LogMetrics {
    /// Submissions that were appended.
    pub(super) appended: Counter,
    /// Submissions of entries that were already there.
    pub(super) known: Counter,
    /// Submissions that the log refused.
    pub(super) refused: Counter,
    pub(super) published: Counter,
    pub(super) size: Gauge,
    pub(super) published_time: Gauge,
    pub(super) cosigned: Counter,
    pub(super) without: Counter,
}

impl LogMetrics {
    pub(super) fn new(registry: &MetricsRegistry) -> Self {
        let [appended, known, refused] =
            registry.counters(&table::LOG_SUBMISSIONS, ["appended", "known", "refused"]);
        let [cosigned, without] =
            registry.counters(&table::LOG_WITNESS_REQUESTS, ["cosigned", "failed"]);
        Self {
            appended,
            known,
            refused,
            published: registry.counter(&table::LOG_CHECKPOINTS),
            size: registry.gauge(&table::LOG_SIZE),
            published_time: registry.gauge(&table::LOG_CHECKPOINT_TIME),
            cosigned,
            without,
        }
    }
}
