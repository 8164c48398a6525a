//! Why a gateway does not pass a request on. What each refusal is in HTTP, the server's table says.

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
