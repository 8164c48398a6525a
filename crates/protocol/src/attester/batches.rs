//! Batches of requests to one issuer.
//!
//! While batches are in flight the next one fills, so no request is delayed to make a batch larger.
//! The order inside a batch is random: the issuer does not learn in which order requests arrived.

use rand_core::CryptoRng;

use crate::shuffle;

/// Requests on their way to one issuer.
#[derive(Debug)]
pub struct Batches<T> {
    max_batch: usize,
    max_away: usize,
    waiting: Vec<T>,
    away: usize,
}

impl<T> Batches<T> {
    /// Batches of at most `max_batch` requests, with at most `max_away` batches in flight.
    pub fn new(max_batch: usize, max_away: usize) -> Self {
        Self { max_batch, max_away, waiting: Vec::new(), away: 0 }
    }

    /// Adds requests that arrived.
    pub fn add(&mut self, requests: impl IntoIterator<Item = T>) {
        self.waiting.extend(requests);
    }

    /// The next batch, if one may be sent now. The oldest requests go first.
    pub fn next(&mut self, rng: &mut dyn CryptoRng) -> Option<Vec<T>> {
        let count = self.waiting.len().min(self.max_batch);
        if count == 0 || self.away >= self.max_away {
            return None;
        }
        let rest = self.waiting.split_off(count);
        let mut batch = std::mem::replace(&mut self.waiting, rest);
        shuffle(&mut batch, rng);
        self.away += 1;
        Some(batch)
    }

    /// A batch was answered or failed.
    pub fn returned(&mut self) {
        self.away = self.away.saturating_sub(1);
    }

    /// Whether no requests are waiting.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn the_next_batch_gathers_while_others_are_away() {
        let rng = &mut ChaCha20Rng::seed_from_u64(1);
        let mut batches = Batches::new(3, 2);
        assert_eq!(batches.next(rng), None);
        batches.add([1]);
        assert_eq!(batches.next(rng), Some(vec![1]), "none waits for company");
        batches.add([2, 3]);
        assert_eq!(batches.next(rng).map(sorted), Some(vec![2, 3]));
        batches.add([4, 5, 6, 7]);
        assert_eq!(batches.next(rng), None, "two are away");
        batches.returned();
        assert_eq!(batches.next(rng).map(sorted), Some(vec![4, 5, 6]), "no more than three");
        assert!(!batches.is_empty());
        batches.returned();
        assert_eq!(batches.next(rng), Some(vec![7]));
        assert!(batches.is_empty());
    }

    #[test]
    fn every_order_comes_up() {
        let rng = &mut ChaCha20Rng::seed_from_u64(2);
        let mut batches = Batches::new(3, 1);
        let mut orders = HashSet::new();
        for _ in 0..200 {
            batches.add([1, 2, 3]);
            orders.insert(batches.next(rng).unwrap());
            batches.returned();
        }
        assert_eq!(orders.len(), 6);
    }

    fn sorted(mut batch: Vec<u8>) -> Vec<u8> {
        batch.sort_unstable();
        batch
    }
}
