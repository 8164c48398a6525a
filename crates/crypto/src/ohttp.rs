//! Oblivious HTTP (RFC 9458 §4): requests sealed to a gateway, and responses sealed to their
//! senders.
//!
//! The device's half runs on every platform; the gateway's half, with the feature `server`, on
//! AWS-LC. Both support the suites of [`crate::hpke`]. `sotto-protocol` handles the messages inside,
//! their padding and replays.

#[cfg(feature = "server")]
mod gateway;
#[cfg(feature = "server")]
#[cfg(test)]
mod tests;

use rand_core::CryptoRng;
use sotto_wire::HpkeConfig;
use sotto_wire::ohttp::{RESPONSE_LABEL, request_header, request_info};
use zeroize::Zeroizing;

#[cfg(feature = "server")]
pub use gateway::{OpenedRequest, ResponseSealer, open_request};

use crate::HpkeError;
use crate::encapsulated::{self, Labels, ResponseSecret};

/// Seals a request to the gateway that has `config`'s private key (RFC 9458 §4.3).
///
/// Returns the body of the request to the relay, and what opens the response. Takes 32 bytes of
/// `rng` for the ephemeral key, 64 for a hybrid one. They must never be reused: two requests with the
/// same key can be linked.
pub fn seal_request(
    config: &HpkeConfig,
    bhttp: &[u8],
    rng: &mut dyn CryptoRng,
) -> Result<(Vec<u8>, ResponseOpener), HpkeError> {
    let header = request_header(config);
    let (body, secret) =
        encapsulated::seal(config, labels(&request_info(&header)), &header, bhttp, rng)?;
    Ok((body, ResponseOpener { secret }))
}

/// Opens the one response to a request.
#[derive(Debug)]
pub struct ResponseOpener {
    secret: ResponseSecret,
}

impl ResponseOpener {
    /// Opens the body of the response (RFC 9458 §4.4).
    pub fn open(self, body: &[u8]) -> Result<Zeroizing<Vec<u8>>, HpkeError> {
        self.secret.open(body)
    }
}

fn labels(info: &[u8]) -> Labels<'_> {
    Labels { info, aad: b"", export: RESPONSE_LABEL.as_bytes() }
}
