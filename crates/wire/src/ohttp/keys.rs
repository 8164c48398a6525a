//! Key configurations and lists of them (RFC 9458 §3).

use crate::codec::{BoundsError, Decode, DecodeError, Encode, Reader, Sink, put_opaque_u16};
use crate::limits::MAX_OHTTP_SUITES;
use crate::{HpkeAeadId, HpkeConfig, HpkeConfigId, HpkeKdfId, HpkeKemId};

/// A gateway's public key and its suites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyConfig {
    id: HpkeConfigId,
    kem_id: HpkeKemId,
    public_key: Vec<u8>,
    suites: Vec<(HpkeKdfId, HpkeAeadId)>,
}

impl KeyConfig {
    /// Checks that there is at least one suite and not too many, and that the public key has the
    /// length of its mechanism.
    pub fn new(
        id: HpkeConfigId,
        kem_id: HpkeKemId,
        public_key: Vec<u8>,
        suites: Vec<(HpkeKdfId, HpkeAeadId)>,
    ) -> Result<Self, BoundsError> {
        if kem_id.public_key_len() != Some(public_key.len()) {
            return Err(BoundsError::Length("public key"));
        }
        if suites.is_empty() || suites.len() > MAX_OHTTP_SUITES {
            return Err(BoundsError::Length("symmetric algorithms"));
        }
        Ok(Self { id, kem_id, public_key, suites })
    }

    /// The id of the key.
    pub fn id(&self) -> HpkeConfigId {
        self.id
    }

    /// The key encapsulation mechanism.
    pub fn kem_id(&self) -> HpkeKemId {
        self.kem_id
    }

    /// The serialized public key.
    pub fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    /// Pairs of a key derivation function and an authenticated cipher, most preferred first.
    pub fn suites(&self) -> &[(HpkeKdfId, HpkeAeadId)] {
        &self.suites
    }

    /// The key with one of its suites, if it has it.
    pub fn hpke_config(&self, kdf_id: HpkeKdfId, aead_id: HpkeAeadId) -> Option<HpkeConfig> {
        self.suites.contains(&(kdf_id, aead_id)).then_some(())?;
        HpkeConfig::new(self.id, self.kem_id, kdf_id, aead_id, self.public_key.clone()).ok()
    }
}

impl TryFrom<&HpkeConfig> for KeyConfig {
    type Error = BoundsError;

    fn try_from(config: &HpkeConfig) -> Result<Self, BoundsError> {
        let suites = vec![(config.kdf_id(), config.aead_id())];
        Self::new(config.id(), config.kem_id(), config.public_key().to_vec(), suites)
    }
}

impl Encode for KeyConfig {
    fn encode(&self, out: &mut impl Sink) {
        out.push(self.id.value());
        out.extend_from_slice(&self.kem_id.value().to_be_bytes());
        out.extend_from_slice(&self.public_key);
        out.extend_from_slice(&(4 * self.suites.len() as u16).to_be_bytes());
        for (kdf_id, aead_id) in &self.suites {
            out.extend_from_slice(&kdf_id.value().to_be_bytes());
            out.extend_from_slice(&aead_id.value().to_be_bytes());
        }
    }
}

impl Decode<'_> for KeyConfig {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let id = HpkeConfigId::new(reader.u8()?);
        let kem_id = HpkeKemId::new(reader.u16()?);
        // The format does not give the length of a key: one of an unknown mechanism cannot be read.
        let len = kem_id.public_key_len().ok_or(DecodeError::Malformed("KEM"))?;
        let public_key = reader.bytes(len)?.to_vec();
        let mut algorithms = Reader::new(reader.opaque_u16()?);
        let mut suites = Vec::with_capacity(algorithms.remaining() / 4);
        while !algorithms.is_empty() {
            suites.push((HpkeKdfId::new(algorithms.u16()?), HpkeAeadId::new(algorithms.u16()?)));
        }
        Ok(Self::new(id, kem_id, public_key, suites)?)
    }
}

/// The list of these keys, each with its one suite, as `application/ohttp-keys`.
pub fn encode_key_list(configs: &[HpkeConfig]) -> Result<Vec<u8>, BoundsError> {
    let mut out = Vec::new();
    for config in configs {
        put_opaque_u16(&mut out, &KeyConfig::try_from(config)?.to_bytes());
    }
    Ok(out)
}

/// The keys of a list, without those of an unknown mechanism.
///
/// An error anywhere invalidates the whole list: clients that salvaged what they could, each
/// differently, could be told apart (RFC 9458 §3.2).
pub fn decode_key_list(bytes: &[u8]) -> Result<Vec<KeyConfig>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let mut configs = Vec::new();
    while !reader.is_empty() {
        let config = reader.opaque_u16()?;
        let mut header = Reader::new(config);
        header.u8()?;
        if HpkeKemId::new(header.u16()?).public_key_len().is_some() {
            configs.push(KeyConfig::from_bytes(config)?);
        }
    }
    Ok(configs)
}
