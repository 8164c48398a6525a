//! The leader's [`Intake`], shared by uploads and the forming loop.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sotto_protocol::leader::intake::{Due, Intake};
use tokio::sync::Notify;

use crate::environment::{Instant, instant, timeout_at};

/// What has arrived and waits for its job. Wakes the forming loop only when that is worthwhile.
#[derive(Debug)]
pub(super) struct SharedIntake {
    started: Instant,
    intake: Mutex<Intake>,
    changed: Notify,
}

impl SharedIntake {
    /// This many reports or bytes fill a job.
    pub(super) fn new(job_reports: usize, job_bytes: usize) -> Self {
        let intake = Mutex::new(Intake::new(job_reports, job_bytes));
        Self { started: instant(), intake, changed: Notify::new() }
    }

    pub(super) fn add(&self, reports: u64, bytes: u64) {
        if self.lock().add(reports, bytes) {
            self.changed.notify_one();
        }
    }

    pub(super) fn count_at_least_one(&self) {
        if self.lock().count_at_least_one() {
            self.changed.notify_one();
        }
    }

    pub(super) fn hurry(&self) {
        self.lock().hurry();
        self.changed.notify_one();
    }

    /// Resolves when a job is full, a report has waited for `delay`, or forming is urgent.
    pub(super) async fn ready(&self, delay: Duration) {
        self.lock().start_waiting();
        loop {
            let due = self.lock().due(instant() - self.started, delay);
            let changed = self.changed.notified();
            match due {
                Due::Now => return,
                Due::Idle => changed.await,
                Due::At(due) => {
                    drop(timeout_at(self.started + due, changed).await);
                }
            }
        }
    }

    /// The intake, for a step that wakes nobody.
    pub(super) fn lock(&self) -> MutexGuard<'_, Intake> {
        self.intake.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const DELAY: Duration = Duration::from_millis(200);

    #[tokio::test(start_paused = true)]
    async fn the_loop_sleeps_until_something_arrives() {
        let intake = Arc::new(SharedIntake::new(10, 1000));
        let idle = tokio::time::timeout(Duration::from_secs(3600), intake.ready(DELAY));
        assert!(idle.await.is_err());
        let waiting = tokio::spawn({
            let intake = Arc::clone(&intake);
            async move {
                let start = Instant::now();
                intake.ready(DELAY).await;
                start.elapsed()
            }
        });
        tokio::time::sleep(Duration::from_secs(5)).await;
        intake.add(1, 10);
        let took = waiting.await.unwrap();
        assert!((Duration::from_secs(5)..Duration::from_secs(6)).contains(&took), "{took:?}");
    }
}
