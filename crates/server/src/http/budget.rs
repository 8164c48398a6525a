//! Memory and disk that requests share. A full budget refuses requests; nobody waits.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::memory::Refusals;
use crate::problem::Failure;

/// The unit in which a budget is counted.
pub(super) const UNIT: usize = 1024;

/// A number of bytes that requests share.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    left: Arc<Semaphore>,
    units: usize,
    refusals: Option<Arc<Refusals>>,
}

impl Budget {
    pub(crate) fn new(bytes: u64) -> Self {
        let units = usize::try_from(bytes / UNIT as u64).unwrap_or(usize::MAX);
        let units = units.clamp(1, Semaphore::MAX_PERMITS);
        Self { left: Arc::new(Semaphore::new(units)), units, refusals: None }
    }

    /// The same, counting here what it refuses.
    pub(crate) fn telling(mut self, refusals: Arc<Refusals>) -> Self {
        self.refusals = Some(refusals);
        self
    }

    /// The bytes of all shares.
    pub(crate) fn held(&self) -> usize {
        self.units.saturating_sub(self.left.available_permits()) * UNIT
    }

    /// The bytes that shares may have together.
    pub(crate) fn bytes(&self) -> usize {
        self.units.saturating_mul(UNIT)
    }

    /// Takes this many more units.
    fn take(&self, units: usize) -> Result<OwnedSemaphorePermit, Failure> {
        let units = u32::try_from(units).ok();
        let taken =
            units.and_then(|units| Arc::clone(&self.left).try_acquire_many_owned(units).ok());
        taken.ok_or_else(|| {
            if let Some(refusals) = &self.refusals {
                refusals.add();
            }
            Failure::OutOfMemory
        })
    }
}

impl From<usize> for Budget {
    fn from(bytes: usize) -> Self {
        Self::new(bytes as u64)
    }
}

/// A share of a budget, until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Share(Option<OwnedSemaphorePermit>);

impl Share {
    /// Grows it to this many bytes.
    pub(crate) fn grow(&mut self, budget: &Budget, bytes: usize) -> Result<(), Failure> {
        let held = self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = bytes.div_ceil(UNIT).saturating_sub(held);
        if more == 0 {
            return Ok(());
        }
        let more = budget.take(more)?;
        match &mut self.0 {
            Some(held) => held.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }

    /// Returns what it covers beyond this many bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        if let Some(held) = &mut self.0 {
            let surplus = held.num_permits().saturating_sub(bytes.div_ceil(UNIT));
            drop(held.split(surplus));
        }
    }
}
