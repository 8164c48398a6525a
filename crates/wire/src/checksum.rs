//! The checksum with which aggregators compare the reports that they aggregated (DAP "Batch
//! Buckets").

use sha2::{Digest, Sha256};

use crate::ids::ReportId;

/// The XOR of the SHA-256 hashes of all report ids: independent of their order, and mergeable.
///
/// It detects accidents, not attacks: whoever chooses report ids can make two sets collide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportIdChecksum([u8; 32]);

impl ReportIdChecksum {
    /// Adds a report. Adding it a second time removes it again.
    pub fn add(&mut self, report_id: &ReportId) {
        self.merge(&Self(Sha256::digest(report_id.as_bytes()).into()));
    }

    /// Adds all reports of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (byte, other) in self.0.iter_mut().zip(other.0) {
            *byte ^= other;
        }
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for ReportIdChecksum {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}
