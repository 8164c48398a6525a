//! The issuer's half, on AWS-LC.

use sotto_wire::Decode;
use sotto_wire::token::{EncapsulationKey, InnerTokenRequest, NK, TokenRequest};
use zeroize::Zeroizing;

use super::{EXPORT_LABEL, INFO, Labels, request_aad};
use crate::HpkeError;
use crate::encapsulated::{self, KEY_LEN};
use crate::server_hpke::Opener;

/// Opens the inner part of a request that was sealed to `opener`'s key.
///
/// If it opens but is not an inner request, the error is the same as if it did not open. The caller
/// must check the signature first.
pub fn open_inner_request(
    opener: &Opener,
    request: &TokenRequest<'_>,
) -> Result<(InnerTokenRequest, ResponseSealer), HpkeError> {
    if EncapsulationKey::from(opener.config()).id() != request.issuer_encap_key_id {
        return Err(HpkeError::WrongConfigId);
    }
    let aad = request_aad(opener.config(), request.token_type, &request.request_key);
    let labels = Labels { info: INFO, aad: &aad, export: EXPORT_LABEL };
    let (plaintext, sealer) = open_labelled(opener, labels, &request.encrypted_token_request)?;
    let inner = InnerTokenRequest::from_bytes(&plaintext).map_err(|_| HpkeError::Decrypt)?;
    Ok((inner, sealer))
}

/// Opens a request that was sealed under any labels.
pub fn open_labelled(
    opener: &Opener,
    labels: Labels<'_>,
    sealed: &[u8],
) -> Result<(Zeroizing<Vec<u8>>, ResponseSealer), HpkeError> {
    let (plaintext, secret) = encapsulated::open(opener, labels, sealed)?;
    Ok((plaintext, ResponseSealer(secret)))
}

/// Seals the one response to a request.
#[derive(Debug)]
pub struct ResponseSealer(pub(super) encapsulated::ResponseSecret);

impl ResponseSealer {
    /// The `encrypted_token_response`. The `response_nonce` must be random, and never reused for
    /// one request.
    pub fn seal(
        &self,
        blind_sig: &[u8; NK],
        response_nonce: &[u8; KEY_LEN],
    ) -> Result<Vec<u8>, HpkeError> {
        self.0.seal(blind_sig, response_nonce)
    }
}
