//! The expected state, recorded during the walk in a different way from any store.

use std::collections::{BTreeMap, HashSet};

use sotto_protocol::{Bucket, Digest, Rejection, Rejections, ReplayScope};
use sotto_store::{CollectionState, Counters, Record};
use sotto_wire::{
    BatchId, BatchMode, BatchSelector, CollectionJobId, Interval, Query, TaskId, Time,
};

use super::super::reports::{Report, batch_mode, replay_scope};

/// The expected state of all the leader's tasks.
pub(super) struct Oracle {
    pub(super) tasks: BTreeMap<TaskId, TaskFacts>,
    /// Jobs not yet ended.
    pub(super) jobs: Vec<JobFacts>,
    pub(super) collections: Vec<CollectionFacts>,
}

#[derive(Default)]
pub(super) struct TaskFacts {
    /// Every report made so far, by cell.
    pub(super) made: Vec<Report>,
    /// Acknowledged or requeued copies that no job has taken.
    pub(super) waiting: Vec<Report>,
    /// Copies whose upload failed: they may turn up once, or never.
    pub(super) doubtful: Vec<Report>,
    reserved: HashSet<(Option<Time>, ReportIdBytes)>,
    /// In buckets that were not collected.
    pub(super) counted: Vec<(Bucket, Report)>,
    pub(super) counters: Counters,
    /// Acknowledged copies, and doubtful ones that turned up.
    pub(super) accepted: u64,
    pub(super) closed: Vec<Interval>,
    pub(super) collected: Vec<Interval>,
}

type ReportIdBytes = [u8; 16];

pub(super) struct JobFacts {
    pub(super) task_id: TaskId,
    pub(super) batch_id: Option<BatchId>,
    pub(super) reports: Vec<Report>,
    pub(super) digest: Option<Digest>,
    pub(super) is_held: bool,
}

pub(super) struct CollectionFacts {
    pub(super) task_id: TaskId,
    pub(super) id: CollectionJobId,
    pub(super) query: Query,
    pub(super) state: CollectionState,
    /// Set once it is closed.
    pub(super) selector: Option<BatchSelector>,
}

impl Oracle {
    pub(super) fn new(tasks: impl IntoIterator<Item = TaskId>) -> Self {
        let tasks = tasks.into_iter().map(|task_id| (task_id, TaskFacts::default())).collect();
        Self { tasks, jobs: Vec::new(), collections: Vec::new() }
    }

    pub(super) fn task(&mut self, task_id: TaskId) -> &mut TaskFacts {
        self.tasks.get_mut(&task_id).expect("a report of an unknown task")
    }

    /// Records that were read must be waiting copies, each as often as it was accepted.
    pub(super) fn check_waiting(&mut self, records: &[Record]) {
        for (task_id, task) in &mut self.tasks {
            let mut left = task.waiting.clone();
            for record in records.iter().filter(|record| record.task_id == *task_id) {
                let report = Report::decode(record);
                if remove(&mut left, &report) {
                    continue;
                }
                assert!(remove(&mut task.doubtful, &report), "a report out of nowhere");
                task.waiting.push(report);
                task.accepted += 1;
            }
        }
    }

    /// Takes a copy into a job; returns whether its id was free.
    pub(super) fn reserve(&mut self, report: &Report) -> bool {
        let task = self.task(report.task_id);
        assert!(remove(&mut task.waiting, report));
        let is_free = task.reserved.insert((scope(report), *report.id.as_bytes()));
        if !is_free {
            task.counters.rejections.add(Rejection::ReportReplayed);
        }
        is_free
    }

    pub(super) fn refuse(&mut self, report: &Report, reason: Rejection) {
        let task = self.task(report.task_id);
        assert!(remove(&mut task.waiting, report));
        task.counters.rejections.add(reason);
    }

    /// Records that a report of an ended job was counted.
    pub(super) fn count(&mut self, report: &Report, batch_id: Option<BatchId>) {
        let task = self.task(report.task_id);
        task.counted.push((report.bucket(batch_id), *report));
        task.counters.aggregated += 1;
    }

    /// Records that a report of an ended job was rejected.
    pub(super) fn reject(&mut self, report: &Report, reason: Rejection) {
        self.task(report.task_id).counters.rejections.add(reason);
    }

    /// Records that a report of an ended job released its id.
    pub(super) fn release(&mut self, report: &Report) {
        let reserved = &mut self.task(report.task_id).reserved;
        assert!(reserved.remove(&(scope(report), *report.id.as_bytes())));
    }

    /// Records that a report of an ended job waits again.
    pub(super) fn requeue(&mut self, report: &Report) {
        self.release(report);
        self.task(report.task_id).waiting.push(*report);
    }

    /// What is counted in a batch.
    pub(super) fn held(&self, task_id: TaskId, selector: &BatchSelector) -> Vec<Report> {
        let counted = self.tasks[&task_id].counted.iter();
        counted.filter(|(bucket, _)| is_in(bucket, selector)).map(|(_, report)| *report).collect()
    }

    /// Whether a report may still be added to a batch.
    pub(super) fn is_expected(&self, task_id: TaskId, selector: &BatchSelector) -> bool {
        let mut jobs = self.jobs.iter().filter(|job| job.task_id == task_id);
        let in_job = jobs.any(|job| {
            job.reports.iter().any(|report| is_in(&report.bucket(job.batch_id), selector))
        });
        // In leader-selected tasks, what waits may go to any batch.
        let is_timed = batch_mode(&task_id) == BatchMode::TimeInterval;
        let mut waiting = self.tasks[&task_id].waiting.iter();
        in_job || is_timed && waiting.any(|report| is_in(&report.bucket(None), selector))
    }

    pub(super) fn collect(&mut self, task_id: TaskId, selector: &BatchSelector) {
        let task = self.task(task_id);
        task.counted.retain(|(bucket, _)| !is_in(bucket, selector));
        if let BatchSelector::TimeInterval(interval) = selector {
            task.collected.push(*interval);
        }
    }

    pub(super) fn forget(&mut self, task_id: TaskId) {
        // An upload that failed may still turn up.
        let doubtful = std::mem::take(&mut self.task(task_id).doubtful);
        self.tasks.insert(task_id, TaskFacts { doubtful, ..TaskFacts::default() });
        self.jobs.retain(|job| job.task_id != task_id);
        self.collections.retain(|collection| collection.task_id != task_id);
    }
}

impl TaskFacts {
    pub(super) fn is_closed(&self, report: &Report) -> bool {
        let is_timed = batch_mode(&report.task_id) == BatchMode::TimeInterval;
        is_timed && self.closed.iter().any(|interval| interval.contains(report.time))
    }
}

/// Rejections with one reason, for comparison with what a store says it struck.
pub(super) fn replayed(count: u64) -> Rejections {
    let mut rejections = Rejections::default();
    rejections.add_many(Rejection::ReportReplayed, count);
    rejections
}

fn remove(reports: &mut Vec<Report>, report: &Report) -> bool {
    let found = reports.iter().position(|other| other == report);
    found.map(|index| reports.swap_remove(index)).is_some()
}

fn scope(report: &Report) -> Option<Time> {
    (replay_scope(&report.task_id) == ReplayScope::Bucket).then_some(report.time)
}

pub(super) fn is_in(bucket: &Bucket, selector: &BatchSelector) -> bool {
    match (bucket, selector) {
        (Bucket::Time(time), BatchSelector::TimeInterval(interval)) => interval.contains(*time),
        (Bucket::Batch(id), BatchSelector::LeaderSelected(selected)) => id == selected,
        _ => false,
    }
}
