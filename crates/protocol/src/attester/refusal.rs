//! Why an attester gives no token.
//!
//! The server's table says what the device learns. Which check failed appears only in the
//! operator's counters, by name.

/// Why a device gets no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AttesterRefusal {
    /// The request is for an issuer that this attester does not work with.
    #[error("The issuer is not served.")]
    UnknownIssuer,
    /// The request does not decode.
    #[error("The token request does not decode.")]
    Malformed,
    /// It is for a different type of token.
    #[error("The token type is not served.")]
    TokenType,
    /// It is sealed to a key that the issuer does not have, or no longer has.
    #[error("The encapsulation key is not one of the issuer's.")]
    EncapsulationKey,
    /// The client key is not a valid public key.
    #[error("The client key is not valid.")]
    ClientKey,
    /// The request key is not a valid public key.
    #[error("The request key is not valid.")]
    RequestKey,
    /// Client key and blind do not give the request key.
    #[error("The blind does not fit the request key.")]
    Blind,
    /// The signature is wrong.
    #[error("The signature of the token request is wrong.")]
    Signature,
    /// The issuer cannot open the request, or does not serve the origin.
    #[error("The issuer refused the token request.")]
    IssuerRefused,
    /// The issuer has a different key for the origin.
    #[error("The issuer does not have the token key.")]
    IssuerKey,
    /// The issuer failed. The same request may be retried.
    #[error("The issuer gave no answer.")]
    IssuerUnavailable,
    /// The issuer's limit is not one token.
    #[error("The issuer's limit is not one.")]
    IssuerLimit,
    /// The issuer's answer holds no valid public key.
    #[error("The issuer's index key is not valid.")]
    IndexKey,
    /// The issuer's response has the wrong length.
    #[error("The issuer's response is not a token response.")]
    IssuerResponse,
    /// The device already got its token for this origin.
    #[error("The token for this origin was granted before.")]
    Withheld,
    /// The device used two aliases for one origin, or one alias for two origins.
    #[error("The origin alias was used for another origin, or the origin under another alias.")]
    OtherAlias,
    /// The device registered a different client key and is still counted under it.
    #[error("The device has another client key.")]
    OtherKey,
    /// The device got tokens for as many origins as the attester counts.
    #[error("The device has asked for too many origins.")]
    Full,
}

impl AttesterRefusal {
    /// All refusals, for counters.
    pub const ALL: [Self; 18] = [
        Self::UnknownIssuer,
        Self::Malformed,
        Self::TokenType,
        Self::EncapsulationKey,
        Self::ClientKey,
        Self::RequestKey,
        Self::Blind,
        Self::Signature,
        Self::IssuerRefused,
        Self::IssuerKey,
        Self::IssuerUnavailable,
        Self::IssuerLimit,
        Self::IndexKey,
        Self::IssuerResponse,
        Self::Withheld,
        Self::OtherAlias,
        Self::OtherKey,
        Self::Full,
    ];

    /// What a refusal by the issuer means.
    pub(super) fn of_issuer(status: u16) -> Self {
        match status {
            401 => Self::IssuerKey,
            429 | 500.. => Self::IssuerUnavailable,
            _ => Self::IssuerRefused,
        }
    }

    /// The name used in counters.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnknownIssuer => "unknown_issuer",
            Self::Malformed => "malformed",
            Self::TokenType => "token_type",
            Self::EncapsulationKey => "encapsulation_key",
            Self::ClientKey => "client_key",
            Self::RequestKey => "request_key",
            Self::Blind => "blind",
            Self::Signature => "signature",
            Self::IssuerRefused => "issuer_refused",
            Self::IssuerKey => "issuer_key",
            Self::IssuerUnavailable => "issuer_trouble",
            Self::IssuerLimit => "issuer_limit",
            Self::IndexKey => "index_key",
            Self::IssuerResponse => "issuer_response",
            Self::Withheld => "withheld",
            Self::OtherAlias => "other_alias",
            Self::OtherKey => "other_key",
            Self::Full => "full",
        }
    }
}
