//! How many requests one source may send.

use std::fmt;
use std::net::IpAddr;

use rand_core::CryptoRng;

use crate::keyed_hash::{HashKey, HashedMap, keyed_hash};
use crate::sources::{SourceTag, source_bytes};

/// Counts requests per source, for one window after another.
///
/// A source is an IPv4 address, or the first 64 bits of an IPv6 address, because one subscriber has
/// all addresses that share them. It is stored as a hash under a key of the window. At the end of
/// the window the key and the counts are dropped, and nothing links one window to the next.
pub struct SourceLimit {
    max: u32,
    window_ms: u64,
    max_sources: usize,
    window: Option<Window>,
}

struct Window {
    end_ms: u64,
    key: HashKey,
    counts: HashedMap<u32>,
}

impl SourceLimit {
    /// At most `max` requests of one source in `window_ms`, for up to `max_sources` sources.
    pub fn new(max: u32, window_ms: u64, max_sources: usize) -> Self {
        Self { max, window_ms, max_sources, window: None }
    }

    /// The tag of `source`, if one more request is within its limit. A window begins with its first
    /// request.
    ///
    /// Sources beyond the table's size are not limited. The table does not limit anyone who has
    /// that many addresses anyway, and rejecting newcomers would let them shut out everybody else.
    pub fn admit(
        &mut self,
        source: IpAddr,
        now_ms: u64,
        rng: &mut dyn CryptoRng,
    ) -> Option<SourceTag> {
        self.forget(now_ms);
        let window = self.window.get_or_insert_with(|| {
            let mut key = HashKey::default();
            rng.fill_bytes(key.as_mut_slice());
            let end_ms = now_ms.saturating_add(self.window_ms);
            Window { end_ms, key, counts: HashedMap::default() }
        });
        let hash = keyed_hash(&window.key, &source_bytes(source));
        if window.counts.len() >= self.max_sources && !window.counts.contains_key(&hash) {
            return (self.max > 0).then_some(SourceTag(hash));
        }
        let count = window.counts.entry(hash).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(SourceTag(hash))
    }

    /// Forgets all sources if the window has ended. [`Self::admit`] does this too; a host calls
    /// this at [`Self::due_at`], so that sources are forgotten even if no request follows.
    pub fn forget(&mut self, now_ms: u64) {
        self.window.take_if(|window| window.end_ms <= now_ms);
    }

    /// When the window ends, if there is one.
    pub fn due_at(&self) -> Option<u64> {
        self.window.as_ref().map(|window| window.end_ms)
    }

    /// How many sources are remembered.
    pub fn len(&self) -> usize {
        self.window.as_ref().map_or(0, |window| window.counts.len())
    }

    /// Whether no source is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Shows neither the key nor a hash.
impl fmt::Debug for SourceLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceLimit")
            .field("max", &self.max)
            .field("window_ms", &self.window_ms)
            .field("sources", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn one_source_is_another_hash_in_every_window() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut limit = SourceLimit::new(9, 1_000, 9);
        let mut seen = Vec::new();
        for now_ms in [0, 500, 1_000, 2_000] {
            assert!(limit.admit(IpAddr::from([192, 0, 2, 1]), now_ms, &mut rng).is_some());
            let window = limit.window.as_ref().unwrap();
            seen.extend(window.counts.iter().map(|(hash, count)| (*hash, *count)));
        }
        assert_eq!(seen[0].0, seen[1].0);
        assert_eq!(seen.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [1, 2, 1, 1]);
        assert!(seen[1].0 != seen[2].0 && seen[2].0 != seen[3].0 && seen[1].0 != seen[3].0);
    }
}
