//! Which connections a server accepts: so many of one source, and some that are kept for peers.
//!
//! Anybody may connect to a public listener. Without a limit one address could use up all
//! connections, and however many addresses connect, the peers of a server must find a place.

use std::fmt;
use std::net::IpAddr;

use rand_core::CryptoRng;

use crate::keyed_hash::{HashKey, HashedMap, keyed_hash};

/// Tells one source from another within one table, while the table lasts, and nothing more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SourceTag(pub(crate) u64);

/// Shows nothing.
impl fmt::Debug for SourceTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SourceTag")
    }
}

/// How many connections may be open.
#[derive(Clone, Debug, Default)]
pub struct ConnectionRule {
    /// Of one source: an IPv4 address, or the first 64 bits of an IPv6 address. 0 is no limit.
    pub max_per_source: usize,
    /// Addresses whose connections have places of their own.
    pub peers: Vec<IpAddr>,
    /// Places for all peers together. Each has an equal share, so that no peer can shut out another.
    pub max_peer_connections: usize,
}

/// The place of an open connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Among those for everybody.
    Shared(SourceTag),
    /// Among those of the peer with this index in [`ConnectionRule::peers`].
    Peer(usize),
}

/// Counts the open connections of each source.
///
/// The table holds only sources with an open connection, as hashes under a key of the process. The
/// host's limit on connections bounds its size, and it holds nobody who has left.
pub struct SourceConnections {
    rule: ConnectionRule,
    key: HashKey,
    open: HashedMap<usize>,
    /// The places that each peer has taken.
    peers: Vec<usize>,
}

impl SourceConnections {
    /// Nobody is connected.
    pub fn new(rule: ConnectionRule, rng: &mut dyn CryptoRng) -> Self {
        let mut key = HashKey::default();
        rng.fill_bytes(key.as_mut_slice());
        let peers = vec![0; rule.peers.len()];
        Self { rule, key, open: HashedMap::default(), peers }
    }

    /// Whether some places are kept for peers.
    pub fn has_peers(&self) -> bool {
        !self.rule.peers.is_empty()
    }

    /// Lets one source have all the shared places.
    pub fn limit_no_source(&mut self) {
        self.rule.max_per_source = 0;
    }

    /// Counts one more connection of `source`, if allowed. Pass the result to [`Self::close`].
    ///
    /// A peer whose own places are taken gets a shared one, like any other source.
    pub fn open(&mut self, source: IpAddr) -> Option<Place> {
        let source = source_bytes(source);
        if let Some(peer) = self.rule.peers.iter().position(|peer| source_bytes(*peer) == source)
            && self.peers[peer] < self.rule.max_peer_connections.div_ceil(self.peers.len())
        {
            self.peers[peer] += 1;
            return Some(Place::Peer(peer));
        }
        let hash = keyed_hash(&self.key, &source);
        let count = self.open.get(&hash).copied().unwrap_or(0);
        if self.rule.max_per_source > 0 && count >= self.rule.max_per_source {
            return None;
        }
        self.open.insert(hash, count + 1);
        Some(Place::Shared(SourceTag(hash)))
    }

    /// Counts one connection less. With its last connection, a source is forgotten.
    pub fn close(&mut self, place: Place) {
        match place {
            Place::Peer(peer) => self.peers[peer] -= 1,
            Place::Shared(SourceTag(source)) => {
                if let Some(count) = self.open.get_mut(&source) {
                    *count -= 1;
                    if *count == 0 {
                        self.open.remove(&source);
                    }
                }
            }
        }
    }

    /// How many sources have a shared place.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether nobody has a shared place.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

/// Shows neither the key nor a hash.
impl fmt::Debug for SourceConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceConnections")
            .field("max_per_source", &self.rule.max_per_source)
            .field("sources", &self.len())
            .finish_non_exhaustive()
    }
}

/// The bytes that identify a source: one for the family, then the address or its prefix.
pub(crate) fn source_bytes(source: IpAddr) -> [u8; 9] {
    let mut bytes = [0; 9];
    // A dual-stack socket shows IPv4 peers as mapped IPv6 addresses, all in the same /64.
    let prefix: &[u8] = match source.to_canonical() {
        IpAddr::V4(address) => {
            bytes[0] = 4;
            &address.octets()
        }
        IpAddr::V6(address) => {
            bytes[0] = 6;
            &address.octets()
        }
    };
    for (byte, octet) in bytes[1..].iter_mut().zip(prefix) {
        *byte = *octet;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    fn table(
        max_per_source: usize,
        peers: &[&str],
        max_peer_connections: usize,
    ) -> SourceConnections {
        let peers = peers.iter().map(|peer| peer.parse().unwrap()).collect();
        let rule = ConnectionRule { max_per_source, peers, max_peer_connections };
        SourceConnections::new(rule, &mut ChaCha20Rng::seed_from_u64(1))
    }

    #[test]
    fn a_source_has_its_connections_and_is_forgotten_with_the_last() {
        let mut table = table(2, &[], 0);
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
    fn each_peer_has_places_of_its_own_and_then_shared_ones() {
        let mut table = table(1, &["192.0.2.7", "2001:db8:1:2::7"], 3);
        let [first, second, other]: [IpAddr; 3] =
            ["192.0.2.7", "2001:db8:1:2::9", "192.0.2.1"].map(|text| text.parse().unwrap());
        assert!(table.has_peers());
        assert!(matches!(table.open(other), Some(Place::Shared(_))));
        assert_eq!(table.open(other), None);
        let shared = [(); 3].map(|()| table.open(first).unwrap())[2];
        assert!(matches!(shared, Place::Shared(_)), "half of three, rounded up, is two");
        assert_eq!(table.open(first), None, "now it has what any source may have");
        assert_eq!(table.open(second), Some(Place::Peer(1)), "the other peer has its own");
        assert_eq!(table.len(), 2, "in the table are only sources with a shared place");
        table.close(Place::Peer(0));
        assert_eq!(table.open(first), Some(Place::Peer(0)));
        table.close(shared);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn peers_keep_their_places_where_no_source_is_limited() {
        let mut table = table(1, &["192.0.2.7"], 1);
        table.limit_no_source();
        let [peer, other] = [7, 1].map(|last| IpAddr::from([192, 0, 2, last]));
        assert!((0..100).all(|_| matches!(table.open(other), Some(Place::Shared(_)))));
        assert_eq!(table.open(peer), Some(Place::Peer(0)));
    }

    #[test]
    fn zero_is_no_limit() {
        let mut table = table(0, &[], 0);
        let source = IpAddr::from([192, 0, 2, 1]);
        assert!((0..10_000).all(|_| table.open(source).is_some()));
    }

    #[test]
    fn the_hashes_are_those_of_one_process() {
        let source = IpAddr::from([192, 0, 2, 1]);
        let hash = |seed| {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            SourceConnections::new(ConnectionRule::default(), &mut rng).open(source).unwrap()
        };
        assert_eq!(hash(1), hash(1));
        assert_ne!(hash(1), hash(2));
    }

    #[test]
    fn a_source_is_an_ipv4_address_or_half_an_ipv6_one() {
        let bytes = |text: &str| source_bytes(text.parse().unwrap());
        assert_eq!(bytes("192.0.2.1"), [4, 192, 0, 2, 1, 0, 0, 0, 0]);
        assert_eq!(bytes("::ffff:192.0.2.1"), bytes("192.0.2.1"));
        assert_eq!(bytes("2001:db8:1:2:3:4:5:6"), [6, 0x20, 1, 0x0d, 0xb8, 0, 1, 0, 2]);
        // The same bits in the other family are another source.
        assert_ne!(bytes("c000:201::"), bytes("192.0.2.1"));
    }
}
