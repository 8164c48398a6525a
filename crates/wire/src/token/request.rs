//! The request for a token, as the attester sees it (rate-limited issuance, "Client-to-Attester
//! Request").

use std::fmt;

use super::ShortOpaque;
use crate::codec::{Decode, DecodeError, Encode, Reader, Sink};

/// A request for a token.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenRequest<'a> {
    /// The type of the token.
    pub token_type: u16,
    /// The client key, blinded for this request.
    pub request_key: [u8; 32],
    /// SHA-256 of the issuer's encapsulation key.
    pub issuer_encap_key_id: [u8; 32],
    /// The encapsulated key and the sealed [`InnerTokenRequest`](super::InnerTokenRequest).
    pub encrypted_token_request: ShortOpaque<'a>,
    /// The signature of [`request_key`](Self::request_key) over
    /// [`signed_message`](Self::signed_message).
    pub request_signature: [u8; 64],
}

impl TokenRequest<'_> {
    /// What the signature covers: everything before it.
    pub fn signed_message(&self) -> Vec<u8> {
        let mut message = Vec::with_capacity(self.encoded_len());
        self.encode_signed(&mut message);
        message
    }

    fn encode_signed(&self, out: &mut impl Sink) {
        out.extend_from_slice(&self.token_type.to_be_bytes());
        out.extend_from_slice(&self.request_key);
        out.extend_from_slice(&self.issuer_encap_key_id);
        self.encrypted_token_request.encode(out);
    }
}

impl fmt::Debug for TokenRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenRequest").field("token_type", &self.token_type).finish_non_exhaustive()
    }
}

impl Encode for TokenRequest<'_> {
    fn encode(&self, out: &mut impl Sink) {
        self.encode_signed(out);
        out.extend_from_slice(&self.request_signature);
    }
}

impl<'a> Decode<'a> for TokenRequest<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            token_type: reader.u16()?,
            request_key: reader.array()?,
            issuer_encap_key_id: reader.array()?,
            encrypted_token_request: ShortOpaque::decode(reader)?,
            request_signature: reader.array()?,
        })
    }
}
