//! Origins: the token keys that an issuer signs with.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use sotto_crypto::Secret;
use sotto_crypto::blind_rsa::{BlindRsaError, IssuerKey, TokenKey};
use sotto_crypto::key_blinding::PublicKey;
use sotto_crypto::rate_limited::{ISSUER_CONTEXT, participation_secret};

use super::IssuerRefusal;
use crate::Moment;

/// A token key, and the secret from which the index keys of its origins are made: of one origin, or
/// in a series of one for each participation.
pub struct Origin {
    key: IssuerKey,
    secret: Secret<[u8; 32]>,
    expires: Moment,
    participations: Option<u32>,
}

impl Origin {
    /// The origin of this key. `secret` is the Issuer Origin Secret: 32 random bytes that must not
    /// change while the key lives, or the attester would count one device twice.
    pub fn new(key: IssuerKey, secret: Secret<[u8; 32]>, expires: Moment) -> Self {
        Self { key, secret, expires, participations: None }
    }

    /// The same key, for a series with as many participations.
    #[must_use]
    pub fn with_participations(self, participations: Option<u32>) -> Self {
        Self { participations, ..self }
    }

    /// The names that devices seal to the issuer, each a hash of the key, with their participations
    /// in a series.
    pub fn names(&self) -> impl Iterator<Item = (String, Option<u32>)> {
        let key = self.token_key();
        (0..self.participations.unwrap_or(1)).map(move |number| match self.participations {
            None => (key.origin_name(), None),
            Some(_) => (key.participation_name(number), Some(number)),
        })
    }

    /// The public key.
    pub fn token_key(&self) -> &TokenKey {
        self.key.token_key()
    }

    /// The private key, to be stored.
    pub fn key(&self) -> &IssuerKey {
        &self.key
    }

    /// The Issuer Origin Secret; in a series, that from which those of its participations follow.
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

    /// The key of this device for an origin, blinded as the request key is.
    pub(super) fn index_key(
        &self,
        request_key: &PublicKey,
        participation: Option<u32>,
    ) -> PublicKey {
        let derived = participation.map(|number| participation_secret(&self.secret, number));
        request_key.blind(derived.as_ref().unwrap_or(&self.secret).expose(), ISSUER_CONTEXT)
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

/// The origins that an issuer has keys for, by name, each with its participation in a series.
#[derive(Clone, Default)]
pub struct Origins(HashMap<String, (Arc<Origin>, Option<u32>)>);

impl Origins {
    /// The origin with this name, and the participation that the name is for.
    pub fn origin(&self, name: &str) -> Option<(&Origin, Option<u32>)> {
        self.0.get(name).map(|(origin, participation)| (origin.as_ref(), *participation))
    }

    /// Adds a key under all its names.
    pub fn insert(&mut self, origin: &Arc<Origin>) {
        let named = |(name, participation)| (name, (Arc::clone(origin), participation));
        self.0.extend(origin.names().map(named));
    }

    /// Forgets a key under all its names.
    pub fn remove(&mut self, origin: &Origin) {
        origin.names().for_each(|(name, _)| drop(self.0.remove(&name)));
    }
}

impl FromIterator<Origin> for Origins {
    fn from_iter<I: IntoIterator<Item = Origin>>(origins: I) -> Self {
        let mut all = Self::default();
        origins.into_iter().for_each(|origin| all.insert(&Arc::new(origin)));
        all
    }
}

impl fmt::Debug for Origins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origins").field("len", &self.0.len()).finish()
    }
}
