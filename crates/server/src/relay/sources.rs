//! How many requests each source may send, and which of them come from one source. Apart from the
//! listener's gate, no other part of the relay looks at an address.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use sotto_protocol::relay::SourceLimit;
use sotto_protocol::sources::SourceTag;

use super::clock::Clock;
use super::config::SourceRule;
use crate::environment::{instant, sleep_until};
use crate::listener::PeerIp;
use crate::shutdown::Shutdown;

/// Sources that are counted at once. Each takes about 16 bytes.
const MAX_SOURCES: usize = 1_000_000;

/// Counts requests per source within a window.
pub(super) struct Sources {
    state: Mutex<State>,
    window: Duration,
    clock: Clock,
}

struct State {
    limit: SourceLimit,
    rng: ChaCha20Rng,
}

impl Sources {
    pub(super) fn new(rule: SourceRule, clock: Clock, rng: ChaCha20Rng) -> Self {
        let window_ms = rule.window.as_millis().try_into().unwrap_or(u64::MAX);
        let limit = SourceLimit::new(rule.max, window_ms, MAX_SOURCES);
        let state = Mutex::new(State { limit, rng });
        Self { state, window: rule.window, clock }
    }

    /// The tag of the source in this window, if it may send one more request.
    pub(super) fn admit(&self, PeerIp(source): PeerIp) -> Option<SourceTag> {
        let mut state = self.lock();
        let State { limit, rng } = &mut *state;
        limit.admit(source, self.clock.now_ms(), rng)
    }

    /// How long it takes at most until a rejected source may send requests again.
    pub(super) fn window(&self) -> Duration {
        self.window
    }

    /// Forgets the sources at the end of each window, even if no request follows.
    pub(super) async fn forget(self: Arc<Self>, mut shutdown: Shutdown) {
        loop {
            // A window that begins during this sleep does not end before it wakes up.
            let due = self.lock().limit.due_at().map(|due_ms| self.clock.at(due_ms));
            let due = due.unwrap_or_else(|| instant() + self.window);
            let Some(()) = shutdown.or(sleep_until(due)).await else { return };
            self.lock().limit.forget(self.clock.now_ms());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
