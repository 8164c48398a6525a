//! How much of the backlog is formed into jobs, and when to look at it next.
//!
//! The backlog is formed in order of arrival, for all tasks alike. What waits for room is each task
//! by itself: a task with many open jobs, or whose helper is in trouble, gives no reason to form
//! more, and keeps no other task from being formed.

use std::time::Duration;

use super::aggregate::JobLimits;

/// How much of the backlog is read at once, in jobs: with several tasks, this fills jobs better.
const JOBS_PER_ROUND: usize = 4;
/// The pause after a store error, while a task has too many open jobs, or while nothing can be
/// formed.
pub const RETRY_PAUSE: Duration = Duration::from_millis(250);
/// How long jobs fill while a helper is failing: there is no hurry, and waiting gives fewer jobs.
const FAILING_DELAY: Duration = Duration::from_secs(2);

/// Limits on forming jobs.
#[derive(Clone, Copy, Debug)]
pub struct FormingLimits {
    /// The size of a job.
    pub job: JobLimits,
    /// A task with this many open jobs gives no reason to form more.
    pub max_open_jobs: usize,
    /// How long a job that is not full waits for more reports.
    pub job_delay: Duration,
}

/// How a task stands with its helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The helper may be called, and the task has this many open jobs.
    Ready {
        /// Jobs that are not committed.
        open_jobs: u64,
    },
    /// The helper fails or hangs: there is no hurry.
    InTrouble,
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

    /// Approximately the most bytes that are read at once: those of two jobs, where a report takes
    /// at least twice its length.
    pub fn max_bytes(&self) -> usize {
        self.job.max_job_bytes
    }

    /// How long the reports of a task wait for a job to fill; `None` while it has too many open
    /// jobs that are ready to be worked on.
    pub fn patience(&self, last: Next, standing: Standing) -> Option<Duration> {
        let delay = match last {
            Next::NotYet => self.job_delay.max(RETRY_PAUSE),
            Next::Hurry | Next::SomethingLeft | Next::Done => self.job_delay,
        };
        match standing {
            Standing::InTrouble => Some(delay.max(FAILING_DELAY)),
            Standing::Ready { open_jobs } => {
                (open_jobs < self.max_open_jobs as u64).then_some(delay)
            }
        }
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
        assert_eq!(LIMITS.next(taken(1, 1_000), 5), Next::Hurry);
        assert_eq!(LIMITS.next(taken(39, 999), 5), Next::SomethingLeft);
        assert_eq!(LIMITS.next(taken(39, 999), 0), Next::Done);
        assert_eq!(LIMITS.next(Round::Nothing, 5), Next::NotYet);
        assert_eq!(LIMITS.next(Round::Nothing, 0), Next::Done);
    }

    #[test]
    fn what_cannot_be_formed_and_failing_helpers_slow_the_loop() {
        let ready = |open_jobs| Standing::Ready { open_jobs };
        assert_eq!(LIMITS.patience(Next::Done, ready(0)), Some(LIMITS.job_delay));
        assert_eq!(LIMITS.patience(Next::NotYet, ready(2)), Some(RETRY_PAUSE));
        assert_eq!(LIMITS.patience(Next::Done, Standing::InTrouble), Some(FAILING_DELAY));
        let patient = FormingLimits { job_delay: Duration::from_secs(60), ..LIMITS };
        let delay = patient.patience(Next::NotYet, Standing::InTrouble);
        assert_eq!(delay, Some(patient.job_delay));
    }

    #[test]
    fn a_task_with_many_open_jobs_waits() {
        for (open_jobs, has_room) in [(0, true), (2, true), (3, false), (30, false)] {
            let patience = LIMITS.patience(Next::Done, Standing::Ready { open_jobs });
            assert_eq!(patience.is_some(), has_room, "{open_jobs}");
        }
        assert!(
            LIMITS.patience(Next::Done, Standing::InTrouble).is_some(),
            "its jobs wait elsewhere"
        );
    }
}
