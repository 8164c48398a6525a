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
pub(crate) mod tests;
