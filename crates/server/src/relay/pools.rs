//! The pools: requests wait in them for each other and go on in a random order.
//!
//! One task owns them all, so there is no lock, and requests that leave together are sent in the order
//! that was drawn. When and in which order is `sotto_protocol::relay`'s part.

use std::sync::Arc;

use axum::response::Response;
use rand_chacha::ChaCha20Rng;
use sotto_protocol::Fault;
use sotto_protocol::relay::{Pool, PoolRule};
use sotto_wire::size_class::SizeClass;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::clock::Clock;
use super::forward::Forwarder;
use super::held::HeldBody;
use super::metrics::{Emission, RelayMetrics};
use crate::aggregator;
use crate::problem::Failure;
use crate::shutdown::Shutdown;

/// A request that waits. Nothing here tells whose it is but the way back.
pub(super) struct Waiting {
    /// Which of the gateways.
    pub(super) gateway: usize,
    pub(super) class: SizeClass,
    pub(super) body: HeldBody,
    pub(super) answer: oneshot::Sender<Result<Response, Failure>>,
}

/// All pools of a relay.
pub(super) struct Pools {
    /// By gateway, then by size class.
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
    ) -> Result<Self, Fault> {
        let classes = |rule| (0..SizeClass::COUNT).map(|_| Pool::new(rule)).collect();
        Ok(Self {
            pools: rules.into_iter().map(classes).collect(),
            inbox,
            forwarder,
            forwards: JoinSet::new(),
            metrics,
            clock,
            rng: aggregator::rng()?,
        })
    }

    /// Runs until nobody is left who could send a request. Once the shutdown begins, requests wait no
    /// more; at the end, those that were sent on are finished, also for devices that have gone away.
    pub(super) async fn run(mut self, mut shutdown: Shutdown) {
        let mut is_draining = false;
        loop {
            let due = self.pools.iter().flatten().filter_map(Pool::due_at).min();
            let due = due.map(|due_ms| self.clock.at(due_ms));
            let alarm = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = shutdown.begun(), if !is_draining => {
                    is_draining = true;
                    self.emit_all();
                }
                waiting = self.inbox.recv() => match waiting {
                    Some(waiting) => self.take_in(waiting, is_draining),
                    None => break,
                },
                () = alarm => self.emit_due(),
            }
        }
        self.emit_all();
        while self.forwards.join_next().await.is_some() {}
    }

    fn take_in(&mut self, waiting: Waiting, is_draining: bool) {
        let (gateway, class) = (waiting.gateway, usize::from(waiting.class.index()));
        let now_ms = self.clock.now_ms();
        let Some(pool) = self.pools.get_mut(gateway).and_then(|pools| pools.get_mut(class)) else {
            return;
        };
        pool.push(waiting, now_ms);
        self.metrics.held.increment(1.0);
        let (emitted, why) = match is_draining {
            true => (pool.take_all(&mut self.rng), Emission::Drain),
            false => (pool.take(now_ms, &mut self.rng), Emission::Full),
        };
        self.emit(emitted, why);
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
        for gateway in 0..self.pools.len() {
            for class in 0..usize::from(SizeClass::COUNT) {
                let pool = self.pools.get_mut(gateway).and_then(|pools| pools.get_mut(class));
                if let Some(pool) = pool {
                    let emitted = take(pool, &mut self.rng);
                    self.emit(emitted, why);
                }
            }
        }
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
