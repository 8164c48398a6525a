//! A token key as RFC 9578 §6.5 publishes it: a SubjectPublicKeyInfo of type RSASSA-PSS.

use std::fmt;

use sha2::{Digest, Sha256};

use super::{BlindRsaError, MODULUS_LEN};

/// Everything before the modulus: the algorithm (id-RSASSA-PSS with SHA-384, MGF1 with SHA-384, a
/// salt of 48 bytes, the hashes without parameters), then the headers of the bit string, the key
/// and the modulus. The lengths are those of 2048 bits and exponent 65537, so there is nothing to
/// parse: a key has only this encoding.
const PREFIX: [u8; 80] = [
    0x30, 0x82, 0x01, 0x52, 0x30, 0x3d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01,
    0x0a, 0x30, 0x30, 0xa0, 0x0d, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04,
    0x02, 0x02, 0xa1, 0x1a, 0x30, 0x18, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01,
    0x08, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02, 0xa2, 0x03,
    0x02, 0x01, 0x30, 0x03, 0x82, 0x01, 0x0f, 0x00, 0x30, 0x82, 0x01, 0x0a, 0x02, 0x82, 0x01, 0x01,
];

/// The public exponent, 65537, with its header.
const SUFFIX: [u8; 5] = [0x02, 0x03, 0x01, 0x00, 0x01];

/// The modulus has its top bit set, so DER puts a zero before it.
const MODULUS_AT: usize = PREFIX.len() + 1;
const SUFFIX_AT: usize = MODULUS_AT + MODULUS_LEN;
const SPKI_LEN: usize = SUFFIX_AT + SUFFIX.len();

/// Where the bare `RSAPublicKey` (RFC 8017) begins: at the header of its sequence.
#[cfg(feature = "server")]
const PKCS1_AT: usize = PREFIX.len() - 8;

/// The public key of an origin: 2048 bits, exponent 65537.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenKey {
    spki: [u8; SPKI_LEN],
    id: [u8; 32],
}

impl TokenKey {
    /// Parses a SubjectPublicKeyInfo. Any other encoding, size or parameter is rejected, so that
    /// equal keys have equal ids.
    pub fn parse_spki(spki: &[u8]) -> Result<Self, BlindRsaError> {
        let spki: &[u8; SPKI_LEN] = spki.try_into().map_err(|_| BlindRsaError::InvalidKey)?;
        let well_formed = spki.starts_with(&PREFIX)
            && spki[PREFIX.len()] == 0
            && spki.ends_with(&SUFFIX)
            && spki[MODULUS_AT] & 0x80 != 0
            && spki[SUFFIX_AT - 1] & 1 == 1;
        if !well_formed {
            return Err(BlindRsaError::InvalidKey);
        }
        Ok(Self { spki: *spki, id: Sha256::digest(spki).into() })
    }

    /// The key with this big-endian modulus. It must have 2048 bits and be odd. Nothing else about
    /// it is checked: not whose it is, nor whether it can be factored.
    #[cfg(feature = "server")]
    pub fn from_modulus(modulus: &[u8; MODULUS_LEN]) -> Result<Self, BlindRsaError> {
        Self::parse_spki(&[&PREFIX[..], &[0], modulus, &SUFFIX].concat())
    }

    /// The SubjectPublicKeyInfo.
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// The token key id: SHA-256 of the SubjectPublicKeyInfo.
    pub fn id(&self) -> &[u8; 32] {
        &self.id
    }

    /// The last byte of the id, which requests carry (RFC 9578 §6.1).
    pub fn truncated_id(&self) -> u8 {
        self.id[31]
    }

    /// The name of the origin that this key stands for: the id in lowercase hexadecimal.
    pub fn origin_name(&self) -> String {
        hex(&self.id)
    }

    /// The name of the origin for one participation in a series: the SHA-256 of the
    /// SubjectPublicKeyInfo and the participation (u32, big-endian), in lowercase hexadecimal. A
    /// SubjectPublicKeyInfo has one length, so no name is that of another key.
    pub fn participation_name(&self, participation: u32) -> String {
        let hash = Sha256::new_with_prefix(self.spki).chain_update(participation.to_be_bytes());
        hex(&hash.finalize())
    }

    /// The modulus, big-endian.
    #[allow(clippy::expect_used)] // The range has the array's length.
    pub(super) fn modulus(&self) -> &[u8; MODULUS_LEN] {
        self.spki[MODULUS_AT..SUFFIX_AT].try_into().expect("a constant range")
    }

    /// The bare `RSAPublicKey` in DER.
    #[cfg(feature = "server")]
    pub(super) fn pkcs1(&self) -> &[u8] {
        &self.spki[PKCS1_AT..]
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenKey({})", self.origin_name())
    }
}
