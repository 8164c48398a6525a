//! Whether the server can do its work, with named reasons, for `/readyz`.
//!
//! A blocking reason means that requests should go elsewhere (503). The others are trouble that an
//! operator should see while requests are still served: a leader whose helper is away goes on
//! acknowledging reports.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

/// What is wrong. Each has at most one sentence at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Concern {
    /// The server is ending.
    Draining,
    /// The store fails.
    Store,
    /// Uploads are turned away.
    BacklogFull,
    /// The helper cannot be reached, or is in trouble itself.
    HelperUnreachable,
    /// The helper refuses the requests of a task.
    HelperRefuses,
    /// Jobs were stopped because going on could count reports twice or not at all.
    JobsStopped,
}

impl Concern {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::Store => "store",
            Self::BacklogFull => "backlog_full",
            Self::HelperUnreachable => "helper_unreachable",
            Self::HelperRefuses => "helper_refuses",
            Self::JobsStopped => "jobs_stopped",
        }
    }

    fn is_blocking(self) -> bool {
        matches!(self, Self::Draining | Self::Store | Self::BacklogFull)
    }
}

/// The present reasons.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<BTreeMap<Concern, String>>);

impl Health {
    /// Sets or replaces a reason.
    pub(crate) fn raise(&self, concern: Concern, detail: impl Into<String>) {
        self.lock().insert(concern, detail.into());
    }

    /// Takes a reason back.
    pub(crate) fn clear(&self, concern: Concern) {
        self.lock().remove(&concern);
    }

    /// Whether requests should come here, and the document that says why.
    pub(crate) fn report(&self) -> (bool, Value) {
        let reasons = self.lock();
        let ready = !reasons.keys().any(|concern| concern.is_blocking());
        let status = match (ready, reasons.is_empty()) {
            (true, true) => "ready",
            (true, false) => "degraded",
            (false, _) => "not_ready",
        };
        let reasons: Vec<_> = reasons
            .iter()
            .map(|(concern, detail)| {
                json!({
                    "name": concern.name(),
                    "blocking": concern.is_blocking(),
                    "detail": detail,
                })
            })
            .collect();
        (ready, json!({ "status": status, "reasons": reasons }))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Concern, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocking_reasons_turn_requests_away() {
        let health = Health::default();
        assert_eq!(health.report(), (true, json!({ "status": "ready", "reasons": [] })));
        health.raise(Concern::HelperUnreachable, "connect");
        let (ready, document) = health.report();
        assert!(ready);
        assert_eq!(document["status"], "degraded");
        assert_eq!(document["reasons"][0]["name"], "helper_unreachable");
        health.raise(Concern::Draining, "");
        assert!(!health.report().0);
        health.clear(Concern::Draining);
        health.clear(Concern::HelperUnreachable);
        assert_eq!(health.report().1["status"], "ready");
    }
}
