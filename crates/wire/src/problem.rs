//! Problem types of error responses (DAP "Errors", RFC 9457).
//!
//! The server and the client write and read the JSON document.

/// The URN prefix of every type.
pub const URN_PREFIX: &str = "urn:ietf:params:ppm:dap:error:";

/// The media type of a problem document.
pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

/// A problem type of DAP or taskprov.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProblemType {
    /// Malformed, of the wrong batch mode, or with duplicate report ids.
    InvalidMessage,
    /// No such task.
    UnrecognizedTask,
    /// No such aggregation job.
    UnrecognizedAggregationJob,
    /// The query or selector does not name a valid set of buckets.
    BatchInvalid,
    /// Fewer reports than the task's minimum.
    InvalidBatchSize,
    /// The aggregation parameter does not decode or is not valid.
    InvalidAggregationParameter,
    /// The aggregators' counts or checksums differ.
    BatchMismatch,
    /// The leader and the helper are at different steps.
    StepMismatch,
    /// At least one bucket was already collected.
    BatchOverlap,
    /// An extension that the receiver does not know.
    UnsupportedExtension,
    /// Extensions of a collection job are out of order, badly encoded or incompatible.
    InvalidExtension,
    /// The aggregator opted out of the task.
    InvalidTask,
}

impl ProblemType {
    /// Every type.
    pub const ALL: [Self; 12] = [
        Self::InvalidMessage,
        Self::UnrecognizedTask,
        Self::UnrecognizedAggregationJob,
        Self::BatchInvalid,
        Self::InvalidBatchSize,
        Self::InvalidAggregationParameter,
        Self::BatchMismatch,
        Self::StepMismatch,
        Self::BatchOverlap,
        Self::UnsupportedExtension,
        Self::InvalidExtension,
        Self::InvalidTask,
    ];

    /// The last part of the URN.
    pub const fn token(self) -> &'static str {
        match self {
            Self::InvalidMessage => "invalidMessage",
            Self::UnrecognizedTask => "unrecognizedTask",
            Self::UnrecognizedAggregationJob => "unrecognizedAggregationJob",
            Self::BatchInvalid => "batchInvalid",
            Self::InvalidBatchSize => "invalidBatchSize",
            Self::InvalidAggregationParameter => "invalidAggregationParameter",
            Self::BatchMismatch => "batchMismatch",
            Self::StepMismatch => "stepMismatch",
            Self::BatchOverlap => "batchOverlap",
            Self::UnsupportedExtension => "unsupportedExtension",
            Self::InvalidExtension => "invalidExtension",
            Self::InvalidTask => "invalidTask",
        }
    }

    /// The `type` member of the problem document.
    pub fn urn(self) -> String {
        format!("{URN_PREFIX}{}", self.token())
    }

    /// The type that a `type` member names, if it is one of DAP's.
    pub fn from_urn(urn: &str) -> Option<Self> {
        let token = urn.strip_prefix(URN_PREFIX)?;
        Self::ALL.into_iter().find(|problem| problem.token() == token)
    }

    /// The `title` member of the problem document.
    pub const fn title(self) -> &'static str {
        match self {
            Self::InvalidMessage => "The message is malformed or not allowed for the task.",
            Self::UnrecognizedTask => "The task is not known.",
            Self::UnrecognizedAggregationJob => "The aggregation job is not known.",
            Self::BatchInvalid => "The batch is not one that can be queried.",
            Self::InvalidBatchSize => "The batch has fewer reports than the task demands.",
            Self::InvalidAggregationParameter => "The aggregation parameter is not valid.",
            Self::BatchMismatch => "The aggregators disagree about the reports of the batch.",
            Self::StepMismatch => "The aggregators are at different steps of the job.",
            Self::BatchOverlap => "Part of the batch was already collected.",
            Self::UnsupportedExtension => "An extension is not supported.",
            Self::InvalidExtension => "The extensions of the request are not valid.",
            Self::InvalidTask => "The aggregator does not take part in this task.",
        }
    }

    /// The HTTP status to use. DAP only requires the class 4xx.
    pub const fn status(self) -> u16 {
        match self {
            Self::UnrecognizedTask | Self::UnrecognizedAggregationJob => 404,
            _ => 400,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urns_name_their_type() {
        for problem in ProblemType::ALL {
            assert_eq!(ProblemType::from_urn(&problem.urn()), Some(problem));
        }
        assert_eq!(ProblemType::BatchMismatch.urn(), "urn:ietf:params:ppm:dap:error:batchMismatch");
        for other in [
            "",
            "about:blank",
            "batchMismatch",
            "urn:ietf:params:ppm:dap:error:",
            "urn:ietf:params:ppm:dap:error:reportRejected",
        ] {
            assert_eq!(ProblemType::from_urn(other), None, "{other}");
        }
    }
}
