//! What a gateway says when it does not pass a request on.

use sotto_wire::ohttp::{DATE_PROBLEM, KEY_PROBLEM};

/// The problem type that says no more than the status (RFC 9457 §4.2.1).
const ABOUT_BLANK: &str = "about:blank";

/// Why a body was not opened. The answer goes out in clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OuterRefusal {
    /// It names a key or a suite that the gateway does not have, perhaps no longer.
    #[error("The request is sealed to a key that this gateway does not have.")]
    UnknownKey,
    /// It is cut short, or does not open.
    #[error("The request does not open.")]
    Malformed,
}

impl OuterRefusal {
    /// The status of the answer.
    pub fn status(self) -> u16 {
        400
    }

    /// The problem type of the answer (RFC 9458 §5.3).
    pub fn problem_type(self) -> &'static str {
        match self {
            Self::UnknownKey => KEY_PROBLEM,
            Self::Malformed => ABOUT_BLANK,
        }
    }
}

/// Why an opened request was not passed on. The answer goes back sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InnerRefusal {
    /// What was sealed is no binary HTTP request.
    #[error("The request does not decode.")]
    Malformed,
    /// Its `date` is missing, unreadable or outside the window.
    #[error("The date of the request is not near the gateway's.")]
    Date,
    /// The same bytes came before.
    #[error("This request was received before.")]
    Replayed,
    /// The gateway can remember no more requests for now: it could not tell this one from its replays.
    #[error("The gateway is full.")]
    Full,
}

impl InnerRefusal {
    /// The status of the answer.
    pub fn status(self) -> u16 {
        match self {
            Self::Malformed | Self::Date | Self::Replayed => 400,
            Self::Full => 503,
        }
    }

    /// The problem type of the answer (RFC 9458 §6.5.2).
    pub fn problem_type(self) -> &'static str {
        match self {
            Self::Date => DATE_PROBLEM,
            Self::Malformed | Self::Replayed | Self::Full => ABOUT_BLANK,
        }
    }
}
