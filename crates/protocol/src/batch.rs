//! Batch buckets: the unit in which output shares are summed. DAP, section "Batch Buckets".

use std::collections::BTreeMap;
#[cfg(feature = "server")]
use std::collections::HashMap;

use sotto_vdaf::AggregateShare;
#[cfg(feature = "server")]
use sotto_vdaf::Vdaf;
use sotto_wire::{BatchId, ReportIdChecksum, TaskId, Time};
#[cfg(feature = "server")]
use sotto_wire::{BatchMode, Duration, Interval, ReportId};

use crate::Fault;

/// SHA-256 of a request, by which retries are recognised.
pub type Digest = [u8; 32];

/// The name of a bucket within a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// time_interval: all reports with this timestamp.
    Time(Time),
    /// leader_selected: all reports that the leader put into this batch.
    Batch(BatchId),
}

/// The set of reports within which an id must be new.
///
/// Both aggregators derive it from the task, so they agree on what a replay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayScope {
    /// The report's bucket. The AAD of both shares binds the timestamp, so a replayed report
    /// carries it unchanged. The ids are deleted with the collected bucket, which rejects every
    /// report anyway.
    Bucket,
    /// The whole task, until it is forgotten. Used where the id alone says whether a contribution
    /// was counted: in leader-selected tasks, where a replay would go to whichever batch is open,
    /// and in tasks with tokens, where the id is part of the token's nonce, and one token is good
    /// for one report of the task, whatever its timestamp.
    Task,
    /// All rounds of a series, until the series is forgotten: a token is good for one report of one
    /// round. The ids belong to a task of their own, whose id has the bytes of the series' id. So
    /// they stay when a round is forgotten.
    Series(TaskId),
}

/// What a bucket (or a merged batch) holds.
#[derive(Clone, Debug)]
pub struct BucketAggregate {
    /// This aggregator's share of the sum.
    pub share: AggregateShare,
    /// How many reports are in it.
    pub count: u64,
    /// The XOR of the hashes of their ids.
    pub checksum: ReportIdChecksum,
    /// The earliest timestamp.
    pub first: Time,
    /// The latest timestamp.
    pub last: Time,
}

impl BucketAggregate {
    /// The smallest interval that covers the timestamps of all reports.
    #[cfg(feature = "server")]
    pub(crate) fn interval(&self) -> Result<Interval, Fault> {
        let (first, last) = (self.first.as_units(), self.last.as_units());
        last.checked_sub(first)
            .and_then(|span| span.checked_add(1))
            .and_then(|units| Interval::new(self.first, Duration::new(units)).ok())
            .ok_or_else(|| Fault("the timestamps of the batch make no interval".into()))
    }

    /// Adds another aggregate of the same VDAF to this one.
    pub fn merge(&mut self, other: &Self) -> Result<(), Fault> {
        let count = self
            .count
            .checked_add(other.count)
            .ok_or_else(|| Fault("the report count overflows".into()))?;
        self.share
            .merge(&other.share)
            .map_err(|error| Fault(format!("aggregate shares do not fit together: {error}")))?;
        self.count = count;
        self.checksum.merge(&other.checksum);
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        Ok(())
    }
}

/// The buckets that one job adds to, and what it adds.
pub type BucketAggregates = BTreeMap<Bucket, BucketAggregate>;

/// The most bytes of accumulators in one job. Every report may have its own bucket, and the
/// accumulator of a long vector is far larger than the helper's part of a report: without a limit,
/// a small request could claim unbounded memory.
#[cfg(feature = "server")]
pub(crate) const MAX_JOB_ACCUMULATOR_LEN: usize = 64 * 1024 * 1024;

/// The buckets of one job while it is being summed, each with the number of its accumulator.
#[cfg(feature = "server")]
#[derive(Debug, Default)]
pub(crate) struct JobBuckets {
    buckets: Vec<Bucket>,
    slots: HashMap<Bucket, usize>,
}

/// A report whose output share is in accumulator `slot`.
#[cfg(feature = "server")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) slot: usize,
    pub(crate) report_id: ReportId,
    pub(crate) time: Time,
}

#[cfg(feature = "server")]
impl Bucket {
    /// The bucket of a report: its timestamp, or the batch that its job names. `None` if the job
    /// must name a batch and does not, or must not and does.
    pub(crate) fn of(mode: BatchMode, time: Time, batch_id: Option<BatchId>) -> Option<Self> {
        match (mode, batch_id) {
            (BatchMode::TimeInterval, None) => Some(Self::Time(time)),
            (BatchMode::LeaderSelected, Some(batch_id)) => Some(Self::Batch(batch_id)),
            _ => None,
        }
    }
}

#[cfg(feature = "server")]
impl JobBuckets {
    /// The number of a bucket's accumulator.
    pub(crate) fn slot(&mut self, bucket: Bucket) -> usize {
        *self.slots.entry(bucket).or_insert_with(|| {
            self.buckets.push(bucket);
            self.buckets.len() - 1
        })
    }

    /// The bucket with this accumulator.
    pub(crate) fn bucket(&self, slot: usize) -> Option<Bucket> {
        self.buckets.get(slot).copied()
    }

    /// How many buckets there are.
    pub(crate) fn len(&self) -> usize {
        self.buckets.len()
    }

    /// An empty accumulator for each bucket.
    pub(crate) fn zero_shares(&self, vdaf: &dyn Vdaf) -> Vec<AggregateShare> {
        self.buckets.iter().map(|_| vdaf.zero_share()).collect()
    }

    /// What the job adds to each bucket; buckets without a counted report are left out.
    pub(crate) fn into_aggregates(
        self,
        shares: Vec<AggregateShare>,
        counted: impl IntoIterator<Item = Counted>,
    ) -> BucketAggregates {
        let mut shares: Vec<_> = shares.into_iter().map(Some).collect();
        let mut aggregates: Vec<Option<BucketAggregate>> = shares.iter().map(|_| None).collect();
        for Counted { slot, report_id, time } in counted {
            let (Some(share), Some(aggregate)) = (shares.get_mut(slot), aggregates.get_mut(slot))
            else {
                continue;
            };
            if let Some(share) = share.take() {
                *aggregate = Some(BucketAggregate {
                    share,
                    count: 0,
                    checksum: ReportIdChecksum::default(),
                    first: time,
                    last: time,
                });
            }
            if let Some(aggregate) = aggregate {
                aggregate.count += 1;
                aggregate.checksum.add(&report_id);
                aggregate.first = aggregate.first.min(time);
                aggregate.last = aggregate.last.max(time);
            }
        }
        let named = self.buckets.into_iter().zip(aggregates);
        named.filter_map(|(bucket, aggregate)| Some((bucket, aggregate?))).collect()
    }
}
