//! What a log counts.

use metrics::{Counter, Gauge};

use crate::metrics::MetricsRegistry;

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
        let [appended, known, refused] = registry.counters(
            "sotto_log_submissions_total",
            "Submitted entries by outcome.",
            "outcome",
            ["appended", "known", "refused"],
        );
        let [cosigned, without] = registry.counters(
            "sotto_log_witness_requests_total",
            "Requests to witnesses by outcome.",
            "outcome",
            ["cosigned", "failed"],
        );
        Self {
            appended,
            known,
            refused,
            published: registry.counter(
                "sotto_log_checkpoints_total",
                "Published checkpoints, renewed ones included.",
            ),
            size: registry.gauge("sotto_log_size", "Entries in the published tree."),
            published_time: registry.gauge(
                "sotto_log_checkpoint_timestamp_seconds",
                "When the last checkpoint was published, in seconds since 1970.",
            ),
            cosigned,
            without,
        }
    }
}
