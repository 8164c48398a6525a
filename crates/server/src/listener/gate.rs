//! Which connections are accepted: `sotto_protocol::sources` decides.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::Counter;
use rand_chacha::ChaCha20Rng;
use sotto_protocol::sources::{ConnectionRule, Place, SourceConnections};

use super::PeerIp;

/// Counts the open connections of each source.
pub(crate) struct SourceGate {
    connections: Mutex<SourceConnections>,
    refused: Counter,
}

impl SourceGate {
    /// Connections that are closed at once are counted in `refused`.
    pub(crate) fn new(rule: ConnectionRule, rng: &mut ChaCha20Rng, refused: Counter) -> Self {
        Self { connections: Mutex::new(SourceConnections::new(rule, rng)), refused }
    }

    /// Whether some places are kept for peers.
    pub(super) fn has_peers(&self) -> bool {
        self.lock().has_peers()
    }

    /// Lets one source have all connections, apart from those kept for peers.
    pub(super) fn limit_no_source(&self) {
        self.lock().limit_no_source();
    }

    /// A connection was closed at once.
    pub(super) fn refuse(&self) {
        self.refused.increment(1);
    }

    /// Admits one more connection of this source, if it may have one.
    pub(super) fn enter(self: &Arc<Self>, PeerIp(source): PeerIp) -> Option<Entry> {
        let entered = self.lock().open(source);
        if entered.is_none() {
            self.refuse();
        }
        Some(Entry { gate: Arc::clone(self), place: entered? })
    }

    fn lock(&self) -> MutexGuard<'_, SourceConnections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that counts until this is dropped.
pub(super) struct Entry {
    gate: Arc<SourceGate>,
    place: Place,
}

impl Entry {
    /// Whether it has a place among those for peers.
    pub(super) fn is_peer(&self) -> bool {
        matches!(self.place, Place::Peer(_))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.gate.lock().close(self.place);
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn entries_are_given_back_however_they_end() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let rule = ConnectionRule { max_per_source: 2, ..ConnectionRule::default() };
        let gate = Arc::new(SourceGate::new(rule, &mut rng, Counter::noop()));
        let (one, other) = (PeerIp([192, 0, 2, 1].into()), PeerIp([192, 0, 2, 2].into()));
        let entries = [gate.enter(one).unwrap(), gate.enter(one).unwrap()];
        assert!(gate.enter(one).is_none());
        let elsewhere = gate.enter(other).unwrap();
        let ended = std::thread::spawn(move || {
            let _entries = entries;
            panic!("a connection's task ends like this");
        });
        assert!(ended.join().is_err());
        assert_eq!(gate.lock().len(), 1);
        assert!(gate.enter(one).is_some());
        drop(elsewhere);
        assert!(gate.lock().is_empty());
    }
}
