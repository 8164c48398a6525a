//! An aggregator's half of the rate-limited scheme: whether a token is valid for one key and one
//! recipe.
//!
//! Everything that does not depend on the token is computed once per task. The store says whether
//! the token was spent before, by the report id that its nonce gives.

use std::fmt;

use sotto_crypto::blind_rsa::{BlindRsaError, TokenKey, TokenVerifier};
use sotto_wire::token::{TOKEN_TYPE, Token};
use sotto_wire::{Decode, ReportId};

use super::{TokenRefusal, VerifyToken, report_id};
use crate::{Moment, Rejection};

/// Checks the tokens of one key for one challenge.
pub(super) struct RateLimitedVerifier {
    challenge_digest: [u8; 32],
    key_id: [u8; 32],
    signature: TokenVerifier,
    expires: Moment,
}

impl RateLimitedVerifier {
    /// A verifier for tokens that answer the challenge under `key`, until the key expires.
    pub(super) fn new(
        challenge_digest: [u8; 32],
        key: &TokenKey,
        expires: Moment,
    ) -> Result<Self, BlindRsaError> {
        Ok(Self {
            challenge_digest,
            key_id: *key.id(),
            signature: TokenVerifier::new(key)?,
            expires,
        })
    }
}

impl VerifyToken for RateLimitedVerifier {
    /// Free checks come first, the signature last. Nothing compared here is secret: key id and
    /// challenge come from the recipe.
    fn verify(&self, token: &[u8], now: Moment) -> Result<ReportId, TokenRefusal> {
        let token = Token::from_bytes(token).map_err(|_| TokenRefusal::Malformed)?;
        if token.token_type != TOKEN_TYPE {
            return Err(TokenRefusal::Malformed);
        }
        if token.token_key_id != self.key_id {
            return Err(TokenRefusal::WrongKey);
        }
        if token.challenge_digest != self.challenge_digest {
            return Err(TokenRefusal::WrongChallenge);
        }
        if now >= self.expires {
            return Err(TokenRefusal::Expired);
        }
        let verified = self.signature.verify(&token.input(), &token.authenticator);
        verified.map_err(|_| TokenRefusal::Forged)?;
        Ok(report_id(&token.nonce))
    }
}

impl fmt::Debug for RateLimitedVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitedVerifier")
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// How this aggregator's operator sees a refusal.
impl From<TokenRefusal> for Rejection {
    fn from(refusal: TokenRefusal) -> Self {
        match refusal {
            TokenRefusal::Malformed => Self::TokenMalformed,
            TokenRefusal::WrongKey => Self::TokenWrongKey,
            TokenRefusal::WrongChallenge => Self::TokenWrongRecipe,
            TokenRefusal::Expired => Self::TokenExpired,
            TokenRefusal::Forged => Self::TokenForged,
        }
    }
}
