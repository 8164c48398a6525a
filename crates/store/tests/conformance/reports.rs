//! Reports and shares that show a test exactly what was counted: each report has its own cell in a
//! histogram, so a 0 is a loss and a 2 is a double count.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use sotto_protocol::{Bucket, BucketAggregate, BucketAggregates, ReplayScope};
use sotto_store::{NewReport, Record};
use sotto_vdaf::{AggregateShare, VdafConfig};
use sotto_wire::{
    BatchId, BatchMode, Duration, HpkeConfigId, Interval, ReportId, ReportIdChecksum, TaskId, Time,
};

/// How many cells the histogram has.
pub(crate) const CELLS: usize = 64;

const ELEMENT_LEN: usize = 16;

/// A report in the tests' encoding, which stores must treat as opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) task_id: TaskId,
    pub(crate) cell: u8,
    pub(crate) id: ReportId,
    pub(crate) time: Time,
    /// Bytes that make it longer.
    pub(crate) padding: usize,
}

/// A time-interval task.
pub(crate) fn interval_task(number: u8) -> TaskId {
    TaskId::new([number; 32])
}

/// A leader-selected task.
pub(crate) fn batch_task(number: u8) -> TaskId {
    TaskId::new([0x80 | number; 32])
}

/// A time-interval task with tokens: an id must be unique in the whole task.
pub(crate) fn token_task(number: u8) -> TaskId {
    TaskId::new([0x40 | number; 32])
}

/// A round of a series with tokens: an id must be unique in all its rounds. A leader-selected one if
/// the series is even.
pub(crate) fn round_task(series: u8, number: u8) -> TaskId {
    let mode = if series.is_multiple_of(2) { 0x80 } else { 0 };
    let mut bytes = [0x20 | mode | series; 32];
    bytes[31] = number;
    TaskId::new(bytes)
}

/// The task that holds the ids of a series.
pub(crate) fn series_of(round: &TaskId) -> TaskId {
    TaskId::new([0x10 | round.as_bytes()[0]; 32])
}

pub(crate) fn replay_scope(task_id: &TaskId) -> ReplayScope {
    match task_id.as_bytes()[0] {
        first if first & 0x20 != 0 => ReplayScope::Series(series_of(task_id)),
        first if first & 0xc0 == 0 => ReplayScope::Bucket,
        _ => ReplayScope::Task,
    }
}

pub(crate) fn batch_mode(task_id: &TaskId) -> BatchMode {
    if task_id.as_bytes()[0] & 0x80 == 0 {
        BatchMode::TimeInterval
    } else {
        BatchMode::LeaderSelected
    }
}

pub(crate) fn interval(start: u64, duration: u64) -> Interval {
    Interval::new(Time::new(start), Duration::new(duration)).unwrap()
}

pub(crate) fn batch_id(number: u8) -> BatchId {
    BatchId::new([number; 32])
}

/// The report of a cell, with its own id.
pub(crate) fn report(task_id: TaskId, cell: u8, time: u64) -> Report {
    Report { task_id, cell, id: ReportId::new([cell; 16]), time: Time::new(time), padding: 0 }
}

/// The reports of some cells, all of one time.
pub(crate) fn reports(
    task_id: TaskId,
    cells: impl IntoIterator<Item = u8>,
    time: u64,
) -> Vec<Report> {
    cells.into_iter().map(|cell| report(task_id, cell, time)).collect()
}

impl Report {
    /// The same report with the id of another cell's report.
    pub(crate) fn with_id_of(self, cell: u8) -> Self {
        Self { id: ReportId::new([cell; 16]), ..self }
    }

    pub(crate) fn padded(self, padding: usize) -> Self {
        Self { padding, ..self }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.cell];
        bytes.extend_from_slice(self.id.as_bytes());
        bytes.extend_from_slice(&self.time.as_units().to_be_bytes());
        bytes.resize(bytes.len() + self.padding, self.cell);
        bytes
    }

    pub(crate) fn decode(record: &Record) -> Self {
        let (cell, rest) = record.report.split_first().unwrap();
        let (id, rest) = rest.split_first_chunk().unwrap();
        let (time, padding) = rest.split_first_chunk().unwrap();
        assert!(padding.iter().all(|byte| byte == cell), "a report came back changed");
        Self {
            task_id: record.task_id,
            cell: *cell,
            id: ReportId::new(*id),
            time: Time::new(u64::from_be_bytes(*time)),
            padding: padding.len(),
        }
    }

    /// The form in which it is passed to the store.
    pub(crate) fn upload(&self) -> NewReport {
        self.upload_for_key(1)
    }

    pub(crate) fn upload_for_key(&self, key: u8) -> NewReport {
        let is_timed = batch_mode(&self.task_id) == BatchMode::TimeInterval;
        NewReport {
            task_id: self.task_id,
            bucket: is_timed.then_some(self.time),
            hpke_config_id: HpkeConfigId::new(key),
            report: self.encode().into(),
        }
    }

    /// The bucket in which it is counted, in a job of this batch.
    pub(crate) fn bucket(&self, batch_id: Option<BatchId>) -> Bucket {
        batch_id.map_or(Bucket::Time(self.time), Bucket::Batch)
    }

    pub(crate) fn aggregate(&self) -> BucketAggregate {
        let mut bytes = vec![0; CELLS * ELEMENT_LEN];
        bytes[usize::from(self.cell) * ELEMENT_LEN] = 1;
        let mut checksum = ReportIdChecksum::default();
        checksum.add(&self.id);
        let (first, last) = (self.time, self.time);
        BucketAggregate { share: share(&bytes), count: 1, checksum, first, last }
    }
}

/// A share with a different shape from those of the reports.
pub(crate) fn misshapen_share() -> AggregateShare {
    VdafConfig::count().build().unwrap().zero_share()
}

/// What a job that counts these reports adds.
pub(crate) fn aggregates<'a>(
    reports: impl IntoIterator<Item = &'a Report>,
    batch_id: Option<BatchId>,
) -> BucketAggregates {
    let mut buckets = BucketAggregates::new();
    for report in reports {
        let aggregate = report.aggregate();
        match buckets.get_mut(&report.bucket(batch_id)) {
            Some(present) => present.merge(&aggregate).unwrap(),
            None => drop(buckets.insert(report.bucket(batch_id), aggregate)),
        }
    }
    buckets
}

/// How many times each report is in an aggregate, by cell.
pub(crate) fn tally(aggregate: &BucketAggregate) -> BTreeMap<u8, u128> {
    let bytes = aggregate.share.encode();
    let counts = bytes.as_chunks().0.iter().map(|element| u128::from_le_bytes(*element));
    let tally: BTreeMap<u8, u128> = (0..).zip(counts).filter(|(_, count)| *count != 0).collect();
    assert_eq!(tally.values().sum::<u128>(), aggregate.count.into(), "share and count differ");
    tally
}

/// Fails unless an aggregate contains exactly these reports, each once.
#[track_caller]
pub(crate) fn assert_holds(aggregate: &BucketAggregate, expected: &[Report]) {
    let mut whole = expected.first().expect("an aggregate of nothing").aggregate();
    for report in &expected[1..] {
        whole.merge(&report.aggregate()).unwrap();
    }
    assert_eq!(tally(aggregate), tally(&whole));
    assert_eq!(aggregate.count, whole.count);
    assert_eq!(aggregate.checksum, whole.checksum);
    assert_eq!((aggregate.first, aggregate.last), (whole.first, whole.last));
}

fn share(bytes: &[u8]) -> AggregateShare {
    static VDAF: LazyLock<std::sync::Arc<dyn sotto_vdaf::Vdaf>> =
        LazyLock::new(|| VdafConfig::histogram(CELLS as u32).build().unwrap());
    VDAF.decode_aggregate_share(bytes).unwrap()
}
