//! Test vectors of others, and our own beside the crates.

use std::path::PathBuf;

use serde_json::Value;

/// The vectors of others are not part of this repository: `SOTTO_VECTORS` names their folder, relative to the workspace.
pub(crate) fn vectors(name: &str) -> Option<Value> {
    let named = std::env::var_os("SOTTO_VECTORS").unwrap_or_else(|| "../shared/vectors".into());
    let file = workspace().join(named).join(name);
    if let Ok(text) = std::fs::read_to_string(&file) {
        return Some(serde_json::from_str(&text).unwrap());
    }
    let file = file.display();
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{file} is missing: set SOTTO_VECTORS");
    println!("skipped: {file} is missing, set SOTTO_VECTORS");
    None
}

/// The transcripts of rate-limited tokens, which are part of this repository.
pub(crate) fn rate_limited() -> Value {
    let file = workspace().join("vectors/tokens_0004/tokens_0004.json");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

pub(crate) fn bytes(object: &Value, field: &str) -> Vec<u8> {
    hex::decode(object[field].as_str().unwrap()).unwrap()
}

pub(crate) fn array<const N: usize>(object: &Value, field: &str) -> [u8; N] {
    bytes(object, field).try_into().unwrap()
}

fn workspace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}
