//! The gateway's half.

use std::fmt;

use rand_core::CryptoRng;
use sotto_wire::ohttp::{EncapsulatedRequest, request_info};
use zeroize::Zeroizing;

use super::labels;
use crate::HpkeError;
use crate::encapsulated::{self, KEY_LEN, ResponseSecret};
use crate::server_hpke::Opener;

/// An opened request.
pub struct OpenedRequest {
    /// The encapsulated key. No two honest requests have the same one, so it identifies this
    /// request for replay detection.
    pub enc: Vec<u8>,
    /// The message.
    pub bhttp: Zeroizing<Vec<u8>>,
    /// Seals the response.
    pub responder: ResponseSealer,
}

/// Opens a request that was sealed to `opener`'s key (RFC 9458 §4.3).
///
/// A request to another key, or with another suite, gets a different error from one that does not
/// open: the sender may learn that its key configuration is out of date.
pub fn open_request(
    opener: &Opener,
    request: &EncapsulatedRequest<'_>,
) -> Result<OpenedRequest, HpkeError> {
    let config = opener.config();
    if request.key_id != config.id() {
        return Err(HpkeError::WrongConfigId);
    }
    if (request.kem, request.kdf, request.aead)
        != (config.kem_id(), config.kdf_id(), config.aead_id())
    {
        return Err(HpkeError::UnsupportedSuite);
    }
    let info = request_info(&request.header());
    let (bhttp, secret) = encapsulated::open(opener, labels(&info), request.rest)?;
    Ok(OpenedRequest { enc: secret.enc.clone(), bhttp, responder: ResponseSealer { secret } })
}

impl fmt::Debug for OpenedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedRequest").field("len", &self.bhttp.len()).finish_non_exhaustive()
    }
}

/// Seals the one response to a request.
#[derive(Debug)]
pub struct ResponseSealer {
    pub(super) secret: ResponseSecret,
}

impl ResponseSealer {
    /// The body of the response (RFC 9458 §4.4). Takes 16 bytes of `rng` for its nonce.
    pub fn seal(self, bhttp: &[u8], rng: &mut dyn CryptoRng) -> Result<Vec<u8>, HpkeError> {
        let mut response_nonce = [0; KEY_LEN];
        rng.fill_bytes(&mut response_nonce);
        self.secret.seal(bhttp, &response_nonce)
    }
}
