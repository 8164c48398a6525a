//! What happens to the lease of a job that could not be finished.

use std::time::Duration;

use sotto_protocol::leader::pacing::JobKind;
use sotto_protocol::leader::unfinished::Unfinished;
use sotto_store::{Lease, StoreError};

use super::LeaderState;
use super::pacing::store_work;
use crate::pool::PoolError;

impl From<PoolError> for Unfinished {
    fn from(error: PoolError) -> Self {
        Self::Stop(error.to_string())
    }
}

impl LeaderState {
    /// Releases the lease of an unfinished job.
    pub(super) async fn release_unfinished(
        &self,
        kind: JobKind,
        lease: Lease,
        unfinished: Unfinished,
    ) {
        match &unfinished {
            Unfinished::Wait(_) => {}
            Unfinished::Stop(reason) => {
                tracing::error!(?kind, job = lease.job, %reason, "a job is stopped and kept");
                match kind {
                    JobKind::Aggregation => self.metrics.jobs.stopped.increment(1),
                    JobKind::Collection => self.metrics.collections.stopped.increment(1),
                }
                self.pacing.stop(kind, lease.job);
            }
            Unfinished::LeaseLost => {
                tracing::warn!(?kind, job = lease.job, "a job took longer than its lease");
            }
            Unfinished::Store(error) => {
                let error = StoreError::Backend(error.clone());
                self.aggregator.store_failed(store_work(kind), &error);
            }
        }
        if let Some(pause) = unfinished.pause() {
            self.give_back(kind, lease, pause).await;
        }
    }

    /// Releases a lease. If that fails, the lease expires by itself.
    pub(super) async fn give_back(&self, kind: JobKind, lease: Lease, pause: Duration) {
        match self.store.release(lease, pause).await {
            Ok(()) | Err(StoreError::Fenced) => {}
            Err(error) => self.aggregator.store_failed(store_work(kind), &error),
        }
    }
}
