//! Ed25519 with blinded keys (signature key blinding, "Ed25519ph, Ed25519ctx, and Ed25519").
//!
//! A client signs with its own key multiplied by a blind. Whoever knows the blind can compute
//! either public key from the other; to anyone else they look unrelated. Blinds are seeds: a hash
//! turns them into scalars, under a context that separates the uses of one seed.
//!
//! A [`PublicKey`] is in the subgroup of prime order. Unblinding inverts only modulo that order, so
//! a key with a component of small order would yield one of eight keys, and a limit per key would
//! be eight times as high.

#[cfg(test)]
mod tests;

use std::fmt;

use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::{Scalar, clamp_integer};
use ed25519_dalek::{Signature, Verifier, VerifyingKey};
use rand_core::CryptoRng;
use sha2::{Digest, Sha512, Sha512_256};
use zeroize::{Zeroize, Zeroizing};

use crate::Secret;

/// The bytes are not a key: not the canonical encoding of a point, or the identity, or a point
/// outside the prime-order subgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid public key")]
pub struct InvalidKey;

/// A signature does not verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not verify")]
pub struct InvalidSignature;

/// A point of prime order, blinded or not. It may identify a client: `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey {
    point: EdwardsPoint,
    bytes: [u8; 32],
}

impl PublicKey {
    /// Accepts the canonical encoding of a point of prime order, and nothing else.
    pub fn parse(bytes: &[u8; 32]) -> Result<Self, InvalidKey> {
        let point = CompressedEdwardsY(*bytes).decompress().ok_or(InvalidKey)?;
        let canonical = point.compress().to_bytes() == *bytes;
        if !canonical || point.is_small_order() || !point.is_torsion_free() {
            return Err(InvalidKey);
        }
        Ok(Self { point, bytes: *bytes })
    }

    /// The encoding.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// `BlindPublicKey`.
    #[must_use]
    pub fn blind(&self, blind: &[u8; 32], ctx: &[u8]) -> Self {
        Self::from_point(self.point * Blind::new(blind, ctx).scalar)
    }

    /// `UnblindPublicKey`: recovers the key that [`blind`](Self::blind) was called on.
    #[must_use]
    pub fn unblind(&self, blind: &[u8; 32], ctx: &[u8]) -> Self {
        let inverse = Zeroizing::new(Blind::new(blind, ctx).scalar.invert());
        Self::from_point(self.point * *inverse)
    }

    /// Verifies a signature: RFC 8032 without the cofactor, with canonical `R` and `S`.
    pub fn verify(&self, message: &[u8], signature: &[u8; 64]) -> Result<(), InvalidSignature> {
        VerifyingKey::from(self.point)
            .verify(message, &Signature::from_bytes(signature))
            .map_err(|_| InvalidSignature)
    }

    /// `point` must be of prime order: a multiple of such a point, by a scalar that is not zero for
    /// any known blind.
    fn from_point(point: EdwardsPoint) -> Self {
        Self { point, bytes: point.compress().to_bytes() }
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PublicKey([redacted])")
    }
}

/// A client's private key: the seed of RFC 8032.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientSecret(Secret<[u8; 32]>);

impl ClientSecret {
    /// Takes ownership of a seed.
    pub fn new(seed: [u8; 32]) -> Self {
        Self(Secret::new(seed))
    }

    /// The key that a device shows to this attester, from the device's one seed: two attesters get
    /// unrelated keys.
    pub fn for_attester(seed: &[u8; 32], attester: &str) -> Self {
        // SHA-512/256 cannot be extended, so one attester's key says nothing about another's.
        let hash = Sha512_256::new_with_prefix(b"sotto client key v1\0");
        Self::new(hash.chain_update(seed).chain_update(attester).finalize().into())
    }

    /// A new key.
    pub fn generate(rng: &mut dyn CryptoRng) -> Self {
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill_bytes(seed.as_mut_slice());
        Self::new(*seed)
    }

    /// The seed, for storage.
    pub fn expose(&self) -> &[u8; 32] {
        self.0.expose()
    }

    /// The public half.
    pub fn public_key(&self) -> PublicKey {
        PublicKey::from_point(EdwardsPoint::mul_base(&self.expand().scalar))
    }

    /// `BlindKeySign`: a signature that verifies with the public key blinded with `blind` and
    /// `ctx`.
    pub fn sign_blinded(&self, blind: &[u8; 32], ctx: &[u8], message: &[u8]) -> [u8; 64] {
        let (own, blind) = (self.expand(), Blind::new(blind, ctx));
        let scalar = Zeroizing::new(own.scalar * blind.scalar);
        let public_key = EdwardsPoint::mul_base(&scalar).compress();
        // The nonce depends on both prefixes, so that one message under two blinds never has the
        // same nonce.
        let nonce = Zeroizing::new(hash_to_scalar(&[&own.prefix, &blind.prefix, message]));
        let commitment = EdwardsPoint::mul_base(&nonce).compress();
        let challenge = hash_to_scalar(&[commitment.as_bytes(), public_key.as_bytes(), message]);
        let response = *nonce + challenge * *scalar;
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(commitment.as_bytes());
        signature[32..].copy_from_slice(response.as_bytes());
        signature
    }

    fn expand(&self) -> Blind {
        let hash = Zeroizing::new(<[u8; 64]>::from(Sha512::digest(self.expose())));
        Blind::from_hash(&hash, clamp_integer)
    }
}

/// A scalar, and the prefix that makes nonces unpredictable: one half of a hash each.
struct Blind {
    scalar: Scalar,
    prefix: [u8; 32],
}

impl Blind {
    /// The scalar of a blind is not clamped: in a subgroup of prime order all residues are
    /// equivalent.
    fn new(blind: &[u8; 32], ctx: &[u8]) -> Self {
        let hash = Sha512::new().chain_update(blind).chain_update([0]).chain_update(ctx);
        let hash = Zeroizing::new(<[u8; 64]>::from(hash.finalize()));
        Self::from_hash(&hash, |bytes| bytes)
    }

    fn from_hash(hash: &[u8; 64], adapt: fn([u8; 32]) -> [u8; 32]) -> Self {
        let (mut low, mut prefix) = ([0; 32], [0; 32]);
        low.copy_from_slice(&hash[..32]);
        prefix.copy_from_slice(&hash[32..]);
        let scalar = Scalar::from_bytes_mod_order(adapt(low));
        low.zeroize();
        Self { scalar, prefix }
    }
}

impl Drop for Blind {
    fn drop(&mut self) {
        self.scalar.zeroize();
        self.prefix.zeroize();
    }
}

fn hash_to_scalar(parts: &[&[u8]]) -> Scalar {
    let mut hash = Sha512::new();
    parts.iter().for_each(|part| hash.update(part));
    let hash = Zeroizing::new(<[u8; 64]>::from(hash.finalize()));
    Scalar::from_bytes_mod_order_wide(&hash)
}
