//! What a witness counts.

use metrics::Counter;

use crate::metrics::MetricsRegistry;

pub(super) struct WitnessMetrics {
    answers: [Counter; 3],
}

impl WitnessMetrics {
    pub(super) fn new(registry: &MetricsRegistry) -> Self {
        Self {
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
