//! X-Wing decapsulation (draft-connolly-cfrg-xwing-kem §5) over ML-KEM-768, X25519 and SHA3-256 of
//! AWS-LC.
//!
//! The private key is a seed. It is expanded once, with the crates that devices use, because
//! `aws-lc-rs` makes no ML-KEM key from a seed.

use aws_lc_rs::{digest, kem};
use ml_kem::{FromSeed, KeyExport, MlKem768};
use shake::{ExtendableOutput, Shake256, Update, XofReader};
use zeroize::Zeroizing;

use super::key_schedule::HashSecret;
use super::{PUBLIC_KEY_LEN, X25519Key};
use crate::HpkeError;

/// The length of the encapsulated key: an ML-KEM ciphertext and an X25519 public key.
pub(super) const ENC_LEN: usize = 1088 + PUBLIC_KEY_LEN;

/// The end of what the two shared secrets are hashed with.
const LABEL: &[u8; 6] = br"\.//^\";

/// A private key, expanded.
#[derive(Debug)]
pub(super) struct DecapsulationKey {
    ml_kem: kem::DecapsulationKey,
    x25519: X25519Key,
}

impl DecapsulationKey {
    /// `expandDecapsulationKey`. Also returns the public key.
    pub(super) fn expand(seed: &[u8; 32]) -> Result<(Self, Vec<u8>), HpkeError> {
        let mut hash = Shake256::default();
        hash.update(seed);
        let mut output = hash.finalize_xof();
        let (mut ml_kem, mut x25519) = (Zeroizing::new([0; 64]), Zeroizing::new([0; 32]));
        output.read(ml_kem.as_mut_slice());
        output.read(x25519.as_mut_slice());

        let (ml_kem, encapsulation) = MlKem768::from_seed(&(*ml_kem).into());
        #[allow(deprecated)] // AWS-LC takes keys in this form alone.
        let expanded = Zeroizing::new(ml_kem::ExpandedKeyEncoding::to_expanded_bytes(&ml_kem));
        let ml_kem = kem::DecapsulationKey::new(&kem::ML_KEM_768, expanded.as_slice())
            .map_err(|_| HpkeError::InvalidKey)?;
        let x25519 = X25519Key::parse(&x25519)?;
        let public_key = [encapsulation.to_bytes().as_slice(), &x25519.public].concat();
        Ok((Self { ml_kem, x25519 }, public_key))
    }

    /// `Decapsulate`: the shared secret.
    ///
    /// An ML-KEM ciphertext that does not fit gives a random secret, as FIPS 203 requires; the
    /// message then does not open. A point of low order is refused, as in the other suite.
    pub(super) fn decapsulate(&self, enc: &[u8]) -> Result<HashSecret, HpkeError> {
        let (ciphertext, point) =
            enc.split_last_chunk::<PUBLIC_KEY_LEN>().ok_or(HpkeError::Decrypt)?;
        let ml_kem = self.ml_kem.decapsulate(ciphertext.into()).map_err(|_| HpkeError::Decrypt)?;
        self.x25519.agree(point, HpkeError::Decrypt, |x25519| {
            let mut hash = digest::Context::new(&digest::SHA3_256);
            for part in [ml_kem.as_ref(), x25519, point, &self.x25519.public, LABEL] {
                hash.update(part);
            }
            let mut secret = Zeroizing::new([0; 32]);
            secret.copy_from_slice(hash.finish().as_ref());
            Ok(secret)
        })
    }
}
