//! How many connections one source may hold. Used by the relay: anybody may connect there, and
//! without this limit one address could use up all connections.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::Counter;
use rand_chacha::ChaCha20Rng;
use sotto_protocol::relay::{SourceConnections, SourceTag};

use super::PeerIp;

/// Counts the open connections of each source.
pub(crate) struct SourceGate {
    connections: Mutex<SourceConnections>,
    refused: Counter,
}

impl SourceGate {
    /// Lets a source have `max` connections at once. Those beyond the limit are counted in
    /// `refused`.
    pub(crate) fn new(max: u32, rng: &mut ChaCha20Rng, refused: Counter) -> Self {
        Self { connections: Mutex::new(SourceConnections::new(max, rng)), refused }
    }

    /// Admits one more connection of this source, if it may have one.
    pub(super) fn enter(self: &Arc<Self>, PeerIp(source): PeerIp) -> Option<Entry> {
        let entered = self.lock().open(source);
        if entered.is_none() {
            self.refused.increment(1);
        }
        Some(Entry { gate: Arc::clone(self), source: entered? })
    }

    fn lock(&self) -> MutexGuard<'_, SourceConnections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that counts until this is dropped.
pub(super) struct Entry {
    gate: Arc<SourceGate>,
    source: SourceTag,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.gate.lock().close(self.source);
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn entries_are_given_back_however_they_end() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let gate = Arc::new(SourceGate::new(2, &mut rng, Counter::noop()));
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
