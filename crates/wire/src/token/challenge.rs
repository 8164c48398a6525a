//! Challenges and tokens (RFC 9577, "Token Challenge" and "Token Redemption").

use std::fmt;

use sha2::{Digest, Sha256};

use super::NK;
use crate::codec::{
    BoundsError, Decode, DecodeError, Encode, Reader, Sink, put_opaque_u8, put_opaque_u16,
};

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenChallenge {
    token_type: u16,
    issuer_name: String,
    redemption_context: Option<[u8; 32]>,
    origin_info: String,
}

impl TokenChallenge {
    /// A challenge. The issuer's name must not be empty, and both names have at most 2^16-1 bytes.
    pub fn new(
        token_type: u16,
        issuer_name: impl Into<String>,
        redemption_context: Option<[u8; 32]>,
        origin_info: impl Into<String>,
    ) -> Result<Self, BoundsError> {
        let (issuer_name, origin_info) = (issuer_name.into(), origin_info.into());
        if issuer_name.is_empty() || u16::try_from(issuer_name.len()).is_err() {
            return Err(BoundsError::Length("issuer_name"));
        }
        if u16::try_from(origin_info.len()).is_err() {
            return Err(BoundsError::Length("origin_info"));
        }
        Ok(Self { token_type, issuer_name, redemption_context, origin_info })
    }

    /// The requested token type.
    pub fn token_type(&self) -> u16 {
        self.token_type
    }

    /// The issuer.
    pub fn issuer_name(&self) -> &str {
        &self.issuer_name
    }

    /// The context that the token is bound to, if any.
    pub fn redemption_context(&self) -> Option<&[u8; 32]> {
        self.redemption_context.as_ref()
    }

    /// The names of the origins at which the token may be spent, separated by commas.
    pub fn origin_info(&self) -> &str {
        &self.origin_info
    }

    /// The digest that represents the challenge in a token.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.to_bytes()).into()
    }
}

impl Encode for TokenChallenge {
    fn encode(&self, out: &mut impl Sink) {
        out.extend_from_slice(&self.token_type.to_be_bytes());
        put_opaque_u16(out, self.issuer_name.as_bytes());
        put_opaque_u8(out, self.redemption_context.as_ref().map_or(&[], |context| context));
        put_opaque_u16(out, self.origin_info.as_bytes());
    }
}

impl Decode<'_> for TokenChallenge {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let token_type = reader.u16()?;
        let issuer_name = text(reader.opaque_u16()?, "issuer_name")?;
        let redemption_context = match reader.opaque_u8()? {
            [] => None,
            context => {
                Some(context.try_into().map_err(|_| DecodeError::Malformed("redemption_context"))?)
            }
        };
        let origin_info = text(reader.opaque_u16()?, "origin_info")?;
        Ok(Self::new(token_type, issuer_name, redemption_context, origin_info)?)
    }
}

fn text<'a>(bytes: &'a [u8], field: &'static str) -> Result<&'a str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|_| DecodeError::Malformed(field))
}

/// The message that an issuer signs blindly (RFC 9578, "Issuance Protocol for Publicly Verifiable
/// Tokens").
pub fn token_input(
    token_type: u16,
    nonce: &[u8; 32],
    challenge_digest: &[u8; 32],
    token_key_id: &[u8; 32],
) -> [u8; 98] {
    let mut input = [0; 98];
    input[..2].copy_from_slice(&token_type.to_be_bytes());
    input[2..34].copy_from_slice(nonce);
    input[34..66].copy_from_slice(challenge_digest);
    input[66..].copy_from_slice(token_key_id);
    input
}

/// A token. Whoever holds it can spend it, so `Debug` shows none of its bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The type.
    pub token_type: u16,
    /// Distinguishes it from every other token.
    pub nonce: [u8; 32],
    /// The digest of the challenge that it answers.
    pub challenge_digest: [u8; 32],
    /// SHA-256 of the issuer's public key.
    pub token_key_id: [u8; 32],
    /// The signature over [`input`](Self::input).
    pub authenticator: [u8; NK],
}

impl Token {
    /// What the authenticator signs.
    pub fn input(&self) -> [u8; 98] {
        token_input(self.token_type, &self.nonce, &self.challenge_digest, &self.token_key_id)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("token_type", &self.token_type).finish_non_exhaustive()
    }
}

impl Encode for Token {
    fn encode(&self, out: &mut impl Sink) {
        out.extend_from_slice(&self.input());
        out.extend_from_slice(&self.authenticator);
    }
}

impl Decode<'_> for Token {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            token_type: reader.u16()?,
            nonce: reader.array()?,
            challenge_digest: reader.array()?,
            token_key_id: reader.array()?,
            authenticator: reader.array()?,
        })
    }
}
