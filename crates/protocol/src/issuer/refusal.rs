//! Why an issuer gives no token.

/// Why a token request is refused. The operator's counters get the reason, the attester only the
/// code: a reason about the contents of a request would reveal what only the issuer may know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssuerRefusal {
    /// It does not decode.
    #[error("the token request does not decode")]
    Malformed,
    /// It is for another token type.
    #[error("the token request is of another type")]
    TokenType,
    /// It is sealed to a key that the issuer does not have, or no longer has.
    #[error("the token request is sealed to an unknown key")]
    EncapsulationKey,
    /// The request key is not canonical, or not in the prime-order subgroup.
    #[error("the request key is not valid")]
    RequestKey,
    /// The signature is not by the request key.
    #[error("the signature does not verify")]
    Signature,
    /// The inner request does not open or does not decode.
    #[error("the inner request does not open")]
    Sealed,
    /// The origin's name is not padded correctly.
    #[error("the name of the origin is not well-formed")]
    OriginName,
    /// The origin does not exist, or no longer exists.
    #[error("the origin is not known")]
    UnknownOrigin,
    /// The origin's key has expired.
    #[error("the origin has expired")]
    Expired,
    /// The origin's key lives beyond the policy window, which was shortened after the key was made.
    #[error("the origin outlives the policy window")]
    BeyondWindow,
    /// The inner request names a key other than the origin's.
    #[error("the key is not the origin's")]
    TokenKeyId,
    /// The blinded message is not a number below the modulus.
    #[error("the blinded message is out of range")]
    BlindedMessage,
    /// The private operation or the sealing failed: the issuer's own error.
    #[error("internal error of the issuer")]
    Fault,
}

impl IssuerRefusal {
    /// Every reason.
    pub const ALL: [Self; 13] = [
        Self::Malformed,
        Self::TokenType,
        Self::EncapsulationKey,
        Self::RequestKey,
        Self::Signature,
        Self::Sealed,
        Self::OriginName,
        Self::UnknownOrigin,
        Self::Expired,
        Self::BeyondWindow,
        Self::TokenKeyId,
        Self::BlindedMessage,
        Self::Fault,
    ];

    /// The code in the answer to the attester (`IssuerAnswer::Refused`).
    pub fn code(self) -> u16 {
        match self {
            Self::TokenKeyId => 401,
            Self::Fault => 500,
            _ => 400,
        }
    }

    /// The name used in counters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::TokenType => "token_type",
            Self::EncapsulationKey => "encapsulation_key",
            Self::RequestKey => "request_key",
            Self::Signature => "signature",
            Self::Sealed => "sealed",
            Self::OriginName => "origin_name",
            Self::UnknownOrigin => "unknown_origin",
            Self::Expired => "expired",
            Self::BeyondWindow => "beyond_window",
            Self::TokenKeyId => "token_key_id",
            Self::BlindedMessage => "blinded_message",
            Self::Fault => "fault",
        }
    }
}
