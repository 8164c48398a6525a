//! How much of the backlog is formed into jobs, and when to look at it next.

use std::time::Duration;

use super::aggregate::JobLimits;

/// How much of the backlog is read at once, in jobs: with several tasks, this fills jobs better.
const JOBS_PER_ROUND: usize = 4;
/// The pause after a store error, while too many jobs are open, or while nothing can be formed.
pub const RETRY_PAUSE: Duration = Duration::from_millis(250);
/// How long jobs fill while a helper is failing: there is no hurry, and waiting gives fewer jobs.
const FAILING_DELAY: Duration = Duration::from_secs(2);

/// Limits on forming jobs.
#[derive(Clone, Copy, Debug)]
pub struct FormingLimits {
    /// The size of a job.
    pub job: JobLimits,
    /// No jobs are formed while this many are open and ready to be worked on.
    pub max_open_jobs: usize,
    /// How long a job that is not full waits for more reports.
    pub job_delay: Duration,
}

/// The outcome of one look at the backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Records were taken: this many reports and bytes were read.
    Taken {
        /// Reports.
        reports: usize,
        /// Their bytes.
        bytes: usize,
    },
    /// The store offered nothing.
    Nothing,
}

/// What to do after a look at the backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There is more: look again immediately.
    Hurry,
    /// Some records are left. An earlier process may have accepted them, so they were never counted
    /// here.
    SomethingLeft,
    /// What is left cannot be formed now: it is too early, or its task is not served.
    NotYet,
    /// Nothing is left.
    Done,
}

impl FormingLimits {
    /// The most reports that are read at once.
    pub fn max_reports(&self) -> usize {
        self.job.max_job_reports.saturating_mul(JOBS_PER_ROUND)
    }

    /// Approximately the most bytes that are read at once.
    pub fn max_bytes(&self) -> usize {
        self.job.max_job_bytes.saturating_mul(2)
    }

    /// How long reports wait for a job to fill.
    pub fn delay(&self, last: Next, is_helper_failing: bool) -> Duration {
        let delay = match last {
            Next::NotYet => self.job_delay.max(RETRY_PAUSE),
            Next::Hurry | Next::SomethingLeft | Next::Done => self.job_delay,
        };
        if is_helper_failing { delay.max(FAILING_DELAY) } else { delay }
    }

    /// Whether another job may be formed. Jobs that are waiting for a helper or an operator do not
    /// count.
    pub fn has_room(&self, open_jobs: u64, waiting_jobs: u64) -> bool {
        open_jobs.saturating_sub(waiting_jobs) < self.max_open_jobs as u64
    }

    /// What to do after a look at the backlog that left `bytes_left` bytes.
    pub fn next(&self, round: Round, bytes_left: u64) -> Next {
        match round {
            Round::Taken { reports, bytes }
                if reports >= self.max_reports() || bytes >= self.max_bytes() =>
            {
                Next::Hurry
            }
            _ if bytes_left == 0 => Next::Done,
            Round::Taken { .. } => Next::SomethingLeft,
            Round::Nothing => Next::NotYet,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: FormingLimits = FormingLimits {
        job: JobLimits { max_job_reports: 10, max_job_bytes: 1_000 },
        max_open_jobs: 3,
        job_delay: Duration::from_millis(100),
    };

    #[test]
    fn a_full_round_is_followed_by_another() {
        let taken = |reports, bytes| Round::Taken { reports, bytes };
        assert_eq!(LIMITS.next(taken(40, 0), 0), Next::Hurry);
        assert_eq!(LIMITS.next(taken(1, 2_000), 5), Next::Hurry);
        assert_eq!(LIMITS.next(taken(39, 1_999), 5), Next::SomethingLeft);
        assert_eq!(LIMITS.next(taken(39, 1_999), 0), Next::Done);
        assert_eq!(LIMITS.next(Round::Nothing, 5), Next::NotYet);
        assert_eq!(LIMITS.next(Round::Nothing, 0), Next::Done);
    }

    #[test]
    fn what_cannot_be_formed_and_failing_helpers_slow_the_loop() {
        assert_eq!(LIMITS.delay(Next::Done, false), LIMITS.job_delay);
        assert_eq!(LIMITS.delay(Next::NotYet, false), RETRY_PAUSE);
        assert_eq!(LIMITS.delay(Next::Done, true), FAILING_DELAY);
        let patient = FormingLimits { job_delay: Duration::from_secs(60), ..LIMITS };
        assert_eq!(patient.delay(Next::NotYet, true), patient.job_delay);
    }

    #[test]
    fn jobs_that_wait_for_a_helper_take_no_room() {
        assert!(LIMITS.has_room(2, 0));
        assert!(!LIMITS.has_room(3, 0));
        assert!(LIMITS.has_room(30, 28));
        assert!(LIMITS.has_room(1, 5), "counted at another moment");
    }
}
