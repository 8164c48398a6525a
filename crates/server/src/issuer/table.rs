//! The keys of an issuer in memory: by origin for requests, by request for authors.

use std::collections::HashMap;
use std::sync::Arc;

use sotto_protocol::Moment;
use sotto_protocol::issuer::Origins;
use sotto_protocol::issuer::author::RecipeKey;
use sotto_wire::recipe::TokenKeyRequest;
use sotto_wire::{EntryId, PublicKey};

/// All stored keys, between two changes.
#[derive(Clone, Default)]
pub(super) struct Keys {
    origins: Origins,
    by_request: HashMap<EntryId, Arc<RecipeKey>>,
}

impl Keys {
    pub(super) fn new(stored: Vec<RecipeKey>) -> Self {
        let mut keys = Self::default();
        stored.into_iter().for_each(|key| keys.insert(key));
        keys
    }

    pub(super) fn origins(&self) -> &Origins {
        &self.origins
    }

    /// The key that was made for a request.
    pub(super) fn of_request(&self, id: &EntryId) -> Option<&RecipeKey> {
        self.by_request.get(id).map(Arc::as_ref)
    }

    /// What the keys were made for.
    pub(super) fn requests(&self) -> impl Iterator<Item = &TokenKeyRequest> {
        self.by_request.values().map(|key| &key.request)
    }

    /// How many keys there are. A series has one, whatever the number of its origins.
    pub(super) fn len(&self) -> usize {
        self.by_request.len()
    }

    /// How many keys of this author have not expired.
    pub(super) fn live_keys(&self, author: &PublicKey, now: Moment) -> usize {
        let live = |key: &&Arc<RecipeKey>| {
            key.request.author.key == *author && key.request.expires > now.0
        };
        self.by_request.values().filter(live).count()
    }

    /// The requests whose key expired before this time.
    pub(super) fn expired_before(&self, moment: Moment) -> Vec<EntryId> {
        let expired = |key: &&Arc<RecipeKey>| key.request.expires <= moment.0;
        self.by_request.values().filter(expired).map(|key| key.id()).collect()
    }

    pub(super) fn insert(&mut self, key: RecipeKey) {
        self.origins.insert(&key.origin);
        self.by_request.insert(key.id(), Arc::new(key));
    }

    /// Removes the key of a request. It is wiped when the last token request that uses it is
    /// answered.
    pub(super) fn remove(&mut self, id: &EntryId) {
        let Some(key) = self.by_request.remove(id) else { return };
        self.origins.remove(&key.origin);
    }
}
