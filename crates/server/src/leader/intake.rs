//! What has arrived and waits for its job: tells the forming loop when it is worth its while.
//!
//! Uploads touch two atomic counters; the loop is woken only when the first report arrives, a job's
//! worth waits, or a collection is in a hurry.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::environment::{instant, timeout_at};

/// Reports accepted and not yet formed into jobs, as far as this process has seen them.
#[derive(Debug)]
pub(crate) struct Intake {
    job_reports: u64,
    job_bytes: u64,
    reports: AtomicU64,
    bytes: AtomicU64,
    hurry: AtomicBool,
    changed: Notify,
}

impl Intake {
    /// So many reports or bytes are a job's worth.
    pub(crate) fn new(job_reports: usize, job_bytes: usize) -> Self {
        Self {
            job_reports: job_reports as u64,
            job_bytes: job_bytes as u64,
            reports: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            hurry: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    /// Reports were accepted.
    pub(crate) fn add(&self, reports: u64, bytes: u64) {
        let before = self.reports.fetch_add(reports, Ordering::AcqRel);
        let bytes_before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        let filled = |before: u64, added: u64, full: u64| before < full && before + added >= full;
        if before == 0
            || filled(before, reports, self.job_reports)
            || filled(bytes_before, bytes, self.job_bytes)
        {
            self.changed.notify_one();
        }
    }

    /// Reports and bytes counted now.
    pub(crate) fn counted(&self) -> (u64, u64) {
        (self.reports.load(Ordering::Acquire), self.bytes.load(Ordering::Relaxed))
    }

    /// Reports and bytes were formed into jobs.
    pub(crate) fn take(&self, (reports, bytes): (u64, u64)) {
        // More than was counted: they were in the store before this process began.
        let take = |taken| move |counted: u64| Some(counted.saturating_sub(taken));
        let _ = self.reports.fetch_update(Ordering::AcqRel, Ordering::Acquire, take(reports));
        let _ = self.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, take(bytes));
    }

    /// The store knows that something waits, whatever was counted.
    pub(crate) fn count_at_least_one(&self) {
        if self.reports.fetch_max(1, Ordering::AcqRel) == 0 {
            self.changed.notify_one();
        }
    }

    /// A closing batch waits for what has been accepted: form it now.
    pub(crate) fn hurry(&self) {
        self.hurry.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Resolves when a job's worth waits, something has waited for `delay`, or there is a hurry.
    pub(crate) async fn ready(&self, delay: Duration) {
        let mut since = None;
        loop {
            if self.hurry.swap(false, Ordering::AcqRel) || self.is_full() {
                return;
            }
            if self.reports.load(Ordering::Acquire) == 0 {
                since = None;
                self.changed.notified().await;
                continue;
            }
            let due = *since.get_or_insert_with(instant) + delay;
            if timeout_at(due, self.changed.notified()).await.is_err() {
                return;
            }
        }
    }

    fn is_full(&self) -> bool {
        let (reports, bytes) = self.counted();
        reports >= self.job_reports || bytes >= self.job_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::Instant;

    use super::*;

    const DELAY: Duration = Duration::from_millis(200);

    async fn waited(intake: &Intake) -> Duration {
        let start = Instant::now();
        intake.ready(DELAY).await;
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_job_goes_at_once_and_others_after_the_delay() {
        let intake = Intake::new(10, 1000);
        intake.add(3, 30);
        assert!(waited(&intake).await >= DELAY);
        intake.add(7, 70);
        assert!(waited(&intake).await < DELAY);
        intake.take((10, 100));
        intake.add(1, 1000);
        assert!(waited(&intake).await < DELAY);
        intake.take((1, 1000));
        intake.hurry();
        assert!(waited(&intake).await < DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_count_that_was_lost_is_found_again() {
        let intake = Intake::new(10, 1000);
        // New reports arrive while ones of an earlier process are formed, and their count is taken.
        intake.add(5, 50);
        intake.take((7, 70));
        intake.count_at_least_one();
        assert!((DELAY..2 * DELAY).contains(&waited(&intake).await));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_waits_for_ever_but_an_empty_intake() {
        let intake = Arc::new(Intake::new(10, 1000));
        // More taken than counted: an earlier process had accepted them.
        intake.take((5, 50));
        let idle = tokio::time::timeout(Duration::from_secs(3600), intake.ready(DELAY));
        assert!(idle.await.is_err());
        let waiting = tokio::spawn({
            let intake = Arc::clone(&intake);
            async move { waited(&intake).await }
        });
        tokio::time::sleep(Duration::from_secs(5)).await;
        intake.add(1, 10);
        let took = waiting.await.unwrap();
        assert!((Duration::from_secs(5)..Duration::from_secs(6)).contains(&took), "{took:?}");
    }
}
