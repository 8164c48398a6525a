//! In-band task provisioning: the header, the task id and the verification key (taskprov; DAP "VDAF
//! Verification Key").
//!
//! The protocol decides whether to take part in a task.

use hkdf::Hkdf;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::byte_sequence;
use crate::ids::TaskId;
use crate::limits::MAX_TASKPROV_HEADER_LEN;

/// The name of the header, in lower case as HTTP/2 requires.
pub const HEADER: &str = "dap-taskprov";

/// The header's value is not a byte sequence. Such a header must be ignored.
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

/// The verification key of a task, from the secret that leader and helper share (taskprov).
pub fn verify_key(verify_key_init: &[u8; 32], task_id: &TaskId) -> [u8; 32] {
    derive(&Sha256::digest(b"dap-taskprov"), verify_key_init, task_id)
}

/// The verification key of a task, from a secret seed (DAP "VDAF Verification Key").
pub fn dap_verify_key(seed: &[u8; 32], task_id: &TaskId) -> [u8; 32] {
    derive(b"verify_key", seed, task_id)
}

/// The header's value for an encoded task configuration: an RFC 9651 byte sequence.
pub fn header_value(task_configuration: &[u8]) -> String {
    byte_sequence::encode(task_configuration)
}

/// The encoded task configuration in a header's value.
///
/// The value is an RFC 9651 item; its parameters are skipped. As that RFC asks, missing padding and
/// stray bits in the last character are tolerated: the task id is computed from the decoded bytes.
pub fn parse_header(value: &str) -> Result<Vec<u8>, HeaderError> {
    if value.len() > MAX_TASKPROV_HEADER_LEN {
        return Err(HeaderError);
    }
    byte_sequence::parse(value).ok_or(HeaderError)
}

fn derive(salt: &[u8], secret: &[u8; 32], task_id: &TaskId) -> [u8; 32] {
    let mut key = [0; 32];
    #[allow(clippy::expect_used)] // HKDF-SHA256 refuses only outputs above 255 * 32 bytes.
    Hkdf::<Sha256>::new(Some(salt), secret)
        .expand(task_id.as_bytes(), &mut key)
        .expect("32 bytes are within what HKDF-SHA256 can output");
    key
}
