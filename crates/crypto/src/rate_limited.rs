//! The cryptography of rate-limited token issuance, except blind RSA and key blinding: the sealed
//! inner request, the sealed response and the aliases of an origin.
//!
//! Sotto uses the functions without a suffix. Older drafts of the protocol have other labels and
//! layouts; their published examples are reproduced with [`seal_labelled`] and `open_labelled`.

#[cfg(feature = "server")]
mod issuer;
#[cfg(feature = "server")]
#[cfg(test)]
mod tests;

use hkdf::Hkdf;
use rand_core::CryptoRng;
use sha2::Sha512;
use sotto_wire::token::{EncapsulationKey, InnerTokenRequest, NK, TOKEN_TYPE};
use sotto_wire::{Encode, HpkeConfig};
use zeroize::Zeroizing;

#[cfg(feature = "server")]
pub use issuer::{ResponseSealer, open_inner_request, open_labelled};

pub use crate::encapsulated::Labels;

use crate::HpkeError;
#[cfg(feature = "server")]
use crate::Secret;
use crate::encapsulated::{self, KEY_LEN};
use crate::key_blinding::{ClientSecret, PublicKey};

/// The context under which a client blinds its key: the token type and a name.
pub const CLIENT_CONTEXT: &[u8] = b"\x00\x04ClientBlind";

/// The context under which an issuer blinds the request key with an origin's secret.
pub const ISSUER_CONTEXT: &[u8] = b"\x00\x04IssuerBlind";

/// The HPKE info string of the inner request.
pub const INFO: &[u8] = b"InnerTokenRequest";

/// The label under which the secret of the response is exported.
pub const EXPORT_LABEL: &[u8] = b"OriginTokenResponse";

/// The HKDF info string of an issuer's origin alias.
pub const ALIAS_INFO: &[u8] = b"IssuerOriginAlias";

/// The HKDF info string of the origin secret of a participation, before its number. Ours: the
/// specification leaves origin secrets to the issuer.
#[cfg(feature = "server")]
const PARTICIPATION_INFO: &[u8] = b"sotto issuer origin secret of participation";

/// The associated data of an inner request: everything else that the issuer acts on.
pub fn request_aad(key: &HpkeConfig, token_type: u16, request_key: &[u8; 32]) -> Vec<u8> {
    let mut aad = Vec::with_capacity(73);
    aad.push(key.id().value());
    for id in [key.kem_id().value(), key.kdf_id().value(), key.aead_id().value(), token_type] {
        aad.extend_from_slice(&id.to_be_bytes());
    }
    aad.extend_from_slice(request_key);
    aad.extend_from_slice(&EncapsulationKey::from(key).id());
    aad
}

/// Seals the inner request to the issuer that has `key`'s private half.
///
/// Returns the `encrypted_token_request`, and what opens the response. Takes 32 bytes of `rng` for
/// the ephemeral key, 64 for a hybrid one. They must never be reused.
pub fn seal_inner_request(
    key: &HpkeConfig,
    request_key: &[u8; 32],
    inner: &InnerTokenRequest,
    rng: &mut dyn CryptoRng,
) -> Result<(Vec<u8>, ResponseSecret), HpkeError> {
    let aad = request_aad(key, TOKEN_TYPE, request_key);
    let labels = Labels { info: INFO, aad: &aad, export: EXPORT_LABEL };
    seal_labelled(key, labels, &inner.to_bytes(), rng)
}

/// Seals a request under any labels.
pub fn seal_labelled(
    key: &HpkeConfig,
    labels: Labels<'_>,
    plaintext: &[u8],
    rng: &mut dyn CryptoRng,
) -> Result<(Vec<u8>, ResponseSecret), HpkeError> {
    let (sealed, secret) = encapsulated::seal(key, labels, b"", plaintext, rng)?;
    Ok((sealed, ResponseSecret(secret)))
}

/// Opens the response to a request.
#[derive(Debug)]
pub struct ResponseSecret(encapsulated::ResponseSecret);

impl ResponseSecret {
    /// Opens an `encrypted_token_response` and returns the blind signature.
    pub fn open(&self, encrypted_token_response: &[u8]) -> Result<[u8; NK], HpkeError> {
        let blind_sig = self.0.open(encrypted_token_response)?;
        blind_sig.as_slice().try_into().map_err(|_| HpkeError::Decrypt)
    }

    /// The encapsulated key and the secret, to store until the response arrives.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new([&self.0.enc[..], self.0.secret.as_slice()].concat())
    }

    /// Reads the bytes of [`to_bytes`](Self::to_bytes). `None` if they are too short.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (enc, secret) = bytes.split_last_chunk::<KEY_LEN>()?;
        let (enc, secret) = (enc.to_vec(), Zeroizing::new(*secret));
        Some(Self(encapsulated::ResponseSecret { enc, secret }))
    }
}

/// The attester's alias for an origin: equal for all requests of one client to one origin, and
/// different from that of any other client. `index_result` is the index key without the request
/// blind.
pub fn issuer_origin_alias(index_result: &PublicKey, client_key: &PublicKey) -> [u8; 64] {
    let mut alias = [0; 64];
    #[allow(clippy::expect_used)] // HKDF-SHA512 refuses only outputs above 255 * 64 bytes.
    Hkdf::<Sha512>::new(Some(client_key.as_bytes()), index_result.as_bytes())
        .expand(ALIAS_INFO, &mut alias)
        .expect("64 bytes are within what HKDF-SHA512 can output");
    alias
}

/// The Issuer Origin Secret of one participation in a series, from the secret of the series. Unlike
/// the blinded keys that it makes, it never leaves the issuer.
#[cfg(feature = "server")]
pub fn participation_secret(secret: &Secret<[u8; 32]>, participation: u32) -> Secret<[u8; 32]> {
    let mut derived = Zeroizing::new([0; 32]);
    #[allow(clippy::expect_used)] // As above.
    Hkdf::<Sha512>::new(None, secret.expose())
        .expand_multi_info(&[PARTICIPATION_INFO, &participation.to_be_bytes()], &mut *derived)
        .expect("32 bytes are within what HKDF-SHA512 can output");
    Secret::new(*derived)
}

/// The client's own alias for an origin of an issuer. It reveals neither to the attester. Names
/// have at most 2^16-1 bytes.
pub fn client_origin_alias(secret: &ClientSecret, origin: &str, issuer: &str) -> [u8; 32] {
    let mut info = Vec::with_capacity(4 + origin.len() + issuer.len());
    for name in [origin, issuer] {
        info.extend_from_slice(&(name.len() as u16).to_be_bytes());
        info.extend_from_slice(name.as_bytes());
    }
    let mut alias = [0; 32];
    #[allow(clippy::expect_used)] // As above.
    Hkdf::<Sha512>::new(None, secret.expose())
        .expand(&info, &mut alias)
        .expect("32 bytes are within what HKDF-SHA512 can output");
    alias
}
