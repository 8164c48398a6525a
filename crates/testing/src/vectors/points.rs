//! Scalars and points of Ed25519 key blinding, computed from the specification; and the effect of a
//! key that nobody checked.

use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::{Scalar, clamp_integer};
use curve25519_dalek::traits::IsIdentity;
use ed25519_dalek::{Signature, Verifier, VerifyingKey};
use hkdf::Hkdf;
use sha2::{Digest, Sha512};
use sotto_crypto::key_blinding::{ClientSecret, PublicKey};
use sotto_crypto::rate_limited::{ALIAS_INFO, CLIENT_CONTEXT, ISSUER_CONTEXT};

use super::place::Place;
use super::world::World;
use super::{Difference, Tally};

/// A blind or a private key as its hash.
pub(super) struct Halves {
    /// The first half, before it is reduced.
    pub(super) raw: [u8; 32],
    /// The second half.
    pub(super) prefix: [u8; 32],
}

impl Halves {
    /// Of a blind with its context.
    pub(super) fn of_blind(blind: &[u8; 32], ctx: &[u8]) -> Self {
        Self::split(&[&blind[..], &[0], ctx].concat())
    }

    /// Of a private key, whose first half is clamped.
    pub(super) fn of_secret(secret: &[u8; 32]) -> Self {
        let halves = Self::split(secret);
        Self { raw: clamp_integer(halves.raw), ..halves }
    }

    pub(super) fn scalar(&self) -> Scalar {
        Scalar::from_bytes_mod_order(self.raw)
    }

    fn split(preimage: &[u8]) -> Self {
        let hash: [u8; 64] = Sha512::digest(preimage).into();
        let (mut raw, mut prefix) = ([0; 32], [0; 32]);
        raw.copy_from_slice(&hash[..32]);
        prefix.copy_from_slice(&hash[32..]);
        Self { raw, prefix }
    }
}

/// Encodings, and whether each is a key.
pub(super) fn key_checks(list: &Place<'_>, tally: &mut Tally) -> Result<(), Difference> {
    for check in list.list()? {
        check.only(&["key", "valid"])?;
        let valid = is_key(&check.at("key")?.bytes()?);
        check.at("valid")?.expect(valid, tally)?;
        tally.verdict(valid);
    }
    Ok(())
}

/// Whether a party accepts these bytes as a key.
pub(super) fn is_key(bytes: &[u8]) -> bool {
    bytes.try_into().is_ok_and(|bytes| PublicKey::parse(bytes).is_ok())
}

/// A key with a component of small order: each line passes the comparison of the blind and the
/// verification of a signature, and gives a different alias.
pub(super) fn mixed_order(
    demo: &Place<'_>,
    world: &World,
    tally: &mut Tally,
) -> Result<(), Difference> {
    demo.only(&["client_secret", "client_key", "origin", "expected", "lines"])?;
    let key_place = demo.at("client_key")?;
    let bytes = key_place.array()?;
    let secret = ClientSecret::new(demo.at("client_secret")?.array()?);
    let client_key = Mixed::parse(&bytes, &secret).ok_or_else(|| {
        key_place.difference("is not the client's key plus a point of small order")
    })?;
    let valid = is_key(&bytes);
    demo.at("expected")?.expect_fields(vec![("client_key_valid", valid.into())], tally)?;
    tally.verdict(valid);
    let origin = world.origin(&demo.at("origin")?)?;
    let issuer = Halves::of_blind(origin.origin.secret().expose(), ISSUER_CONTEXT);
    for line in demo.at("lines")?.list()? {
        line.only(&[
            "request_blind",
            "request_key",
            "message",
            "signature",
            "index_key",
            "issuer_origin_alias_if_unchecked",
        ])?;
        let blind = Halves::of_blind(&line.at("request_blind")?.array()?, CLIENT_CONTEXT);
        let request_key = client_key.times(&blind.raw);
        line.at("request_key")?.expect_bytes(request_key.bytes(), tally)?;
        let signature = line.at("signature")?;
        VerifyingKey::from(request_key.prime + request_key.torsion)
            .verify(&line.at("message")?.bytes()?, &Signature::from_bytes(&signature.array()?))
            .map_err(|_| signature.difference("does not verify"))?;
        tally.values += 1;
        let index_key = request_key.times(&issuer.raw);
        line.at("index_key")?.expect_bytes(index_key.bytes(), tally)?;
        let index_result = index_key.times(&blind.scalar().invert().to_bytes());
        let alias = alias(&index_result.bytes(), &bytes);
        line.at("issuer_origin_alias_if_unchecked")?.expect_bytes(alias, tally)?;
    }
    Ok(())
}

/// The alias computed from bytes that need not be keys.
fn alias(index_result: &[u8; 32], client_key: &[u8; 32]) -> [u8; 64] {
    let mut alias = [0; 64];
    #[allow(clippy::expect_used)] // It refuses only outputs above 255 * 64 bytes.
    Hkdf::<Sha512>::new(Some(client_key), index_result)
        .expand(ALIAS_INFO, &mut alias)
        .expect("a short output");
    alias
}

/// A point as the sum of a point of prime order and one of small order. The small order divides 8,
/// so scalars must not be reduced modulo the prime order.
#[derive(Clone, Copy)]
struct Mixed {
    prime: EdwardsPoint,
    torsion: EdwardsPoint,
}

impl Mixed {
    /// The key of `secret` plus a point of small order.
    fn parse(bytes: &[u8; 32], secret: &ClientSecret) -> Option<Self> {
        let prime = decompress(secret.public_key().as_bytes())?;
        let torsion = decompress(bytes)? - prime;
        (torsion.is_small_order() && !torsion.is_identity()).then_some(Self { prime, torsion })
    }

    /// The multiple by a little-endian number of 256 bits.
    fn times(&self, number: &[u8; 32]) -> Self {
        Self {
            prime: self.prime * Scalar::from_bytes_mod_order(*number),
            torsion: self.torsion * Scalar::from(number[0] & 7),
        }
    }

    fn bytes(&self) -> [u8; 32] {
        (self.prime + self.torsion).compress().to_bytes()
    }
}

fn decompress(bytes: &[u8; 32]) -> Option<EdwardsPoint> {
    CompressedEdwardsY(*bytes).decompress()
}
