//! A request for one token, and what opens the answer: durable before the first byte is sent.

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::base64url;

/// A request for one token. Its nonce is stored separately, because the tokens of a recipe share
/// it. The same bytes are sent until there is an answer: a second request would be a second token,
/// and the attester grants only one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
#[serde(deny_unknown_fields)]
pub struct TokenAttempt {
    /// The encoded request, for the issuer.
    #[serde(with = "base64url")]
    pub request: Vec<u8>,
    /// For the attester: the blind of the client's key in the request.
    #[serde(with = "base64url")]
    pub request_blind: [u8; 32],
    /// For the attester: this device's name for the origin.
    #[serde(with = "base64url")]
    pub client_alias: [u8; 32],
    /// Unblinds the signature.
    #[serde(with = "base64url")]
    pub(super) unblinder: Vec<u8>,
    /// Opens the issuer's answer.
    #[serde(with = "base64url")]
    pub(super) response_secret: Vec<u8>,
}

impl fmt::Debug for TokenAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenAttempt").finish_non_exhaustive()
    }
}
