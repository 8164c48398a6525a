//! The clock by which leases run out and pauses end.
//!
//! Only differences matter: leases and pauses of the embedded stores end with the process, so the
//! clock may start anywhere, and a monotonic one is immune to a system clock that is set back.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// A store's clock, in milliseconds since any moment; it never goes back.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Milliseconds since now.
pub(crate) fn monotonic() -> Clock {
    let start = Instant::now();
    Arc::new(move || milliseconds(start.elapsed()))
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
