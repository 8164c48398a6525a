//! The hash of a leaf, a node or a whole tree.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::format::FormatError;

/// A hash in a Merkle tree: of a leaf, of a node or of the root. In text: padded base64.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeHash(pub [u8; 32]);

impl TreeHash {
    /// The length in bytes.
    pub const LEN: usize = 32;

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for TreeHash {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl AsRef<[u8]> for TreeHash {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for TreeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl FromStr for TreeHash {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let error = || FormatError::new("not the base64 form of a hash of 32 bytes");
        let mut bytes = [0; 33];
        match STANDARD.decode_slice(text, &mut bytes) {
            Ok(32) => bytes.first_chunk().copied().map(Self).ok_or_else(error),
            _ => Err(error()),
        }
    }
}

impl fmt::Debug for TreeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TreeHash(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}
