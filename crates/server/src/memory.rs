//! The memory that a server sets aside for what is in flight: requests, answers, jobs.
//!
//! One setting bounds it (`limits.max_memory_bytes`), and `/readyz` tells how much of it is held.
//! Nobody waits for memory: requests that do not fit are refused, with the time after which to
//! retry, and jobs stay in the store.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{Counter, Gauge};

use crate::environment::{Instant, instant};
use crate::http::Budget;
use crate::metrics::{MetricsRegistry, table};

/// For how long `/readyz` says that memory was refused.
const NEWS: std::time::Duration = std::time::Duration::from_secs(15);

/// The memory of a server, and who holds it.
#[derive(Clone)]
pub(crate) struct Memory(Arc<Inner>);

struct Inner {
    limit: usize,
    /// What requests and answers share.
    budgets: Mutex<Vec<Budget>>,
    /// What the jobs of a leader hold.
    jobs: AtomicU64,
    refusals: Arc<Refusals>,
    gauges: [Gauge; 2],
}

/// How many bytes there are, and how many of them are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) limit: u64,
    pub(crate) held: u64,
}

/// How often there was no memory, and when last.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    count: AtomicUsize,
    last: Mutex<Option<Instant>>,
    counter: Option<Counter>,
}

impl Memory {
    /// This many bytes.
    pub(crate) fn new(limit: usize, registry: &MetricsRegistry) -> Self {
        let counter = registry.counter(&table::MEMORY_REFUSED);
        let gauges = [registry.gauge(&table::MEMORY_LIMIT), registry.gauge(&table::MEMORY_HELD)];
        gauges[0].set(limit as f64);
        let refusals = Arc::new(Refusals { counter: Some(counter), ..Refusals::default() });
        let (budgets, jobs) = (Mutex::default(), AtomicU64::new(0));
        Self(Arc::new(Inner { limit, budgets, jobs, refusals, gauges }))
    }

    /// All of it, for requests and answers.
    pub(crate) fn all(&self) -> Budget {
        self.part(self.0.limit)
    }

    /// One half of it, so that one kind of use leaves the other half to another: requests that
    /// wait to answers, uploads to jobs.
    pub(crate) fn half(&self) -> Budget {
        self.part(self.half_bytes())
    }

    /// The bytes of one half.
    pub(crate) fn half_bytes(&self) -> usize {
        self.0.limit / 2
    }

    /// What the jobs of a leader hold now.
    pub(crate) fn note_jobs(&self, bytes: u64) {
        self.0.jobs.store(bytes, Ordering::Relaxed);
    }

    /// What `/readyz` says, and why requests were refused lately, if any were.
    pub(crate) fn report(&self) -> (Held, Option<String>) {
        let (limit, held) = (self.0.limit as u64, self.held());
        self.0.gauges[1].set(held as f64);
        let refused = self.0.refusals.lately().map(|count| {
            format!("{count} requests were refused since the start, the last one just now")
        });
        (Held { limit, held }, refused)
    }

    fn held(&self) -> u64 {
        let budgets = self.0.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        let held: usize = budgets.iter().map(Budget::held).sum();
        held as u64 + self.0.jobs.load(Ordering::Relaxed)
    }

    fn part(&self, bytes: usize) -> Budget {
        let budget = Budget::new(bytes as u64).telling(Arc::clone(&self.0.refusals));
        let mut budgets = self.0.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        budgets.push(budget.clone());
        budget
    }
}

impl Refusals {
    /// There was no memory for a request.
    pub(crate) fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(instant());
        if let Some(counter) = &self.counter {
            counter.increment(1);
        }
    }

    /// How many there were, if one was lately.
    fn lately(&self) -> Option<usize> {
        let last = (*self.last.lock().unwrap_or_else(PoisonError::into_inner))?;
        (instant() - last < NEWS).then(|| self.count.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Share;

    #[test]
    fn what_is_held_is_told_and_what_does_not_fit_is_refused() {
        let memory = Memory::new(64 * 1024, &MetricsRegistry::new().unwrap());
        let (requests, answers) = (memory.half(), memory.half());
        let mut share = Share::default();
        share.grow(&requests, 30 * 1024).unwrap();
        memory.note_jobs(5);
        let (told, refused) = memory.report();
        assert_eq!(told, Held { limit: 65_536, held: 30 * 1024 + 5 });
        assert_eq!(refused, None);
        assert!(Share::default().grow(&requests, 3 * 1024).is_err());
        assert!(memory.report().1.unwrap().starts_with("1 requests"));
        Share::default().grow(&answers, 32 * 1024).unwrap();
        drop(share);
        assert_eq!(memory.report().0.held, 5);
    }
}
