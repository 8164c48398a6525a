//! Keys that sign notes and cosign checkpoints.

use std::fmt;

use ed25519_dalek::{Signer, SigningKey};
use rand_core::CryptoRng;
use sotto_wire::{KeyName, KeyType, NoteSignature, VerifierKey};

use crate::Secret;
use crate::note::{MAX_TIME, cosigned_message};

/// An Ed25519 signing key with its name.
///
/// A key should either sign notes or cosign checkpoints. If it does both, whoever chooses the texts
/// it signs must not let one start with the line `cosignature/v1`: that signature would be a
/// cosignature.
pub struct NoteKey {
    seed: Secret<[u8; 32]>,
    /// Also wiped on drop.
    signing_key: SigningKey,
    verifier: VerifierKey,
    cosigner: VerifierKey,
}

impl NoteKey {
    /// A new key.
    pub fn generate(name: KeyName, rng: &mut dyn CryptoRng) -> Self {
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        Self::from_seed(name, Secret::new(seed))
    }

    /// The key with this seed: the private key of RFC 8032.
    pub fn from_seed(name: KeyName, seed: Secret<[u8; 32]>) -> Self {
        let signing_key = SigningKey::from_bytes(seed.expose());
        let public_key = signing_key.verifying_key().to_bytes();
        let verifier = VerifierKey::new(name.clone(), KeyType::Ed25519, public_key);
        let cosigner = VerifierKey::new(name, KeyType::CosignatureV1, public_key);
        Self { seed, signing_key, verifier, cosigner }
    }

    /// The seed, for storage.
    pub fn seed(&self) -> &Secret<[u8; 32]> {
        &self.seed
    }

    /// The name.
    pub fn name(&self) -> &KeyName {
        self.verifier.name()
    }

    /// The public key that verifies notes.
    pub fn verifier(&self) -> VerifierKey {
        self.verifier.clone()
    }

    /// The public key that verifies cosignatures.
    pub fn cosigner(&self) -> VerifierKey {
        self.cosigner.clone()
    }

    /// Signs the text of a note.
    pub fn sign(&self, text: &str) -> NoteSignature {
        Self::signature(&self.verifier, self.sign_bytes(text).to_vec())
    }

    pub(super) fn sign_bytes(&self, text: &str) -> [u8; 64] {
        self.signing_key.sign(text.as_bytes()).to_bytes()
    }

    /// Cosigns the text of a checkpoint at this time, in POSIX seconds. A time beyond the format's
    /// limit is replaced by that limit.
    pub fn cosign(&self, checkpoint_text: &str, time: u64) -> NoteSignature {
        let time = time.min(MAX_TIME);
        let message = cosigned_message(checkpoint_text, time);
        let signature = self.signing_key.sign(message.as_bytes()).to_bytes();
        Self::signature(&self.cosigner, [&time.to_be_bytes()[..], &signature].concat())
    }

    fn signature(key: &VerifierKey, signature: Vec<u8>) -> NoteSignature {
        NoteSignature { name: key.name().clone(), key_id: key.key_id(), signature }
    }
}

impl fmt::Debug for NoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoteKey").field("name", self.name()).finish_non_exhaustive()
    }
}
