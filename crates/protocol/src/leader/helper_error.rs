//! Why the helper gave no result, and what that guarantees.

use std::time::Duration;

use sotto_wire::ProblemType;

/// Why there is no answer. Unless a refusal says otherwise, the helper may have committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelperError {
    /// No connection, no answer in time, or an answer that is not the helper's.
    Unreachable(&'static str),
    /// A problem, with its status and its DAP type if it has one.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The DAP problem type.
        problem: Option<ProblemType>,
        /// How long the helper asks the leader to wait.
        retry_after: Option<Duration>,
        /// The helper accepted the request itself, but refused the poll for its result.
        polled: bool,
    },
}

impl HelperError {
    /// Every reason that [`Self::reason`] may give, besides the tokens of DAP's problem types.
    pub const REASONS: [&'static str; 9] = [
        "connect",
        "no_public_address",
        "timeout",
        "broken_answer",
        "foreign_answer",
        "unauthorized",
        "busy",
        "server_error",
        "refused",
    ];

    /// The reason for log lines and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable(reason) => reason,
            Self::Refused { problem: Some(problem), .. } => problem.token(),
            Self::Refused { status: 401 | 403, .. } => "unauthorized",
            Self::Refused { status: 429, .. } => "busy",
            Self::Refused { status: 500.., .. } => "server_error",
            Self::Refused { .. } => "refused",
        }
    }

    /// The same failure, but of a poll.
    #[must_use]
    pub fn of_poll(mut self) -> Self {
        if let Self::Refused { polled, .. } = &mut self {
            *polled = true;
        }
        self
    }

    /// Whether the refusal of an aggregation job's first request guarantees that the helper
    /// committed nothing: DAP has it check these conditions before anything else, and they do not
    /// go away by themselves.
    pub fn refuses_job_for_good(&self) -> bool {
        self.problem_with_request().is_some_and(|problem| match problem {
            ProblemType::InvalidMessage
            | ProblemType::UnsupportedExtension
            | ProblemType::InvalidExtension
            | ProblemType::InvalidAggregationParameter => true,
            ProblemType::UnrecognizedTask
            | ProblemType::UnrecognizedAggregationJob
            | ProblemType::BatchInvalid
            | ProblemType::InvalidBatchSize
            | ProblemType::BatchMismatch
            | ProblemType::StepMismatch
            | ProblemType::BatchOverlap
            | ProblemType::InvalidTask => false,
        })
    }

    /// The helper's permanent verdict on a batch, if this is one. Everything else may be temporary.
    pub fn refuses_batch_for_good(&self) -> Option<ProblemType> {
        self.problem_with_request().filter(|problem| match problem {
            ProblemType::InvalidMessage
            | ProblemType::BatchInvalid
            | ProblemType::InvalidBatchSize
            | ProblemType::InvalidAggregationParameter
            | ProblemType::BatchMismatch
            | ProblemType::BatchOverlap
            | ProblemType::UnsupportedExtension
            | ProblemType::InvalidExtension => true,
            ProblemType::UnrecognizedTask
            | ProblemType::UnrecognizedAggregationJob
            | ProblemType::StepMismatch
            | ProblemType::InvalidTask => false,
        })
    }

    /// The problem with the request itself. A refused poll guarantees nothing: the helper accepted
    /// the request earlier, and may have committed.
    fn problem_with_request(&self) -> Option<ProblemType> {
        match self {
            Self::Refused { status: 400..=499, problem, polled: false, .. } => *problem,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, problem: Option<ProblemType>) -> HelperError {
        HelperError::Refused { status, problem, retry_after: None, polled: false }
    }

    #[test]
    fn only_certain_refusals_are_for_good() {
        let invalid = refused(400, Some(ProblemType::InvalidMessage));
        assert!(invalid.refuses_job_for_good());
        assert!(!invalid.of_poll().refuses_job_for_good());
        for passing in [
            HelperError::Unreachable("timeout"),
            refused(400, None),
            refused(403, None),
            refused(404, Some(ProblemType::UnrecognizedTask)),
            refused(500, Some(ProblemType::InvalidMessage)),
        ] {
            assert!(!passing.refuses_job_for_good(), "{passing:?}");
            assert_eq!(passing.refuses_batch_for_good(), None, "{passing:?}");
        }
    }

    #[test]
    fn a_refused_batch_ends_its_collection_and_a_refused_poll_does_not() {
        let mismatch = refused(400, Some(ProblemType::BatchMismatch));
        assert_eq!(mismatch.refuses_batch_for_good(), Some(ProblemType::BatchMismatch));
        assert!(!mismatch.refuses_job_for_good());
        assert_eq!(mismatch.of_poll().refuses_batch_for_good(), None);
    }

    #[test]
    fn every_reason_has_a_counter() {
        let problems = ProblemType::ALL.map(ProblemType::token);
        for error in [
            HelperError::Unreachable("connect"),
            HelperError::Unreachable("foreign_answer"),
            refused(401, None),
            refused(404, Some(ProblemType::UnrecognizedTask)),
            refused(418, None),
            refused(429, None),
            refused(503, None),
        ] {
            let reason = error.reason();
            assert!(HelperError::REASONS.contains(&reason) || problems.contains(&reason));
        }
    }
}
