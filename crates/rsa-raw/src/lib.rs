//! RSA's private operation in AWS-LC, for blind signatures.
//!
//! A blind signature (RFC 9474) is RSA without padding on a number that must mean nothing to the
//! signer. `aws-lc-rs` offers no such operation, so this crate calls AWS-LC's `RSA_sign_raw`
//! directly. Its code is unsafe, and it does nothing else: formats, encodings and the protocol's keys
//! belong to `sotto-crypto`.
//!
//! AWS-LC blinds the base and works in constant time. Each result is checked with the public
//! operation before it is returned: an error in one half of the CRT computation would reveal the
//! factors of the modulus.

mod ffi;

use std::fmt;

use zeroize::Zeroizing;

/// The length in bytes of the modulus, and of every number modulo it.
pub const MODULUS_LEN: usize = 256;

/// The only accepted public exponent.
const PUBLIC_EXPONENT: u64 = 65537;

/// Why a key was rejected or an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RsaError {
    /// Not a 2048-bit RSA private key with exponent 65537 in PKCS#8, or its parts are not
    /// consistent.
    #[error("not a usable RSA private key")]
    InvalidKey,
    /// The number is not below the modulus, or is one of the fixed points of RSA.
    #[error("the number is out of range")]
    OutOfRange,
    /// The result does not invert: a fault in software or hardware. No part of it was returned.
    #[error("the result of the private operation is wrong")]
    Fault,
}

/// An RSA private key of 2048 bits, parsed once and shared by all threads.
pub struct PrivateKey {
    key: ffi::Rsa,
    modulus: [u8; MODULUS_LEN],
}

impl PrivateKey {
    /// Parses a PKCS#8 key (rsaEncryption), and checks that its parts are consistent.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, RsaError> {
        let key = ffi::Rsa::from_pkcs8(der).ok_or(RsaError::InvalidKey)?;
        if key.public_exponent() != Some(PUBLIC_EXPONENT) {
            return Err(RsaError::InvalidKey);
        }
        let modulus = key.modulus().ok_or(RsaError::InvalidKey)?;
        // A 2041-bit modulus would also fill 256 bytes.
        if modulus[0] & 0x80 == 0 {
            return Err(RsaError::InvalidKey);
        }
        Ok(Self { key, modulus })
    }

    /// The modulus, big-endian.
    pub fn modulus(&self) -> &[u8; MODULUS_LEN] {
        &self.modulus
    }

    /// `input^d mod n`, big-endian. The input must be below the modulus. 0, 1 and n-1 are rejected,
    /// because they are their own signatures and no honest client sends them.
    pub fn private_operation(
        &self,
        input: &[u8; MODULUS_LEN],
    ) -> Result<[u8; MODULUS_LEN], RsaError> {
        // Both are big-endian and of equal length, so their bytes compare as the numbers do.
        if input >= &self.modulus {
            return Err(RsaError::OutOfRange);
        }
        self.checked(input, |key, output| key.sign_raw(input, output))
    }

    /// `input^e mod n`, big-endian. The input must be below the modulus.
    pub fn public_operation(
        &self,
        input: &[u8; MODULUS_LEN],
    ) -> Result<[u8; MODULUS_LEN], RsaError> {
        let mut output = [0; MODULUS_LEN];
        if self.key.verify_raw(input, &mut output) { Ok(output) } else { Err(RsaError::OutOfRange) }
    }

    /// Runs `operation`, and returns its result only if the public operation turns it back into
    /// `input`. A faulty result must not leave this function: its difference from the right one
    /// shares a factor with n.
    fn checked(
        &self,
        input: &[u8; MODULUS_LEN],
        operation: impl FnOnce(&ffi::Rsa, &mut [u8; MODULUS_LEN]) -> bool,
    ) -> Result<[u8; MODULUS_LEN], RsaError> {
        let mut output = Zeroizing::new([0; MODULUS_LEN]);
        if !operation(&self.key, &mut output) {
            return Err(if self.is_fixed_point(input) {
                RsaError::OutOfRange
            } else {
                RsaError::Fault
            });
        }
        match self.public_operation(&output) {
            Ok(back) if &back == input => Ok(*output),
            _ => Err(RsaError::Fault),
        }
    }

    /// Whether `input` is 0, 1 or n-1, the numbers that AWS-LC does not sign.
    fn is_fixed_point(&self, input: &[u8; MODULUS_LEN]) -> bool {
        // The modulus is odd, so n-1 differs from it only in the last bit.
        let mut minus_one = self.modulus;
        minus_one[MODULUS_LEN - 1] ^= 1;
        let small = input[..MODULUS_LEN - 1].iter().all(|byte| *byte == 0);
        (small && input[MODULUS_LEN - 1] <= 1) || input == &minus_one
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey([redacted])")
    }
}

#[cfg(test)]
mod tests;
