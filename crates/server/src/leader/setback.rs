//! What keeps a worker from finishing a job, and what becomes of the job's lease then.

use std::time::Duration;

use sotto_protocol::{BadResponse, Fault};
use sotto_store::{Lease, StoreError};

use super::LeaderState;
use super::pacing::JobKind;
use crate::pool::PoolError;

/// How long a stopped job rests before it is looked at again, for an operator may have repaired it.
const STOPPED_PAUSE: Duration = Duration::from_secs(300);
/// The pause after the store failed.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// Why a job is not finished. It stays, in every case.
#[derive(Debug)]
pub(super) enum Setback {
    /// Try again after this pause.
    Wait(Duration),
    /// Going on could count reports twice or not at all: an operator must look.
    Stop(String),
    /// The store failed, or gave the job to somebody else.
    Store(StoreError),
}

impl From<StoreError> for Setback {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::RequestDiffers => Self::Stop(error.to_string()),
            other => Self::Store(other),
        }
    }
}

impl From<Fault> for Setback {
    fn from(fault: Fault) -> Self {
        Self::Stop(fault.to_string())
    }
}

impl From<BadResponse> for Setback {
    fn from(error: BadResponse) -> Self {
        Self::Stop(error.to_string())
    }
}

impl From<PoolError> for Setback {
    fn from(error: PoolError) -> Self {
        Self::Stop(error.to_string())
    }
}

impl LeaderState {
    /// Gives the lease of an unfinished job back.
    pub(super) async fn set_back(&self, kind: JobKind, lease: Lease, setback: Setback) {
        let pause = match setback {
            Setback::Wait(pause) => pause,
            Setback::Stop(reason) => {
                tracing::error!(?kind, job = lease.job, %reason, "a job is stopped and kept");
                match kind {
                    JobKind::Aggregation => self.metrics.jobs.stopped.increment(1),
                    JobKind::Collection => self.metrics.collections.stopped.increment(1),
                }
                self.pacing.stop(kind, lease.job);
                STOPPED_PAUSE
            }
            Setback::Store(StoreError::Fenced) => {
                tracing::warn!(?kind, job = lease.job, "a job took longer than its lease");
                return;
            }
            Setback::Store(error) => {
                self.aggregator.store_failed(kind.store_work(), &error);
                STORE_PAUSE
            }
        };
        self.give_back(kind, lease, pause).await;
    }

    /// Gives a lease back. If that fails, the lease runs out by itself.
    pub(super) async fn give_back(&self, kind: JobKind, lease: Lease, pause: Duration) {
        match self.store.release(lease, pause).await {
            Ok(()) | Err(StoreError::Fenced) => {}
            Err(error) => self.aggregator.store_failed(kind.store_work(), &error),
        }
    }
}
