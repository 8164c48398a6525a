//! What the database holds sealed.
//!
//! A database keeps old bytes in its heap, its log and its backups. So bodies are sealed under keys
//! of their own, and these under a key that is not in the database. Deleting the row of a segment
//! destroys its key as far as the database can. Removing an old store key destroys everything that
//! was sealed under it, wherever it was copied.

use aes_gcm::aead::{Aead, AeadInOut, KeyInit, Payload};
use aes_gcm::{Aes128Gcm, Aes256Gcm, Nonce};
use sha2::{Digest, Sha256};
use sotto_crypto::Secret;
use zeroize::Zeroizing;

use super::Inner;
use super::connect::Failure;

const NONCE_LEN: usize = 12;
const TAG_LEN: usize = 16;
/// Says which of the store's keys sealed something.
const NAME_LEN: usize = 4;

/// A key of the store, kept outside the database.
#[derive(Debug)]
pub struct StoreKey {
    key: Secret<[u8; 32]>,
    name: [u8; NAME_LEN],
}

impl StoreKey {
    /// A key from a file.
    pub fn new(key: [u8; 32]) -> Self {
        let digest = Sha256::new().chain_update(b"sotto store key").chain_update(key).finalize();
        let mut name = [0; NAME_LEN];
        name.copy_from_slice(&digest[..NAME_LEN]);
        Self { key: Secret::new(key), name }
    }
}

/// The key that seals, and older ones that still open.
#[derive(Debug)]
pub struct StoreKeys {
    /// Seals and opens.
    pub current: StoreKey,
    /// Only opens, until everything that it sealed is gone.
    pub previous: Vec<StoreKey>,
}

/// The key of a body.
pub(super) type BodyKey = Zeroizing<[u8; 16]>;

impl Inner {
    pub(super) fn fresh_body_key(&self) -> BodyKey {
        let mut key = Zeroizing::new([0; 16]);
        self.fill(&mut *key);
        key
    }

    /// Seals a small secret for a place that `context` names.
    pub(super) fn seal(&self, context: &[u8], secret: &[u8]) -> Result<Vec<u8>, Failure> {
        let current = &self.keys.current;
        let mut nonce = [0; NONCE_LEN];
        self.fill(&mut nonce);
        let payload = Payload { msg: secret, aad: context };
        let sealed = Aes256Gcm::new(current.key.expose().into())
            .encrypt(&Nonce::from(nonce), payload)
            .map_err(|_| Failure::broken("a secret is too long to be sealed".into()))?;
        Ok([&current.name[..], &nonce, &sealed].concat())
    }

    pub(super) fn open(
        &self,
        context: &[u8],
        stored: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let unreadable = || {
            Failure::broken(
                "a sealed column cannot be opened: is a key of the store missing, or does the \
                 database belong to another store?"
                    .into(),
            )
        };
        let (name, rest) = stored.split_first_chunk::<NAME_LEN>().ok_or_else(unreadable)?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>().ok_or_else(unreadable)?;
        let mut keys = std::iter::once(&self.keys.current).chain(&self.keys.previous);
        let key = keys.find(|key| key.name == *name).ok_or_else(unreadable)?;
        let opened = Aes256Gcm::new(key.key.expose().into())
            .decrypt(&Nonce::from(*nonce), Payload { msg: sealed, aad: context });
        opened.map(Zeroizing::new).map_err(|_| unreadable())
    }
}

/// Seals a body in place, under a key that seals nothing else: so the nonce may be zero.
pub(super) fn seal_body(key: &BodyKey, segment: i64, body: &mut Vec<u8>) -> Result<(), Failure> {
    Aes128Gcm::new((&**key).into())
        .encrypt_in_place(&Nonce::from([0; NONCE_LEN]), &segment.to_be_bytes(), body)
        .map_err(|_| Failure::broken("a body is too long to be sealed".into()))
}

pub(super) fn open_body(key: &BodyKey, segment: i64, body: &mut Vec<u8>) -> Result<(), Failure> {
    Aes128Gcm::new((&**key).into())
        .decrypt_in_place(&Nonce::from([0; NONCE_LEN]), &segment.to_be_bytes(), body)
        .map_err(|_| Failure::broken(format!("the body of segment {segment} is damaged")))
}

/// How much longer a body becomes.
pub(super) const SEAL_LEN: usize = TAG_LEN;
