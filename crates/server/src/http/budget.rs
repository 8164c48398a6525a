//! Memory and disk that requests share. A full budget refuses requests; nobody waits.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Failure;

/// The unit in which a budget is counted.
pub(super) const UNIT: usize = 1024;

/// A number of bytes that requests share.
#[derive(Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

impl Budget {
    pub(crate) fn new(bytes: u64) -> Self {
        let units = usize::try_from(bytes / UNIT as u64).unwrap_or(usize::MAX);
        Self(Arc::new(Semaphore::new(units.clamp(1, Semaphore::MAX_PERMITS))))
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
        let more = u32::try_from(more).map_err(|_| Failure::OutOfMemory)?;
        let more = Arc::clone(&budget.0).try_acquire_many_owned(more);
        let more = more.map_err(|_| Failure::OutOfMemory)?;
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
