//! What a gateway counts.

use metrics::Counter;

use crate::metrics::{MetricsRegistry, table};

/// The outcome of a request. The first three end in an answer that the relay can read. The relay
/// cannot distinguish the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Not read: another media type, too long, too slow, no memory.
    Unread,
    /// Sealed to a key that the gateway does not have.
    UnknownKey,
    /// It cannot be opened.
    Unopened,
    /// It does not contain a request.
    Malformed,
    /// Its date is outside the window.
    Date,
    /// Received before.
    Replayed,
    /// Too many requests are already remembered, and the server may not tolerate replays.
    Full,
    /// For a server that is not behind this gateway.
    Misdirected,
    /// The server behind the gateway did not answer, or not within limits.
    Unanswered,
    /// Answered by the server, with any status.
    Answered,
    /// Like `Answered`, but the request was not remembered because too many already are.
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
    outcomes: [Counter; Outcome::NAMES.len()],
}

impl GatewayMetrics {
    pub(super) fn new(registry: &MetricsRegistry) -> Self {
        Self { outcomes: registry.counters(&table::GATEWAY_REQUESTS, Outcome::NAMES) }
    }

    pub(super) fn count(&self, outcome: Outcome) {
        if let Some(counter) = self.outcomes.get(outcome as usize) {
            counter.increment(1);
        }
    }
}
