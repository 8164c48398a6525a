//! Origins: the token keys that an issuer signs with.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use sotto_crypto::Secret;
use sotto_crypto::blind_rsa::{BlindRsaError, IssuerKey, TokenKey};

use super::IssuerRefusal;
use crate::Moment;

/// An origin: a token key, and the secret from which its index keys are made.
pub struct Origin {
    name: String,
    key: IssuerKey,
    secret: Secret<[u8; 32]>,
    expires: Moment,
}

impl Origin {
    /// The origin of this key. `secret` is the Issuer Origin Secret: 32 random bytes that must not
    /// change while the key lives, or the attester would count one device twice.
    pub fn new(key: IssuerKey, secret: Secret<[u8; 32]>, expires: Moment) -> Self {
        Self { name: key.token_key().origin_name(), key, secret, expires }
    }

    /// The name that devices seal to the issuer: the hash of the key.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The public key.
    pub fn token_key(&self) -> &TokenKey {
        self.key.token_key()
    }

    /// The private key, to be stored.
    pub fn key(&self) -> &IssuerKey {
        &self.key
    }

    /// The Issuer Origin Secret.
    pub fn secret(&self) -> &Secret<[u8; 32]> {
        &self.secret
    }

    /// Nothing is issued from this moment on.
    pub fn expires(&self) -> Moment {
        self.expires
    }

    pub(super) fn is_expired(&self, now: Moment) -> bool {
        now >= self.expires
    }

    /// Whether it lives beyond a window that starts now.
    pub(super) fn outlives(&self, now: Moment, window_s: u64) -> bool {
        self.expires.0.saturating_sub(now.0) > window_s
    }

    pub(super) fn truncated_id(&self) -> u8 {
        self.token_key().truncated_id()
    }

    pub(super) fn blind_sign(&self, blinded_msg: &[u8; 256]) -> Result<[u8; 256], IssuerRefusal> {
        self.key.blind_sign(blinded_msg).map_err(|error| match error {
            BlindRsaError::OutOfRange => IssuerRefusal::BlindedMessage,
            _ => IssuerRefusal::Fault,
        })
    }
}

/// Shows neither the name, which attesters must not learn, nor a secret.
impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// The origins that an issuer has keys for, by name.
#[derive(Clone, Default)]
pub struct Origins(HashMap<String, Arc<Origin>>);

impl Origins {
    /// The origin with this name.
    pub fn origin(&self, name: &str) -> Option<&Origin> {
        self.0.get(name).map(Arc::as_ref)
    }

    /// Adds an origin.
    pub fn insert(&mut self, origin: Arc<Origin>) {
        self.0.insert(origin.name().to_owned(), origin);
    }

    /// Forgets an origin.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Origin> for Origins {
    fn from_iter<I: IntoIterator<Item = Origin>>(origins: I) -> Self {
        let mut all = Self::default();
        origins.into_iter().for_each(|origin| all.insert(Arc::new(origin)));
        all
    }
}

impl fmt::Debug for Origins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origins").field("len", &self.0.len()).finish()
    }
}
