//! The verbs, and the facts that they take and return.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sotto_protocol::helper::HelperOutcome;
use sotto_protocol::leader::aggregate::{FormedJobs, LeaderOutcome};
use sotto_protocol::leader::unfinished::Unfinished;
use sotto_protocol::receipt::Released;
use sotto_protocol::{Bucket, BucketAggregate, Digest, Moment, Rejection, Rejections, ReplayScope};
use sotto_wire::{
    BatchId, BatchSelector, CollectionJobId, HpkeConfigId, Interval, JobState, Query, ReportId,
    TaskId, Time,
};

/// Why a verb did nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The lease has expired and another worker may hold the job now. Discard what you computed.
    #[error("the lease is no longer ours")]
    Fenced,
    /// A retry computed different bytes from those already sent. Nothing is sent; an operator must
    /// investigate.
    #[error("the request differs from the one already sent")]
    RequestDiffers,
    /// The backlog is full; retry later.
    #[error("the backlog is full")]
    Full,
    /// The back-end failed. Nothing of the verb is visible, or the verb may be repeated.
    #[error("the store failed: {0}")]
    Backend(String),
}

impl From<StoreError> for Unfinished {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Fenced => Self::LeaseLost,
            StoreError::RequestDiffers => Self::Stop(error.to_string()),
            StoreError::Full => Self::Store(error.to_string()),
            StoreError::Backend(why) => Self::Store(why),
        }
    }
}

/// The result of a verb.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// The right to work on one job for a while. Verbs that change the job take it. Once another lease
/// on the same job has been granted, they return [`StoreError::Fenced`] and change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The aggregation or collection job, by the store's internal number.
    pub job: u64,
    /// Increases with every lease granted.
    pub fence: u64,
}

/// A report to be stored. The leader has already checked it (`leader::upload`).
#[derive(Clone, Debug)]
pub struct NewReport {
    /// Its task.
    pub task_id: TaskId,
    /// Its timestamp: a closing bucket rejects the report by it. `None` in leader-selected tasks.
    pub bucket: Option<Time>,
    /// The leader's HPKE key that the report names. The key must be kept until the record is dead.
    pub hpke_config_id: HpkeConfigId,
    /// The encoded `Report`, or zeros: cover is committed like a report, and goes into no job.
    /// It may be a part of a longer message: storing it needs no copy beside that of the disk.
    pub report: Bytes,
}

/// How long a report that the helper found too early waits, by the store's clock, before
/// [`LeaderStore::backlog`] offers it again: the helper's clock has to advance first.
pub const REQUEUE_PAUSE: Duration = Duration::from_secs(1);

/// An accepted report, read back.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its task.
    pub task_id: TaskId,
    /// The encoded `Report`.
    pub report: Bytes,
}

/// A part of the backlog, in the form that its store needs to find the records again.
#[derive(Clone)]
pub struct Stretch(Arc<dyn Any + Send + Sync>);

impl Stretch {
    pub(crate) fn new(place: impl Any + Send + Sync) -> Self {
        Self(Arc::new(place))
    }

    /// The store's own form. Returns an error if the stretch comes from another kind of store.
    pub(crate) fn get<T: Any>(&self) -> Result<&T> {
        let foreign = || StoreError::Backend("the stretch belongs to another store".into());
        self.0.downcast_ref().ok_or_else(foreign)
    }
}

impl fmt::Debug for Stretch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stretch").finish_non_exhaustive()
    }
}

/// Chooses tasks. It is called on a thread of the store, and must not wait.
pub type TaskFilter = Arc<dyn Fn(&TaskId) -> bool + Send + Sync>;

/// Whose jobs are leased next. Tasks take turns in the order of their ids, so that no task has to
/// wait for all the jobs of another.
#[derive(Clone)]
pub struct Turn {
    /// The task that had the last turn.
    pub after: Option<TaskId>,
    /// Says whether a task's jobs can be worked on now. Those of others are left where they are.
    pub is_ready: TaskFilter,
}

/// The turn of any task, from the first one on.
impl Default for Turn {
    fn default() -> Self {
        Self { after: None, is_ready: Arc::new(|_| true) }
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("after", &self.after).finish_non_exhaustive()
    }
}

/// What [`LeaderStore::backlog`] offers.
#[derive(Clone, Debug, Default)]
pub struct Backlog {
    /// For [`LeaderStore::fix_jobs`]; `None` if there is nothing to take. A stretch may hold no
    /// records and still have to be taken: all its reports may belong to tasks that are not served.
    pub stretch: Option<Stretch>,
    /// Its records, in order of arrival.
    pub records: Vec<Record>,
    /// Tasks that are not served and have reports in the backlog, as far as the store has seen
    /// them.
    pub unserved: Vec<TaskId>,
}

/// What [`LeaderStore::fix_jobs`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fixed {
    /// Committed: this many jobs exist now, and these reports were refused.
    Committed {
        /// Jobs with at least one report.
        jobs: usize,
        /// Refused inside the transaction: replayed, or the bucket is closed.
        rejections: Rejections,
    },
    /// Another caller took the stretch first. Read the backlog again.
    Moved,
}

/// A job that a worker holds.
#[derive(Clone, Debug)]
pub struct LeasedJob {
    /// The right to work on it.
    pub lease: Lease,
    /// The task.
    pub task_id: TaskId,
    /// The time that was fixed together with the set.
    pub now: Moment,
    /// The batch, in leader-selected tasks.
    pub batch_id: Option<BatchId>,
    /// The records in their fixed order.
    pub records: Vec<Record>,
    /// The digest of the request, if one may have been sent before.
    pub request_digest: Option<Digest>,
}

/// The answer to a collector's request for a collection job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionCreated {
    /// A new job.
    Created(CollectionJobId),
    /// The same request created this job before, and it was not deleted.
    Existing(CollectionJobId),
    /// Part of the interval is collected, or another unfinished job covers part of it.
    Overlap,
}

/// The state of a collection job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectionState {
    /// Not finished; the collector learns nothing more.
    Pending,
    /// The encoded `CollectionJobResp`.
    Finished(Vec<u8>),
    /// Failed, with the URN of the DAP problem type and an explanation.
    Failed {
        /// `urn:ietf:params:ppm:dap:error:...`
        problem: String,
        /// For humans.
        detail: String,
    },
}

/// How many jobs a list of collection jobs has at most.
pub const MAX_LISTED: usize = 1000;

/// A collection job in a list: its id, its interval in time-interval tasks, and how far it is.
pub type ListedCollection = (CollectionJobId, Option<Interval>, JobState);

/// The answer to a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionDeleted {
    /// Deleted, now or earlier.
    Deleted,
    /// Its batch is closing. The job must finish first, or the batch would be lost.
    UnderWay,
    /// There is a result, which a cancellation does not delete.
    Finished,
}

/// A collection job that a worker holds.
#[derive(Clone, Debug)]
pub struct LeasedCollection {
    /// The right to work on it.
    pub lease: Lease,
    /// The task.
    pub task_id: TaskId,
    /// The collector's id for it.
    pub id: CollectionJobId,
    /// The collector's request, byte for byte.
    pub request: Vec<u8>,
    /// The digest of the aggregate-share request, if one may have been sent before.
    pub request_digest: Option<Digest>,
}

/// How far a batch has closed.
#[derive(Clone, Debug)]
pub enum Closing {
    /// Fewer reports than the minimum so far; the batch stays open.
    TooFew,
    /// Closed to new reports; reports accepted before may still be added.
    Draining,
    /// Complete.
    Drained {
        /// The batch, as requested from the helper.
        selector: BatchSelector,
        /// The leader's aggregate.
        aggregate: BucketAggregate,
    },
}

/// What an aggregator commits when it releases a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Release {
    /// The encoded message that hands out the share.
    pub response: Vec<u8>,
    /// What the aggregator owes the public log from then on, if it writes receipts.
    pub receipt: Option<Released>,
}

/// A release without a receipt.
impl From<Vec<u8>> for Release {
    fn from(response: Vec<u8>) -> Self {
        Self { response, receipt: None }
    }
}

/// A receipt that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwedReceipt {
    /// The task.
    pub task_id: TaskId,
    /// Its number among those of the task, from 1.
    pub number: u64,
    /// What it says.
    pub released: Released,
}

/// What [`TaskStore::next_receipts`] returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwedReceipts {
    /// How many are due and not sent.
    pub count: u64,
    /// The next one of each task that has any.
    pub next: Vec<OwedReceipt>,
}

/// The result of a helper's commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// Done.
    Done,
    /// The same request was answered before, with these bytes; nothing was added.
    Already(Vec<u8>),
    /// A report is spent, or a bucket was collected or changed, and the caller did not know.
    /// Nothing was added: load the state and recompute.
    Conflict,
}

/// A batch as an aggregator holds it.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Merged over its buckets; `None` if it is empty.
    pub aggregate: Option<BucketAggregate>,
    /// Whether any of its buckets was collected.
    pub collected: bool,
}

/// Totals of one task since it began, for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reports whose output shares were added to a bucket, collected or not.
    pub aggregated: u64,
    /// Reports rejected after they were acknowledged (leader), or in a job (helper).
    pub rejections: Rejections,
}

/// How much is waiting, for back-pressure and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes of reports that are accepted and not yet in a job, including the store's framing.
    pub backlog_bytes: u64,
    /// Bytes of all segments on disk.
    pub segment_bytes: u64,
    /// Aggregation jobs not yet committed.
    pub jobs: u64,
    /// Collection jobs not yet finished.
    pub collections: u64,
}

/// Aggregation jobs of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskJobs {
    /// Jobs not yet committed.
    pub jobs: u64,
    /// Their reports.
    pub reports: u64,
}

/// A task that was learned while the server ran, with everything needed to serve it again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoredTask {
    /// Announced in band (taskprov): the encoded `TaskConfiguration`.
    Announced(Vec<u8>),
    /// Derived from a recipe of the log, with all that is needed from the log.
    Recipe {
        /// The recipe's canonical JSON.
        json: Vec<u8>,
        /// Its certified audience, if it has one.
        audience: Option<u64>,
    },
}

/// What a log has committed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogCheckpoint {
    /// The name of the log.
    pub origin: String,
    /// How many entries it has.
    pub size: u64,
    /// The root of its tree.
    pub root: [u8; 32],
}

/// What both roles need.
#[async_trait]
pub trait TaskStore: Send + Sync + 'static {
    /// Stores a task that was learned while the server ran. Durable on return; repeating it changes
    /// nothing.
    async fn put_task(&self, task_id: TaskId, task: StoredTask) -> Result<()>;

    /// The tasks stored by [`Self::put_task`].
    async fn tasks(&self) -> Result<Vec<(TaskId, StoredTask)>>;

    /// Stores the newest checkpoint of a log that was acted upon, replacing an older one of the
    /// same origin. Durable on return. The caller checks that it extends the older one.
    async fn put_log_checkpoint(&self, checkpoint: LogCheckpoint) -> Result<()>;

    /// The checkpoint stored by [`Self::put_log_checkpoint`].
    async fn log_checkpoint(&self, origin: String) -> Result<Option<LogCheckpoint>>;

    /// Deletes everything about a task: reports, jobs, buckets, ids, counters. Repeating it changes
    /// nothing. For tasks whose interval, and the collector's grace period after it, are over. The
    /// same transaction adds the task to [`Self::forgotten_tasks`], for good.
    async fn forget_task(&self, task_id: TaskId) -> Result<()>;

    /// The tasks that were ever forgotten. They must never be served again, whatever the clock says:
    /// without their ids and buckets, their reports could count twice.
    async fn forgotten_tasks(&self) -> Result<Vec<TaskId>>;

    /// The receipts to send at this time: of each task the one that was returned last, until it is
    /// sent, and then the one that has been due for longest. Gives it its number, durably: the same
    /// receipt always has the same number. Receipts outlive their task, until they are sent.
    async fn next_receipts(&self, now: Moment) -> Result<OwedReceipts>;

    /// Records that the public log has this receipt. Repeating it changes nothing.
    async fn receipt_sent(&self, task_id: TaskId, number: u64) -> Result<()>;

    /// Totals of a task.
    async fn counters(&self, task_id: TaskId) -> Result<Counters>;

    /// How much is waiting.
    async fn load(&self) -> Result<Load>;
}

/// The leader's verbs.
#[async_trait]
pub trait LeaderStore: TaskStore {
    /// Appends reports to the backlog. When the future resolves, each accepted one is durable (one
    /// group commit serves all concurrent callers) and may be acknowledged. A report for a closing
    /// or collected bucket is rejected here; no acknowledged report is ever rejected for that
    /// reason. Not idempotent: a report appended twice is rejected as replayed when jobs are fixed.
    async fn accept_reports(
        &self,
        reports: Vec<NewReport>,
    ) -> Result<Vec<std::result::Result<(), Rejection>>>;

    /// Reads the beginning of the backlog, at most `max_reports` reports and about `max_bytes`
    /// bytes: first reports that were set aside and are due, then new ones. Reports are set aside
    /// to be retried, which are due after [`REQUEUE_PAUSE`], or because their task was not served.
    /// Only reports of tasks that are served now are offered; the others stay in the backlog.
    async fn backlog(
        &self,
        max_reports: usize,
        max_bytes: usize,
        is_served: TaskFilter,
    ) -> Result<Backlog>;

    /// Takes a stretch of the backlog and fixes the sets of new jobs, in one durable transaction.
    /// Everything that could make the leader reject a report later is decided here: an id already
    /// taken in its scope or a closed bucket strikes the report from its job and counts it; the ids
    /// of the others are reserved. Jobs name records by their index in [`Backlog::records`];
    /// records in no job are dropped. Reports that were not offered because their task was not
    /// served are set aside, so they hold back no others. Succeeds only if no other caller has
    /// taken any of the stretch.
    async fn fix_jobs(&self, stretch: Stretch, formed: FormedJobs) -> Result<Fixed>;

    /// Leases a job that is due, by the store's clock, and not leased: the oldest one of the task
    /// whose turn it is.
    async fn lease_job(&self, duration: Duration, turn: Turn) -> Result<Option<LeasedJob>>;

    /// The aggregation jobs of each task that are not committed yet.
    async fn jobs_by_task(&self) -> Result<HashMap<TaskId, TaskJobs>>;

    /// Makes the digest of the job's request durable, before its first byte is sent. The same
    /// digest again changes nothing; another one is [`StoreError::RequestDiffers`]. For both kinds
    /// of job.
    async fn mark_sent(&self, lease: Lease, digest: Digest) -> Result<()>;

    /// Commits a job: in one transaction it adds to buckets and counters, requeues records,
    /// releases ids and drops the job's records. Dead records disappear from the disk soon after. A
    /// repeated commit is [`StoreError::Fenced`] and changes nothing. Each report of the job must
    /// be in a bucket of the job, or rejected, or requeued; otherwise the commit fails with
    /// [`StoreError::Backend`].
    async fn commit_job(&self, lease: Lease, outcome: LeaderOutcome) -> Result<()>;

    /// Gives a lease back; the job is due again after `pause` by the store's clock. For both kinds
    /// of job.
    async fn release(&self, lease: Lease, pause: Duration) -> Result<()>;

    /// Drops a job whose request the helper rejected without committing anything. Its reports count
    /// as [`Rejection::JobAbandoned`], their records are dropped, and their ids stay reserved.
    async fn abandon_job(&self, lease: Lease) -> Result<()>;

    /// Creates a collection job, or finds the one that the same request created. The id is
    /// SHA-256(task, request, ordinal), where the ordinal counts deleted jobs of the same request.
    async fn create_collection(
        &self,
        task_id: TaskId,
        request: Vec<u8>,
        query: Query,
    ) -> Result<CollectionCreated>;

    /// The state of a collection job; `None` if there is no such job.
    async fn collection(
        &self,
        task_id: TaskId,
        id: CollectionJobId,
    ) -> Result<Option<CollectionState>>;

    /// Deletes a collection job that has not started to close its batch, or has finished or failed.
    /// Deleting it again changes nothing, even if the same request has created a new job since.
    async fn delete_collection(
        &self,
        task_id: TaskId,
        id: CollectionJobId,
    ) -> Result<CollectionDeleted>;

    /// The same for a collector that has not seen a result: a job that has finished is kept.
    async fn cancel_collection(
        &self,
        task_id: TaskId,
        id: CollectionJobId,
    ) -> Result<CollectionDeleted>;

    /// The newest collection jobs of a task, the newest first; at most [`MAX_LISTED`].
    async fn collections(&self, task_id: TaskId) -> Result<Vec<ListedCollection>>;

    /// As [`Self::lease_job`], for collection jobs.
    async fn lease_collection(
        &self,
        duration: Duration,
        turn: Turn,
    ) -> Result<Option<LeasedCollection>>;

    /// Closes the batch of a collection job once it holds at least `min_batch_size` committed
    /// reports, then returns how far it has drained: reports accepted before the closing are still
    /// added, later ones are not. Durable; repeat it until `Drained`, which then stays the same.
    async fn close_batch(&self, lease: Lease, min_batch_size: u64) -> Result<Closing>;

    /// Stores the response and the receipt, marks the batch collected permanently, and deletes its
    /// shares and those report ids whose scope is one of its buckets. A repeated call is
    /// [`StoreError::Fenced`].
    async fn finish_collection(&self, lease: Lease, release: Release) -> Result<()>;

    /// Ends a collection job without a result. A batch that was closed stays closed.
    async fn fail_collection(&self, lease: Lease, problem: String, detail: String) -> Result<()>;

    /// HPKE keys that live records name, and perhaps more (a store may track them by segment).
    async fn live_hpke_configs(&self) -> Result<Vec<HpkeConfigId>>;
}

/// The helper's verbs.
#[async_trait]
pub trait HelperStore: TaskStore {
    /// The stored response to a request with this digest.
    async fn response(&self, task_id: TaskId, digest: Digest) -> Result<Option<Vec<u8>>>;

    /// The reason why each report could not be committed now: its id is spent in its scope, or its
    /// bucket is collected.
    async fn spent_reports(
        &self,
        task_id: TaskId,
        scope: ReplayScope,
        reports: Vec<(Bucket, ReportId)>,
    ) -> Result<Vec<Option<Rejection>>>;

    /// Commits a job: spent ids, buckets, counters and the response, in one durable transaction.
    /// The same digest again adds nothing and returns the stored response.
    async fn commit_helper_job(
        &self,
        task_id: TaskId,
        digest: Digest,
        outcome: HelperOutcome,
    ) -> Result<Committed>;

    /// Deletes a stored response, because the leader has committed. Ids stay spent.
    async fn forget_response(&self, task_id: TaskId, digest: Digest) -> Result<()>;

    /// The batch that a selector names.
    async fn batch(&self, task_id: TaskId, selector: BatchSelector) -> Result<Batch>;

    /// Marks a batch collected permanently, stores the response and the receipt, and deletes the
    /// shares, the stored responses of its jobs and those report ids whose scope is one of its
    /// buckets. Does all this only if the batch still has this count and checksum and no part of it
    /// was collected; otherwise returns [`Committed::Conflict`].
    async fn collect_batch(
        &self,
        task_id: TaskId,
        selector: BatchSelector,
        expected: (u64, [u8; 32]),
        digest: Digest,
        release: Release,
    ) -> Result<Committed>;
}
