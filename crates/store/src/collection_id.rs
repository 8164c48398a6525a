//! The ids of collection jobs.

use sha2::{Digest as _, Sha256};
use sotto_wire::{CollectionJobId, TaskId};

/// SHA-256(task, request, ordinal). In leader-selected mode successive requests are identical, so
/// the ordinal (how many jobs of this request were deleted before) distinguishes a retry from a
/// request for the next batch. A retried deletion names only the old job.
pub(crate) fn collection_job_id(task_id: &TaskId, request: &[u8], ordinal: u64) -> CollectionJobId {
    let mut hash = Sha256::new();
    hash.update(task_id.as_bytes());
    hash.update(request);
    hash.update(ordinal.to_be_bytes());
    CollectionJobId::new(hash.finalize().into())
}
