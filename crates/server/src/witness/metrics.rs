//! What a witness counts.

use metrics::Counter;

use crate::metrics::{MetricsRegistry, RouteMetrics};

pub(super) struct WitnessMetrics {
    pub(super) add_checkpoint: RouteMetrics,
    pub(super) checkpoint: RouteMetrics,
    answers: [Counter; 3],
}

impl WitnessMetrics {
    pub(super) fn new(registry: &MetricsRegistry) -> Self {
        Self {
            add_checkpoint: registry.route("add_checkpoint"),
            checkpoint: registry.route("witness_checkpoint"),
            answers: registry.counters(
                "sotto_witness_requests_total",
                "Requests for a cosignature by outcome.",
                "outcome",
                ["cosigned", "conflict", "refused"],
            ),
        }
    }

    /// Counts a decision by its status.
    pub(super) fn count(&self, status: u16) {
        let [cosigned, conflict, refused] = &self.answers;
        match status {
            200 => cosigned,
            409 => conflict,
            _ => refused,
        }
        .increment(1);
    }
}
