//! Pauses between attempts.

use std::time::Duration;

/// Pauses that double.
#[derive(Debug)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    pause: Duration,
}

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration) -> Self {
        Self { min, max, pause: min }
    }

    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (2 * pause).min(self.max);
        pause
    }

    pub(crate) fn reset(&mut self) {
        self.pause = self.min;
    }
}
