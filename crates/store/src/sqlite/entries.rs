//! The reports of a stored job, as a column of its row.

use sotto_wire::{ReportId, Time};

use super::log::Position;

/// One report of a stored job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) position: Position,
    pub(super) time: Time,
    pub(super) report_id: ReportId,
}

impl Entry {
    pub(super) const LEN: usize = 8 + 8 + ReportId::LEN;

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.position.to_sql().to_le_bytes());
        out.extend_from_slice(&self.time.as_units().to_le_bytes());
        out.extend_from_slice(self.report_id.as_bytes());
    }

    /// All entries of a column.
    pub(super) fn decode_all(bytes: &[u8]) -> impl Iterator<Item = Self> + '_ {
        bytes.as_chunks::<{ Self::LEN }>().0.iter().map(|entry| {
            let (words, report_id) = entry.split_at(16);
            let word = |at: usize| {
                let bytes = words.get(at..).and_then(|bytes| bytes.first_chunk());
                bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
            };
            Self {
                position: Position::from_sql(word(0) as i64),
                time: Time::new(word(8)),
                report_id: ReportId::new(report_id.first_chunk().copied().unwrap_or_default()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back() {
        let entries: Vec<Entry> = (0..3)
            .map(|n| Entry {
                position: Position::new(7 + u32::from(n), u32::MAX - u32::from(n)),
                time: Time::new(u64::MAX - u64::from(n)),
                report_id: ReportId::new([n; 16]),
            })
            .collect();
        let mut bytes = Vec::new();
        entries.iter().for_each(|entry| entry.encode(&mut bytes));
        assert_eq!(bytes.len(), 3 * Entry::LEN);
        assert_eq!(Entry::decode_all(&bytes).collect::<Vec<_>>(), entries);
    }
}
