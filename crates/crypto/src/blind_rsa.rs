//! Blind RSA signatures: RSABSSA-SHA384-PSS-Deterministic (RFC 9474) with 2048-bit keys, as in the
//! publicly verifiable tokens of RFC 9578 §6.
//!
//! A device calls [`blind`], sends the blinded message, keeps the [`Unblinder`], and turns the
//! response into the token's authenticator with [`Unblinder::finalize`], which also verifies it.
//! With the feature `server`, `IssuerKey` signs and `TokenVerifier` checks authenticators, both in
//! AWS-LC.
//!
//! The device's half uses constant-time integers of a fixed size. The blinding factor stays secret
//! permanently: whoever learns it, even years later, can link the issuance to the token.
//!
//! `sotto-wire` defines what is signed (the token input), and `sotto-protocol` the exchange.

mod key;
mod pss;
#[cfg(feature = "server")]
mod server;
#[cfg(test)]
mod tests;

use std::fmt;

use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{Odd, U2048};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::Secret;

pub use key::TokenKey;
#[cfg(feature = "server")]
pub use server::{IssuerKey, TokenVerifier};

/// The length in bytes of the modulus, a blinded message, a blind signature and an authenticator.
pub const MODULUS_LEN: usize = 256;

/// The length in bytes of the PSS salt.
pub const SALT_LEN: usize = 48;

/// Each draw of a blinding factor succeeds with a probability above one half.
const MAX_DRAWS: usize = 256;

/// Why a step of a blind signature failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlindRsaError {
    /// Not a token key in the only encoding that RFC 9578 allows, or not a usable private key.
    #[error("not a usable token key")]
    InvalidKey,
    /// A number is not below the modulus, or has no inverse.
    #[error("a number is out of range")]
    OutOfRange,
    /// The signature is not by this key over this input.
    #[error("the signature is not valid")]
    InvalidSignature,
    /// The given randomness is not random.
    #[error("no blinding factor could be drawn")]
    Randomness,
    /// The private operation gave a wrong result, or a key could not be generated.
    #[error("the private operation failed")]
    Fault,
}

/// `Blind` (RFC 9474 §4.2) with a salt and a blinding factor from `rng`. Returns the blinded
/// message to send, and what turns the response into a signature.
pub fn blind(
    key: &TokenKey,
    token_input: &[u8],
    rng: &mut dyn CryptoRng,
) -> Result<([u8; MODULUS_LEN], Unblinder), BlindRsaError> {
    let mut salt = Zeroizing::new([0; SALT_LEN]);
    rng.fill_bytes(salt.as_mut_slice());
    let mut r = Zeroizing::new([0; MODULUS_LEN]);
    for _ in 0..MAX_DRAWS {
        // Uniform below n by rejection. Rejected values reveal nothing about the accepted one.
        rng.fill_bytes(r.as_mut_slice());
        if below(&r, key.modulus()).is_some_and(|number| number != U2048::ZERO) {
            return blind_with(key, token_input, &salt, &r);
        }
    }
    Err(BlindRsaError::Randomness)
}

/// [`blind`] with a given salt and blinding factor `r`, for test vectors. Both must be random,
/// secret and never reused.
pub fn blind_with(
    key: &TokenKey,
    token_input: &[u8],
    salt: &[u8; SALT_LEN],
    r: &[u8; MODULUS_LEN],
) -> Result<([u8; MODULUS_LEN], Unblinder), BlindRsaError> {
    let params = params(key)?;
    let encoded = pss::encode(token_input, salt);
    let m = residue(&encoded, key, &params)?;
    let r = residue(r, key, &params)?;
    // One inversion for both checks: the product is invertible if and only if both factors are. A
    // message without an inverse would reveal a factor of n to the issuer, and a blinding factor
    // without one could not be undone.
    let product = Zeroizing::new(m.mul(&r));
    let inverse = Option::from(product.invert()).map(Zeroizing::new);
    let inverse: Zeroizing<FixedMontyForm<_>> = inverse.ok_or(BlindRsaError::OutOfRange)?;
    let unblinder = Zeroizing::new(inverse.mul(&m));
    let blinded = m.mul(&public_power(&r));
    Ok((to_bytes(&blinded), Unblinder(Secret::new(to_bytes(&unblinder)))))
}

/// The inverse of a blinding factor: turns the issuer's response into a signature. It is as secret
/// as the factor, and works for one response.
#[derive(PartialEq, Eq)]
pub struct Unblinder(Secret<[u8; MODULUS_LEN]>);

impl Unblinder {
    /// The bytes, for durable state.
    pub fn to_bytes(&self) -> Zeroizing<[u8; MODULUS_LEN]> {
        Zeroizing::new(*self.0.expose())
    }

    /// From the bytes of [`to_bytes`](Self::to_bytes). Any other bytes make
    /// [`finalize`](Self::finalize) fail.
    pub fn from_bytes(bytes: &[u8; MODULUS_LEN]) -> Self {
        Self(Secret::new(*bytes))
    }

    /// `Finalize` (RFC 9474 §4.4): the signature over `token_input`, verified.
    pub fn finalize(
        &self,
        key: &TokenKey,
        token_input: &[u8],
        blind_sig: &[u8; MODULUS_LEN],
    ) -> Result<[u8; MODULUS_LEN], BlindRsaError> {
        let params = params(key)?;
        let inverse = residue(self.0.expose(), key, &params)?;
        let blind_sig = residue(blind_sig, key, &params)?;
        let signature = Zeroizing::new(blind_sig.mul(&inverse));
        let encoded = Zeroizing::new(to_bytes(&public_power(&signature)));
        if !pss::verify(token_input, &encoded) {
            return Err(BlindRsaError::InvalidSignature);
        }
        Ok(to_bytes(&signature))
    }
}

impl fmt::Debug for Unblinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unblinder([redacted])")
    }
}

const LIMBS: usize = U2048::LIMBS;

/// The Montgomery parameters of the modulus, which is public.
fn params(key: &TokenKey) -> Result<FixedMontyParams<LIMBS>, BlindRsaError> {
    let modulus = Option::from(Odd::new(U2048::from_be_slice(key.modulus())));
    Ok(FixedMontyParams::new_vartime(modulus.ok_or(BlindRsaError::InvalidKey)?))
}

/// `bytes` as a number, if it is below `bound`. Both are big-endian. The comparison takes constant
/// time; its outcome is not secret.
fn below(bytes: &[u8; MODULUS_LEN], bound: &[u8; MODULUS_LEN]) -> Option<U2048> {
    let number = U2048::from_be_slice(bytes);
    (number < U2048::from_be_slice(bound)).then_some(number)
}

/// `bytes` modulo n. Rejected if it is not reduced.
fn residue(
    bytes: &[u8; MODULUS_LEN],
    key: &TokenKey,
    params: &FixedMontyParams<LIMBS>,
) -> Result<Zeroizing<FixedMontyForm<LIMBS>>, BlindRsaError> {
    let number = below(bytes, key.modulus()).map(Zeroizing::new);
    let number = number.ok_or(BlindRsaError::OutOfRange)?;
    Ok(Zeroizing::new(FixedMontyForm::new(&number, params)))
}

/// `base^65537`.
fn public_power(base: &FixedMontyForm<LIMBS>) -> FixedMontyForm<LIMBS> {
    // The time depends only on the number of squarings.
    base.square_repeat_vartime(16).mul(base)
}

fn to_bytes(number: &FixedMontyForm<LIMBS>) -> [u8; MODULUS_LEN] {
    let mut bytes = [0; MODULUS_LEN];
    bytes.copy_from_slice(number.retrieve().to_be_bytes().as_ref());
    bytes
}
