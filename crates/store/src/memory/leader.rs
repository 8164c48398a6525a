//! Reports and aggregation jobs.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sotto_protocol::leader::aggregate::{FormedBatch, FormedJob, FormedJobs, LeaderOutcome};
use sotto_protocol::{Bucket, Digest, Rejection, Rejections};
use sotto_wire::{BatchId, CollectionJobId, HpkeConfigId, Query, TaskId};

use super::{
    BatchState, Job, JobReport, MemoryStore, Requeued, State, StoredReport, Verdicts, id_key,
};
use crate::clock::milliseconds;
use crate::hold::Hold;
use crate::outcome::check_leader;
use crate::{
    Backlog, Closing, CollectionCreated, CollectionDeleted, CollectionState, Fixed, LeaderStore,
    Lease, LeasedCollection, LeasedJob, ListedCollection, NewReport, REQUEUE_PAUSE, Record,
    Release, Result, StoreError, Stretch, TaskFilter, TaskJobs, Turn,
};

/// A part of the backlog: what [`Stretch`] holds.
enum Part {
    /// The records between two positions, without those of tasks that are not served.
    New { from: u64, to: u64, records: Vec<u64>, left: Vec<(u64, TaskId)> },
    /// Requeued records: their numbers and positions.
    Requeued(Vec<(u64, u64)>),
}

#[async_trait]
impl LeaderStore for MemoryStore {
    async fn accept_reports(&self, reports: Vec<NewReport>) -> Result<Verdicts> {
        let mut state = self.lock();
        let verdicts: Verdicts = reports
            .iter()
            .map(|report| match (state.tasks.get(&report.task_id), report.bucket) {
                (Some(task), Some(time)) if task.is_closed(time) => Err(Rejection::BatchCollected),
                _ => Ok(()),
            })
            .collect();
        let accepted: Vec<NewReport> =
            reports.into_iter().zip(&verdicts).filter(|(_, v)| v.is_ok()).map(|(r, _)| r).collect();
        let bytes: u64 = accepted.iter().map(|report| report.report.len() as u64).sum();
        if bytes > 0 && state.backlog_bytes().saturating_add(bytes) > self.max_backlog_bytes {
            return Err(StoreError::Full);
        }
        for NewReport { task_id, hpke_config_id, report, .. } in accepted {
            let position = state.end;
            state.end += 1;
            // A copy: the report may be a part of a longer message, whose memory is counted elsewhere.
            let report = Bytes::copy_from_slice(&report);
            state.records.insert(position, StoredReport { task_id, hpke_config_id, report });
        }
        Ok(verdicts)
    }

    async fn backlog(
        &self,
        max_reports: usize,
        max_bytes: usize,
        is_served: TaskFilter,
    ) -> Result<Backlog> {
        let now_ms = self.now_ms();
        let state = self.lock();
        let mut unserved: BTreeSet<TaskId> =
            state.requeued.values().map(|requeued| requeued.task_id).collect();
        unserved.retain(|task_id| !is_served(task_id));
        let part = match state.due(max_reports.max(1), now_ms, &unserved) {
            due if due.is_empty() => state.unread(max_reports.max(1), max_bytes, &is_served),
            due => Part::Requeued(due),
        };
        let is_some = match &part {
            Part::New { from, to, left, .. } => {
                unserved.extend(left.iter().map(|(_, task_id)| *task_id));
                from != to
            }
            Part::Requeued(_) => true,
        };
        let records = part.positions().into_iter().filter_map(|at| state.record(at)).collect();
        let stretch = is_some.then(|| Stretch::new(part));
        Ok(Backlog { stretch, records, unserved: unserved.into_iter().collect() })
    }

    async fn fix_jobs(&self, stretch: Stretch, formed: FormedJobs) -> Result<Fixed> {
        let part: &Part = stretch.get()?;
        let mut state = self.lock();
        let is_there = match part {
            Part::New { from, .. } => *from == state.cursor,
            Part::Requeued(rows) => rows.iter().all(|(n, _)| state.requeued.contains_key(n)),
        };
        if !is_there {
            return Ok(Fixed::Moved);
        }
        let positions = part.positions();
        let reports = || formed.jobs.iter().flat_map(|job| &job.reports);
        if reports().any(|report| report.record >= positions.len()) {
            return Err(StoreError::Backend("a record is outside the stretch".into()));
        }
        if formed.jobs.iter().any(|job| !state.is_fresh(job)) {
            return Err(StoreError::Backend("the id of the new batch is not fresh".into()));
        }
        match part {
            Part::New { to, left, .. } => {
                state.cursor = *to;
                for &(position, task_id) in left {
                    if state.records.contains_key(&position) {
                        state.requeue(Requeued { position, task_id, time: None, due_ms: 0 });
                    }
                }
            }
            Part::Requeued(rows) => {
                state.requeued.retain(|number, _| !rows.iter().any(|(n, _)| n == number));
            }
        }
        let mut struck = Rejections::default();
        let mut live = HashSet::new();
        let mut count = 0;
        for job in &formed.jobs {
            let job = state.fix_job(job, &positions, &mut struck);
            live.extend(job.reports.iter().map(|report| report.position));
            if !job.reports.is_empty() {
                let number = state.next_job();
                state.jobs.insert(number, job);
                count += 1;
            }
        }
        for (task_id, reason) in formed.rejections {
            state.tasks.entry(task_id).or_default().counters.rejections.add(reason);
        }
        for position in positions.iter().filter(|position| !live.contains(*position)) {
            state.records.remove(position);
        }
        Ok(Fixed::Committed { jobs: count, rejections: struck })
    }

    async fn lease_job(&self, duration: Duration, turn: Turn) -> Result<Option<LeasedJob>> {
        let now_ms = self.now_ms();
        let mut state = self.lock();
        let free = state.jobs.iter().filter(|(_, job)| job.hold.is_free(now_ms));
        let Some(number) = turn.next(free.map(|(number, job)| (*number, job.task_id))) else {
            return Ok(None);
        };
        let hold = state.grant(now_ms, duration);
        let Some(job) = state.jobs.get_mut(&number) else { return Ok(None) };
        job.hold = hold;
        let mut leased = LeasedJob {
            lease: hold.lease(number),
            task_id: job.task_id,
            now: job.now,
            batch_id: job.batch_id,
            records: Vec::new(),
            request_digest: job.digest,
        };
        let positions: Vec<u64> = job.reports.iter().map(|report| report.position).collect();
        let records = positions.iter().filter_map(|position| state.records.get(position));
        let record = |record: &StoredReport| Record {
            task_id: record.task_id,
            report: record.report.clone(),
        };
        leased.records = records.map(record).collect();
        Ok(Some(leased))
    }

    async fn jobs_by_task(&self) -> Result<HashMap<TaskId, TaskJobs>> {
        let mut by_task: HashMap<TaskId, TaskJobs> = HashMap::new();
        for job in self.lock().jobs.values() {
            let of_task = by_task.entry(job.task_id).or_default();
            of_task.jobs += 1;
            of_task.reports += job.reports.len() as u64;
        }
        Ok(by_task)
    }

    async fn mark_sent(&self, lease: Lease, digest: Digest) -> Result<()> {
        let mut state = self.lock();
        let stored = if state.jobs.contains_key(&lease.job) {
            &mut state.held_job(lease)?.digest
        } else {
            &mut state.held_collection(lease)?.digest
        };
        match stored {
            Some(stored) if *stored != digest => Err(StoreError::RequestDiffers),
            _ => {
                *stored = Some(digest);
                Ok(())
            }
        }
    }

    async fn commit_job(&self, lease: Lease, outcome: LeaderOutcome) -> Result<()> {
        let due_ms = self.now_ms().saturating_add(milliseconds(REQUEUE_PAUSE));
        let mut state = self.lock();
        let job = state.held_job(lease)?;
        let ours: HashSet<Bucket> =
            job.reports.iter().map(|report| job.bucket_of(report)).collect();
        check_leader(&outcome, job.reports.len() as u64, |bucket| ours.contains(bucket))?;
        let task_id = job.task_id;
        let task = state.tasks.entry(task_id).or_default();
        // The last step that can fail, so it comes before the others.
        task.add(&outcome.buckets)?;
        task.count_rejections(&outcome.rejections);
        let Some(job) = state.jobs.remove(&lease.job) else { return Err(StoreError::Fenced) };
        for (index, report) in job.reports.iter().enumerate() {
            let is_requeued = outcome.requeue.contains(&index);
            let bucket = job.bucket_of(report);
            if is_requeued || outcome.unspent.contains(&index) {
                state.report_ids.remove(&id_key(task_id, job.scope, &bucket, report.report_id));
            }
            if is_requeued {
                let time = job.batch_id.is_none().then_some(report.time);
                state.requeue(Requeued { position: report.position, task_id, time, due_ms });
            } else {
                state.records.remove(&report.position);
            }
        }
        Ok(())
    }

    async fn release(&self, lease: Lease, pause: Duration) -> Result<()> {
        let released = Hold::released(self.now_ms(), pause);
        let mut state = self.lock();
        let hold = if state.jobs.contains_key(&lease.job) {
            &mut state.held_job(lease)?.hold
        } else {
            &mut state.held_collection(lease)?.hold
        };
        *hold = released;
        Ok(())
    }

    async fn abandon_job(&self, lease: Lease) -> Result<()> {
        let mut state = self.lock();
        state.held_job(lease)?;
        let Some(job) = state.jobs.remove(&lease.job) else { return Err(StoreError::Fenced) };
        for report in &job.reports {
            state.records.remove(&report.position);
        }
        let task = state.tasks.entry(job.task_id).or_default();
        task.counters.rejections.add_many(Rejection::JobAbandoned, job.reports.len() as u64);
        Ok(())
    }

    async fn create_collection(
        &self,
        task_id: TaskId,
        request: Vec<u8>,
        query: Query,
    ) -> Result<CollectionCreated> {
        Ok(self.lock().create_collection(task_id, request, query))
    }

    async fn collection(
        &self,
        task_id: TaskId,
        id: CollectionJobId,
    ) -> Result<Option<CollectionState>> {
        Ok(self.lock().find_collection(task_id, id).map(|(_, found)| found.state.clone()))
    }

    async fn delete_collection(
        &self,
        task_id: TaskId,
        id: CollectionJobId,
    ) -> Result<CollectionDeleted> {
        Ok(self.lock().delete_collection(task_id, id, false))
    }

    async fn cancel_collection(
        &self,
        task_id: TaskId,
        id: CollectionJobId,
    ) -> Result<CollectionDeleted> {
        Ok(self.lock().delete_collection(task_id, id, true))
    }

    async fn collections(&self, task_id: TaskId) -> Result<Vec<ListedCollection>> {
        Ok(self.lock().collections(task_id))
    }

    async fn lease_collection(
        &self,
        duration: Duration,
        turn: Turn,
    ) -> Result<Option<LeasedCollection>> {
        let now_ms = self.now_ms();
        Ok(self.lock().lease_collection(now_ms, duration, &turn))
    }

    async fn close_batch(&self, lease: Lease, min_batch_size: u64) -> Result<Closing> {
        self.lock().close_batch(lease, min_batch_size)
    }

    async fn finish_collection(&self, lease: Lease, release: Release) -> Result<()> {
        self.lock().finish_collection(lease, release)
    }

    async fn fail_collection(&self, lease: Lease, problem: String, detail: String) -> Result<()> {
        let mut state = self.lock();
        let collection = state.held_collection(lease)?;
        collection.state = CollectionState::Failed { problem, detail };
        collection.hold = Hold::default();
        Ok(())
    }

    async fn live_hpke_configs(&self) -> Result<Vec<HpkeConfigId>> {
        let state = self.lock();
        let mut ids: Vec<_> = state.records.values().map(|record| record.hpke_config_id).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }
}

impl State {
    fn record(&self, position: u64) -> Option<Record> {
        let StoredReport { task_id, report, .. } = self.records.get(&position)?;
        Some(Record { task_id: *task_id, report: report.clone() })
    }

    /// The requeued reports that are due, in order. One that is not due holds back the others of
    /// its task.
    fn due(&self, limit: usize, now_ms: u64, unserved: &BTreeSet<TaskId>) -> Vec<(u64, u64)> {
        let mut held_back = unserved.clone();
        let is_due = |(_, requeued): &(&u64, &Requeued)| {
            if requeued.due_ms > now_ms {
                held_back.insert(requeued.task_id);
            }
            !held_back.contains(&requeued.task_id)
        };
        let due = self.requeued.iter().filter(is_due).take(limit);
        due.map(|(number, requeued)| (*number, requeued.position)).collect()
    }

    /// The records from the cursor on.
    fn unread(&self, max_reports: usize, max_bytes: usize, is_served: &TaskFilter) -> Part {
        let (mut records, mut left) = (Vec::new(), Vec::new());
        let (mut to, mut bytes) = (self.cursor, 0);
        while to < self.end && records.len() < max_reports && (bytes < max_bytes || bytes == 0) {
            if let Some(record) = self.records.get(&to) {
                bytes += record.report.len();
                if is_served(&record.task_id) {
                    records.push(to);
                } else {
                    left.push((to, record.task_id));
                }
            }
            to += 1;
        }
        Part::New { from: self.cursor, to, records, left }
    }

    /// Whether the batch that a job may have to open is new.
    fn is_fresh(&self, job: &FormedJob) -> bool {
        let FormedBatch::LeaderSelected { window, if_none_open } = job.batch else { return true };
        self.tasks.get(&job.task_id).is_none_or(|task| {
            task.open_batch(window).is_some() || !task.batches.contains_key(&if_none_open)
        })
    }

    /// Stores the job with the reports that could be reserved.
    fn fix_job(&mut self, job: &FormedJob, positions: &[u64], struck: &mut Rejections) -> Job {
        let task = self.tasks.entry(job.task_id).or_default();
        let mut kept: Vec<JobReport> = Vec::new();
        for report in &job.reports {
            let Some(&position) = positions.get(report.record) else { continue };
            let (time, report_id) = (report.time, report.report_id);
            let (admitted, bucket) = match job.batch {
                FormedBatch::TimeInterval => (task.admits(time, position), Bucket::Time(time)),
                FormedBatch::LeaderSelected { if_none_open, .. } => {
                    (true, Bucket::Batch(if_none_open))
                }
            };
            let reason = if !admitted {
                Rejection::BatchCollected
            } else if !self.report_ids.insert(id_key(job.task_id, job.scope, &bucket, report_id)) {
                Rejection::ReportReplayed
            } else {
                kept.push(JobReport { position, time, report_id });
                continue;
            };
            task.counters.rejections.add(reason);
            struck.add(reason);
        }
        let batch_id = match job.batch {
            FormedBatch::LeaderSelected { window, if_none_open } if !kept.is_empty() => {
                Some(task.open_batch(window).unwrap_or_else(|| {
                    task.batches.insert(if_none_open, BatchState::Open { window });
                    if_none_open
                }))
            }
            _ => None,
        };
        let FormedJob { task_id, now, scope, .. } = *job;
        Job { hold: Hold::default(), task_id, now, batch_id, scope, reports: kept, digest: None }
    }
}

impl Part {
    /// The positions of its records.
    fn positions(&self) -> Vec<u64> {
        match self {
            Self::New { records, .. } => records.clone(),
            Self::Requeued(rows) => rows.iter().map(|(_, position)| *position).collect(),
        }
    }
}

impl super::TaskState {
    fn open_batch(&self, window: u64) -> Option<BatchId> {
        let mut batches = self.batches.iter();
        batches.find(|(_, state)| **state == BatchState::Open { window }).map(|(id, _)| *id)
    }

    /// The open batch of the earliest window that has enough reports.
    pub(super) fn ready_batch(&self, min_batch_size: u64) -> Option<BatchId> {
        let ready = self.batches.iter().filter_map(|(id, state)| match state {
            BatchState::Open { window } => {
                let count = self.buckets.get(&Bucket::Batch(*id))?.count;
                (count >= min_batch_size).then_some((*window, *id))
            }
            BatchState::Closed | BatchState::Collected => None,
        });
        ready.min().map(|(_, id)| id)
    }
}

impl Job {
    pub(super) fn bucket_of(&self, report: &JobReport) -> Bucket {
        self.batch_id.map_or(Bucket::Time(report.time), Bucket::Batch)
    }
}
