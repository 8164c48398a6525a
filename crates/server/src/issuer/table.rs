//! The keys of an issuer in memory: by origin for requests, by request for authors.

use std::collections::HashMap;
use std::sync::Arc;

use sotto_protocol::Moment;
use sotto_protocol::issuer::Origins;
use sotto_protocol::issuer::author::RecipeKeys;
use sotto_wire::{EntryId, PublicKey};

/// All stored keys, between two changes.
#[derive(Clone, Default)]
pub(super) struct Keys {
    origins: Origins,
    by_request: HashMap<EntryId, Arc<RecipeKeys>>,
}

impl Keys {
    pub(super) fn new(stored: Vec<RecipeKeys>) -> Self {
        let mut keys = Self::default();
        stored.into_iter().for_each(|recipe| keys.insert(recipe));
        keys
    }

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

    pub(super) fn insert(&mut self, recipe: RecipeKeys) {
        recipe.origins().for_each(|origin| self.origins.insert(Arc::clone(origin)));
        self.by_request.insert(recipe.id(), Arc::new(recipe));
    }

    /// Removes the keys of a request. They are wiped when the last token request that uses them is
    /// answered.
    pub(super) fn remove(&mut self, id: &EntryId) {
        let Some(recipe) = self.by_request.remove(id) else { return };
        recipe.origins().for_each(|origin| self.origins.remove(origin.name()));
    }
}
