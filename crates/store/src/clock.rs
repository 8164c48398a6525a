//! The clock by which leases expire and pauses end.
//!
//! Only differences matter. Leases and pauses of the embedded stores end with the process, so the
//! clock may start anywhere, and a monotonic clock is immune to the system clock being set back.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// A store's clock, in milliseconds since an arbitrary moment. It never goes back.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Milliseconds since this call.
pub(crate) fn monotonic() -> Clock {
    let start = Instant::now();
    Arc::new(move || milliseconds(start.elapsed()))
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
