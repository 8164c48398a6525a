//! A request sealed with HPKE, and its one response, sealed with a key exported from the same
//! context (RFC 9458 §4.3 and §4.4). Oblivious HTTP and rate-limited tokens share this construction
//! and differ in their labels.

use std::fmt;

use ::hpke::aead::AesGcm128;
use ::hpke::kdf::HkdfSha256;
use ::hpke::kem::{X25519HkdfSha256, XWing};
use ::hpke::{Deserializable, Kem, OpModeS, Serializable, setup_sender_with_rng};
use aes_gcm::aead::AeadInOut;
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{Aes128Gcm, KeyInit, Nonce, Tag};
use hkdf::Hkdf;
use rand_core::CryptoRng;
use sha2::Sha256;
use sotto_wire::HpkeConfig;
use zeroize::Zeroizing;

use crate::HpkeError;
use crate::hpke::{Suite, check};
#[cfg(feature = "server")]
use crate::server_hpke::Opener;

/// The length of an AES-128 key. The secret and the nonce of a response have the same length,
/// because it is longer than the nonce of AES-GCM.
pub(crate) const KEY_LEN: usize = 16;

/// The length of AES-GCM's nonce.
const NONCE_LEN: usize = 12;

/// The length of AES-GCM's tag.
const TAG_LEN: usize = 16;

/// What a request is sealed with, besides the key.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// The HPKE info string.
    pub info: &'a [u8],
    /// The associated data.
    pub aad: &'a [u8],
    /// The exporter context of the response's secret.
    pub export: &'a [u8],
}

/// Seals `plaintext` to `config`. Returns `prefix`, the encapsulated key and the ciphertext, and
/// what opens the response.
///
/// Takes 32 bytes of `rng` for the ephemeral key, 64 for a hybrid one. They must never be reused: two
/// requests with the same key can be linked.
pub(crate) fn seal(
    config: &HpkeConfig,
    labels: Labels<'_>,
    prefix: &[u8],
    plaintext: &[u8],
    rng: &mut dyn CryptoRng,
) -> Result<(Vec<u8>, ResponseSecret), HpkeError> {
    match check(config, labels.info)? {
        Suite::X25519 => seal_with::<X25519HkdfSha256>(config, labels, prefix, plaintext, rng),
        Suite::Hybrid => seal_with::<XWing>(config, labels, prefix, plaintext, rng),
    }
}

fn seal_with<K: Kem>(
    config: &HpkeConfig,
    labels: Labels<'_>,
    prefix: &[u8],
    plaintext: &[u8],
    rng: &mut dyn CryptoRng,
) -> Result<(Vec<u8>, ResponseSecret), HpkeError> {
    let public_key =
        K::PublicKey::from_bytes(config.public_key()).map_err(|_| HpkeError::InvalidKey)?;
    let mut rng = rng;
    let (enc, mut context) = setup_sender_with_rng::<AesGcm128, HkdfSha256, K>(
        &OpModeS::Base,
        &public_key,
        labels.info,
        &mut rng,
    )
    // The only cause is an all-zero shared secret: a public key of low order.
    .map_err(|_| HpkeError::InvalidKey)?;
    let enc = enc.to_bytes().to_vec();
    let mut secret = Zeroizing::new([0; KEY_LEN]);
    context.export(labels.export, secret.as_mut_slice()).map_err(|_| HpkeError::Encrypt)?;

    let head_len = prefix.len() + enc.len();
    let mut body = vec![0; head_len + plaintext.len() + TAG_LEN];
    let (head, sealed) = body.split_at_mut(head_len);
    head[..prefix.len()].copy_from_slice(prefix);
    head[prefix.len()..].copy_from_slice(&enc);
    let (ciphertext, tag) = sealed.split_at_mut(plaintext.len());
    let buffer = InOutBuf::new(plaintext, ciphertext).map_err(|_| HpkeError::Encrypt)?;
    let sealed = context.seal_inout_detached(buffer, labels.aad).map_err(|_| HpkeError::Encrypt)?;
    tag.copy_from_slice(&sealed.to_bytes());
    Ok((body, ResponseSecret { enc, secret }))
}

/// Opens what [`seal`] put after the prefix.
#[cfg(feature = "server")]
pub(crate) fn open(
    opener: &Opener,
    labels: Labels<'_>,
    sealed: &[u8],
) -> Result<(Zeroizing<Vec<u8>>, ResponseSecret), HpkeError> {
    let (enc, payload) = sealed.split_at_checked(opener.enc_len()).ok_or(HpkeError::Decrypt)?;
    let mut receiver = opener.setup_receiver(enc, labels.info)?;
    let plaintext = receiver.open(labels.aad, payload)?;
    let mut secret = Zeroizing::new([0; KEY_LEN]);
    secret.copy_from_slice(&receiver.export(labels.export, KEY_LEN)?);
    Ok((plaintext, ResponseSecret { enc: enc.to_vec(), secret }))
}

/// A secret that only the two ends of one exchange know.
pub(crate) struct ResponseSecret {
    pub(crate) enc: Vec<u8>,
    pub(crate) secret: Zeroizing<[u8; KEY_LEN]>,
}

impl ResponseSecret {
    /// The key and the nonce of the response with this `response_nonce`.
    pub(crate) fn keys(&self, response_nonce: &[u8; KEY_LEN]) -> Result<ResponseKeys, HpkeError> {
        let salt = [&self.enc[..], response_nonce].concat();
        let prk = Hkdf::<Sha256>::new(Some(&salt), self.secret.as_slice());
        let mut keys = ResponseKeys { key: Zeroizing::new([0; KEY_LEN]), nonce: [0; NONCE_LEN] };
        prk.expand(b"key", keys.key.as_mut_slice()).map_err(|_| HpkeError::ExportTooLong)?;
        prk.expand(b"nonce", &mut keys.nonce).map_err(|_| HpkeError::ExportTooLong)?;
        Ok(keys)
    }

    /// Opens the response.
    pub(crate) fn open(&self, body: &[u8]) -> Result<Zeroizing<Vec<u8>>, HpkeError> {
        let (response_nonce, sealed) =
            body.split_first_chunk::<KEY_LEN>().ok_or(HpkeError::Decrypt)?;
        let (ciphertext, tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(HpkeError::Decrypt)?;
        let keys = self.keys(response_nonce)?;
        let mut plaintext = Zeroizing::new(vec![0; ciphertext.len()]);
        let buffer = InOutBuf::new(ciphertext, &mut plaintext).map_err(|_| HpkeError::Decrypt)?;
        Aes128Gcm::new((&*keys.key).into())
            .decrypt_inout_detached(&Nonce::from(keys.nonce), b"", buffer, &Tag::from(*tag))
            .map_err(|_| HpkeError::Decrypt)?;
        Ok(plaintext)
    }

    /// Seals the response. The `response_nonce` must never be reused for one request.
    #[cfg(feature = "server")]
    pub(crate) fn seal(
        &self,
        plaintext: &[u8],
        response_nonce: &[u8; KEY_LEN],
    ) -> Result<Vec<u8>, HpkeError> {
        use aws_lc_rs::aead;

        let keys = self.keys(response_nonce)?;
        let key = aead::UnboundKey::new(&aead::AES_128_GCM, keys.key.as_slice())
            .map(aead::LessSafeKey::new)
            .map_err(|_| HpkeError::InvalidKey)?;
        let mut body = vec![0; KEY_LEN + plaintext.len() + TAG_LEN];
        let (head, sealed) = body.split_at_mut(KEY_LEN);
        head.copy_from_slice(response_nonce);
        let (ciphertext, tag) = sealed.split_at_mut(plaintext.len());
        key.seal_out_of_place_scatter(
            aead::Nonce::assume_unique_for_key(keys.nonce),
            aead::Aad::empty(),
            plaintext,
            ciphertext,
            &[],
            tag,
        )
        .map_err(|_| HpkeError::Encrypt)?;
        Ok(body)
    }
}

impl fmt::Debug for ResponseSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// The key and the nonce of one response.
pub(crate) struct ResponseKeys {
    pub(crate) key: Zeroizing<[u8; KEY_LEN]>,
    pub(crate) nonce: [u8; NONCE_LEN],
}
