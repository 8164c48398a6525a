//! Rate-limited tokens: the messages of Privacy Pass (RFC 9577, RFC 9578) and of rate-limited
//! issuance.
//!
//! Tokens are blind RSA signatures. The client requests one through an attester, which knows the
//! client but not the origin, from an issuer, which learns the origin but not the client. Only the
//! layouts are here: `sotto-crypto` seals, blinds and signs, and `sotto-protocol` decides who
//! rejects what. Decoding keeps any token type, so that the caller can say why it rejects one.

mod attestation;
mod batch;
mod challenge;
mod encapsulation_key;
pub mod evidence;
mod inner;
mod request;

pub use attestation::attestation_message;
pub use batch::{IssuerAnswer, IssuerAnswerBatch, TokenRequestBatch};
pub use challenge::{Token, TokenChallenge, token_input};
pub use encapsulation_key::EncapsulationKey;
pub use inner::InnerTokenRequest;
pub use request::TokenRequest;

pub use crate::limits::{MAX_TOKEN_BATCH, MAX_TOKEN_REQUEST_BATCH_LEN, MAX_TOKEN_REQUEST_LEN};
pub use crate::opaque::ShortOpaque;

use crate::byte_sequence as sequence;
use crate::limits::MAX_TOKEN_HEADER_LEN;

/// Rate-limited blind RSA with Ed25519 key blinding.
pub const TOKEN_TYPE: u16 = 0x0004;

/// The length of a blinded message, a blind signature and an authenticator: the modulus has 2,048
/// bits.
pub const NK: usize = 256;

/// The length of an encoded [`Token`].
pub const TOKEN_LEN: usize = 98 + NK;

/// The length of an encrypted token response: its nonce, the blind signature and the AES-GCM tag.
pub const TOKEN_RESPONSE_LEN: usize = 16 + NK + 16;

/// How many tokens of one origin a device gets in a window. Devices, attesters and issuers all rely
/// on it.
pub const TOKEN_LIMIT: u64 = 1;

/// The problem type of a withheld token (status 429): the device has had its token for the origin,
/// and gets no other. The status alone does not say so: any proxy in front of an attester may
/// answer 429 itself.
pub const WITHHELD_PROBLEM: &str = "urn:sotto:problem:token-withheld";

/// The problem type of a request that is sealed to a key that its issuer does not have (status
/// 400). It tells the recipient that no response to the same bytes was stored before.
pub const ENCAPSULATION_KEY_PROBLEM: &str = "urn:sotto:problem:token-encapsulation-key";

/// The private report extension that carries an aggregator's token in its share of a report. From
/// the private-use range.
pub const TOKEN_EXTENSION: u16 = 0xff10;

/// The media type of a [`TokenRequest`].
pub const REQUEST_MEDIA_TYPE: &str = "application/private-token-request";

/// The media type of an encrypted token response.
pub const RESPONSE_MEDIA_TYPE: &str = "application/private-token-response";

/// The media type of a [`TokenRequestBatch`].
pub const REQUEST_BATCH_MEDIA_TYPE: &str = "application/sotto-token-request-batch";

/// The media type of an [`IssuerAnswerBatch`].
pub const ANSWER_BATCH_MEDIA_TYPE: &str = "application/sotto-token-answer-batch";

/// Names of HTTP fields, in lower case as HTTP/2 requires.
pub mod header {
    /// From the client, its own alias for the origin; from the issuer, the index key.
    pub const ORIGIN_ALIAS: &str = "sec-token-origin-alias";
    /// The client key.
    pub const CLIENT: &str = "sec-token-client";
    /// The blind that turns the client key into the request key.
    pub const REQUEST_BLIND: &str = "sec-token-request-blind";
    /// The evidence of attestation.
    pub const ATTESTATION: &str = "sec-token-attestation";
    /// How many tokens of one origin a client gets in a window.
    pub const LIMIT: &str = "sec-token-limit";
}

/// The value of an HTTP field for `bytes`: `:base64:` (RFC 8941).
pub fn byte_sequence(bytes: &[u8]) -> String {
    sequence::encode(bytes)
}

/// The bytes of an HTTP field's value, if it is a byte sequence (RFC 8941) and not too long.
pub fn parse_byte_sequence(value: &str) -> Option<Vec<u8>> {
    if value.len() > MAX_TOKEN_HEADER_LEN { None } else { sequence::parse(value) }
}
