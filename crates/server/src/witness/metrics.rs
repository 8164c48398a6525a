//! What a witness counts.

use metrics::Counter;

use crate::metrics::{MetricsRegistry, table};

pub(super) struct WitnessMetrics {
    answers: [Counter; 3],
}

impl WitnessMetrics {
    pub(super) fn new(registry: &MetricsRegistry) -> Self {
        Self {
            answers: registry
                .counters(&table::WITNESS_REQUESTS, ["cosigned", "conflict", "refused"]),
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
