//! The lock of a folder: one process at a time.

use std::fs::{File, TryLockError};
use std::thread::sleep;
use std::time::Duration;

/// Takes the lock, or says that another process has it.
///
/// It tries for a moment: a process that was just forked shares the locks of its parent until it
/// executes its own program, also those that the parent has released since.
pub(crate) fn try_lock(file: &File) -> Result<(), TryLockError> {
    for _ in 0..20 {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => sleep(Duration::from_millis(10)),
            outcome => return outcome,
        }
    }
    file.try_lock()
}
