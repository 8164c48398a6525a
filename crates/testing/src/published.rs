//! Files of test vectors.

// Tests fail by panicking, and so do their helpers.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A file or folder of other people's vectors, which are not part of this repository:
/// `SOTTO_VECTORS` names their folder, relative to the workspace.
pub fn path(name: &str) -> Option<PathBuf> {
    let named = std::env::var_os("SOTTO_VECTORS").unwrap_or_else(|| "../shared/vectors".into());
    let path = workspace().join(named).join(name);
    if path.exists() {
        return Some(path);
    }
    let shown = path.display();
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{shown} is missing: set SOTTO_VECTORS");
    println!("skipped: {shown} is missing, set SOTTO_VECTORS");
    None
}

/// A file of such vectors.
pub fn vectors(name: &str) -> Option<Value> {
    path(name).map(|path| json(&path))
}

/// The transcripts of rate-limited tokens, which are part of this repository.
pub fn rate_limited() -> Value {
    json(&workspace().join("vectors/tokens_0004/tokens_0004.json"))
}

/// The bytes in a field.
pub fn bytes(object: &Value, field: &str) -> Vec<u8> {
    hex::decode(object[field].as_str().unwrap()).unwrap()
}

/// The same, of a known length.
pub fn array<const N: usize>(object: &Value, field: &str) -> [u8; N] {
    bytes(object, field).try_into().unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
