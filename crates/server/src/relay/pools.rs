//! The pools: requests wait in them for each other and are forwarded in a random order.
//!
//! One task owns them all, so there is no lock, and requests that leave together are sent in the
//! order that was drawn. `sotto_protocol::relay` decides when they leave and in which order.

use std::sync::Arc;

use axum::response::Response;
use rand_chacha::ChaCha20Rng;
use sotto_protocol::relay::{Pool, PoolRule};
use sotto_protocol::sources::SourceTag;
use sotto_wire::size_class::SizeClass;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::clock::Clock;
use super::forward::Forwarder;
use super::held::HeldBody;
use super::metrics::{Emission, RelayMetrics};
use crate::environment::sleep_until;
use crate::problem::Failure;
use crate::shutdown::Shutdown;

/// A waiting request. Only the way back tells where it comes from: tags change with every window.
pub(super) struct Waiting {
    /// The index of the gateway.
    pub(super) gateway: usize,
    /// The tag of its source, unless sources are not limited.
    pub(super) source: Option<SourceTag>,
    pub(super) body: HeldBody,
    pub(super) answer: oneshot::Sender<Result<Response, Failure>>,
}

/// All pools of a relay.
pub(super) struct Pools {
    /// By gateway, then by size.
    pools: Vec<Vec<Pool<Waiting>>>,
    inbox: mpsc::Receiver<Waiting>,
    forwarder: Arc<Forwarder>,
    forwards: JoinSet<()>,
    metrics: Arc<RelayMetrics>,
    clock: Clock,
    rng: ChaCha20Rng,
}

impl Pools {
    /// Pools for gateways with these rules.
    pub(super) fn new(
        rules: Vec<PoolRule>,
        inbox: mpsc::Receiver<Waiting>,
        forwarder: Arc<Forwarder>,
        metrics: Arc<RelayMetrics>,
        clock: Clock,
        rng: ChaCha20Rng,
    ) -> Self {
        let sizes = |rule| (0..=SizeClass::COUNT).map(|_| Pool::new(rule)).collect();
        Self {
            pools: rules.into_iter().map(sizes).collect(),
            inbox,
            forwarder,
            forwards: JoinSet::new(),
            metrics,
            clock,
            rng,
        }
    }

    /// Runs until the shutdown begins. Then the waiting requests are forwarded, mixed, and no more
    /// are accepted: a request that came later would be forwarded alone. Forwarded requests are
    /// finished, even if the device has disconnected.
    pub(super) async fn run(mut self, mut shutdown: Shutdown) {
        loop {
            let due = self.pools.iter().flatten().filter_map(Pool::due_at).min();
            let due = due.map(|due_ms| self.clock.at(due_ms));
            let alarm = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = shutdown.begun() => break,
                () = alarm => self.emit_due(),
                waiting = self.inbox.recv() => match waiting {
                    Some(waiting) => self.take_in(waiting),
                    None => break,
                },
            }
        }
        self.inbox.close();
        while let Some(waiting) = self.inbox.recv().await {
            self.take_in(waiting);
        }
        self.emit_all();
        while self.forwards.join_next().await.is_some() {}
    }

    fn take_in(&mut self, waiting: Waiting) {
        let now_ms = self.clock.now_ms();
        let (source, size) = (waiting.source, pool_index(waiting.body.class()));
        let pools = self.pools.get_mut(waiting.gateway);
        let Some(pool) = pools.and_then(|pools| pools.get_mut(size)) else { return };
        pool.push(waiting, source, now_ms);
        self.metrics.held.increment(1.0);
        let emitted = pool.take(now_ms, &mut self.rng);
        self.emit(emitted, Emission::Full);
    }

    fn emit_due(&mut self) {
        let now_ms = self.clock.now_ms();
        self.emit_each(Emission::Waited, |pool, rng| pool.take(now_ms, rng));
    }

    fn emit_all(&mut self) {
        self.emit_each(Emission::Drain, |pool, rng| pool.take_all(rng));
    }

    fn emit_each(
        &mut self,
        why: Emission,
        take: impl Fn(&mut Pool<Waiting>, &mut ChaCha20Rng) -> Vec<Waiting>,
    ) {
        let mut pools = std::mem::take(&mut self.pools);
        for pool in pools.iter_mut().flatten() {
            let emitted = take(pool, &mut self.rng);
            self.emit(emitted, why);
        }
        self.pools = pools;
    }

    fn emit(&mut self, emitted: Vec<Waiting>, why: Emission) {
        if emitted.is_empty() {
            return;
        }
        self.metrics.emitted(why);
        self.metrics.held.decrement(emitted.len() as f64);
        while self.forwards.try_join_next().is_some() {}
        for waiting in emitted {
            self.forwards.spawn(Arc::clone(&self.forwarder).forward(waiting));
        }
    }
}

/// The index of the gateway's pool for this size. Requests of no size class share the last one:
/// their length distinguishes them, so requests with a size class cannot hide among them.
fn pool_index(class: Option<SizeClass>) -> usize {
    class.map_or(SizeClass::COUNT, SizeClass::index).into()
}
