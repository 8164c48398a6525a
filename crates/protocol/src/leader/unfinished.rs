//! What keeps a worker from finishing a job, and what happens to the job then.

use std::time::Duration;

use super::HelperError;
use crate::{BadResponse, Fault};

/// How long an idle worker waits before it looks for jobs whose pause is over.
pub const IDLE_PAUSE: Duration = Duration::from_millis(250);
/// How long a stopped job waits before it is retried, since an operator may have repaired it.
const STOPPED_PAUSE: Duration = Duration::from_secs(300);
/// The pause after a store error.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// Why a job is not finished. The job stays in every case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// Retry after this pause.
    Wait(Duration),
    /// Continuing could count reports twice or not at all: an operator must look.
    Stop(String),
    /// The lease expired: another worker may have the job.
    LeaseLost,
    /// The store failed.
    Store(String),
}

impl Unfinished {
    /// How long to wait before the lease is given back; `None` if we no longer hold it.
    pub fn pause(&self) -> Option<Duration> {
        match self {
            Self::Wait(pause) => Some(*pause),
            Self::Stop(_) => Some(STOPPED_PAUSE),
            Self::Store(_) => Some(STORE_PAUSE),
            Self::LeaseLost => None,
        }
    }
}

impl From<Fault> for Unfinished {
    fn from(fault: Fault) -> Self {
        Self::Stop(fault.to_string())
    }
}

impl From<BadResponse> for Unfinished {
    fn from(error: BadResponse) -> Self {
        Self::Stop(error.to_string())
    }
}

/// What happens to an aggregation job that got no result from the helper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It is sent again, with the same bytes.
    Retry,
    /// Its reports are dropped: the helper committed nothing and never will.
    Abandon,
    /// It is kept for an operator: the helper may have committed it before.
    Stop(String),
}

impl Unanswered {
    /// A job is abandoned only if this was its very first send and the helper's answer guarantees
    /// that it committed nothing. In every other case it stays until it is committed.
    pub fn of(error: &HelperError, is_first_send: bool) -> Self {
        match (error.refuses_job_for_good(), is_first_send) {
            (false, _) => Self::Retry,
            (true, true) => Self::Abandon,
            (true, false) => Self::Stop(format!(
                "the helper refuses ({}) a request that it may have committed before",
                error.reason()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use sotto_wire::ProblemType;

    use super::*;

    #[test]
    fn a_job_is_abandoned_only_after_its_first_send() {
        let refused = HelperError::Refused {
            status: 400,
            problem: Some(ProblemType::InvalidMessage),
            retry_after: None,
            polled: false,
        };
        assert_eq!(Unanswered::of(&refused, true), Unanswered::Abandon);
        assert!(matches!(Unanswered::of(&refused, false), Unanswered::Stop(_)));
        assert_eq!(Unanswered::of(&refused.clone().of_poll(), true), Unanswered::Retry);
        let away = HelperError::Unreachable("connect");
        assert_eq!(Unanswered::of(&away, true), Unanswered::Retry);
        assert_eq!(Unanswered::of(&away, false), Unanswered::Retry);
    }

    #[test]
    fn a_lost_lease_is_not_given_back() {
        assert_eq!(Unfinished::LeaseLost.pause(), None);
        assert_eq!(Unfinished::Wait(Duration::ZERO).pause(), Some(Duration::ZERO));
        assert_eq!(Unfinished::from(Fault("broken".into())).pause(), Some(STOPPED_PAUSE));
        assert_eq!(Unfinished::Store("disk full".into()).pause(), Some(STORE_PAUSE));
    }
}
