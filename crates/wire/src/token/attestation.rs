//! The message that a device signs for its attestation.

use sha2::{Digest, Sha256};

use crate::KeyName;

/// The prefix of the message, so that a signature over it is not valid for anything else.
const LABEL: &[u8] = b"sotto attestation v1\0";

/// The message that attests a token request.
///
/// It contains everything that the attester acts on: its own name, so that evidence for one
/// attester is not valid for another, the issuer that the request is for, the three headers, and
/// the body. Changing any of them would require another signature.
pub fn attestation_message(
    attester: &KeyName,
    issuer: &KeyName,
    client_key: &[u8; 32],
    client_alias: &[u8; 32],
    request_blind: &[u8; 32],
    body: &[u8],
) -> Vec<u8> {
    let names = [attester, issuer].map(|name| name.as_str().as_bytes());
    let names_len: usize = names.iter().map(|name| 2 + name.len()).sum();
    let mut message = Vec::with_capacity(LABEL.len() + names_len + 4 * 32);
    message.extend_from_slice(LABEL);
    for name in names {
        crate::codec::put_opaque_u16(&mut message, name);
    }
    message.extend_from_slice(client_key);
    message.extend_from_slice(client_alias);
    message.extend_from_slice(request_blind);
    message.extend_from_slice(&Sha256::digest(body));
    message
}
