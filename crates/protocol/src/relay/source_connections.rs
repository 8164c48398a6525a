//! How many connections one source may have open.

use std::fmt;
use std::net::IpAddr;

use rand_core::CryptoRng;

use super::source_limit::{SourceTag, source_bytes};
use crate::keyed_hash::{HashKey, HashedMap, keyed_hash};

/// Counts the open connections of each source, as [`super::SourceLimit`] defines sources.
///
/// The table holds only sources with an open connection, as hashes under a key of the process. The
/// host's limit on connections bounds its size, and it holds nobody who has left.
pub struct SourceConnections {
    max: u32,
    key: HashKey,
    open: HashedMap<u32>,
}

impl SourceConnections {
    /// At most `max` connections of one source at once.
    pub fn new(max: u32, rng: &mut dyn CryptoRng) -> Self {
        let mut key = HashKey::default();
        rng.fill_bytes(key.as_mut_slice());
        Self { max, key, open: HashedMap::default() }
    }

    /// Counts one more connection of `source`, if allowed. Pass the result to [`Self::close`].
    pub fn open(&mut self, source: IpAddr) -> Option<SourceTag> {
        let hash = keyed_hash(&self.key, &source_bytes(source));
        let count = self.open.get(&hash).copied().unwrap_or(0);
        if count >= self.max {
            return None;
        }
        self.open.insert(hash, count + 1);
        Some(SourceTag(hash))
    }

    /// Counts one connection less. With its last connection, a source is forgotten.
    pub fn close(&mut self, SourceTag(source): SourceTag) {
        if let Some(count) = self.open.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&source);
            }
        }
    }

    /// How many sources have an open connection.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether no source has an open connection.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

/// Shows neither the key nor a hash.
impl fmt::Debug for SourceConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceConnections")
            .field("max", &self.max)
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
    fn a_source_has_its_connections_and_is_forgotten_with_the_last() {
        let mut table = SourceConnections::new(2, &mut ChaCha20Rng::seed_from_u64(1));
        let one: IpAddr = "2001:db8:1:2::1".parse().unwrap();
        let neighbour: IpAddr = "2001:db8:1:2::9".parse().unwrap();
        let other: IpAddr = "192.0.2.1".parse().unwrap();
        let first = table.open(one).unwrap();
        let second = table.open(neighbour).unwrap();
        assert_eq!(first, second);
        assert_eq!((table.open(one), table.open(neighbour)), (None, None));
        let elsewhere = table.open(other).unwrap();
        assert_eq!(table.len(), 2);
        table.close(first);
        assert_eq!(table.open(neighbour), Some(first));
        assert_eq!(table.open(one), None);
        for hash in [first, first, elsewhere] {
            assert!(!table.is_empty());
            table.close(hash);
        }
        assert!(table.is_empty());
        // A source that is not in the table cannot be closed.
        table.close(first);
        assert!(table.is_empty());
    }

    #[test]
    fn the_hashes_are_those_of_one_process() {
        let source = IpAddr::from([192, 0, 2, 1]);
        let hash = |seed| {
            SourceConnections::new(1, &mut ChaCha20Rng::seed_from_u64(seed)).open(source).unwrap()
        };
        assert_eq!(hash(1), hash(1));
        assert_ne!(hash(1), hash(2));
    }
}
