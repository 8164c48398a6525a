//! Short keyed hashes: a table of seen values need not hold the values themselves.
//!
//! 64 bits are enough to tell millions of values apart, and too few to invert. Without the key,
//! nobody can look up a value or craft two that collide.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// A key that is wiped when it is dropped.
pub(crate) type HashKey = Zeroizing<[u8; 16]>;

/// The first 64 bits of SHA-256 over key and message. The digest is truncated, so that nobody can
/// extend a message: prefixing the key is as good as HMAC, and takes one block of SHA-256 for up to
/// 39 bytes.
pub(crate) fn keyed_hash(key: &HashKey, message: &[u8]) -> u64 {
    let digest = Sha256::new().chain_update(key.as_slice()).chain_update(message).finalize();
    let (first, _) = digest.as_slice().split_first_chunk().unwrap_or((&[0; 8], &[]));
    u64::from_be_bytes(*first)
}

/// A set of keyed hashes.
pub(crate) type HashedSet = HashSet<u64, BuildHasherDefault<Prehashed>>;

/// A map from keyed hashes.
pub(crate) type HashedMap<V> = HashMap<u64, V, BuildHasherDefault<Prehashed>>;

/// Uses a keyed hash as its own hash: it is already uniform, and nobody without the key can
/// influence it.
#[derive(Default)]
pub(crate) struct Prehashed(u64);

impl Hasher for Prehashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_depends_on_key_and_message() {
        let key = |byte| HashKey::new([byte; 16]);
        let hash = keyed_hash(&key(1), &[7; 32]);
        assert_eq!(hash, 0x3bef_4274_a895_ae93);
        assert_ne!(hash, keyed_hash(&key(2), &[7; 32]));
        assert_ne!(hash, keyed_hash(&key(1), &[8; 32]));
    }

    #[test]
    fn a_table_uses_the_hash_itself() {
        let mut hasher = Prehashed::default();
        std::hash::Hash::hash(&0x0123_4567_89ab_cdef_u64, &mut hasher);
        assert_eq!(hasher.finish(), 0x0123_4567_89ab_cdef);
    }
}
