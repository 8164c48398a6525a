//! The leader's [`Intake`], shared by uploads and the forming loop.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sotto_protocol::leader::forming::RETRY_PAUSE;
use sotto_protocol::leader::intake::{Due, Intake};
use sotto_wire::TaskId;
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

    pub(super) fn add(&self, task_id: TaskId, reports: u64, bytes: u64) {
        if self.lock().add(task_id, reports, bytes) {
            self.wake();
        }
    }

    pub(super) fn count_at_least_one(&self) {
        if self.lock().count_at_least_one() {
            self.wake();
        }
    }

    pub(super) fn hurry(&self) {
        self.lock().hurry();
        self.wake();
    }

    /// Has the loop look again.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    /// When to form jobs, if the reports of each task may wait for this long.
    pub(super) fn due(&self, patience: impl Fn(Option<&TaskId>) -> Option<Duration>) -> Due {
        self.lock().due(instant() - self.started, patience)
    }

    /// Resolves when something may have changed.
    pub(super) async fn wait(&self, due: Due) {
        let changed = self.changed.notified();
        let at = match due {
            Due::Now => return,
            Due::Idle => return changed.await,
            // The end of a job wakes us. A helper may also get into trouble, which wakes nobody.
            Due::Held => instant() + RETRY_PAUSE,
            Due::At(due) => self.started + due,
        };
        let _ = timeout_at(at, changed).await;
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

    async fn ready(intake: &SharedIntake) {
        loop {
            match intake.due(|_| Some(DELAY)) {
                Due::Now => return,
                due => intake.wait(due).await,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_loop_sleeps_until_something_arrives() {
        let intake = Arc::new(SharedIntake::new(10, 1000));
        let idle = tokio::time::timeout(Duration::from_secs(3600), ready(&intake));
        assert!(idle.await.is_err());
        let waiting = tokio::spawn({
            let intake = Arc::clone(&intake);
            async move {
                let start = Instant::now();
                ready(&intake).await;
                start.elapsed()
            }
        });
        tokio::time::sleep(Duration::from_secs(5)).await;
        intake.add(TaskId::new([1; 32]), 1, 10);
        let took = waiting.await.unwrap();
        assert!((Duration::from_secs(5)..Duration::from_secs(6)).contains(&took), "{took:?}");
    }
}
