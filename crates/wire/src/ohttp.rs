//! The formats of Oblivious HTTP (RFC 9458): encapsulated requests and key configurations.
//!
//! `sotto-crypto` seals and opens, and `sotto-protocol` decides which keys to trust. A device uses
//! only logged keys; the key list that a gateway serves is for other clients.

mod keys;

use std::fmt;

pub use keys::{KeyConfig, decode_key_list, encode_key_list};

use crate::codec::{DecodeError, Reader};
use crate::{HpkeAeadId, HpkeConfig, HpkeConfigId, HpkeKdfId, HpkeKemId};

/// The media type of an encapsulated request.
pub const REQUEST_MEDIA_TYPE: &str = "message/ohttp-req";

/// The media type of an encapsulated response.
pub const RESPONSE_MEDIA_TYPE: &str = "message/ohttp-res";

/// The media type of a list of keys.
pub const KEYS_MEDIA_TYPE: &str = "application/ohttp-keys";

/// The problem type of a request that is sealed to a key that the gateway does not have (RFC 9458
/// §5.3).
pub const KEY_PROBLEM: &str = "https://iana.org/assignments/http-problem-types#ohttp-key";

/// The problem type of a request whose date is too far from the gateway's (RFC 9458 §6.5.2).
pub const DATE_PROBLEM: &str = "https://iana.org/assignments/http-problem-types#date";

/// The label under which requests are sealed.
pub const REQUEST_LABEL: &str = "message/bhttp request";

/// The label under which the secret of a response is exported.
pub const RESPONSE_LABEL: &str = "message/bhttp response";

/// The length of what precedes the encapsulated key: the key id and three algorithm ids.
pub const REQUEST_HEADER_LEN: usize = 7;

/// How much longer a request that is encapsulated to `config` is than its message: the header, the
/// encapsulated key and the tag. Without the key if the mechanism is unknown: nobody can seal to it.
pub fn request_overhead(config: &HpkeConfig) -> usize {
    REQUEST_HEADER_LEN + config.kem_id().enc_len().unwrap_or(0) + 16
}

/// How much longer an encapsulated response is than its message: the nonce, which is as long as an
/// AES-128 key, and the tag.
pub const RESPONSE_OVERHEAD: usize = 16 + 16;

/// An encapsulated request (RFC 9458 §4.1), not yet opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EncapsulatedRequest<'a> {
    /// The key that the request is sealed to.
    pub key_id: HpkeConfigId,
    /// The key encapsulation mechanism.
    pub kem: HpkeKemId,
    /// The key derivation function.
    pub kdf: HpkeKdfId,
    /// The authenticated cipher.
    pub aead: HpkeAeadId,
    /// The encapsulated key, with the length that the mechanism gives it, and the ciphertext. May
    /// be too short for both.
    pub rest: &'a [u8],
}

impl<'a> EncapsulatedRequest<'a> {
    /// Reads the header.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        Ok(Self {
            key_id: HpkeConfigId::new(reader.u8()?),
            kem: HpkeKemId::new(reader.u16()?),
            kdf: HpkeKdfId::new(reader.u16()?),
            aead: HpkeAeadId::new(reader.u16()?),
            rest: reader.rest(),
        })
    }

    /// The encoded header.
    pub fn header(&self) -> [u8; REQUEST_HEADER_LEN] {
        header(self.key_id, self.kem, self.kdf, self.aead)
    }
}

/// Shows only lengths: the rest would tell requests apart.
impl fmt::Debug for EncapsulatedRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncapsulatedRequest")
            .field("key_id", &self.key_id.value())
            .field("rest_len", &self.rest.len())
            .finish_non_exhaustive()
    }
}

/// The header of a request that is sealed to `config`.
pub fn request_header(config: &HpkeConfig) -> [u8; REQUEST_HEADER_LEN] {
    header(config.id(), config.kem_id(), config.kdf_id(), config.aead_id())
}

/// The `info` string for sealing a request with this header: the label, a zero and the header.
pub fn request_info(header: &[u8; REQUEST_HEADER_LEN]) -> Vec<u8> {
    [REQUEST_LABEL.as_bytes(), &[0], header].concat()
}

fn header(
    key_id: HpkeConfigId,
    kem: HpkeKemId,
    kdf: HpkeKdfId,
    aead: HpkeAeadId,
) -> [u8; REQUEST_HEADER_LEN] {
    let [kem, kdf, aead] = [kem.value(), kdf.value(), aead.value()].map(u16::to_be_bytes);
    [key_id.value(), kem[0], kem[1], kdf[0], kdf[1], aead[0], aead[1]]
}
