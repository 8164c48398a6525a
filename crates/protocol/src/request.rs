//! The digest by which retries of the leader's requests are recognised.
//!
//! The leader stores it before the first byte is sent and compares it with the digest of a retry;
//! the helper stores its response under it. Both compute it from the same bytes.

use sha2::{Digest as _, Sha256};
use sotto_wire::TaskId;

use crate::Digest;

/// The kind of request: the same bytes at two resources are two requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// `AggregationJobInitReq`.
    AggregationJobInit,
    /// `AggregateShareReq`.
    AggregateShare,
}

/// The digest of a request from the leader to the helper.
pub fn request_digest(task_id: &TaskId, kind: RequestKind, body: &[u8]) -> Digest {
    let label: &[u8] = match kind {
        RequestKind::AggregationJobInit => b"sotto aggregation job request\0",
        RequestKind::AggregateShare => b"sotto aggregate share request\0",
    };
    Sha256::new()
        .chain_update(label)
        .chain_update(task_id.as_bytes())
        .chain_update(body)
        .finalize()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_kind_and_body_all_count() {
        let (a, b) = (TaskId::new([1; 32]), TaskId::new([2; 32]));
        let digest = request_digest(&a, RequestKind::AggregationJobInit, b"body");
        assert_eq!(digest, request_digest(&a, RequestKind::AggregationJobInit, b"body"));
        assert_ne!(digest, request_digest(&b, RequestKind::AggregationJobInit, b"body"));
        assert_ne!(digest, request_digest(&a, RequestKind::AggregateShare, b"body"));
        assert_ne!(digest, request_digest(&a, RequestKind::AggregationJobInit, b"bod"));
    }
}
