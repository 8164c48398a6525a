//! From the backlog to the sets of new aggregation jobs.
//!
//! Only groups. Which ids are spent and which buckets are closed is decided by the store, in the
//! transaction that fixes the sets.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};

use rand_core::CryptoRng;
use sotto_wire::{BatchId, BatchMode, Decode, Report, ReportId, TaskId, Time};

use crate::{AggregatorTask, Moment, Rejection, ReplayScope};

/// A record of the backlog.
#[derive(Clone, Copy, Debug)]
pub struct BacklogReport<'a> {
    /// Its task.
    pub task_id: TaskId,
    /// The encoded `Report`.
    pub report: &'a [u8],
}

/// How large a job may become. A single report always fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobLimits {
    /// Reports.
    pub max_job_reports: usize,
    /// Bytes of its records, and of one accumulator for each of its buckets.
    pub max_job_bytes: usize,
}

/// Where the output shares of a new job go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormedBatch {
    /// time_interval: by each report's timestamp.
    TimeInterval,
    /// leader_selected: the task's open batch, or a new one of this id if none is open.
    LeaderSelected {
        /// Fresh and random.
        if_none_open: BatchId,
    },
}

/// One report of a new job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormedReport {
    /// Which record of the backlog.
    pub record: usize,
    /// Its id.
    pub report_id: ReportId,
    /// Its timestamp.
    pub time: Time,
}

/// An aggregation job to be fixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormedJob {
    /// The task.
    pub task_id: TaskId,
    /// The clock of every judgement of this job, now and in each retry.
    pub now: Moment,
    /// Where its output shares go.
    pub batch: FormedBatch,
    /// Among which reports its ids must be new.
    pub scope: ReplayScope,
    /// Its reports, in order of arrival, their ids distinct.
    pub reports: Vec<FormedReport>,
}

/// A stretch of the backlog, sorted into jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormedJobs {
    /// The jobs, in the order of their first reports.
    pub jobs: Vec<FormedJob>,
    /// Records that go into no job.
    pub rejections: Vec<(TaskId, Rejection)>,
    /// The first record whose task is unknown. Neither it nor any record after it was looked at: the
    /// stretch may be taken only up to it.
    pub stopped_at: Option<usize>,
}

/// Sorts records by task into jobs within the limits. `task` finds a task that is served.
///
/// Stops at a record whose task is unknown: its reports were acknowledged, and a task that is missing
/// from the configuration by mistake must not cost them.
///
/// `rng` names the batches of leader-selected tasks.
pub fn form_jobs<T: Borrow<AggregatorTask>>(
    records: &[BacklogReport<'_>],
    task: impl Fn(&TaskId) -> Option<T>,
    limits: JobLimits,
    now: Moment,
    rng: &mut dyn CryptoRng,
) -> FormedJobs {
    let mut formed = FormedJobs::default();
    let mut open: HashMap<TaskId, Option<OpenTask>> = HashMap::new();
    for (record, BacklogReport { task_id, report }) in records.iter().enumerate() {
        let entry = open
            .entry(*task_id)
            .or_insert_with(|| task(task_id).map(|task| OpenTask::new(task.borrow(), rng)));
        let Some(open_task) = entry else {
            formed.stopped_at = Some(record);
            break;
        };
        let Ok(decoded) = Report::from_bytes(report) else {
            formed.rejections.push((*task_id, Rejection::InvalidMessage));
            continue;
        };
        let (report_id, time) = (decoded.report_metadata.report_id, decoded.report_metadata.time);
        if open_task.job.is_none() || open_task.is_full(report.len(), time, limits) {
            open_task.begin_job(formed.jobs.len());
            let OpenTask { batch, scope, .. } = *open_task;
            let reports = Vec::new();
            formed.jobs.push(FormedJob { task_id: *task_id, now, batch, scope, reports });
        }
        // The helper refuses a whole job in which an id occurs twice. The store refuses an id twice in its
        // scope, perhaps one bucket; a device that sends one id with two timestamps must not sink other devices' reports.
        if !open_task.ids.insert(report_id) {
            formed.rejections.push((*task_id, Rejection::ReportReplayed));
            continue;
        }
        open_task.add(report.len(), time);
        if let Some(job) = open_task.job.and_then(|job| formed.jobs.get_mut(job)) {
            job.reports.push(FormedReport { record, report_id, time });
        }
    }
    formed
}

/// A task of which records were seen, with the job that is being filled.
struct OpenTask {
    mode: BatchMode,
    batch: FormedBatch,
    scope: ReplayScope,
    accumulator_len: usize,
    job: Option<usize>,
    ids: HashSet<ReportId>,
    buckets: HashSet<Time>,
    len: usize,
}

impl OpenTask {
    fn new(task: &AggregatorTask, rng: &mut dyn CryptoRng) -> Self {
        let mode = task.task.configuration().batch_mode();
        let batch = match mode {
            BatchMode::TimeInterval => FormedBatch::TimeInterval,
            BatchMode::LeaderSelected => {
                let mut id = [0; BatchId::LEN];
                rng.fill_bytes(&mut id);
                FormedBatch::LeaderSelected { if_none_open: BatchId::new(id) }
            }
        };
        Self {
            mode,
            batch,
            scope: task.replay_scope(),
            accumulator_len: task.task.vdaf().sizes().aggregate_share,
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
        let added = report_len + if new_bucket { self.accumulator_len } else { 0 };
        !self.ids.is_empty()
            && (self.ids.len() >= limits.max_job_reports || self.len + added > limits.max_job_bytes)
    }

    fn add(&mut self, report_len: usize, time: Time) {
        self.len += report_len;
        if self.mode == BatchMode::TimeInterval && self.buckets.insert(time) {
            self.len += self.accumulator_len;
        }
    }
}
