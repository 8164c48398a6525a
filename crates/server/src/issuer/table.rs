//! The keys of an issuer in memory: by origin for requests, by request for authors.

use std::collections::HashMap;
use std::sync::Arc;

use sotto_protocol::Moment;
use sotto_protocol::issuer::Origins;
use sotto_protocol::issuer::author::RecipeKeys;
use sotto_wire::{EntryId, PublicKey};

use crate::rotating::Rotating;

/// All stored keys. Requests use a [`snapshot`](Self::snapshot), so that they never wait for a
/// change.
pub(super) struct KeyTable(Rotating<Keys>);

/// The keys between two changes.
#[derive(Clone, Default)]
pub(super) struct Keys {
    origins: Origins,
    by_request: HashMap<EntryId, Arc<RecipeKeys>>,
}

impl KeyTable {
    pub(super) fn new(stored: Vec<RecipeKeys>) -> Self {
        let mut keys = Keys::default();
        stored.into_iter().for_each(|recipe| keys.insert(recipe));
        Self(Rotating::holding(keys))
    }

    pub(super) fn snapshot(&self) -> Arc<Keys> {
        self.0.current()
    }

    pub(super) fn insert(&self, recipe: RecipeKeys) {
        self.0.change(|keys| keys.insert(recipe));
    }

    /// Removes the keys of a request. They are wiped when the last token request that uses them is
    /// answered.
    pub(super) fn remove(&self, id: &EntryId) {
        self.0.change(|keys| {
            let Some(recipe) = keys.by_request.remove(id) else { return };
            recipe.origins().for_each(|origin| keys.origins.remove(origin.name()));
        });
    }
}

impl Keys {
    pub(super) fn origins(&self) -> &Origins {
        &self.origins
    }

    /// The keys that were made for a request.
    pub(super) fn of_request(&self, id: &EntryId) -> Option<&RecipeKeys> {
        self.by_request.get(id).map(Arc::as_ref)
    }

    /// How many keys of this author have not expired.
    pub(super) fn live_keys(&self, author: &PublicKey, now: Moment) -> usize {
        let live = |recipe: &&Arc<RecipeKeys>| {
            recipe.request.author.key == *author && recipe.request.expires > now.0
        };
        self.by_request.values().filter(live).map(|recipe| recipe.origins().count()).sum()
    }

    /// The requests whose keys expired before this time.
    pub(super) fn expired_before(&self, moment: Moment) -> Vec<EntryId> {
        let expired = |recipe: &&Arc<RecipeKeys>| recipe.request.expires <= moment.0;
        self.by_request.values().filter(expired).map(|recipe| recipe.id()).collect()
    }

    fn insert(&mut self, recipe: RecipeKeys) {
        recipe.origins().for_each(|origin| self.origins.insert(Arc::clone(origin)));
        self.by_request.insert(recipe.id(), Arc::new(recipe));
    }
}
