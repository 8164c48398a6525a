//! A receiver's HPKE key pair (DAP, HPKE configuration; RFC 9180 §7.1).

use ::hpke::kem::{X25519HkdfSha256, XWing};
use ::hpke::{Deserializable, Kem, Serializable};
use rand_core::CryptoRng;
use sotto_wire::{HpkeAeadId, HpkeConfig, HpkeConfigId, HpkeKdfId};
use subtle::ConstantTimeEq;

use crate::hpke::Suite;
use crate::{HpkeError, Secret};

/// An HPKE configuration and its private key, which has 32 bytes in both suites.
#[derive(Debug)]
pub struct HpkeKeypair {
    config: HpkeConfig,
    private_key: Secret<[u8; 32]>,
}

impl HpkeKeypair {
    /// Derives a new X25519 key pair from 32 bytes of `rng` (RFC 9180 §7.1.3, DeriveKeyPair).
    pub fn generate(id: HpkeConfigId, rng: &mut dyn CryptoRng) -> Self {
        Self::generate_for(Suite::X25519, id, rng)
    }

    /// Derives a new hybrid key pair from 32 bytes of `rng` (draft-ietf-hpke-pq §4, DeriveKeyPair).
    pub fn generate_hybrid(id: HpkeConfigId, rng: &mut dyn CryptoRng) -> Self {
        Self::generate_for(Suite::Hybrid, id, rng)
    }

    /// Derives a new key pair of this suite from 32 bytes of `rng`.
    pub fn generate_for(suite: Suite, id: HpkeConfigId, rng: &mut dyn CryptoRng) -> Self {
        let mut rng = rng;
        let (private_key, public_key): (Secret<[u8; 32]>, Vec<u8>) = match suite {
            Suite::X25519 => {
                let (private_key, public_key) = X25519HkdfSha256::gen_keypair_with_rng(&mut rng);
                (Secret::new(private_key.to_bytes().into()), public_key.to_bytes().to_vec())
            }
            Suite::Hybrid => {
                let (private_key, public_key) = XWing::gen_keypair_with_rng(&mut rng);
                (Secret::new(private_key.to_bytes().into()), public_key.to_bytes().to_vec())
            }
        };
        let (kdf_id, aead_id) = (HpkeKdfId::HKDF_SHA256, HpkeAeadId::AES_128_GCM);
        #[allow(clippy::expect_used)] // The public keys of both suites are within every bound.
        let config = HpkeConfig::new(id, suite.kem_id(), kdf_id, aead_id, public_key)
            .expect("a public key of at most 2^16-1 bytes");
        Self { config, private_key }
    }

    /// Combines a configuration with its private key, after checking that they belong together.
    pub fn from_parts(
        config: HpkeConfig,
        private_key: Secret<[u8; 32]>,
    ) -> Result<Self, HpkeError> {
        let public_key = match Suite::of(&config).ok_or(HpkeError::UnsupportedSuite)? {
            Suite::X25519 => public_key::<X25519HkdfSha256>(&private_key)?,
            Suite::Hybrid => public_key::<XWing>(&private_key)?,
        };
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

fn public_key<K: Kem>(private_key: &Secret<[u8; 32]>) -> Result<Vec<u8>, HpkeError> {
    let parsed =
        K::PrivateKey::from_bytes(private_key.expose()).map_err(|_| HpkeError::InvalidKey)?;
    Ok(K::sk_to_pk(&parsed).to_bytes().to_vec())
}

#[cfg(test)]
pub(crate) mod tests;
