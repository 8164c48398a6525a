//! Why a gateway does not forward a request. The server's table maps each refusal to HTTP.

/// Why a body was not opened. The answer goes out in clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OuterRefusal {
    /// It names a key or a suite that the gateway does not have, or no longer has.
    #[error("The request is sealed to a key that this gateway does not have.")]
    UnknownKey,
    /// It is truncated, or does not open.
    #[error("The request does not open.")]
    Malformed,
}

/// Why an opened request was not forwarded. The answer goes back sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InnerRefusal {
    /// What was sealed is not a binary HTTP request.
    #[error("The request does not decode.")]
    Malformed,
    /// Its `date` is missing, unreadable or outside the window.
    #[error("The date of the request is not near the gateway's.")]
    Date,
    /// The same bytes were received before.
    #[error("This request was received before.")]
    Replayed,
    /// The gateway cannot remember any more requests for now: it could not tell this one from its
    /// replays.
    #[error("The gateway is full.")]
    Full,
}
