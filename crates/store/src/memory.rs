//! The in-memory store: every verb in its plainest form, as the reference for the other stores.
//!
//! One lock around everything; nothing outlives the process. For tests and simulations.

mod collections;
mod helper;
mod leader;
mod receipts;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sotto_protocol::{
    Bucket, BucketAggregates, Digest, Moment, Rejection, Rejections, ReplayScope,
};
use sotto_wire::{
    BatchId, BatchSelector, CollectionJobId, HpkeConfigId, Interval, Query, ReportId, TaskId, Time,
};

use self::receipts::StoredReceipt;
use crate::clock::monotonic;
use crate::hold::Hold;
use crate::outcome::aggregated;
use crate::{
    Clock, CollectionState, Counters, Lease, Load, LogCheckpoint, OwedReceipts, Result, StoreError,
    StoredTask, TaskStore, Turn,
};

/// A store that forgets everything when it is dropped.
pub struct MemoryStore {
    state: Mutex<State>,
    clock: Clock,
    max_backlog_bytes: u64,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::with_clock(monotonic())
    }

    /// An empty store whose leases expire by this clock.
    pub fn with_clock(clock: Clock) -> Self {
        Self { state: Mutex::default(), clock, max_backlog_bytes: u64::MAX }
    }

    /// Bounds the backlog that may wait for jobs.
    #[must_use]
    pub fn with_max_backlog_bytes(mut self, max_backlog_bytes: u64) -> Self {
        self.max_backlog_bytes = max_backlog_bytes;
        self
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        (self.clock)()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    provisioned: BTreeMap<TaskId, StoredTask>,
    logs: BTreeMap<String, LogCheckpoint>,
    tombstones: BTreeSet<TaskId>,
    tasks: BTreeMap<TaskId, TaskState>,
    report_ids: HashSet<IdKey>,
    /// Live records by position.
    records: BTreeMap<u64, StoredReport>,
    /// The position of the next record.
    end: u64,
    /// Every record before it was taken by a job, rejected, or set aside in `requeued`.
    cursor: u64,
    /// In numerical order.
    requeued: BTreeMap<u64, Requeued>,
    next_requeued: u64,
    jobs: BTreeMap<u64, Job>,
    collections: BTreeMap<u64, Collection>,
    /// In the order of release.
    receipts: Vec<StoredReceipt>,
    next_job: u64,
    next_fence: u64,
}

#[derive(Default)]
struct TaskState {
    counters: Counters,
    buckets: BucketAggregates,
    ranges: Vec<Range>,
    batches: BTreeMap<BatchId, BatchState>,
    /// How many jobs of each request were deleted.
    deleted: HashMap<Vec<u8>, u64>,
    responses: HashMap<Digest, Response>,
}

/// A report id in its scope: a task or a series, and a timestamp or `None` for all of them.
type IdKey = (TaskId, Option<Time>, ReportId);

struct StoredReport {
    task_id: TaskId,
    hpke_config_id: HpkeConfigId,
    report: Bytes,
}

/// A report that was set aside: to be retried, or because its task was not served.
#[derive(Clone, Copy)]
struct Requeued {
    position: u64,
    task_id: TaskId,
    /// `None` if it may belong to any bucket.
    time: Option<Time>,
    due_ms: u64,
}

/// Closed times. Reports that arrived before `position` are still added until the batch is
/// collected.
#[derive(Clone, Copy)]
struct Range {
    interval: Interval,
    position: u64,
    is_collected: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BatchState {
    /// At most one batch of a window is open.
    Open {
        window: u64,
    },
    Closed,
    Collected,
}

struct Response {
    body: Vec<u8>,
    buckets: Vec<Bucket>,
}

struct Job {
    hold: Hold,
    task_id: TaskId,
    now: Moment,
    batch_id: Option<BatchId>,
    scope: ReplayScope,
    reports: Vec<JobReport>,
    digest: Option<Digest>,
}

#[derive(Clone, Copy)]
struct JobReport {
    position: u64,
    time: Time,
    report_id: ReportId,
}

struct Collection {
    hold: Hold,
    task_id: TaskId,
    id: CollectionJobId,
    request: Vec<u8>,
    query: Query,
    /// Set once it is closed.
    batch: Option<BatchSelector>,
    digest: Option<Digest>,
    state: CollectionState,
}

impl State {
    fn grant(&mut self, now_ms: u64, duration: Duration) -> Hold {
        self.next_fence += 1;
        Hold::held(self.next_fence, now_ms, duration)
    }

    fn next_job(&mut self) -> u64 {
        self.next_job += 1;
        self.next_job
    }

    fn held_job(&mut self, lease: Lease) -> Result<&mut Job> {
        let job = self.jobs.get_mut(&lease.job).filter(|job| job.hold.is_held_by(lease));
        job.ok_or(StoreError::Fenced)
    }

    fn held_collection(&mut self, lease: Lease) -> Result<&mut Collection> {
        let collection = self.collections.get_mut(&lease.job);
        collection.filter(|collection| collection.hold.is_held_by(lease)).ok_or(StoreError::Fenced)
    }

    /// What waits for a job: untaken and requeued records.
    fn backlog_bytes(&self) -> u64 {
        let untaken = self.records.range(self.cursor..).map(|(_, record)| record);
        let requeued = self.requeued.values().filter_map(|r| self.records.get(&r.position));
        untaken.chain(requeued).map(|record| record.report.len() as u64).sum()
    }

    /// Marks a batch of a task collected, and deletes its shares and the ids in its timestamps.
    fn collect(&mut self, task_id: TaskId, selector: &BatchSelector) {
        self.tasks.entry(task_id).or_default().collect(selector);
        if let BatchSelector::TimeInterval(interval) = selector {
            let is_in = |time: &Option<Time>| time.is_some_and(|time| interval.contains(time));
            self.report_ids.retain(|(task, time, _)| *task != task_id || !is_in(time));
        }
    }

    fn requeue(&mut self, requeued: Requeued) {
        self.requeued.insert(self.next_requeued, requeued);
        self.next_requeued += 1;
    }
}

impl TaskState {
    fn is_closed(&self, time: Time) -> bool {
        self.ranges.iter().any(|range| range.interval.contains(time))
    }

    /// Whether a report that arrived at this position may be added to a bucket.
    fn admits(&self, time: Time, position: u64) -> bool {
        let mut ranges = self.ranges.iter().filter(|range| range.interval.contains(time));
        ranges.all(|range| !range.is_collected && position < range.position)
    }

    fn is_collected(&self, bucket: &Bucket) -> bool {
        match bucket {
            Bucket::Time(time) => {
                self.ranges.iter().any(|range| range.is_collected && range.interval.contains(*time))
            }
            Bucket::Batch(batch_id) => self.batches.get(batch_id) == Some(&BatchState::Collected),
        }
    }

    fn is_any_collected(&self, selector: &BatchSelector) -> bool {
        match selector {
            BatchSelector::TimeInterval(interval) => self
                .ranges
                .iter()
                .any(|range| range.is_collected && range.interval.overlaps(interval)),
            BatchSelector::LeaderSelected(id) => self.is_collected(&Bucket::Batch(*id)),
        }
    }

    /// Adds to buckets and counts: everything, or nothing if a share does not fit.
    fn add(&mut self, added: &BucketAggregates) -> Result<()> {
        let mut sums = BucketAggregates::new();
        for (bucket, aggregate) in added {
            let mut sum = aggregate.clone();
            if let Some(stored) = self.buckets.get(bucket) {
                sum.merge(stored).map_err(|fault| StoreError::Backend(fault.to_string()))?;
            }
            sums.insert(*bucket, sum);
        }
        self.buckets.extend(sums);
        self.counters.aggregated += aggregated(added);
        Ok(())
    }

    fn count_rejections(&mut self, rejections: &Rejections) {
        for (reason, count) in rejections.iter() {
            self.counters.rejections.add_many(reason, count);
        }
    }

    fn batch(&self, selector: &BatchSelector) -> Result<Option<sotto_protocol::BucketAggregate>> {
        let mut merged: Option<sotto_protocol::BucketAggregate> = None;
        for (_, aggregate) in self.buckets.iter().filter(|(bucket, _)| is_in(bucket, selector)) {
            match &mut merged {
                Some(merged) => merged
                    .merge(aggregate)
                    .map_err(|fault| StoreError::Backend(fault.to_string()))?,
                None => merged = Some(aggregate.clone()),
            }
        }
        Ok(merged)
    }

    /// Marks a batch collected, and deletes its shares.
    fn collect(&mut self, selector: &BatchSelector) {
        match *selector {
            BatchSelector::TimeInterval(interval) => {
                self.ranges.push(Range { interval, position: 0, is_collected: true });
            }
            BatchSelector::LeaderSelected(batch_id) => {
                self.batches.insert(batch_id, BatchState::Collected);
            }
        }
        self.buckets.retain(|bucket, _| !is_in(bucket, selector));
    }
}

impl Turn {
    /// The oldest of these jobs that belongs to the task whose turn it is.
    fn next(&self, jobs: impl Iterator<Item = (u64, TaskId)>) -> Option<u64> {
        let ready = jobs.filter(|(_, task_id)| (self.is_ready)(task_id));
        let had_a_turn = |task_id| self.after.is_some_and(|after| task_id <= after);
        let next = ready.min_by_key(|(number, task_id)| (had_a_turn(*task_id), *task_id, *number));
        next.map(|(number, _)| number)
    }
}

/// Where a report's id must be unique.
fn id_key(task_id: TaskId, scope: ReplayScope, bucket: &Bucket, report_id: ReportId) -> IdKey {
    match (scope, bucket) {
        (ReplayScope::Bucket, Bucket::Time(time)) => (task_id, Some(*time), report_id),
        (ReplayScope::Series(series), _) => (series, None, report_id),
        _ => (task_id, None, report_id),
    }
}

fn is_in(bucket: &Bucket, selector: &BatchSelector) -> bool {
    match (bucket, selector) {
        (Bucket::Time(time), BatchSelector::TimeInterval(interval)) => interval.contains(*time),
        (Bucket::Batch(id), BatchSelector::LeaderSelected(selected)) => id == selected,
        _ => false,
    }
}

#[async_trait]
impl TaskStore for MemoryStore {
    async fn put_task(&self, task_id: TaskId, task: StoredTask) -> Result<()> {
        self.lock().provisioned.insert(task_id, task);
        Ok(())
    }

    async fn tasks(&self) -> Result<Vec<(TaskId, StoredTask)>> {
        Ok(self.lock().provisioned.clone().into_iter().collect())
    }

    async fn put_log_checkpoint(&self, checkpoint: LogCheckpoint) -> Result<()> {
        self.lock().logs.insert(checkpoint.origin.clone(), checkpoint);
        Ok(())
    }

    async fn log_checkpoint(&self, origin: String) -> Result<Option<LogCheckpoint>> {
        Ok(self.lock().logs.get(&origin).cloned())
    }

    async fn forget_task(&self, task_id: TaskId) -> Result<()> {
        let mut state = self.lock();
        state.tombstones.insert(task_id);
        state.provisioned.remove(&task_id);
        state.tasks.remove(&task_id);
        state.report_ids.retain(|(task, ..)| *task != task_id);
        state.records.retain(|_, record| record.task_id != task_id);
        state.requeued.retain(|_, requeued| requeued.task_id != task_id);
        state.jobs.retain(|_, job| job.task_id != task_id);
        state.collections.retain(|_, collection| collection.task_id != task_id);
        state.forget_sent(task_id);
        Ok(())
    }

    async fn forgotten_tasks(&self) -> Result<Vec<TaskId>> {
        Ok(self.lock().tombstones.iter().copied().collect())
    }

    async fn next_receipts(&self, now: Moment) -> Result<OwedReceipts> {
        Ok(self.lock().next_receipts(now))
    }

    async fn receipt_sent(&self, task_id: TaskId, number: u64) -> Result<()> {
        self.lock().receipt_sent(task_id, number);
        Ok(())
    }

    async fn counters(&self, task_id: TaskId) -> Result<Counters> {
        Ok(self.lock().tasks.get(&task_id).map(|task| task.counters.clone()).unwrap_or_default())
    }

    async fn load(&self) -> Result<Load> {
        let state = self.lock();
        let unfinished = |collection: &&Collection| collection.state == CollectionState::Pending;
        Ok(Load {
            backlog_bytes: state.backlog_bytes(),
            segment_bytes: state.records.values().map(|record| record.report.len() as u64).sum(),
            jobs: state.jobs.len() as u64,
            collections: state.collections.values().filter(unfinished).count() as u64,
        })
    }
}

/// The verdicts returned by `accept_reports`.
type Verdicts = Vec<std::result::Result<(), Rejection>>;
