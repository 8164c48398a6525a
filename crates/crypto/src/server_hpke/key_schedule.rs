//! The labelled key derivations of RFC 9180 §4 and §5.1 in base mode, with HKDF-SHA256.
//!
//! Every intermediate secret lives in a buffer that is wiped when it is dropped.

use std::sync::LazyLock;

use aws_lc_rs::{aead, hkdf, hmac};
use zeroize::Zeroizing;

use crate::HpkeError;

/// The AEAD key length Nk of AES-128-GCM.
const KEY_LEN: usize = 16;

/// HKDF-SHA256's output length Nh.
const HASH_LEN: usize = 32;

/// "KEM" and the code point of DHKEM(X25519, HKDF-SHA256).
const KEM_SUITE_ID: &[u8] = b"KEM\x00\x20";

const VERSION_LABEL: &[u8] = b"HPKE-v1";

/// What every label of a suite contains: "HPKE" and the code points of the KEM, the KDF and the
/// AEAD.
pub(super) struct SuiteId {
    bytes: &'static [u8; 10],
    /// The hash of the empty PSK id: the same for every message.
    psk_id_hash: LazyLock<Result<HashSecret, HpkeError>>,
}

/// DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM.
pub(super) static X25519: SuiteId = SuiteId {
    bytes: b"HPKE\x00\x20\x00\x01\x00\x01",
    psk_id_hash: LazyLock::new(|| X25519.extract(&EMPTY_SALT, b"psk_id_hash", b"")),
};

/// X-Wing, HKDF-SHA256, AES-128-GCM.
pub(super) static HYBRID: SuiteId = SuiteId {
    bytes: b"HPKE\x64\x7a\x00\x01\x00\x01",
    psk_id_hash: LazyLock::new(|| HYBRID.extract(&EMPTY_SALT, b"psk_id_hash", b"")),
};

impl SuiteId {
    fn extract(&self, salt: &hmac::Key, label: &[u8], ikm: &[u8]) -> Result<HashSecret, HpkeError> {
        labeled_extract(salt, self.bytes, label, ikm)
    }
}

/// A secret of one hash length.
pub(super) type HashSecret = Zeroizing<[u8; HASH_LEN]>;

/// The empty salt of HKDF-Extract: the same for every message.
static EMPTY_SALT: LazyLock<hmac::Key> = LazyLock::new(|| hmac::Key::new(hmac::HMAC_SHA256, b""));

/// `DeriveKeyPair` (RFC 9180 §7.1.3), the private half.
pub(super) fn derive_private_key(ikm: &[u8; 32]) -> Result<HashSecret, HpkeError> {
    let prk = labeled_extract(&EMPTY_SALT, KEM_SUITE_ID, b"dkp_prk", ikm)?;
    let mut private_key = Zeroizing::new([0; 32]);
    labeled_expand(&prk, KEM_SUITE_ID, b"sk", b"", private_key.as_mut_slice())?;
    Ok(private_key)
}

/// `ExtractAndExpand` (RFC 9180 §4.1): the KEM's shared secret from the Diffie-Hellman value.
pub(super) fn extract_and_expand(
    dh: &[u8],
    enc: &[u8; 32],
    public_key: &[u8; 32],
) -> Result<HashSecret, HpkeError> {
    let mut kem_context = [0; 64];
    kem_context[..32].copy_from_slice(enc);
    kem_context[32..].copy_from_slice(public_key);
    let prk = labeled_extract(&EMPTY_SALT, KEM_SUITE_ID, b"eae_prk", dh)?;
    let mut shared_secret = Zeroizing::new([0; HASH_LEN]);
    labeled_expand(
        &prk,
        KEM_SUITE_ID,
        b"shared_secret",
        &kem_context,
        shared_secret.as_mut_slice(),
    )?;
    Ok(shared_secret)
}

/// `KeySchedule` (RFC 9180 §5.1) up to its `secret`. Everything else is derived on demand, because
/// a single-shot opening does not need the exporter.
pub(super) struct KeySchedule {
    suite: &'static SuiteId,
    secret: HashSecret,
    context: [u8; 1 + 2 * HASH_LEN],
}

impl KeySchedule {
    pub(super) fn new(
        suite: &'static SuiteId,
        shared_secret: &HashSecret,
        info: &[u8],
    ) -> Result<Self, HpkeError> {
        let psk_id_hash = suite.psk_id_hash.as_ref().map_err(|error| *error)?;
        let info_hash = suite.extract(&EMPTY_SALT, b"info_hash", info)?;
        let mut context = [0; 1 + 2 * HASH_LEN]; // the first byte stays 0: mode_base
        context[1..1 + HASH_LEN].copy_from_slice(psk_id_hash.as_slice());
        context[1 + HASH_LEN..].copy_from_slice(info_hash.as_slice());
        let salt = hmac::Key::new(hmac::HMAC_SHA256, shared_secret.as_slice());
        let secret = suite.extract(&salt, b"secret", b"")?;
        Ok(Self { suite, secret, context })
    }

    pub(super) fn aead_key(&self) -> Result<aead::LessSafeKey, HpkeError> {
        let mut key = Zeroizing::new([0; KEY_LEN]);
        self.expand(b"key", key.as_mut_slice())?;
        aead::UnboundKey::new(&aead::AES_128_GCM, key.as_slice())
            .map(aead::LessSafeKey::new)
            .map_err(|_| HpkeError::InvalidKey)
    }

    pub(super) fn base_nonce(&self) -> Result<[u8; aead::NONCE_LEN], HpkeError> {
        let mut nonce = [0; aead::NONCE_LEN];
        self.expand(b"base_nonce", &mut nonce)?;
        Ok(nonce)
    }

    pub(super) fn exporter(&self) -> Result<Exporter, HpkeError> {
        let mut secret = Zeroizing::new([0; HASH_LEN]);
        self.expand(b"exp", secret.as_mut_slice())?;
        Ok(Exporter { suite: self.suite, secret })
    }

    fn expand(&self, label: &[u8], out: &mut [u8]) -> Result<(), HpkeError> {
        labeled_expand(&self.secret, self.suite.bytes, label, &self.context, out)
    }
}

/// The exporter secret of a context.
pub(super) struct Exporter {
    suite: &'static SuiteId,
    pub(super) secret: HashSecret,
}

impl Exporter {
    /// `Context.Export` (RFC 9180 §5.3).
    pub(super) fn export(&self, context: &[u8], out: &mut [u8]) -> Result<(), HpkeError> {
        labeled_expand(&self.secret, self.suite.bytes, b"sec", context, out)
    }
}

/// `LabeledExtract` (RFC 9180 §4). HKDF-Extract is HMAC with the salt as its key.
fn labeled_extract(
    salt: &hmac::Key,
    suite_id: &[u8],
    label: &[u8],
    ikm: &[u8],
) -> Result<HashSecret, HpkeError> {
    let labeled_ikm = Zeroizing::new([VERSION_LABEL, suite_id, label, ikm].concat());
    let mut prk = Zeroizing::new([0; HASH_LEN]);
    hmac::sign_to_buffer(salt, &labeled_ikm, prk.as_mut_slice())
        .map_err(|_| HpkeError::InvalidKey)?;
    Ok(prk)
}

/// `LabeledExpand` (RFC 9180 §4). Fails only if more than 255 hash lengths are requested.
fn labeled_expand(
    prk: &HashSecret,
    suite_id: &[u8],
    label: &[u8],
    info: &[u8],
    out: &mut [u8],
) -> Result<(), HpkeError> {
    struct Len(usize);
    impl hkdf::KeyType for Len {
        fn len(&self) -> usize {
            self.0
        }
    }
    let len = u16::try_from(out.len()).map_err(|_| HpkeError::ExportTooLong)?.to_be_bytes();
    hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, prk.as_slice())
        .expand(&[&len, VERSION_LABEL, suite_id, label, info], Len(out.len()))
        .and_then(|okm| okm.fill(out))
        .map_err(|_| HpkeError::ExportTooLong)
}

#[cfg(test)]
mod tests {
    use sotto_testing::rfc9180::{array, bytes};
    use sotto_testing::x_wing::hpke_pq;

    use super::*;

    /// X-Wing, HKDF-SHA256, ChaCha20Poly1305: the draft has no vector with our AEAD.
    static CHACHA: SuiteId = SuiteId {
        bytes: b"HPKE\x64\x7a\x00\x01\x00\x03",
        psk_id_hash: LazyLock::new(|| CHACHA.extract(&EMPTY_SALT, b"psk_id_hash", b"")),
    };

    #[test]
    fn the_hybrid_key_schedule_is_the_drafts() {
        let shared_secret = Zeroizing::new(array(hpke_pq::SHARED_SECRET));
        let schedule = KeySchedule::new(&CHACHA, &shared_secret, &bytes(hpke_pq::INFO)).unwrap();
        assert_eq!(schedule.base_nonce().unwrap().as_slice(), bytes(hpke_pq::BASE_NONCE));
        assert_eq!(*schedule.exporter().unwrap().secret, array(hpke_pq::EXPORTER_SECRET));
        assert_eq!(HYBRID.bytes[..9], CHACHA.bytes[..9]);
        assert_eq!(HYBRID.bytes[9], X25519.bytes[9]);
    }
}
