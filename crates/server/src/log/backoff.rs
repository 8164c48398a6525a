//! Pauses between attempts.

use std::time::Duration;

/// Pauses that double.
#[derive(Debug)]
pub(super) struct Backoff {
    min: Duration,
    max: Duration,
    pause: Duration,
}

impl Backoff {
    pub(super) fn new(min: Duration, max: Duration) -> Self {
        Self { min, max, pause: min }
    }

    pub(super) fn next(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (2 * pause).min(self.max);
        pause
    }

    pub(super) fn reset(&mut self) {
        self.pause = self.min;
    }
}
