//! EMSA-PSS (RFC 8017 §9.1) with SHA-384, MGF1 with SHA-384 and a salt of 48 bytes, for a modulus
//! of 2048 bits.

use sha2::{Digest, Sha384};
use zeroize::Zeroizing;

use super::{MODULUS_LEN, SALT_LEN};

const HASH_LEN: usize = 48;

/// The masked block: padding, a one bit, the salt. The hash and the trailer follow.
const BLOCK_LEN: usize = MODULUS_LEN - HASH_LEN - 1;
const SALT_AT: usize = BLOCK_LEN - SALT_LEN;
const TRAILER: u8 = 0xbc;

/// The encoding has one bit fewer than the modulus, so its top bit is zero.
const TOP_MASK: u8 = 0x7f;

/// `EMSA-PSS-ENCODE`. The result is secret: whoever sees it at issuance can recognize the token.
pub(super) fn encode(message: &[u8], salt: &[u8; SALT_LEN]) -> Zeroizing<[u8; MODULUS_LEN]> {
    let mut encoded = Zeroizing::new([0; MODULUS_LEN]);
    let hash = salted_hash(message, salt);
    let (block, rest) = encoded.split_at_mut(BLOCK_LEN);
    block[SALT_AT - 1] = 1;
    block[SALT_AT..].copy_from_slice(salt);
    xor_mask(block, &hash);
    block[0] &= TOP_MASK;
    rest[..HASH_LEN].copy_from_slice(&hash);
    rest[HASH_LEN] = TRAILER;
    encoded
}

/// `EMSA-PSS-VERIFY`: whether `encoded` is an encoding of `message`, with any salt of the right
/// length.
pub(super) fn verify(message: &[u8], encoded: &[u8; MODULUS_LEN]) -> bool {
    let (masked, rest) = encoded.split_at(BLOCK_LEN);
    let (hash, trailer) = rest.split_at(HASH_LEN);
    if trailer != [TRAILER] || masked[0] & !TOP_MASK != 0 {
        return false;
    }
    let mut block = Zeroizing::new([0; BLOCK_LEN]);
    block.copy_from_slice(masked);
    xor_mask(block.as_mut_slice(), hash);
    block[0] &= TOP_MASK;
    let (padding, salt) = block.split_at(SALT_AT);
    let (zeros, one) = padding.split_at(SALT_AT - 1);
    zeros.iter().all(|byte| *byte == 0) && one == [1] && salted_hash(message, salt) == hash
}

fn salted_hash(message: &[u8], salt: &[u8]) -> [u8; HASH_LEN] {
    let mut hash = Sha384::new();
    hash.update([0; 8]);
    hash.update(Sha384::digest(message));
    hash.update(salt);
    hash.finalize().into()
}

/// XORs MGF1 (RFC 8017 appendix B.2.1) of `seed` into `block`.
fn xor_mask(block: &mut [u8], seed: &[u8]) {
    for (counter, chunk) in (0u32..).zip(block.chunks_mut(HASH_LEN)) {
        let mut hash = Sha384::new();
        hash.update(seed);
        hash.update(counter.to_be_bytes());
        for (byte, mask) in chunk.iter_mut().zip(hash.finalize()) {
            *byte ^= mask;
        }
    }
}
