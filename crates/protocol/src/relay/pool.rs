//! Requests that wait for each other.

use rand_core::CryptoRng;

use crate::keyed_hash::HashedSet;
use crate::shuffle;
use crate::sources::SourceTag;

/// When a pool is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolRule {
    /// As soon as it holds requests from this many sources. 0 is the same as 1: no request waits.
    pub min: usize,
    /// Or once its first request has waited this long, at most [`Self::MAX_WAIT_MS`].
    pub wait_ms: u64,
}

impl PoolRule {
    /// The longest time that a request is ever held. Gateways remember requests for much longer
    /// than this, so no request expires in a pool.
    pub const MAX_WAIT_MS: u64 = 60_000;
}

impl Default for PoolRule {
    fn default() -> Self {
        Self { min: 16, wait_ms: 10_000 }
    }
}

/// Requests for one gateway, of one size class.
///
/// Both sides of the relay can tell requests of different classes or gateways apart anyway. With
/// separate pools, requests of one kind do not count as cover for another.
#[derive(Debug)]
pub struct Pool<T> {
    rule: PoolRule,
    items: Vec<T>,
    /// When the first of `items` arrived.
    first_ms: u64,
    /// The sources of `items` that are known.
    sources: HashedSet,
    /// How many of `items` have no known source.
    unknown: usize,
}

impl<T> Pool<T> {
    /// An empty pool.
    pub fn new(rule: PoolRule) -> Self {
        Self { rule, items: Vec::new(), first_ms: 0, sources: HashedSet::default(), unknown: 0 }
    }

    /// Adds a request. [`Self::due_at`] says whether the pool is due now.
    ///
    /// Requests of one source count once: otherwise anyone who wants a request to be forwarded
    /// alone would only have to send a few themselves. A request without a source (behind a proxy
    /// all have the same) counts for itself.
    pub fn push(&mut self, item: T, source: Option<SourceTag>, now_ms: u64) {
        if self.items.is_empty() {
            self.first_ms = now_ms;
        }
        match source {
            Some(SourceTag(source)) => drop(self.sources.insert(source)),
            None => self.unknown += 1,
        }
        self.items.push(item);
    }

    /// From when [`Self::take`] returns requests: in the past if there are enough sources, `None`
    /// if the pool is empty.
    pub fn due_at(&self) -> Option<u64> {
        if self.items.is_empty() {
            return None;
        }
        if self.sources.len() + self.unknown >= self.rule.min {
            return Some(self.first_ms);
        }
        Some(self.first_ms.saturating_add(self.rule.wait_ms.min(PoolRule::MAX_WAIT_MS)))
    }

    /// All requests, every order equally likely, if the pool is due; otherwise none.
    pub fn take(&mut self, now_ms: u64, rng: &mut dyn CryptoRng) -> Vec<T> {
        match self.due_at() {
            Some(due_ms) if due_ms <= now_ms => self.take_all(rng),
            _ => Vec::new(),
        }
    }

    /// All requests, every order equally likely, due or not. For a host that is shutting down.
    pub fn take_all(&mut self, rng: &mut dyn CryptoRng) -> Vec<T> {
        self.sources.clear();
        self.unknown = 0;
        let mut items = std::mem::take(&mut self.items);
        shuffle(&mut items, rng);
        items
    }

    /// How many requests are waiting.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether no requests are waiting.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}
