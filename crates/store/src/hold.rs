//! Which worker may work on a job. For stores of a single process, whose leases end with it.

use std::time::Duration;

use crate::Lease;
use crate::clock::milliseconds;

/// Which lease holds a job, and when the job may next be leased.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hold {
    /// The fence of the current lease; 0 if there is none.
    fence: u64,
    until_ms: u64,
    due_ms: u64,
}

impl Hold {
    /// Held from now on, for this long.
    pub(crate) fn held(fence: u64, now_ms: u64, duration: Duration) -> Self {
        Self { fence, until_ms: now_ms.saturating_add(milliseconds(duration)), due_ms: 0 }
    }

    /// Held by no lease, and due after a pause.
    pub(crate) fn released(now_ms: u64, pause: Duration) -> Self {
        Self { due_ms: now_ms.saturating_add(milliseconds(pause)), ..Self::default() }
    }

    pub(crate) fn is_held_by(&self, lease: Lease) -> bool {
        self.fence != 0 && self.fence == lease.fence
    }

    /// Whether the job is due and no lease holds it.
    pub(crate) fn is_free(&self, now_ms: u64) -> bool {
        self.due_ms <= now_ms && (self.fence == 0 || self.until_ms <= now_ms)
    }

    pub(crate) fn lease(&self, job: u64) -> Lease {
        Lease { job, fence: self.fence }
    }
}
