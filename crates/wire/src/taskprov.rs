//! In-band task provisioning: the header, the task id and the verification key (taskprov; DAP "VDAF
//! Verification Key").
//!
//! Whether to take part in a task is left to the protocol.

use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hkdf::Hkdf;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::ids::TaskId;
use crate::limits::MAX_TASKPROV_HEADER_LEN;

/// The name of the header, in lower case as HTTP/2 wants it.
pub const HEADER: &str = "dap-taskprov";

/// The header's value is not a byte sequence. Such a header is to be ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("header is not a byte sequence")]
pub struct HeaderError;

/// The task id of an encoded task configuration.
pub fn task_id(task_configuration: &[u8]) -> TaskId {
    let digest = Sha256::new()
        .chain_update(Sha256::digest(b"dap-taskprov task id"))
        .chain_update(task_configuration)
        .finalize();
    TaskId::new(digest.into())
}

/// The verification key of a task from the secret that leader and helper share (taskprov).
pub fn verify_key(verify_key_init: &[u8; 32], task_id: &TaskId) -> [u8; 32] {
    derive(&Sha256::digest(b"dap-taskprov"), verify_key_init, task_id)
}

/// The verification key of a task from a secret seed (DAP "VDAF Verification Key").
pub fn dap_verify_key(seed: &[u8; 32], task_id: &TaskId) -> [u8; 32] {
    derive(b"verify_key", seed, task_id)
}

/// The header's value for an encoded task configuration: an RFC 9651 byte sequence.
pub fn header_value(task_configuration: &[u8]) -> String {
    format!(":{}:", STANDARD.encode(task_configuration))
}

/// The encoded task configuration in a header's value.
///
/// An RFC 9651 item; parameters are skipped. As that RFC asks, missing padding and stray bits in the last
/// character are forgiven: the task id is made of the decoded bytes.
pub fn parse_header(value: &str) -> Result<Vec<u8>, HeaderError> {
    const FORGIVING: GeneralPurpose = GeneralPurpose::new(
        &ALPHABET,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true),
    );
    if value.len() > MAX_TASKPROV_HEADER_LEN {
        return Err(HeaderError);
    }
    let item = value.trim_matches(' ').strip_prefix(':').ok_or(HeaderError)?;
    let (encoded, parameters) = item.split_once(':').ok_or(HeaderError)?;
    skip_parameters(parameters).ok_or(HeaderError)?;
    FORGIVING.decode(encoded).map_err(|_| HeaderError)
}

fn derive(salt: &[u8], secret: &[u8; 32], task_id: &TaskId) -> [u8; 32] {
    let mut key = [0; 32];
    #[allow(clippy::expect_used)] // HKDF-SHA256 refuses only outputs above 255 * 32 bytes.
    Hkdf::<Sha256>::new(Some(salt), secret)
        .expand(task_id.as_bytes(), &mut key)
        .expect("32 bytes are within what HKDF-SHA256 can output");
    key
}

/// Accepts `*( ";" *SP key [ "=" bare-item ] )`. Bare items are told apart only as far as needed to find
/// their end; a comma outside a string would make the value a list.
fn skip_parameters(text: &str) -> Option<()> {
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b';' {
            return None;
        }
        while bytes.next_if_eq(&b' ').is_some() {}
        bytes.next_if(|&byte| byte.is_ascii_lowercase() || byte == b'*')?;
        while bytes.next_if(|&byte| is_key_byte(byte)).is_some() {}
        if bytes.next_if_eq(&b'=').is_none() {
            continue;
        }
        if bytes.next_if_eq(&b'"').is_some() {
            loop {
                match bytes.next()? {
                    b'"' => break,
                    b'\\' => drop(bytes.next_if(|byte| b"\"\\".contains(byte))?),
                    b' '..=b'~' => {}
                    _ => return None,
                }
            }
        } else {
            bytes.next_if(|&byte| is_bare_byte(byte))?;
            while bytes.next_if(|&byte| is_bare_byte(byte)).is_some() {}
        }
    }
    Some(())
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
}

fn is_bare_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\",;".contains(&byte)
}
