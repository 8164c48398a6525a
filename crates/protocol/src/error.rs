//! Three families of failure, sorted by whose fault it is.
//!
//! - [`Rejection`]: one report is rejected. Counted by reason, and never retried unless it was too
//!   early.
//! - [`Abort`]: the peer's request is rejected as a whole, with one DAP problem type. An aggregator
//!   that aborts has committed nothing for that request.
//! - [`Fault`]: an error on our side (store, pool, a bug). The peer may retry.
//!
//! A step that can end in either of the last two returns a [`Failure`]. An answer of the helper
//! that the leader cannot use is a [`BadResponse`].

use std::collections::BTreeMap;

use sotto_vdaf::VerifyError;
use sotto_wire::{DecodeError, ProblemType, ReportError, TaskId};

/// Why one report was rejected. DAP, section "Report Errors", plus where it was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The bucket is closing or collected.
    #[error("batch_collected")]
    BatchCollected,
    /// The report id was already used: in its bucket, or, in a task with tokens, anywhere in the
    /// task. There the id is part of the token's nonce, so a token spent twice is counted here too.
    #[error("report_replayed")]
    ReportReplayed,
    /// The aggregator can no longer judge the report, or its task is gone.
    #[error("report_dropped")]
    ReportDropped,
    /// The share does not open under the named key.
    #[error("hpke_decrypt_error")]
    HpkeDecryptError,
    /// The VDAF rejected the shares.
    #[error("vdaf_verify_error")]
    VdafVerifyError,
    /// The timestamp is after the task's interval.
    #[error("task_expired")]
    TaskExpired,
    /// The share does not decode, has the wrong size, or carries an extension that is not allowed.
    #[error("invalid_message")]
    InvalidMessage,
    /// The timestamp is too far ahead of the clock. The only rejection after which a report may be
    /// retried.
    #[error("report_too_early")]
    ReportTooEarly,
    /// The timestamp is before the task's interval.
    #[error("task_not_started")]
    TaskNotStarted,
    /// The report names an HPKE key that the leader does not have (uploads only).
    #[error("outdated_config")]
    OutdatedConfig,
    /// The helper does not have the verification key that the leader used for the job.
    #[error("unknown_verification_key_id")]
    UnknownVerificationKeyId,
    /// The helper rejected the whole aggregation job and had committed nothing.
    #[error("job_abandoned")]
    JobAbandoned,
    /// The task requires a token, and this aggregator's share has none.
    #[error("token_missing")]
    TokenMissing,
    /// The token does not decode, or has another type.
    #[error("token_malformed")]
    TokenMalformed,
    /// The token names a key other than the recipe's key for this aggregator.
    #[error("token_wrong_key")]
    TokenWrongKey,
    /// The token is for another challenge, that is, another recipe or issuer.
    #[error("token_wrong_recipe")]
    TokenWrongRecipe,
    /// The token's key has expired.
    #[error("token_expired")]
    TokenExpired,
    /// The signature is not the issuer's.
    #[error("token_forged")]
    TokenForged,
    /// The token is valid, but its nonce gives another report id.
    #[error("token_other_report")]
    TokenOtherReport,
}

impl Rejection {
    /// Every reason, in the order of [`Self::code`].
    pub const ALL: [Self; 19] = [
        Self::BatchCollected,
        Self::ReportReplayed,
        Self::ReportDropped,
        Self::HpkeDecryptError,
        Self::VdafVerifyError,
        Self::TaskExpired,
        Self::InvalidMessage,
        Self::ReportTooEarly,
        Self::TaskNotStarted,
        Self::OutdatedConfig,
        Self::UnknownVerificationKeyId,
        Self::JobAbandoned,
        Self::TokenMissing,
        Self::TokenMalformed,
        Self::TokenWrongKey,
        Self::TokenWrongRecipe,
        Self::TokenExpired,
        Self::TokenForged,
        Self::TokenOtherReport,
    ];

    /// The name used in counters, metrics and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::BatchCollected => "batch_collected",
            Self::ReportReplayed => "report_replayed",
            Self::ReportDropped => "report_dropped",
            Self::HpkeDecryptError => "hpke_decrypt_error",
            Self::VdafVerifyError => "vdaf_verify_error",
            Self::TaskExpired => "task_expired",
            Self::InvalidMessage => "invalid_message",
            Self::ReportTooEarly => "report_too_early",
            Self::TaskNotStarted => "task_not_started",
            Self::OutdatedConfig => "outdated_config",
            Self::UnknownVerificationKeyId => "unknown_verification_key_id",
            Self::JobAbandoned => "job_abandoned",
            Self::TokenMissing => "token_missing",
            Self::TokenMalformed => "token_malformed",
            Self::TokenWrongKey => "token_wrong_key",
            Self::TokenWrongRecipe => "token_wrong_recipe",
            Self::TokenExpired => "token_expired",
            Self::TokenForged => "token_forged",
            Self::TokenOtherReport => "token_other_report",
        }
    }

    /// A stable number for stores.
    pub fn code(self) -> u8 {
        match self {
            Self::BatchCollected => 1,
            Self::ReportReplayed => 2,
            Self::ReportDropped => 3,
            Self::HpkeDecryptError => 5,
            Self::VdafVerifyError => 6,
            Self::TaskExpired => 7,
            Self::InvalidMessage => 8,
            Self::ReportTooEarly => 9,
            Self::TaskNotStarted => 10,
            Self::OutdatedConfig => 11,
            Self::UnknownVerificationKeyId => 12,
            Self::JobAbandoned => 128,
            Self::TokenMissing => 129,
            Self::TokenMalformed => 130,
            Self::TokenWrongKey => 131,
            Self::TokenWrongRecipe => 132,
            Self::TokenExpired => 133,
            Self::TokenForged => 134,
            Self::TokenOtherReport => 135,
        }
    }

    /// The reason behind a stored number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }
}

/// What a peer is told. Which check of a token failed is only for this aggregator's operator: the
/// peer could use it to tell devices apart.
impl From<Rejection> for ReportError {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::BatchCollected => Self::BatchCollected,
            Rejection::ReportReplayed => Self::ReportReplayed,
            Rejection::ReportDropped | Rejection::JobAbandoned => Self::ReportDropped,
            Rejection::HpkeDecryptError => Self::HpkeDecryptError,
            Rejection::VdafVerifyError => Self::VdafVerifyError,
            Rejection::TaskExpired => Self::TaskExpired,
            Rejection::InvalidMessage
            | Rejection::TokenMissing
            | Rejection::TokenMalformed
            | Rejection::TokenWrongKey
            | Rejection::TokenWrongRecipe
            | Rejection::TokenExpired
            | Rejection::TokenForged
            | Rejection::TokenOtherReport => Self::InvalidMessage,
            Rejection::ReportTooEarly => Self::ReportTooEarly,
            Rejection::TaskNotStarted => Self::TaskNotStarted,
            Rejection::OutdatedConfig => Self::OutdatedConfig,
            Rejection::UnknownVerificationKeyId => Self::UnknownVerificationKeyId,
        }
    }
}

/// How the helper's verdict on one report is counted by the leader.
impl From<ReportError> for Rejection {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::BatchCollected => Self::BatchCollected,
            ReportError::ReportReplayed => Self::ReportReplayed,
            ReportError::HpkeUnknownConfigId | ReportError::HpkeDecryptError => {
                Self::HpkeDecryptError
            }
            ReportError::VdafVerifyError => Self::VdafVerifyError,
            ReportError::TaskExpired => Self::TaskExpired,
            ReportError::InvalidMessage => Self::InvalidMessage,
            ReportError::ReportTooEarly => Self::ReportTooEarly,
            ReportError::TaskNotStarted => Self::TaskNotStarted,
            ReportError::OutdatedConfig => Self::OutdatedConfig,
            ReportError::UnknownVerificationKeyId => Self::UnknownVerificationKeyId,
            ReportError::Reserved | ReportError::ReportDropped => Self::ReportDropped,
        }
    }
}

/// Rejected reports, counted by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rejections(BTreeMap<Rejection, u64>);

impl Rejections {
    /// Counts one more rejected report.
    pub fn add(&mut self, reason: Rejection) {
        self.add_many(reason, 1);
    }

    /// Counts `count` more rejected reports.
    pub fn add_many(&mut self, reason: Rejection, count: u64) {
        if count > 0 {
            let entry = self.0.entry(reason).or_default();
            *entry = entry.saturating_add(count);
        }
    }

    /// The reasons with their counts, none of them zero.
    pub fn iter(&self) -> impl Iterator<Item = (Rejection, u64)> + '_ {
        self.0.iter().map(|(reason, count)| (*reason, *count))
    }

    /// How many reports were rejected in total.
    pub fn total(&self) -> u64 {
        self.0.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// A request rejected as a whole: the peer's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", .problem.token())]
pub struct Abort {
    /// The DAP problem type.
    pub problem: ProblemType,
    /// What was wrong, for people. Contains no secret, address or report id.
    pub detail: String,
    /// The task, where known.
    pub task_id: Option<TaskId>,
}

impl Abort {
    /// An abort that names the problem and says what was wrong.
    pub fn new(problem: ProblemType, detail: impl Into<String>) -> Self {
        Self { problem, detail: detail.into(), task_id: None }
    }

    /// The same, naming the task.
    #[must_use]
    pub fn for_task(mut self, task_id: TaskId) -> Self {
        self.task_id = Some(task_id);
        self
    }
}

/// An error on our side, not caused by the peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fault(pub String);

/// A step that ended in an abort or in a fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The peer's fault.
    #[error(transparent)]
    Abort(#[from] Abort),
    /// Ours.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// An answer of the helper that the leader cannot use.
///
/// Nothing was counted, and the helper may have committed. So the job stays, and its retry sends
/// the same bytes. If the leader dropped a report on its own after the helper had answered, the two
/// sums would differ permanently.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadResponse {
    /// The bytes do not decode as the message.
    #[error("the helper's answer does not decode: {0}")]
    Malformed(#[from] DecodeError),
    /// The answer covers other reports than the request, or in another order.
    #[error("the helper's answer is about other reports, or in another order")]
    OtherReports,
    /// `finish`, although the VDAF requires a message from the helper.
    #[error("the helper finished a report without a message")]
    Finished,
    /// A message with which the VDAF does not finish.
    #[error("the helper's message does not verify: {0}")]
    Verify(VerifyError),
}
