//! What a gateway counts.

use metrics::Counter;

use crate::metrics::{MetricsRegistry, RouteMetrics};

/// What became of a request. The first three end in an answer that the relay can read; the relay cannot
/// tell the others from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Not read: another media type, too long, too slow, no memory.
    Unread,
    /// Sealed to a key that the gateway does not have.
    UnknownKey,
    /// Does not open.
    Unopened,
    /// Not a request inside.
    Malformed,
    /// Its date is outside the window.
    Date,
    /// Taken before.
    Replayed,
    /// Too many are remembered already, and the server may not bear replays.
    Full,
    /// For a server that is not behind this gateway.
    Misdirected,
    /// The server behind the gateway did not answer, or not within bounds.
    Unanswered,
    /// Answered by the server, well or not.
    Answered,
    /// The same for one that was not remembered: too many are already.
    Unremembered,
}

impl Outcome {
    const NAMES: [&'static str; 11] = [
        "unread",
        "unknown_key",
        "unopened",
        "malformed",
        "date",
        "replayed",
        "full",
        "misdirected",
        "unanswered",
        "answered",
        "unremembered",
    ];
}

#[derive(Debug)]
pub(super) struct GatewayMetrics {
    pub(super) route: RouteMetrics,
    pub(super) keys_route: RouteMetrics,
    outcomes: [Counter; Outcome::NAMES.len()],
}

impl GatewayMetrics {
    pub(super) fn new(registry: &MetricsRegistry) -> Self {
        Self {
            route: registry.route("gateway"),
            keys_route: registry.route("gateway_keys"),
            outcomes: registry.counters(
                "sotto_gateway_requests_total",
                "Encapsulated requests by what became of them.",
                "outcome",
                Outcome::NAMES,
            ),
        }
    }

    pub(super) fn count(&self, outcome: Outcome) {
        if let Some(counter) = self.outcomes.get(outcome as usize) {
            counter.increment(1);
        }
    }
}
