//! Who may work on a job. For stores of one process, whose leases end with it.

use std::time::Duration;

use crate::Lease;
use crate::clock::milliseconds;

/// Who holds a job, and when it is due for the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hold {
    /// The fence of the lease that counts; 0 is none's.
    fence: u64,
    until_ms: u64,
    due_ms: u64,
}

impl Hold {
    /// Held for a while from now on.
    pub(crate) fn held(fence: u64, now_ms: u64, duration: Duration) -> Self {
        Self { fence, until_ms: now_ms.saturating_add(milliseconds(duration)), due_ms: 0 }
    }

    /// Held by nobody, and due after a pause.
    pub(crate) fn released(now_ms: u64, pause: Duration) -> Self {
        Self { due_ms: now_ms.saturating_add(milliseconds(pause)), ..Self::default() }
    }

    pub(crate) fn is_held_by(&self, lease: Lease) -> bool {
        self.fence != 0 && self.fence == lease.fence
    }

    /// Whether the job is due and nobody holds it.
    pub(crate) fn is_free(&self, now_ms: u64) -> bool {
        self.due_ms <= now_ms && (self.fence == 0 || self.until_ms <= now_ms)
    }

    pub(crate) fn lease(&self, job: u64) -> Lease {
        Lease { job, fence: self.fence }
    }
}
