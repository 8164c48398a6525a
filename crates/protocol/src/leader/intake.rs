//! Reports that have arrived and wait for a job: when it is worth forming jobs.

use std::time::Duration;

/// Reports accepted but not yet formed into jobs, as far as this process has seen them.
#[derive(Clone, Debug)]
pub struct Intake {
    job_reports: u64,
    job_bytes: u64,
    reports: u64,
    bytes: u64,
    hurry: bool,
    since: Option<Duration>,
}

/// When to form jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Immediately.
    Now,
    /// At this time, unless something changes before then.
    At(Duration),
    /// Nothing is waiting: look again when something changes.
    Idle,
}

impl Intake {
    /// An empty intake. A job is full at `job_reports` reports or `job_bytes` bytes.
    pub fn new(job_reports: usize, job_bytes: usize) -> Self {
        Self {
            job_reports: job_reports as u64,
            job_bytes: job_bytes as u64,
            reports: 0,
            bytes: 0,
            hurry: false,
            since: None,
        }
    }

    /// Reports were accepted. Returns whether that may change [`Self::due`]: true for the first
    /// report and for the one that fills a job.
    pub fn add(&mut self, reports: u64, bytes: u64) -> bool {
        let (was_empty, was_full) = (self.reports == 0, self.is_full());
        self.reports = self.reports.saturating_add(reports);
        self.bytes = self.bytes.saturating_add(bytes);
        was_empty || (!was_full && self.is_full())
    }

    /// The reports and bytes currently counted.
    pub fn counted(&self) -> (u64, u64) {
        (self.reports, self.bytes)
    }

    /// Reports and bytes were formed into jobs. There may be more than were counted: an earlier
    /// process accepted the others.
    pub fn take(&mut self, (reports, bytes): (u64, u64)) {
        self.reports = self.reports.saturating_sub(reports);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// The store knows that something is waiting, whatever was counted. Returns whether that is
    /// new.
    pub fn count_at_least_one(&mut self) -> bool {
        let was_empty = self.reports == 0;
        self.reports = self.reports.max(1);
        was_empty
    }

    /// Somebody is waiting for what was accepted: form it now.
    pub fn hurry(&mut self) {
        self.hurry = true;
    }

    /// Starts the wait for the next jobs: delays count from now on.
    pub fn start_waiting(&mut self) {
        self.since = None;
    }

    /// When to form jobs: immediately if one is full or [`Self::hurry()`] was called, which this
    /// clears; otherwise once something has waited for `delay`.
    pub fn due(&mut self, now: Duration, delay: Duration) -> Due {
        if std::mem::take(&mut self.hurry) || self.is_full() {
            return Due::Now;
        }
        if self.reports == 0 {
            self.since = None;
            return Due::Idle;
        }
        let due = self.since.get_or_insert(now).saturating_add(delay);
        if due <= now { Due::Now } else { Due::At(due) }
    }

    fn is_full(&self) -> bool {
        self.reports >= self.job_reports || self.bytes >= self.job_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(200);
    const NOW: Duration = Duration::from_secs(5);

    #[test]
    fn a_full_job_goes_at_once_and_others_after_the_delay() {
        let mut intake = Intake::new(10, 1000);
        assert!(intake.add(3, 30));
        assert_eq!(intake.due(NOW, DELAY), Due::At(NOW + DELAY));
        assert!(!intake.add(1, 10), "neither the first nor enough");
        assert_eq!(intake.due(NOW + DELAY / 2, DELAY), Due::At(NOW + DELAY));
        assert_eq!(intake.due(NOW + DELAY, DELAY), Due::Now);
        assert!(intake.add(6, 60));
        assert_eq!(intake.due(NOW, DELAY), Due::Now);
        intake.take((10, 100));
        intake.add(1, 1000);
        assert_eq!(intake.due(NOW, DELAY), Due::Now);
        intake.take((1, 1000));
        intake.hurry();
        assert_eq!(intake.due(NOW, DELAY), Due::Now);
        assert_eq!(intake.due(NOW, DELAY), Due::Idle, "the hurry is over");
    }

    #[test]
    fn a_count_that_was_lost_is_found_again() {
        let mut intake = Intake::new(10, 1000);
        // New reports arrive while those of an earlier process are being formed, and their count is
        // taken.
        intake.add(5, 50);
        intake.take((7, 70));
        assert!(intake.count_at_least_one());
        assert_eq!(intake.due(NOW, DELAY), Due::At(NOW + DELAY));
        assert!(!intake.count_at_least_one());
        intake.start_waiting();
        assert_eq!(intake.due(NOW + DELAY, DELAY), Due::At(NOW + 2 * DELAY));
    }

    #[test]
    fn nothing_waits_for_ever_but_an_empty_intake() {
        let mut intake = Intake::new(10, 1000);
        // More were taken than counted: an earlier process had accepted them.
        intake.take((5, 50));
        assert_eq!(intake.due(NOW, DELAY), Due::Idle);
        assert!(intake.add(1, 10), "the first wakes the loop");
        assert_eq!(intake.due(2 * NOW, DELAY), Due::At(2 * NOW + DELAY));
    }
}
