//! The gateway's half of Oblivious HTTP (RFC 9458): opens requests, rejects old and repeated ones,
//! seals answers.
//!
//! [`consume_request`] opens a body, [`Opened::decode`] reads its contents, [`ReplayWindow::admit`]
//! takes it once, and [`Responder::respond`] seals the answer. A failure before a request is open
//! is an [`OuterRefusal`], answered in clear because there is no key to seal it with. A later
//! failure is an [`InnerRefusal`] and goes back sealed and padded: the relay cannot tell it from a
//! success.
//!
//! Leaves to the host: the targets behind the gateway, their names and the limits on bodies. The
//! host should reject what it cannot deliver before the window remembers it.

mod refusal;
mod replay;

use std::fmt;

use rand_core::CryptoRng;
use sotto_crypto::HpkeKeypair;
use sotto_crypto::ohttp::{ResponseSealer, open_request};
use sotto_wire::HpkeConfig;
use sotto_wire::bhttp::{Request, Response};
use sotto_wire::ohttp::{EncapsulatedRequest, RESPONSE_OVERHEAD, encode_key_list};
use sotto_wire::size_class::SizeClass;
use zeroize::Zeroizing;

use crate::{Fault, HpkeKeyring};

pub use refusal::{InnerRefusal, OuterRefusal};
pub use replay::ReplayWindow;

/// The keys that requests may be sealed to, the preferred one first.
#[derive(Debug)]
pub struct GatewayKeyring {
    keys: HpkeKeyring,
    key_list: Vec<u8>,
}

impl GatewayKeyring {
    /// A ring of at least one key, all with distinct ids.
    pub fn new(keys: &[HpkeKeypair]) -> Result<Self, Fault> {
        let keys = HpkeKeyring::new(keys)?;
        let key_list = encode_key_list(&keys.configs()).map_err(|e| Fault(e.to_string()))?;
        Ok(Self { keys, key_list })
    }

    /// The public keys, most preferred first.
    pub fn configs(&self) -> Vec<HpkeConfig> {
        self.keys.configs()
    }

    /// The same as `application/ohttp-keys` (RFC 9458 §3.2).
    pub fn key_list(&self) -> Vec<u8> {
        self.key_list.clone()
    }
}

/// A request that opened. Whether it decodes, is new and is for us has not been checked.
pub struct Opened {
    enc: Vec<u8>,
    message: Zeroizing<Vec<u8>>,
    responder: Responder,
}

/// Seals the one answer to a request.
pub struct Responder(ResponseSealer);

/// Opens an encapsulated request.
pub fn consume_request(keys: &GatewayKeyring, body: &[u8]) -> Result<Opened, OuterRefusal> {
    let request = EncapsulatedRequest::parse(body).map_err(|_| OuterRefusal::Malformed)?;
    let opener = keys.keys.opener(request.key_id).ok_or(OuterRefusal::UnknownKey)?;
    let config = opener.config();
    let suite = (config.kem_id(), config.kdf_id(), config.aead_id());
    if (request.kem, request.kdf, request.aead) != suite {
        return Err(OuterRefusal::UnknownKey);
    }
    let opened = open_request(opener, &request).map_err(|_| OuterRefusal::Malformed)?;
    let responder = Responder(opened.responder);
    Ok(Opened { enc: opened.enc, message: opened.bhttp, responder })
}

impl Opened {
    /// Decodes the request.
    pub fn decode(&self) -> Result<Request<'_>, InnerRefusal> {
        Request::decode(&self.message).map_err(|_| InnerRefusal::Malformed)
    }

    /// The request's bytes, padding included.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// The request's bytes, padding included, and what answers it: the host can drop the bytes
    /// before it has the answer.
    pub fn into_parts(self) -> (Zeroizing<Vec<u8>>, Responder) {
        (self.message, self.responder)
    }
}

impl Responder {
    /// Seals the answer, padded to its size class.
    pub fn respond(
        self,
        response: &Response<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Vec<u8>, Fault> {
        let too_long = || Fault("an answer is longer than the largest size class".into());
        let class = SizeClass::holding(response.encoded_len() + RESPONSE_OVERHEAD);
        let padded = class
            .and_then(|class| response.to_padded(class.bytes() - RESPONSE_OVERHEAD))
            .map(Zeroizing::new)
            .ok_or_else(too_long)?;
        self.0.seal(&padded, rng).map_err(|error| Fault(error.to_string()))
    }
}

/// Shows nothing of the request.
impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("message_len", &self.message.len()).finish_non_exhaustive()
    }
}

/// Shows no key.
impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Responder([redacted])")
    }
}
