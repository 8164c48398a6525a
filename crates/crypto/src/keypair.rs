//! A receiver's HPKE key pair (DAP, HPKE configuration; RFC 9180 §7.1).

use ::hpke::kem::X25519HkdfSha256;
use ::hpke::{Deserializable, Kem, Serializable};
use rand_core::CryptoRng;
use sotto_wire::{HpkeAeadId, HpkeConfig, HpkeConfigId, HpkeKdfId, HpkeKemId};
use subtle::ConstantTimeEq;

use crate::hpke::is_supported;
use crate::{HpkeError, Secret};

/// An HPKE configuration and its private key.
#[derive(Debug)]
pub struct HpkeKeypair {
    config: HpkeConfig,
    private_key: Secret<[u8; 32]>,
}

impl HpkeKeypair {
    /// Derives a new key pair from 32 bytes of `rng` (RFC 9180 §7.1.3, DeriveKeyPair).
    pub fn generate(id: HpkeConfigId, rng: &mut dyn CryptoRng) -> Self {
        let mut rng = rng;
        let (private_key, public_key) = X25519HkdfSha256::gen_keypair_with_rng(&mut rng);
        // A public key of 32 bytes is within every bound.
        #[allow(clippy::expect_used)]
        let config = HpkeConfig::new(
            id,
            HpkeKemId::X25519_HKDF_SHA256,
            HpkeKdfId::HKDF_SHA256,
            HpkeAeadId::AES_128_GCM,
            public_key.to_bytes().to_vec(),
        )
        .expect("a public key of 32 bytes");
        Self { config, private_key: Secret::new(private_key.to_bytes().into()) }
    }

    /// Combines a configuration with its private key, after checking that they belong together.
    pub fn from_parts(
        config: HpkeConfig,
        private_key: Secret<[u8; 32]>,
    ) -> Result<Self, HpkeError> {
        if !is_supported(&config) {
            return Err(HpkeError::UnsupportedSuite);
        }
        let parsed = <X25519HkdfSha256 as Kem>::PrivateKey::from_bytes(private_key.expose())
            .map_err(|_| HpkeError::InvalidKey)?;
        let public_key = X25519HkdfSha256::sk_to_pk(&parsed).to_bytes();
        if !bool::from(public_key.as_slice().ct_eq(config.public_key())) {
            return Err(HpkeError::InvalidKey);
        }
        Ok(Self { config, private_key })
    }

    /// The public half, in its published form.
    pub fn config(&self) -> &HpkeConfig {
        &self.config
    }

    /// The private half.
    pub fn private_key(&self) -> &Secret<[u8; 32]> {
        &self.private_key
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use sotto_testing::rfc9180::{self, Fixed, array, bytes};

    /// The receiver of the vector.
    pub(crate) fn receiver() -> HpkeKeypair {
        let private_key = Secret::new(array(rfc9180::SK_R));
        HpkeKeypair::from_parts(rfc9180::config(rfc9180::PK_R), private_key).unwrap()
    }

    #[test]
    fn generation_follows_derive_key_pair() {
        let keypair =
            HpkeKeypair::generate(HpkeConfigId::new(7), &mut Fixed(array(rfc9180::IKM_R)));
        assert_eq!(keypair.config().public_key(), bytes(rfc9180::PK_R));
        // The RFC prints the key before X25519 clamps it; the clamped key is the same scalar.
        let mut clamped = array(rfc9180::SK_R);
        clamped[0] &= 0xf8;
        clamped[31] = clamped[31] & 0x7f | 0x40;
        assert!(keypair.private_key().ct_eq(&clamped));
    }

    #[test]
    fn parts_must_belong_together() {
        let mut wrong = array(rfc9180::SK_R);
        wrong[5] ^= 1;
        let keypair = HpkeKeypair::from_parts(rfc9180::config(rfc9180::PK_R), Secret::new(wrong));
        assert_eq!(keypair.unwrap_err(), HpkeError::InvalidKey);
    }

    #[test]
    fn other_suites_are_refused() {
        let (kem, kdf, aead) =
            (HpkeKemId::X25519_HKDF_SHA256, HpkeKdfId::HKDF_SHA256, HpkeAeadId::AES_128_GCM);
        let key = bytes(rfc9180::PK_R);
        for (kem, kdf, aead, key) in [
            (HpkeKemId::new(0x0010), kdf, aead, key.clone()),
            (kem, HpkeKdfId::new(2), aead, key.clone()),
            (kem, kdf, HpkeAeadId::new(2), key.clone()),
            (kem, kdf, aead, key[1..].to_vec()),
        ] {
            let config = HpkeConfig::new(HpkeConfigId::new(7), kem, kdf, aead, key).unwrap();
            let keypair = HpkeKeypair::from_parts(config, Secret::new(array(rfc9180::SK_R)));
            assert_eq!(keypair.unwrap_err(), HpkeError::UnsupportedSuite);
        }
    }

    #[test]
    fn debug_hides_the_private_key() {
        let shown = format!("{:?}", receiver());
        assert!(shown.contains("redacted"));
    }
}
