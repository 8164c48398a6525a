//! What a device signs to show that it is one.

use sha2::{Digest, Sha256};

use crate::KeyName;

/// What the message starts with, so that no signature over it serves anything else.
const LABEL: &[u8] = b"sotto attestation v1\0";

/// The message that attests a token request.
///
/// It holds all that the attester acts on: its own name, so that evidence for one attester is none for another, the three
/// headers, and the body. Who changed any of them would need another signature.
pub fn attestation_message(
    attester: &KeyName,
    client_key: &[u8; 32],
    client_alias: &[u8; 32],
    request_blind: &[u8; 32],
    body: &[u8],
) -> Vec<u8> {
    let name = attester.as_str().as_bytes();
    let mut message = Vec::with_capacity(LABEL.len() + 2 + name.len() + 4 * 32);
    message.extend_from_slice(LABEL);
    crate::codec::put_opaque_u16(&mut message, name);
    message.extend_from_slice(client_key);
    message.extend_from_slice(client_alias);
    message.extend_from_slice(request_blind);
    message.extend_from_slice(&Sha256::digest(body));
    message
}
