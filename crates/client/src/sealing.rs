//! Seals what a device keeps on disk: its tokens, the key by which the attester knows it, and
//! answers not yet sent.
//!
//! AES-256-GCM under a key that the host provides: a phone takes it from its key store. Every write
//! uses a fresh random nonce; that is safe for up to 2^32 writes, far more than a device makes.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use rand_core::CryptoRng;
use sotto_crypto::Secret;
use sotto_protocol::device::StateError;
use zeroize::Zeroizing;

const NONCE_LEN: usize = 12;

/// The key that seals a device's state.
#[derive(Debug)]
pub struct SealingKey(Secret<[u8; 32]>);

impl SealingKey {
    /// A key from the host's key store.
    pub fn new(key: [u8; 32]) -> Self {
        Self(Secret::new(key))
    }

    /// A fresh key.
    pub fn generate(rng: &mut dyn CryptoRng) -> Self {
        let mut key = [0; 32];
        rng.fill_bytes(&mut key);
        Self::new(key)
    }

    /// The key, to be put into a key store. The caller must wipe any copies.
    pub fn expose(&self) -> &[u8; 32] {
        self.0.expose()
    }

    /// A copy, to be held while the state is open.
    pub(crate) fn duplicate(&self) -> Self {
        Self::new(*self.0.expose())
    }

    /// `header`, a nonce, and `content` sealed with the header as associated data.
    pub(crate) fn seal(&self, header: &[u8], content: &[u8]) -> Result<Vec<u8>, StateError> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(std::io::Error::other)?;
        let payload = Payload { msg: content, aad: header };
        let sealed = self
            .cipher()
            .encrypt(&Nonce::from(nonce), payload)
            .map_err(|_| StateError::Damaged("it is too long to be sealed".to_owned()))?;
        Ok([header, &nonce, &sealed].concat())
    }

    /// Opens what follows the header.
    pub(crate) fn open(
        &self,
        header: &[u8],
        rest: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, StateError> {
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>().ok_or(StateError::Sealed)?;
        let payload = Payload { msg: sealed, aad: header };
        let opened = self.cipher().decrypt(&Nonce::from(*nonce), payload);
        opened.map(Zeroizing::new).map_err(|_| StateError::Sealed)
    }

    fn cipher(&self) -> Aes256Gcm {
        Aes256Gcm::new(self.0.expose().into())
    }
}
