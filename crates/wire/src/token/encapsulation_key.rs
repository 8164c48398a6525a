//! The key that clients seal the inner part of a request to (rate-limited issuance, "Encapsulation
//! Keys").

use sha2::{Digest, Sha256};

use crate::codec::{Decode, DecodeError, Encode, Reader, Sink};
use crate::{HpkeAeadId, HpkeConfig, HpkeConfigId, HpkeKdfId, HpkeKemId};

/// An issuer's encapsulation key. Decodes only X25519 and X-Wing keys, which devices can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncapsulationKey(HpkeConfig);

impl EncapsulationKey {
    /// The key with its suite.
    pub fn config(&self) -> &HpkeConfig {
        &self.0
    }

    /// The id of the key in a request.
    pub fn id(&self) -> [u8; 32] {
        Sha256::digest(self.to_bytes()).into()
    }
}

impl From<&HpkeConfig> for EncapsulationKey {
    fn from(config: &HpkeConfig) -> Self {
        Self(config.clone())
    }
}

impl From<EncapsulationKey> for HpkeConfig {
    fn from(key: EncapsulationKey) -> Self {
        key.0
    }
}

impl Encode for EncapsulationKey {
    fn encode(&self, out: &mut impl Sink) {
        out.push(self.0.id().value());
        out.extend_from_slice(&self.0.kem_id().value().to_be_bytes());
        out.extend_from_slice(self.0.public_key());
        out.extend_from_slice(&self.0.kdf_id().value().to_be_bytes());
        out.extend_from_slice(&self.0.aead_id().value().to_be_bytes());
    }
}

impl Decode<'_> for EncapsulationKey {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let id = HpkeConfigId::new(reader.u8()?);
        let kem_id = HpkeKemId::new(reader.u16()?);
        // The layout has no length before the key.
        let usable = [HpkeKemId::X25519_HKDF_SHA256, HpkeKemId::X_WING].contains(&kem_id);
        let len = kem_id.public_key_len().filter(|_| usable);
        let public_key = reader.bytes(len.ok_or(DecodeError::Malformed("kem_id"))?)?;
        let kdf_id = HpkeKdfId::new(reader.u16()?);
        let aead_id = HpkeAeadId::new(reader.u16()?);
        Ok(Self(HpkeConfig::new(id, kem_id, kdf_id, aead_id, public_key.to_vec())?))
    }
}
