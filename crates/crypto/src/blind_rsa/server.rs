//! The issuer's and the verifier's half of blind RSA, in AWS-LC.

use std::fmt;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{ParsedPublicKey, RSA_PSS_2048_8192_SHA384};
use sotto_rsa_raw::{PrivateKey, RsaError};
use zeroize::Zeroizing;

use super::{BlindRsaError, MODULUS_LEN, TokenKey};

/// Verifies authenticators under one token key, which is parsed once and shared by all threads.
#[derive(Debug)]
pub struct TokenVerifier {
    key: ParsedPublicKey,
}

impl TokenVerifier {
    /// Parses `key`.
    pub fn new(key: &TokenKey) -> Result<Self, BlindRsaError> {
        let key = ParsedPublicKey::new(&RSA_PSS_2048_8192_SHA384, key.pkcs1());
        Ok(Self { key: key.map_err(|_| BlindRsaError::InvalidKey)? })
    }

    /// Whether `authenticator` is a signature over `token_input` (RSASSA-PSS with SHA-384 and a
    /// salt of 48 bytes; RFC 9578 §6.4).
    pub fn verify(
        &self,
        token_input: &[u8],
        authenticator: &[u8; MODULUS_LEN],
    ) -> Result<(), BlindRsaError> {
        let verdict = self.key.verify_sig(token_input, authenticator);
        verdict.map_err(|_| BlindRsaError::InvalidSignature)
    }
}

/// The private key of an origin, parsed once and shared by all threads.
pub struct IssuerKey {
    private: PrivateKey,
    public: TokenKey,
    pkcs8: Zeroizing<Vec<u8>>,
}

impl IssuerKey {
    /// A new key, from AWS-LC's random generator. Takes a tenth of a second or more.
    pub fn generate() -> Result<Self, BlindRsaError> {
        let pair = KeyPair::generate(KeySize::Rsa2048).map_err(|_| BlindRsaError::Fault)?;
        let der = pair.as_der().map_err(|_| BlindRsaError::Fault)?;
        Self::from_pkcs8(der.as_ref())
    }

    /// Parses PKCS#8 (rsaEncryption; 2048 bits, exponent 65537), and checks that the key's parts
    /// are consistent.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, BlindRsaError> {
        let private = PrivateKey::from_pkcs8(der)?;
        let public = TokenKey::from_modulus(private.modulus())?;
        Ok(Self { private, public, pkcs8: Zeroizing::new(der.to_vec()) })
    }

    /// The private key in PKCS#8, for durable state.
    pub fn to_pkcs8(&self) -> Zeroizing<Vec<u8>> {
        self.pkcs8.clone()
    }

    /// The public half.
    pub fn token_key(&self) -> &TokenKey {
        &self.public
    }

    /// `BlindSign` (RFC 9474 §4.3). The result has been checked with the public operation.
    pub fn blind_sign(
        &self,
        blinded_msg: &[u8; MODULUS_LEN],
    ) -> Result<[u8; MODULUS_LEN], BlindRsaError> {
        Ok(self.private.private_operation(blinded_msg)?)
    }
}

impl fmt::Debug for IssuerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuerKey").field("public", &self.public).finish_non_exhaustive()
    }
}

impl From<RsaError> for BlindRsaError {
    fn from(error: RsaError) -> Self {
        match error {
            RsaError::InvalidKey => Self::InvalidKey,
            RsaError::OutOfRange => Self::OutOfRange,
            RsaError::Fault => Self::Fault,
        }
    }
}
