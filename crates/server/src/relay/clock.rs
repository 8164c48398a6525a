//! Milliseconds since the relay started: the time of `sotto_protocol::relay`.

use std::time::Duration;

use crate::environment::{Instant, instant};

#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(instant())
    }

    pub(super) fn now_ms(self) -> u64 {
        (instant() - self.0).as_millis().try_into().unwrap_or(u64::MAX)
    }

    /// An instant from which on [`Self::now_ms`] is at least `ms`.
    pub(super) fn at(self, ms: u64) -> Instant {
        self.0 + Duration::from_millis(ms)
    }
}
