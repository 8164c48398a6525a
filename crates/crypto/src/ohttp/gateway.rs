//! The gateway's half.

use std::fmt;

use aws_lc_rs::aead;
use rand_core::CryptoRng;
use sotto_wire::ohttp::{EncapsulatedRequest, RESPONSE_LABEL, RESPONSE_OVERHEAD, request_info};
use zeroize::Zeroizing;

use super::{KEY_LEN, ResponseSecret};
use crate::HpkeError;
use crate::hpke::PUBLIC_KEY_LEN;
use crate::server_hpke::Opener;

/// A request that was opened.
pub struct OpenedRequest {
    /// The encapsulated key. No two honest requests have the same, so that it names this one to whoever looks for
    /// replays.
    pub enc: [u8; PUBLIC_KEY_LEN],
    /// The message.
    pub bhttp: Zeroizing<Vec<u8>>,
    /// What seals the answer.
    pub responder: ResponseSealer,
}

/// Opens a request that was sealed to `opener`'s key (RFC 9458 §4.3).
///
/// A request to another key, or with another suite, is told apart from one that does not open: the sender may learn that
/// its key configuration is out of date.
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
    let (enc, payload) =
        request.rest.split_first_chunk::<PUBLIC_KEY_LEN>().ok_or(HpkeError::Decrypt)?;
    let mut receiver = opener.setup_receiver(enc, &request_info(&request.header()))?;
    let bhttp = receiver.open(b"", payload)?;
    let mut secret = Zeroizing::new([0; KEY_LEN]);
    secret.copy_from_slice(&receiver.export(RESPONSE_LABEL.as_bytes(), KEY_LEN)?);
    let responder = ResponseSealer { secret: ResponseSecret { enc: *enc, secret } };
    Ok(OpenedRequest { enc: *enc, bhttp, responder })
}

impl fmt::Debug for OpenedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedRequest").field("len", &self.bhttp.len()).finish_non_exhaustive()
    }
}

/// Seals the one answer to a request.
#[derive(Debug)]
pub struct ResponseSealer {
    pub(super) secret: ResponseSecret,
}

impl ResponseSealer {
    /// The body of the answer (RFC 9458 §4.4). Takes 16 bytes of `rng` for its nonce.
    pub fn seal(self, bhttp: &[u8], rng: &mut dyn CryptoRng) -> Result<Vec<u8>, HpkeError> {
        let mut response_nonce = [0; KEY_LEN];
        rng.fill_bytes(&mut response_nonce);
        let keys = self.secret.keys(&response_nonce)?;
        let key = aead::UnboundKey::new(&aead::AES_128_GCM, keys.key.as_slice())
            .map(aead::LessSafeKey::new)
            .map_err(|_| HpkeError::InvalidKey)?;

        let mut body = vec![0; RESPONSE_OVERHEAD + bhttp.len()];
        let (head, sealed) = body.split_at_mut(KEY_LEN);
        head.copy_from_slice(&response_nonce);
        let (ciphertext, tag) = sealed.split_at_mut(bhttp.len());
        key.seal_out_of_place_scatter(
            aead::Nonce::assume_unique_for_key(keys.nonce),
            aead::Aad::empty(),
            bhttp,
            ciphertext,
            &[],
            tag,
        )
        .map_err(|_| HpkeError::Encrypt)?;
        Ok(body)
    }
}
