//! Whether the server can do its work, with named reasons, for `/readyz`.
//!
//! A blocking reason means that requests should go elsewhere (503). The others are failures that an
//! operator should see while requests are still served: a leader whose helper is down still
//! acknowledges reports.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::environment::{Instant, instant};

/// What is wrong, with its name in `/readyz`. Each concern has at most one detail at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Concern {
    /// The server is shutting down.
    Draining,
    /// The store fails.
    Store,
    /// Uploads are rejected.
    BacklogFull,
    /// Requests were refused because `max_memory_bytes` was in use.
    MemoryFull,
    /// The disk is almost full: uploads are rejected.
    DiskFull,
    /// The helper cannot be reached, or has internal errors.
    HelperUnreachable,
    /// The helper refuses the requests of a task.
    HelperRefuses,
    /// Reports are waiting for a task that is not configured.
    UnknownTask,
    /// Jobs were stopped because continuing could count reports twice or not at all.
    JobsStopped,
    /// A log has stopped for good.
    LogHalted,
    /// A witness says that it has seen another tree of the log. Nothing is appended.
    LogDisputed,
    /// Witnesses do not cosign.
    Witnesses,
    /// A gateway behind the relay does not answer.
    GatewayUnreachable,
    /// The public log cannot be read: no new recipes.
    LogUnreachable,
    /// What the public log shows is currently not accepted: no new recipes.
    LogRefused,
    /// The public log has contradicted itself: no new recipes, for good.
    LogForked,
    /// The operator's newest logged key set names an HPKE key that the server does not hold.
    HpkeKeyMissing,
    /// None of the server's HPKE keys is in its operator's newest logged key set.
    HpkeKeysUnlogged,
    /// The operator's newest logged key set names a gateway key that the gateway does not hold.
    GatewayKeyMissing,
    /// None of the gateway's keys is in its operator's newest logged key set.
    GatewayKeysUnlogged,
    /// The key that signs receipts is not in the operator's newest logged key set.
    ReceiptKeyUnlogged,
    /// Receipts of releases are due, and the public log does not accept them.
    ReceiptsOwed,
    /// An issuer does not answer the attester.
    IssuerUnreachable,
    /// The attester does not use an issuer: its directory is invalid, or its windows are too long.
    IssuerRefused,
}

/// What the store does for a server. Each kind of work fails and recovers by itself: a store that
/// still reads may be unable to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreWork {
    /// Reports the size of the backlog.
    Load,
    /// Accepts reports.
    Accept,
    /// Forms jobs from the backlog.
    Form,
    /// Leases jobs.
    Lease,
    /// Commits aggregation jobs.
    Commit,
    /// Closes and collects batches.
    Collect,
    /// Deletes tasks.
    Forget,
    /// Stores recipes, and what their log has committed to.
    Learn,
    /// Numbers receipts, and records which are sent.
    Receipts,
}

impl StoreWork {
    fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// How long requests are rejected after the last failure of the store. Later they are let in again,
/// because only work that succeeds shows that the store has recovered; until then the reason stays.
const STORE_HOLD: Duration = Duration::from_secs(15);

/// The current reasons.
#[derive(Debug, Default)]
pub(crate) struct Health {
    reasons: Mutex<BTreeMap<Concern, Reason>>,
    /// The kinds of [`StoreWork`] that failed last time. Changed only under the lock.
    failing_work: AtomicU32,
}

#[derive(Debug)]
struct Reason {
    detail: String,
    raised: Instant,
}

impl Reason {
    fn is_blocking(&self, concern: Concern) -> bool {
        match concern {
            Concern::Draining | Concern::BacklogFull | Concern::DiskFull | Concern::LogHalted => {
                true
            }
            Concern::Store => instant() - self.raised < STORE_HOLD,
            _ => false,
        }
    }
}

impl Health {
    /// Sets or replaces a reason. Returns whether this is news.
    pub(crate) fn raise(&self, concern: Concern, detail: impl Into<String>) -> bool {
        let reason = Reason { detail: detail.into(), raised: instant() };
        let mut reasons = self.lock();
        let is_new = reasons.get(&concern).is_none_or(|before| before.detail != reason.detail);
        reasons.insert(concern, reason);
        is_new
    }

    /// Sets, replaces or removes a reason. Returns whether there is news that is bad.
    pub(crate) fn set(&self, concern: Concern, detail: Option<impl Into<String>>) -> bool {
        match detail {
            Some(detail) => self.raise(concern, detail),
            None => {
                self.clear(concern);
                false
            }
        }
    }

    /// Removes a reason.
    pub(crate) fn clear(&self, concern: Concern) {
        self.lock().remove(&concern);
    }

    /// Passes on the outcome of some work of the store, and records whether it failed.
    pub(crate) fn noted<T, E: Display>(
        &self,
        work: StoreWork,
        outcome: Result<T, E>,
    ) -> Result<T, E> {
        match &outcome {
            Ok(_) => self.store_worked(work),
            Err(error) => {
                tracing::error!(%error, ?work, "the store failed");
                self.store_failed(work);
            }
        }
        outcome
    }

    /// The store failed at some work.
    pub(crate) fn store_failed(&self, work: StoreWork) {
        let mut reasons = self.lock();
        self.failing_work.fetch_or(work.bit(), Ordering::Relaxed);
        let detail = "the last write or read failed; see the log output".to_owned();
        reasons.insert(Concern::Store, Reason { detail, raised: instant() });
    }

    /// The store succeeded at some work.
    pub(crate) fn store_worked(&self, work: StoreWork) {
        // Every upload takes this path.
        if self.failing_work.load(Ordering::Relaxed) & work.bit() == 0 {
            return;
        }
        let mut reasons = self.lock();
        let before = self.failing_work.fetch_and(!work.bit(), Ordering::Relaxed);
        if before & !work.bit() == 0 {
            reasons.remove(&Concern::Store);
        }
    }

    /// Whether requests should be sent here, and the document that says why.
    pub(crate) fn report(&self) -> (bool, Value) {
        let reasons = self.lock();
        let ready = !reasons.iter().any(|(concern, reason)| reason.is_blocking(*concern));
        let status = match (ready, reasons.is_empty()) {
            (true, true) => "ready",
            (true, false) => "degraded",
            (false, _) => "not_ready",
        };
        let reasons: Vec<_> = reasons
            .iter()
            .map(|(concern, reason)| {
                json!({
                    "name": concern,
                    "blocking": reason.is_blocking(*concern),
                    "detail": reason.detail,
                })
            })
            .collect();
        (ready, json!({ "status": status, "reasons": reasons }))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Concern, Reason>> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn the_store_recovers_by_the_work_that_failed() {
        let health = Health::default();
        health.store_failed(StoreWork::Accept);
        health.store_failed(StoreWork::Commit);
        for other in [StoreWork::Load, StoreWork::Form, StoreWork::Commit] {
            health.store_worked(other);
            assert!(!health.report().0);
        }
        health.store_worked(StoreWork::Accept);
        assert_eq!(health.report().1["status"], "ready");
    }

    #[test]
    fn requests_come_again_before_the_store_has_shown_that_it_works() {
        let health = Health::default();
        health.store_failed(StoreWork::Accept);
        let long_ago = Instant::now().checked_sub(STORE_HOLD).unwrap();
        health.lock().get_mut(&Concern::Store).unwrap().raised = long_ago;
        let (ready, document) = health.report();
        assert!(ready);
        assert_eq!(document["reasons"][0]["name"], "store");
    }
}
