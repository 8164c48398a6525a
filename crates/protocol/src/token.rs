//! Tokens: they show an aggregator that a report comes from a device that has not sent another one.
//!
//! There is one token per aggregator, only inside that aggregator's own share: a leader never sees
//! a token that the helper would accept. Each comes through an attester and an issuer of its own, so
//! that no attester and no issuer alone can invent a device. Both carry the same nonce, which also
//! gives the report's id: so the check that a report id is new is also the check that the token is
//! new.
//!
//! [`TokenTerms`] is what a recipe demands. A device requests a token with [`TokenTerms::request`]
//! and opens the answer with [`TokenTerms::finish`]; an aggregator verifies with a [`VerifyToken`].
//! Leaves to others: when to request and what to store ([`crate::device::tokens`]), attester,
//! issuer, sending.

mod attempt;
mod rate_limited;
#[cfg(feature = "server")]
mod verifier;

use std::fmt;

use sotto_crypto::HpkeError;
use sotto_crypto::blind_rsa::{BlindRsaError, TokenKey};
use sotto_wire::recipe::{Recipe, Tokens};
use sotto_wire::token::{TOKEN_LEN, TOKEN_TYPE, TokenChallenge};
use sotto_wire::{BoundsError, DecodeError, FormatError, KeyName, ReportId, Role};
use zeroize::Zeroize;

pub use self::attempt::TokenAttempt;
pub use self::rate_limited::report_id;
#[cfg(feature = "server")]
use crate::Moment;
use crate::oblivious::percent_encoded;

/// What the token for one aggregator must be. It follows from the recipe alone.
#[derive(Clone, Debug)]
pub struct TokenTerms {
    issuer: KeyName,
    key: TokenKey,
    expires: u64,
    challenge: TokenChallenge,
    challenge_digest: [u8; 32],
    participations: Option<u32>,
}

/// Checks the tokens of one aggregator of one recipe.
#[cfg(feature = "server")]
pub trait VerifyToken: fmt::Debug + Send + Sync {
    /// Checks a token from a report, and returns the id that the report must have.
    fn verify(&self, token: &[u8], now: Moment) -> Result<ReportId, TokenRefusal>;
}

/// Why a token is not valid. For the operator's counters; the sender is not told.
#[cfg(feature = "server")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum TokenRefusal {
    /// It does not decode, or has another type.
    #[error("the token is malformed")]
    Malformed,
    /// It is for another key.
    #[error("the token is for another key")]
    WrongKey,
    /// It is for another recipe, or from another issuer.
    #[error("the token is for another challenge")]
    WrongChallenge,
    /// The issuer did not sign it.
    #[error("the token is forged")]
    Forged,
    /// Its key has expired.
    #[error("the token's key has expired")]
    Expired,
}

/// Shows an attester that a request comes from this device. Implemented by the host, because
/// hardware keys differ.
pub trait Attestor {
    /// The evidence ([`sotto_wire::token::evidence`]), which signs `message`.
    fn attest(&self, message: &[u8]) -> Result<Vec<u8>, AttestError>;
}

/// Why there is no evidence.
#[derive(Debug, thiserror::Error)]
#[error("the device cannot attest: {0}")]
pub struct AttestError(pub String);

/// Why there is no request or no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The recipe's key cannot be used.
    #[error("the token key: {0}")]
    Key(#[from] FormatError),
    /// Blinding failed, or the signature is not valid.
    #[error(transparent)]
    BlindRsa(#[from] BlindRsaError),
    /// The request could not be sealed, or the answer could not be opened.
    #[error(transparent)]
    Hpke(#[from] HpkeError),
    /// A part does not fit into its message.
    #[error(transparent)]
    Bounds(#[from] BoundsError),
    /// A part does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The stored request is damaged.
    #[error("the stored request is damaged")]
    Attempt,
}

/// The tokens of one report, taken out of the device's state.
#[derive(Clone, PartialEq, Eq)]
pub struct ReportTokens {
    /// The report's id, from the tokens' nonce.
    pub report_id: ReportId,
    /// The leader's token, encoded.
    pub leader: Vec<u8>,
    /// The helper's token, unless the helper cannot check any.
    pub helper: Option<Vec<u8>>,
}

impl TokenTerms {
    /// What the token for `role` must be; `None` if the recipe needs none. For a header: see
    /// [`Self::participations`].
    pub fn of(recipe: &Recipe, role: Role) -> Option<Result<Self, TokenError>> {
        let endorsed = recipe.parties.tokens.key(role)?;
        let terms = || {
            let key = TokenKey::parse_spki(&endorsed.spki()?)?;
            let context = Some(*recipe.series_id().as_bytes());
            let mut terms = Self::new(endorsed.issuer.clone(), key, endorsed.expires, context)?;
            match recipe.token_number() {
                Some(number) => terms.participation(number),
                None => {
                    terms.participations = recipe.participations();
                    Ok(terms)
                }
            }
        };
        Some(terms())
    }

    /// The terms of a token that `issuer` signs with `key` for this redemption context.
    pub fn new(
        issuer: KeyName,
        key: TokenKey,
        expires: u64,
        context: Option<[u8; 32]>,
    ) -> Result<Self, TokenError> {
        let origin = key.origin_name();
        let challenge = TokenChallenge::new(TOKEN_TYPE, issuer.as_str(), context, origin)?;
        let challenge_digest = challenge.digest();
        Ok(Self { issuer, key, expires, challenge, challenge_digest, participations: None })
    }

    /// The terms for one participation in the series of a header: an origin of its own.
    pub fn participation(&self, number: u32) -> Result<Self, TokenError> {
        let origin = self.key.participation_name(number);
        let context = self.challenge.redemption_context().copied();
        let challenge = TokenChallenge::new(TOKEN_TYPE, self.issuer.as_str(), context, origin)?;
        let challenge_digest = challenge.digest();
        Ok(Self { challenge, challenge_digest, participations: None, ..self.clone() })
    }

    /// How many tokens there are for each device, if these are the terms of a header; each is for a
    /// [participation](Self::participation) with a number.
    pub fn participations(&self) -> Option<u32> {
        self.participations
    }

    /// Who issues the token.
    pub fn issuer(&self) -> &KeyName {
        &self.issuer
    }

    /// The key that the token is signed with.
    pub fn key(&self) -> &TokenKey {
        &self.key
    }

    /// The token is not valid from this second on.
    pub fn expires(&self) -> u64 {
        self.expires
    }

    /// The challenge that the token answers. It is rebuilt from the recipe and never sent.
    pub fn challenge(&self) -> &TokenChallenge {
        &self.challenge
    }

    /// The digest of the challenge, which names issuer, recipe and origin.
    pub fn challenge_digest(&self) -> &[u8; 32] {
        &self.challenge_digest
    }
}

impl ReportTokens {
    /// As long as the tokens of a report, for cover; `None` if a report has none.
    pub(crate) fn zeros(tokens: &Tokens) -> Option<Self> {
        let zeros = |role| tokens.key(role).map(|_| vec![0; TOKEN_LEN]);
        let (leader, helper) = (zeros(Role::Leader)?, zeros(Role::Helper));
        Some(Self { report_id: ReportId::new([0; ReportId::LEN]), leader, helper })
    }
}

/// The attester's resource for token requests to this issuer.
pub fn token_request_url(attester: &str, issuer: &KeyName) -> String {
    let issuer = percent_encoded(issuer);
    format!("{}/token-request?issuer={issuer}", attester.trim_end_matches('/'))
}

impl fmt::Debug for ReportTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReportTokens").finish_non_exhaustive()
    }
}

impl Drop for ReportTokens {
    fn drop(&mut self) {
        self.leader.zeroize();
        self.helper.zeroize();
    }
}
