//! The issuer of rate-limited tokens: signs blinded messages for origins whose names only it can
//! read (rate-limited tokens, "Issuer-to-Attester Response").
//!
//! [`consume_token_request`] answers one request of an attester; [`author`] makes the keys of a
//! recipe. An origin is a token key: its name is the hash of the key, and its limit is always 1. In
//! a series a key has an origin for each participation, so that no limit identifies the series.
//! The issuer sees the requested origin and a request key that is freshly blinded for every
//! request, and nothing about the device.
//!
//! Answering is stateless: the same request gets the same signature and the same index key, only
//! sealed under another nonce. So a crash never costs a device its token. The attester counts, and
//! the host stores the keys.

pub mod author;
mod origin;
mod refusal;

use sotto_crypto::HpkeKeypair;
use sotto_crypto::key_blinding::PublicKey;
use sotto_crypto::rate_limited::open_inner_request;
use sotto_crypto::server_hpke::Opener;
use sotto_wire::token::{EncapsulationKey, IssuerAnswer, TOKEN_LIMIT, TOKEN_TYPE, TokenRequest};
use sotto_wire::{Decode, HpkeConfigId};

pub use origin::{Origin, Origins};
pub use refusal::IssuerRefusal;

use crate::{Fault, HpkeKeyring, Moment};

/// The length of the nonce under which a response is sealed.
pub const RESPONSE_NONCE_LEN: usize = 16;

/// The keys that inner requests may be sealed to, the preferred one first.
#[derive(Debug)]
pub struct EncapsulationKeyring {
    openers: HpkeKeyring,
    ids: Vec<([u8; 32], HpkeConfigId)>,
}

impl EncapsulationKeyring {
    /// A ring of at least one key, all with distinct ids.
    pub fn new(keys: &[HpkeKeypair]) -> Result<Self, Fault> {
        let openers = HpkeKeyring::new(keys)?;
        let id = |key: &HpkeKeypair| (EncapsulationKey::from(key.config()).id(), key.config().id());
        Ok(Self { openers, ids: keys.iter().map(id).collect() })
    }

    /// The public keys, most preferred first.
    pub fn keys(&self) -> Vec<EncapsulationKey> {
        self.openers.configs().iter().map(EncapsulationKey::from).collect()
    }

    fn opener(&self, id: &[u8; 32]) -> Option<&Opener> {
        let (_, config_id) = self.ids.iter().find(|(known, _)| known == id)?;
        self.openers.opener(*config_id)
    }
}

/// Answers a token request: the blind signature, sealed to the device, and the index key for the
/// attester.
///
/// The cheap checks come first, then those that anybody may fail, then the signature, which only an
/// admitted request gets. The request key must lie in the prime-order subgroup: a component of
/// small order would survive unblinding, and the attester would count one device as eight.
///
/// Nothing is issued for an origin that lives beyond the policy window of `window_s` seconds: after
/// that the attester forgets what it counted, and a key made under a longer window would give a
/// second token.
pub fn consume_token_request(
    body: &[u8],
    keyring: &EncapsulationKeyring,
    origins: &Origins,
    now: Moment,
    window_s: u64,
    response_nonce: &[u8; RESPONSE_NONCE_LEN],
) -> Result<IssuerAnswer, IssuerRefusal> {
    let request = TokenRequest::from_bytes(body).map_err(|_| IssuerRefusal::Malformed)?;
    if request.token_type != TOKEN_TYPE {
        return Err(IssuerRefusal::TokenType);
    }
    let opener =
        keyring.opener(&request.issuer_encap_key_id).ok_or(IssuerRefusal::EncapsulationKey)?;
    let request_key =
        PublicKey::parse(&request.request_key).map_err(|_| IssuerRefusal::RequestKey)?;
    request_key
        .verify(&request.signed_message(), &request.request_signature)
        .map_err(|_| IssuerRefusal::Signature)?;
    let (inner, sealer) =
        open_inner_request(opener, &request).map_err(|_| IssuerRefusal::Sealed)?;
    let name = inner.origin_name().map_err(|_| IssuerRefusal::OriginName)?;
    let (origin, participation) = origins.origin(&name).ok_or(IssuerRefusal::UnknownOrigin)?;
    if origin.is_expired(now) {
        return Err(IssuerRefusal::Expired);
    }
    if origin.outlives(now, window_s) {
        return Err(IssuerRefusal::BeyondWindow);
    }
    if inner.token_key_id != origin.truncated_id() {
        return Err(IssuerRefusal::TokenKeyId);
    }
    let blind_sig = origin.blind_sign(&inner.blinded_msg)?;
    let index_key = origin.index_key(&request_key, participation);
    let response = sealer.seal(&blind_sig, response_nonce).map_err(|_| IssuerRefusal::Fault)?;
    Ok(IssuerAnswer::Issued { index_key: *index_key.as_bytes(), limit: TOKEN_LIMIT, response })
}
