//! HPKE on every platform: RFC 9180 base mode, single shot, through the crate `hpke`.
//!
//! Supports two suites ([`Suite`]): the one that DAP makes mandatory, and the same with the hybrid
//! key encapsulation X-Wing, which stays closed to whoever records it now and breaks X25519 later.
//! Servers open with `server_hpke`, which agrees with this module byte for byte.

use std::borrow::Cow;

use ::hpke::aead::AesGcm128;
use ::hpke::kdf::HkdfSha256;
use ::hpke::kem::{X25519HkdfSha256, XWing};
use ::hpke::{
    Deserializable, Kem, OpModeR, OpModeS, Serializable, single_shot_open,
    single_shot_seal_with_rng,
};
use rand_core::CryptoRng;
use sotto_wire::{HpkeAeadId, HpkeCiphertext, HpkeConfig, HpkeKdfId, HpkeKemId};
use zeroize::Zeroizing;

use crate::{HpkeError, HpkeKeypair};

/// The longest `info` that is accepted. RFC 9180 §7.2.1 allows far more; DAP needs about twenty
/// bytes.
pub const MAX_INFO_LEN: usize = 1024;

/// A supported suite: a key encapsulation with HKDF-SHA256 and AES-128-GCM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Suite {
    /// DHKEM(X25519, HKDF-SHA256), mandatory in DAP.
    X25519,
    /// X-Wing: ML-KEM-768 and X25519 together. Safe as long as one of the two is.
    Hybrid,
}

impl Suite {
    /// The suite of a key, if it is supported and the public key has the right length.
    pub fn of(config: &HpkeConfig) -> Option<Self> {
        let suite = match config.kem_id() {
            HpkeKemId::X25519_HKDF_SHA256 => Self::X25519,
            HpkeKemId::X_WING => Self::Hybrid,
            _ => return None,
        };
        let supported = config.kdf_id() == HpkeKdfId::HKDF_SHA256
            && config.aead_id() == HpkeAeadId::AES_128_GCM
            && Some(config.public_key().len()) == config.kem_id().public_key_len();
        supported.then_some(suite)
    }

    /// The key encapsulation.
    pub fn kem_id(self) -> HpkeKemId {
        match self {
            Self::X25519 => HpkeKemId::X25519_HKDF_SHA256,
            Self::Hybrid => HpkeKemId::X_WING,
        }
    }
}

/// Whether something can be sealed to `config`.
pub fn is_supported(config: &HpkeConfig) -> bool {
    Suite::of(config).is_some()
}

/// The keys that a device may seal to, the best one first: the hybrid ones, then, unless
/// `require_post_quantum`, those of the other suite. Within a suite in the given order, which is
/// that of the keys' owner.
pub fn usable(configs: Vec<HpkeConfig>, require_post_quantum: bool) -> Vec<HpkeConfig> {
    let least = if require_post_quantum { Suite::Hybrid } else { Suite::X25519 };
    let mut configs = configs;
    configs.retain(|config| Suite::of(config) >= Some(least));
    configs.sort_by_key(|config| std::cmp::Reverse(Suite::of(config)));
    configs
}

/// `SealBase` (RFC 9180 §6.1): seals `plaintext` to the holder of `config`'s private key.
///
/// Takes 32 bytes of `rng` for the ephemeral key, 64 for a hybrid one. They must never be reused.
pub fn seal(
    config: &HpkeConfig,
    info: &[u8],
    aad: &[u8],
    plaintext: &[u8],
    rng: &mut dyn CryptoRng,
) -> Result<HpkeCiphertext<'static>, HpkeError> {
    match check(config, info)? {
        Suite::X25519 => seal_with::<X25519HkdfSha256>(config, info, aad, plaintext, rng),
        Suite::Hybrid => seal_with::<XWing>(config, info, aad, plaintext, rng),
    }
}

fn seal_with<K: Kem>(
    config: &HpkeConfig,
    info: &[u8],
    aad: &[u8],
    plaintext: &[u8],
    rng: &mut dyn CryptoRng,
) -> Result<HpkeCiphertext<'static>, HpkeError> {
    let public_key =
        K::PublicKey::from_bytes(config.public_key()).map_err(|_| HpkeError::InvalidKey)?;
    let mut rng = rng;
    let (enc, payload) = single_shot_seal_with_rng::<AesGcm128, HkdfSha256, K>(
        &OpModeS::Base,
        &public_key,
        info,
        plaintext,
        aad,
        &mut rng,
    )
    .map_err(|error| match error {
        // The only cause is an all-zero shared secret: a public key of low order.
        ::hpke::HpkeError::EncapError => HpkeError::InvalidKey,
        _ => HpkeError::Encrypt,
    })?;
    ciphertext(config, &enc.to_bytes(), payload)
}

/// `OpenBase` (RFC 9180 §6.1): opens a ciphertext that was sealed to `key`.
pub fn open(
    key: &HpkeKeypair,
    info: &[u8],
    aad: &[u8],
    ct: &HpkeCiphertext<'_>,
) -> Result<Zeroizing<Vec<u8>>, HpkeError> {
    let suite = check(key.config(), info)?;
    if ct.config_id() != key.config().id() {
        return Err(HpkeError::WrongConfigId);
    }
    match suite {
        Suite::X25519 => open_with::<X25519HkdfSha256>(key, info, aad, ct),
        Suite::Hybrid => open_with::<XWing>(key, info, aad, ct),
    }
}

fn open_with<K: Kem>(
    key: &HpkeKeypair,
    info: &[u8],
    aad: &[u8],
    ct: &HpkeCiphertext<'_>,
) -> Result<Zeroizing<Vec<u8>>, HpkeError> {
    let private_key =
        K::PrivateKey::from_bytes(key.private_key().expose()).map_err(|_| HpkeError::InvalidKey)?;
    let enc = K::EncappedKey::from_bytes(ct.enc()).map_err(|_| HpkeError::Decrypt)?;
    single_shot_open::<AesGcm128, HkdfSha256, K>(
        &OpModeR::Base,
        &private_key,
        &enc,
        info,
        ct.payload(),
        aad,
    )
    .map(Zeroizing::new)
    .map_err(|_| HpkeError::Decrypt)
}

/// Checks that both implementations make before they touch a key.
pub(crate) fn check(config: &HpkeConfig, info: &[u8]) -> Result<Suite, HpkeError> {
    let suite = Suite::of(config).ok_or(HpkeError::UnsupportedSuite)?;
    if info.len() > MAX_INFO_LEN {
        return Err(HpkeError::InfoTooLong);
    }
    Ok(suite)
}

/// Wraps what was sealed to `config` in its wire form.
pub(crate) fn ciphertext(
    config: &HpkeConfig,
    enc: &[u8],
    payload: Vec<u8>,
) -> Result<HpkeCiphertext<'static>, HpkeError> {
    HpkeCiphertext::new(config.id(), Cow::Owned(enc.to_vec()), Cow::Owned(payload))
        .map_err(|_| HpkeError::Encrypt)
}

#[cfg(test)]
mod tests {
    use sotto_wire::HpkeConfigId;

    use super::*;
    use crate::keypair::tests::receiver;
    use sotto_testing::rfc9180::{self, Fixed, array, bytes};

    #[test]
    fn rfc9180_vector_seals_and_opens() {
        let sealed = seal(
            receiver_config(),
            &bytes(rfc9180::INFO),
            b"Count-0",
            &bytes(rfc9180::PLAINTEXT),
            &mut Fixed(array(rfc9180::IKM_E)),
        )
        .unwrap();
        assert_eq!(sealed, rfc9180::ciphertext(rfc9180::ENC, rfc9180::CIPHERTEXTS[0].1));
        let opened = open(&receiver(), &bytes(rfc9180::INFO), b"Count-0", &sealed);
        assert_eq!(opened.unwrap().as_slice(), bytes(rfc9180::PLAINTEXT));
    }

    #[test]
    fn low_order_points_are_refused() {
        for point in rfc9180::LOW_ORDER {
            let ct = rfc9180::ciphertext(point, rfc9180::CIPHERTEXTS[0].1);
            let opened = open(&receiver(), b"", b"", &ct);
            assert_eq!(opened.unwrap_err(), HpkeError::Decrypt);
            let sealed = seal(&rfc9180::config(point), b"", b"", b"x", &mut Fixed([9; 32]));
            assert_eq!(sealed.unwrap_err(), HpkeError::InvalidKey);
        }
    }

    #[test]
    fn another_config_id_is_refused() {
        let ct = HpkeCiphertext::new(
            HpkeConfigId::new(8),
            bytes(rfc9180::ENC),
            bytes(rfc9180::CIPHERTEXTS[0].1),
        )
        .unwrap();
        let opened = open(&receiver(), &bytes(rfc9180::INFO), b"Count-0", &ct);
        assert_eq!(opened.unwrap_err(), HpkeError::WrongConfigId);
    }

    #[test]
    fn long_info_is_an_error_and_no_panic() {
        let info = vec![0; 1 << 17];
        let sealed = seal(receiver_config(), &info, b"", b"x", &mut Fixed([9; 32]));
        assert_eq!(sealed.unwrap_err(), HpkeError::InfoTooLong);
        let ct = rfc9180::ciphertext(rfc9180::ENC, rfc9180::CIPHERTEXTS[0].1);
        let opened = open(&receiver(), &info, b"", &ct);
        assert_eq!(opened.unwrap_err(), HpkeError::InfoTooLong);
    }

    fn receiver_config() -> &'static HpkeConfig {
        static CONFIG: std::sync::OnceLock<HpkeConfig> = std::sync::OnceLock::new();
        CONFIG.get_or_init(|| rfc9180::config(rfc9180::PK_R))
    }
}
