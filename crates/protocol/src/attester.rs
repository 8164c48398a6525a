//! The attester of rate-limited tokens, as pure steps: what it checks before it forwards a request
//! to an issuer, and how it handles the answer (rate-limit-tokens, sections "Attester Behavior
//! (Client Request Validation)" and "Attester Behavior (Index Computation)").
//!
//! It knows the device but not the origin. A device cannot lie about the blind of its request
//! ([`consume_token_request`]), so the alias computed from the issuer's answer
//! ([`consume_issuer_answer`]) is the same for every request with one client key for one origin.
//! Keys outside the prime-order subgroup would unblind to eight aliases, and so give eight tokens
//! at limit 1: `PublicKey::parse` rejects them.
//!
//! Leaves to others: who the device is ([`Attestation`]), counting (`sotto_store::AttesterDb`),
//! HTTP.

mod attestation;
mod batches;
mod refusal;

use sha2::{Digest as _, Sha256};
use sotto_crypto::key_blinding::PublicKey;
use sotto_crypto::rate_limited::{CLIENT_CONTEXT, issuer_origin_alias};
use sotto_wire::Decode;
use sotto_wire::token::{IssuerAnswer, TOKEN_LIMIT, TOKEN_RESPONSE_LEN, TOKEN_TYPE, TokenRequest};

pub use self::attestation::{Attestation, AttestationRefusal, DeviceIdentity};
pub use self::batches::Batches;
pub use self::refusal::AttesterRefusal;

/// A device's request, as received.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// The encoded `TokenRequest`.
    pub body: &'a [u8],
    /// `Sec-Token-Client`.
    pub client_key: [u8; 32],
    /// `Sec-Token-Request-Blind`.
    pub request_blind: [u8; 32],
    /// `Sec-Token-Origin-Alias`.
    pub client_alias: [u8; 32],
}

/// A request that may go to the issuer, and what is needed to interpret the answer.
#[derive(Clone)]
pub struct Forwarded {
    /// The device's key.
    pub client_key: PublicKey,
    /// Unblinds the issuer's answer.
    pub request_blind: [u8; 32],
    /// What the device calls the origin.
    pub client_alias: [u8; 32],
    /// The same request bytes have the same digest.
    pub body_digest: [u8; 32],
}

/// What the issuer granted, under the name by which the attester counts.
#[derive(Clone)]
pub struct Issued {
    /// The issuer's name for the origin, specific to this client.
    pub alias: [u8; 64],
    /// The response for the device, sealed to it.
    pub response: Vec<u8>,
}

/// The digest by which a repeated request is recognised.
pub fn request_digest(body: &[u8]) -> [u8; 32] {
    Sha256::digest(body).into()
}

/// Checks a request before it goes to the issuer with these encapsulation keys.
pub fn consume_token_request(
    ask: &Ask<'_>,
    encap_key_ids: &[[u8; 32]],
) -> Result<Forwarded, AttesterRefusal> {
    let request = parse_token_request(ask.body)?;
    if !encap_key_ids.contains(&request.issuer_encap_key_id) {
        return Err(AttesterRefusal::EncapsulationKey);
    }
    let client_key = PublicKey::parse(&ask.client_key).map_err(|_| AttesterRefusal::ClientKey)?;
    let blinded = client_key.blind(&ask.request_blind, CLIENT_CONTEXT);
    // With a different blind, the device could choose the alias that the issuer's answer unblinds
    // to. A key that equals a blinded valid key is valid, so the request key is parsed only if it
    // differs, to say why.
    if *blinded.as_bytes() != request.request_key {
        return Err(match PublicKey::parse(&request.request_key) {
            Ok(_) => AttesterRefusal::Blind,
            Err(_) => AttesterRefusal::RequestKey,
        });
    }
    blinded
        .verify(&request.signed_message(), &request.request_signature)
        .map_err(|_| AttesterRefusal::Signature)?;
    Ok(Forwarded {
        client_key,
        request_blind: ask.request_blind,
        client_alias: ask.client_alias,
        body_digest: request_digest(ask.body),
    })
}

/// Computes the alias from the issuer's answer.
pub fn consume_issuer_answer(
    forwarded: &Forwarded,
    answer: &IssuerAnswer,
) -> Result<Issued, AttesterRefusal> {
    let (index_key, limit, response) = match answer {
        IssuerAnswer::Issued { index_key, limit, response } => (index_key, *limit, response),
        IssuerAnswer::Refused { status } => {
            return Err(AttesterRefusal::of_issuer(*status));
        }
    };
    if limit != TOKEN_LIMIT {
        return Err(AttesterRefusal::IssuerLimit);
    }
    // Stored responses are sent again on every retry, and the length of an answer must reveal
    // nothing to anyone who sees it pass.
    if response.len() != TOKEN_RESPONSE_LEN {
        return Err(AttesterRefusal::IssuerResponse);
    }
    let index_key = PublicKey::parse(index_key).map_err(|_| AttesterRefusal::IndexKey)?;
    let index_result = index_key.unblind(&forwarded.request_blind, CLIENT_CONTEXT);
    let alias = issuer_origin_alias(&index_result, &forwarded.client_key);
    Ok(Issued { alias, response: response.clone() })
}

fn parse_token_request(body: &[u8]) -> Result<TokenRequest<'_>, AttesterRefusal> {
    let request = TokenRequest::from_bytes(body).map_err(|_| AttesterRefusal::Malformed)?;
    if request.token_type != TOKEN_TYPE {
        return Err(AttesterRefusal::TokenType);
    }
    Ok(request)
}

impl std::fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ask").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Forwarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forwarded").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued").finish_non_exhaustive()
    }
}
