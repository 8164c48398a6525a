//! Requests that wait for each other.

use rand_core::CryptoRng;

use super::SourceTag;
use crate::keyed_hash::HashedSet;
use crate::shuffle;

/// When a pool is emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolRule {
    /// As soon as it holds requests of this many sources. 0 is as good as 1: no request waits.
    pub min: usize,
    /// Or once its first request has waited this long, at most [`Self::MAX_WAIT_MS`].
    pub wait_ms: u64,
}

impl PoolRule {
    /// The longest that a request is ever held. Gateways remember requests for much longer than this, so
    /// none expires in a pool.
    pub const MAX_WAIT_MS: u64 = 60_000;
}

impl Default for PoolRule {
    fn default() -> Self {
        Self { min: 16, wait_ms: 10_000 }
    }
}

/// Requests for one gateway, of one size class.
///
/// Requests of different classes or gateways are told apart on both sides of the relay anyway: in a pool of
/// their own, none of them passes for company of another.
#[derive(Debug)]
pub struct Pool<T> {
    rule: PoolRule,
    items: Vec<T>,
    /// When the first of `items` came.
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

    /// Adds a request. Whether the pool is due now is for [`Self::due_at`] to say.
    ///
    /// Requests of one source count once: else whoever wants a request to go on alone would only have to send
    /// some of his own. One without a source (behind a proxy all have the same) counts for itself.
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

    /// From when on [`Self::take`] gives something: in the past if enough sources are here, none if no request is.
    pub fn due_at(&self) -> Option<u64> {
        if self.items.is_empty() {
            return None;
        }
        if self.sources.len() + self.unknown >= self.rule.min {
            return Some(self.first_ms);
        }
        Some(self.first_ms.saturating_add(self.rule.wait_ms.min(PoolRule::MAX_WAIT_MS)))
    }

    /// All requests, every order equally likely, if the pool is due; else none.
    pub fn take(&mut self, now_ms: u64, rng: &mut dyn CryptoRng) -> Vec<T> {
        match self.due_at() {
            Some(due_ms) if due_ms <= now_ms => self.take_all(rng),
            _ => Vec::new(),
        }
    }

    /// All requests, every order equally likely, due or not: for a host that shuts down.
    pub fn take_all(&mut self, rng: &mut dyn CryptoRng) -> Vec<T> {
        self.sources.clear();
        self.unknown = 0;
        let mut items = std::mem::take(&mut self.items);
        shuffle(&mut items, rng);
        items
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}
