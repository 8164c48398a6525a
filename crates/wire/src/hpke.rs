//! HPKE configurations and ciphertexts (DAP "HPKE Configuration Request").
//!
//! `sotto-crypto` seals, opens and decides which suites are supported.

use std::borrow::Cow;
use std::fmt;

use crate::codec::{
    BoundsError, Decode, DecodeError, Encode, Reader, Sink, put_opaque_u16, put_opaque_u32,
};

/// The id of one HPKE key of an aggregator or collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HpkeConfigId(u8);

impl HpkeConfigId {
    /// The id with this value.
    pub const fn new(id: u8) -> Self {
        Self(id)
    }

    /// The value.
    pub const fn value(self) -> u8 {
        self.0
    }
}

macro_rules! algorithm_id {
    ($(#[$doc:meta])* $name:ident { $($(#[$const_doc:meta])* $const:ident = $value:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(u16);

        impl $name {
            $($(#[$const_doc])* pub const $const: Self = Self($value);)*

            /// The algorithm with this code point.
            pub const fn new(code_point: u16) -> Self {
                Self(code_point)
            }

            /// The code point.
            pub const fn value(self) -> u16 {
                self.0
            }
        }
    };
}

algorithm_id!(
    /// A key encapsulation mechanism of the HPKE registry.
    HpkeKemId {
        /// DHKEM(X25519, HKDF-SHA256), mandatory in DAP.
        X25519_HKDF_SHA256 = 0x0020;
        /// DHKEM(P-256, HKDF-SHA256).
        P256_HKDF_SHA256 = 0x0010;
        /// X-Wing, or MLKEM768-X25519: ML-KEM-768 and X25519 together (draft-ietf-hpke-pq).
        X_WING = 0x647a;
    }
);

impl HpkeKemId {
    /// The length of a public key, `Npk` (RFC 9180 §7.1, draft-ietf-hpke-pq). `None` for an unknown
    /// mechanism.
    pub const fn public_key_len(self) -> Option<usize> {
        match self.0 {
            0x0010 => Some(65),
            0x0011 => Some(97),
            0x0012 => Some(133),
            0x0020 => Some(32),
            0x0021 => Some(56),
            0x647a => Some(1216),
            _ => None,
        }
    }

    /// The length of an encapsulated key, `Nenc`. `None` for an unknown mechanism.
    pub const fn enc_len(self) -> Option<usize> {
        match self.0 {
            0x647a => Some(1120),
            _ => self.public_key_len(), // an ephemeral public key
        }
    }
}

algorithm_id!(
    /// A key derivation function of the HPKE registry.
    HpkeKdfId {
        /// HKDF-SHA256, mandatory in DAP.
        HKDF_SHA256 = 0x0001;
        /// HKDF-SHA384.
        HKDF_SHA384 = 0x0002;
        /// HKDF-SHA512.
        HKDF_SHA512 = 0x0003;
    }
);
algorithm_id!(
    /// An authenticated cipher of the HPKE registry.
    HpkeAeadId {
        /// AES-128-GCM, mandatory in DAP.
        AES_128_GCM = 0x0001;
        /// AES-256-GCM.
        AES_256_GCM = 0x0002;
        /// ChaCha20-Poly1305.
        CHACHA20_POLY1305 = 0x0003;
    }
);

/// A public key with its suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HpkeConfig {
    id: HpkeConfigId,
    kem_id: HpkeKemId,
    kdf_id: HpkeKdfId,
    aead_id: HpkeAeadId,
    public_key: Vec<u8>,
}

impl HpkeConfig {
    /// A configuration with a public key of 1 to 2^16-1 bytes.
    ///
    /// Whether the key fits the suite is checked where it is used.
    pub fn new(
        id: HpkeConfigId,
        kem_id: HpkeKemId,
        kdf_id: HpkeKdfId,
        aead_id: HpkeAeadId,
        public_key: Vec<u8>,
    ) -> Result<Self, BoundsError> {
        if public_key.is_empty() || u16::try_from(public_key.len()).is_err() {
            return Err(BoundsError::Length("public_key"));
        }
        Ok(Self { id, kem_id, kdf_id, aead_id, public_key })
    }

    /// The id of the key.
    pub fn id(&self) -> HpkeConfigId {
        self.id
    }

    /// The key encapsulation mechanism.
    pub fn kem_id(&self) -> HpkeKemId {
        self.kem_id
    }

    /// The key derivation function.
    pub fn kdf_id(&self) -> HpkeKdfId {
        self.kdf_id
    }

    /// The authenticated cipher.
    pub fn aead_id(&self) -> HpkeAeadId {
        self.aead_id
    }

    /// The serialized public key.
    pub fn public_key(&self) -> &[u8] {
        &self.public_key
    }
}

impl Encode for HpkeConfig {
    fn encode(&self, out: &mut impl Sink) {
        out.push(self.id.0);
        out.extend_from_slice(&self.kem_id.0.to_be_bytes());
        out.extend_from_slice(&self.kdf_id.0.to_be_bytes());
        out.extend_from_slice(&self.aead_id.0.to_be_bytes());
        put_opaque_u16(out, &self.public_key);
    }
}

impl Decode<'_> for HpkeConfig {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let id = HpkeConfigId(reader.u8()?);
        let kem_id = HpkeKemId(reader.u16()?);
        let kdf_id = HpkeKdfId(reader.u16()?);
        let aead_id = HpkeAeadId(reader.u16()?);
        let public_key = reader.opaque_u16()?;
        Ok(Self::new(id, kem_id, kdf_id, aead_id, public_key.to_vec())?)
    }
}

/// The keys that an aggregator offers, most preferred first. Never empty, and ids are distinct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HpkeConfigList(Vec<HpkeConfig>);

impl HpkeConfigList {
    /// Checks that there is a configuration, that ids are distinct and that the list fits.
    pub fn new(configs: Vec<HpkeConfig>) -> Result<Self, BoundsError> {
        if configs.is_empty() || u16::try_from(configs.encoded_len()).is_err() {
            return Err(BoundsError::Length("HpkeConfigList"));
        }
        let mut seen = [false; 256];
        for config in &configs {
            if std::mem::replace(&mut seen[usize::from(config.id.0)], true) {
                return Err(BoundsError::DuplicateHpkeConfigId);
            }
        }
        Ok(Self(configs))
    }

    /// The configurations, most preferred first.
    pub fn as_slice(&self) -> &[HpkeConfig] {
        &self.0
    }

    /// The configurations, most preferred first.
    pub fn iter(&self) -> std::slice::Iter<'_, HpkeConfig> {
        self.0.iter()
    }
}

impl Encode for HpkeConfigList {
    fn encode(&self, out: &mut impl Sink) {
        out.extend_from_slice(&(self.0.encoded_len() as u16).to_be_bytes());
        self.0.encode(out);
    }
}

impl Decode<'_> for HpkeConfigList {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let configs = Reader::new(reader.opaque_u16()?).values_to_end()?;
        Ok(Self::new(configs)?)
    }
}

/// A sealed message: the encapsulated key and the ciphertext with its tag.
#[derive(Clone, PartialEq, Eq)]
pub struct HpkeCiphertext<'a> {
    config_id: HpkeConfigId,
    enc: Cow<'a, [u8]>,
    payload: Cow<'a, [u8]>,
}

impl<'a> HpkeCiphertext<'a> {
    /// Checks lengths: `enc` of 1 to 2^16-1 bytes, `payload` of 1 to 2^32-1.
    pub fn new(
        config_id: HpkeConfigId,
        enc: impl Into<Cow<'a, [u8]>>,
        payload: impl Into<Cow<'a, [u8]>>,
    ) -> Result<Self, BoundsError> {
        let (enc, payload) = (enc.into(), payload.into());
        if enc.is_empty() || u16::try_from(enc.len()).is_err() {
            return Err(BoundsError::Length("enc"));
        }
        if payload.is_empty() || u32::try_from(payload.len()).is_err() {
            return Err(BoundsError::Length("payload"));
        }
        Ok(Self { config_id, enc, payload })
    }

    /// The key that the message is sealed to.
    pub fn config_id(&self) -> HpkeConfigId {
        self.config_id
    }

    /// The encapsulated key.
    pub fn enc(&self) -> &[u8] {
        &self.enc
    }

    /// The ciphertext with its tag.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The same ciphertext, independent of the received buffer.
    pub fn into_owned(self) -> HpkeCiphertext<'static> {
        HpkeCiphertext {
            config_id: self.config_id,
            enc: Cow::Owned(self.enc.into_owned()),
            payload: Cow::Owned(self.payload.into_owned()),
        }
    }
}

impl fmt::Debug for HpkeCiphertext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HpkeCiphertext")
            .field("config_id", &self.config_id.0)
            .field("enc_len", &self.enc.len())
            .field("payload_len", &self.payload.len())
            .finish()
    }
}

impl Encode for HpkeCiphertext<'_> {
    fn encode(&self, out: &mut impl Sink) {
        out.push(self.config_id.0);
        put_opaque_u16(out, &self.enc);
        put_opaque_u32(out, &self.payload);
    }
}

impl<'a> Decode<'a> for HpkeCiphertext<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let config_id = HpkeConfigId(reader.u8()?);
        let enc = reader.opaque_u16()?;
        let payload = reader.opaque_u32()?;
        Ok(Self::new(config_id, enc, payload)?)
    }
}
