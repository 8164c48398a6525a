//! Oblivious HTTP (RFC 9458 §4): requests sealed to a gateway, and the answers sealed to their senders.
//!
//! The device's half runs on every platform; the gateway's, with the feature `server`, on AWS-LC. Both are for the one
//! suite that DAP makes mandatory. The messages inside, their padding and what to do about replays are left to
//! `sotto-protocol`.

#[cfg(feature = "server")]
mod gateway;
#[cfg(feature = "server")]
#[cfg(test)]
mod tests;

use std::fmt;

use ::hpke::aead::AesGcm128;
use ::hpke::kdf::HkdfSha256;
use ::hpke::kem::X25519HkdfSha256;
use ::hpke::{Deserializable, Kem, OpModeS, Serializable, setup_sender_with_rng};
use aes_gcm::aead::AeadInOut;
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{Aes128Gcm, KeyInit, Nonce, Tag};
use hkdf::Hkdf;
use rand_core::CryptoRng;
use sha2::Sha256;
use sotto_wire::HpkeConfig;
use sotto_wire::ohttp::{
    REQUEST_HEADER_LEN, REQUEST_OVERHEAD, RESPONSE_LABEL, request_header, request_info,
};
use zeroize::Zeroizing;

#[cfg(feature = "server")]
pub use gateway::{OpenedRequest, ResponseSealer, open_request};

use crate::HpkeError;
use crate::hpke::{PUBLIC_KEY_LEN, check};

/// The length of AES-128's key. The secret and the nonce of a response are as long, for it is longer than the nonce of
/// AES-GCM (RFC 9458 §4.4).
const KEY_LEN: usize = 16;

/// The length of AES-GCM's nonce.
const NONCE_LEN: usize = 12;

/// The length of AES-GCM's tag.
const TAG_LEN: usize = 16;

/// Seals a request to the gateway that has `config`'s private key (RFC 9458 §4.3).
///
/// Gives the body of the request to the relay, and what opens the answer to it. Takes 32 bytes of `rng` for the
/// ephemeral key, which must never be used twice: two requests with one key are linked.
pub fn seal_request(
    config: &HpkeConfig,
    bhttp: &[u8],
    rng: &mut dyn CryptoRng,
) -> Result<(Vec<u8>, ResponseOpener), HpkeError> {
    let header = request_header(config);
    let info = request_info(&header);
    check(config, &info)?;
    let public_key = <X25519HkdfSha256 as Kem>::PublicKey::from_bytes(config.public_key())
        .map_err(|_| HpkeError::InvalidKey)?;
    let mut rng = rng;
    let (enc, mut context) = setup_sender_with_rng::<AesGcm128, HkdfSha256, X25519HkdfSha256>(
        &OpModeS::Base,
        &public_key,
        &info,
        &mut rng,
    )
    // The one way to get here is an all-zero shared secret: a public key of low order.
    .map_err(|_| HpkeError::InvalidKey)?;
    let enc: [u8; PUBLIC_KEY_LEN] = enc.to_bytes().into();
    let mut secret = Zeroizing::new([0; KEY_LEN]);
    context
        .export(RESPONSE_LABEL.as_bytes(), secret.as_mut_slice())
        .map_err(|_| HpkeError::Encrypt)?;

    let mut body = vec![0; REQUEST_OVERHEAD + bhttp.len()];
    body[..REQUEST_HEADER_LEN].copy_from_slice(&header);
    let (head, sealed) = body.split_at_mut(REQUEST_HEADER_LEN + PUBLIC_KEY_LEN);
    head[REQUEST_HEADER_LEN..].copy_from_slice(&enc);
    let (ciphertext, tag) = sealed.split_at_mut(bhttp.len());
    let buffer = InOutBuf::new(bhttp, ciphertext).map_err(|_| HpkeError::Encrypt)?;
    let sealed = context.seal_inout_detached(buffer, b"").map_err(|_| HpkeError::Encrypt)?;
    tag.copy_from_slice(&sealed.to_bytes());
    Ok((body, ResponseOpener { secret: ResponseSecret { enc, secret } }))
}

/// Opens the one answer to a request.
#[derive(Debug)]
pub struct ResponseOpener {
    secret: ResponseSecret,
}

impl ResponseOpener {
    /// Opens the body that came back (RFC 9458 §4.4).
    pub fn open(self, body: &[u8]) -> Result<Zeroizing<Vec<u8>>, HpkeError> {
        let (response_nonce, sealed) =
            body.split_first_chunk::<KEY_LEN>().ok_or(HpkeError::Decrypt)?;
        let (ciphertext, tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(HpkeError::Decrypt)?;
        let keys = self.secret.keys(response_nonce)?;
        let mut bhttp = Zeroizing::new(vec![0; ciphertext.len()]);
        let buffer = InOutBuf::new(ciphertext, &mut bhttp).map_err(|_| HpkeError::Decrypt)?;
        Aes128Gcm::new((&*keys.key).into())
            .decrypt_inout_detached(&Nonce::from(keys.nonce), b"", buffer, &Tag::from(*tag))
            .map_err(|_| HpkeError::Decrypt)?;
        Ok(bhttp)
    }
}

/// What only the two ends of one exchange know.
struct ResponseSecret {
    enc: [u8; PUBLIC_KEY_LEN],
    secret: Zeroizing<[u8; KEY_LEN]>,
}

impl ResponseSecret {
    /// The key and the nonce of the answer with this `response_nonce`.
    fn keys(&self, response_nonce: &[u8; KEY_LEN]) -> Result<ResponseKeys, HpkeError> {
        let mut salt = [0; PUBLIC_KEY_LEN + KEY_LEN];
        salt[..PUBLIC_KEY_LEN].copy_from_slice(&self.enc);
        salt[PUBLIC_KEY_LEN..].copy_from_slice(response_nonce);
        let prk = Hkdf::<Sha256>::new(Some(&salt), self.secret.as_slice());
        let mut keys = ResponseKeys { key: Zeroizing::new([0; KEY_LEN]), nonce: [0; NONCE_LEN] };
        prk.expand(b"key", keys.key.as_mut_slice()).map_err(|_| HpkeError::ExportTooLong)?;
        prk.expand(b"nonce", &mut keys.nonce).map_err(|_| HpkeError::ExportTooLong)?;
        Ok(keys)
    }
}

impl fmt::Debug for ResponseSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

struct ResponseKeys {
    key: Zeroizing<[u8; KEY_LEN]>,
    nonce: [u8; NONCE_LEN],
}
