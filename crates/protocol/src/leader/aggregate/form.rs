//! From the backlog to the sets of new aggregation jobs.
//!
//! This only groups reports. The store decides which ids are spent and which buckets are closed, in
//! the transaction that fixes the sets.

use std::borrow::Borrow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use rand_core::CryptoRng;
use sotto_vdaf::Sizes;
use sotto_wire::{BatchId, BatchMode, Decode, Report, ReportId, TaskId, Time};

use crate::client::is_cover;
use crate::{AggregatorTask, Moment, Rejection, ReplayScope, memory};

/// How large a job may become. A single report always fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobLimits {
    /// Reports.
    pub max_job_reports: usize,
    /// Bytes of memory: what [`memory::report`] says of each report, plus one accumulator for
    /// each of its buckets.
    pub max_job_bytes: usize,
}

/// Where the output shares of a new job go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormedBatch {
    /// time_interval: by each report's timestamp.
    TimeInterval,
    /// leader_selected: the open batch of this window, or a new one with this id if none is open.
    LeaderSelected {
        /// From [`AggregatorTask::batch_window`]. All reports of the job are in it.
        window: u64,
        /// Fresh and random.
        if_none_open: BatchId,
    },
}

/// One report of a new job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormedReport {
    /// Its index among the records that were read from the backlog.
    pub record: usize,
    /// Its id.
    pub report_id: ReportId,
    /// Its timestamp.
    pub time: Time,
}

/// An aggregation job that the store is to fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormedJob {
    /// The task.
    pub task_id: TaskId,
    /// The clock for every judgement of this job, now and in each retry.
    pub now: Moment,
    /// Where its output shares go.
    pub batch: FormedBatch,
    /// The set of reports within which its ids must be new.
    pub scope: ReplayScope,
    /// Its reports, in order of arrival, with distinct ids.
    pub reports: Vec<FormedReport>,
}

/// A part of the backlog, sorted into jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormedJobs {
    /// The jobs, in the order of their first reports.
    pub jobs: Vec<FormedJob>,
    /// Records that do not go into any job.
    pub rejections: Vec<(TaskId, Rejection)>,
}

/// A task that is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("task {0} is not served")]
pub struct UnknownTask(pub TaskId);

/// Sorts records (task and encoded `Report`) by task and batch window into jobs within the limits.
/// `task` finds a task that is served; `rng` names the batches of leader-selected tasks.
///
/// An unknown task is an error: its reports were acknowledged and must not be lost because the task
/// is missing from the configuration. The store does not offer such reports. If a task stopped
/// being served in the meantime, the backlog must be read again.
pub fn form_jobs<'a, T: Borrow<AggregatorTask>>(
    records: impl IntoIterator<Item = (TaskId, &'a [u8])>,
    task: impl Fn(&TaskId) -> Option<T>,
    limits: JobLimits,
    now: Moment,
    rng: &mut dyn CryptoRng,
) -> Result<FormedJobs, UnknownTask> {
    let mut formed = FormedJobs::default();
    let mut tasks: HashMap<TaskId, T> = HashMap::new();
    let mut open: HashMap<(TaskId, u64), OpenTask> = HashMap::new();
    for (record, (task_id, report)) in records.into_iter().enumerate() {
        // Cover was answered like a report, and ends here.
        if is_cover(report) {
            continue;
        }
        let task = match tasks.entry(task_id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(task(&task_id).ok_or(UnknownTask(task_id))?),
        };
        let Ok(decoded) = Report::from_bytes(report) else {
            formed.rejections.push((task_id, Rejection::InvalidMessage));
            continue;
        };
        let (report_id, time) = (decoded.report_metadata.report_id, decoded.report_metadata.time);
        let task: &AggregatorTask = (*task).borrow();
        let window = task.batch_window(time);
        let open_task =
            open.entry((task_id, window)).or_insert_with(|| OpenTask::new(task, window, rng));
        if open_task.job.is_none() || open_task.is_full(report.len(), time, limits) {
            open_task.begin_job(formed.jobs.len());
            let OpenTask { batch, scope, .. } = *open_task;
            let reports = Vec::new();
            formed.jobs.push(FormedJob { task_id, now, batch, scope, reports });
        }
        // The helper rejects a whole job in which an id occurs twice. The store rejects a repeated
        // id only within its scope, which may be one bucket. A device that sends one id with two
        // timestamps must not make other devices' reports fail.
        if !open_task.ids.insert(report_id) {
            formed.rejections.push((task_id, Rejection::ReportReplayed));
            continue;
        }
        open_task.add(report.len(), time);
        if let Some(job) = open_task.job.and_then(|job| formed.jobs.get_mut(job)) {
            job.reports.push(FormedReport { record, report_id, time });
        }
    }
    Ok(formed)
}

/// A task, or one window of it, with records in this part of the backlog, and the job that is being
/// filled.
struct OpenTask {
    mode: BatchMode,
    batch: FormedBatch,
    scope: ReplayScope,
    sizes: Sizes,
    job: Option<usize>,
    ids: HashSet<ReportId>,
    buckets: HashSet<Time>,
    len: usize,
}

impl OpenTask {
    fn new(task: &AggregatorTask, window: u64, rng: &mut dyn CryptoRng) -> Self {
        let mode = task.task.configuration().batch_mode();
        let batch = match mode {
            BatchMode::TimeInterval => FormedBatch::TimeInterval,
            BatchMode::LeaderSelected => {
                let mut id = [0; BatchId::LEN];
                rng.fill_bytes(&mut id);
                FormedBatch::LeaderSelected { window, if_none_open: BatchId::new(id) }
            }
        };
        Self {
            mode,
            batch,
            scope: task.replay_scope(),
            sizes: task.task.vdaf().sizes(),
            job: None,
            ids: HashSet::new(),
            buckets: HashSet::new(),
            len: 0,
        }
    }

    fn begin_job(&mut self, job: usize) {
        self.job = Some(job);
        self.ids.clear();
        self.buckets.clear();
        self.len = 0;
    }

    fn is_full(&self, report_len: usize, time: Time, limits: JobLimits) -> bool {
        let new_bucket = self.mode == BatchMode::TimeInterval && !self.buckets.contains(&time);
        let accumulator = if new_bucket { self.sizes.aggregate_share } else { 0 };
        let added = memory::report(&self.sizes, report_len) + accumulator;
        !self.ids.is_empty()
            && (self.ids.len() >= limits.max_job_reports || self.len + added > limits.max_job_bytes)
    }

    fn add(&mut self, report_len: usize, time: Time) {
        self.len += memory::report(&self.sizes, report_len);
        if self.mode == BatchMode::TimeInterval && self.buckets.insert(time) {
            self.len += self.sizes.aggregate_share;
        }
    }
}
