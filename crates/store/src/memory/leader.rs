//! Reports and aggregation jobs.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use sotto_protocol::{Bucket, Digest, Rejection, Rejections};
use sotto_wire::{BatchId, CollectionJobId, HpkeConfigId, Query, TaskId};

use super::{BatchState, Hold, Job, MemoryStore, Requeued, State, StoredReport, Verdicts, id_key};
use crate::clock::milliseconds;
use crate::{
    Backlog, Closing, CollectionCreated, CollectionDeleted, CollectionState, Fixed, JobCommit,
    LeaderStore, Lease, LeasedCollection, LeasedJob, NewJob, NewJobBatch, NewJobReport, NewReport,
    REQUEUE_PAUSE, Record, RecordPlace, Result, StoreError,
};

/// The tokens of stretches of requeued reports have this bit.
const REQUEUED: u64 = 1 << 63;

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
            let report = report.into();
            state.records.insert(position, StoredReport { task_id, hpke_config_id, report });
        }
        Ok(verdicts)
    }

    async fn backlog(&self, max_reports: usize, max_bytes: usize) -> Result<Backlog> {
        let now_ms = self.now_ms();
        let state = self.lock();
        let due = state.requeued.iter().take_while(|requeued| requeued.due_ms <= now_ms);
        let due: Vec<&Requeued> = due.take(max_reports.max(1)).collect();
        if let (Some(first), Some(last)) = (due.first(), due.last()) {
            let records = due.iter().filter_map(|r| state.record(r.position)).collect();
            let (from, to) = (first.number | REQUEUED, (last.number + 1) | REQUEUED);
            return Ok(Backlog { from, to, records });
        }
        let mut backlog = Backlog { from: state.cursor, to: state.cursor, records: Vec::new() };
        let mut bytes = 0;
        while backlog.to < state.end
            && backlog.records.len() < max_reports.max(1)
            && (bytes < max_bytes || backlog.records.is_empty())
        {
            if let Some(record) = state.record(backlog.to) {
                bytes += record.report.len();
                backlog.records.push(record);
            }
            backlog.to += 1;
        }
        Ok(backlog)
    }

    async fn fix_jobs(
        &self,
        from: u64,
        to: u64,
        jobs: Vec<NewJob>,
        rejections: Vec<(TaskId, Rejection)>,
    ) -> Result<Fixed> {
        let mut state = self.lock();
        let places: HashSet<u64> = if from & REQUEUED == 0 {
            if from != state.cursor {
                return Ok(Fixed::Moved);
            }
            (from..to.min(state.end)).collect()
        } else {
            if state.requeued.front().is_none_or(|first| first.number | REQUEUED != from) {
                return Ok(Fixed::Moved);
            }
            let taken = state.requeued.iter().filter(|requeued| requeued.number | REQUEUED < to);
            taken.map(|requeued| requeued.position).collect()
        };
        let reports = || jobs.iter().flat_map(|job| &job.reports);
        if reports().any(|report| !places.contains(&report.place.offset)) {
            return Err(StoreError::Backend("a record outside the stretch".into()));
        }
        if jobs.iter().any(|job| !state.is_fresh(job)) {
            return Err(StoreError::Backend("the id of the new batch is not fresh".into()));
        }
        if from & REQUEUED == 0 {
            state.cursor = to.min(state.end);
        } else {
            state.requeued.retain(|requeued| requeued.number | REQUEUED >= to);
        }
        let mut struck = Rejections::default();
        let mut live = HashSet::new();
        let mut count = 0;
        for job in jobs {
            let job = state.fix_job(job, &mut struck);
            live.extend(job.reports.iter().map(|report| report.place.offset));
            if !job.reports.is_empty() {
                let number = state.next_job();
                state.jobs.insert(number, job);
                count += 1;
            }
        }
        for (task_id, reason) in rejections {
            state.tasks.entry(task_id).or_default().counters.rejections.add(reason);
        }
        state.records.retain(|place, _| !places.contains(place) || live.contains(place));
        Ok(Fixed::Committed { jobs: count, rejections: struck })
    }

    async fn lease_job(&self, duration: Duration) -> Result<Option<LeasedJob>> {
        let now_ms = self.now_ms();
        let mut state = self.lock();
        let free = state.jobs.iter().find(|(_, job)| job.hold.is_free(now_ms));
        let Some((&number, _)) = free else { return Ok(None) };
        let hold = state.grant(now_ms, duration);
        let Some(job) = state.jobs.get_mut(&number) else { return Ok(None) };
        job.hold = hold;
        let mut leased = LeasedJob {
            lease: Lease { job: number, fence: hold.fence },
            task_id: job.task_id,
            now: job.now,
            batch_id: job.batch_id,
            records: Vec::new(),
            request_digest: job.digest,
        };
        let places: Vec<u64> = job.reports.iter().map(|report| report.place.offset).collect();
        leased.records = places.iter().filter_map(|place| state.record(*place)).collect();
        Ok(Some(leased))
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

    async fn commit_job(&self, lease: Lease, commit: JobCommit) -> Result<()> {
        let due_ms = self.now_ms().saturating_add(milliseconds(REQUEUE_PAUSE));
        let mut state = self.lock();
        check_commit(state.held_job(lease)?, &commit)?;
        let task_id = state.held_job(lease)?.task_id;
        let task = state.tasks.entry(task_id).or_default();
        // The last step that can fail, so before the others.
        task.add(&commit.buckets)?;
        task.count_rejections(&commit.rejections);
        let Some(job) = state.jobs.remove(&lease.job) else { return Err(StoreError::Fenced) };
        for (index, report) in job.reports.iter().enumerate() {
            let requeued = commit.requeue.contains(&index);
            let bucket = job.bucket_of(report);
            if requeued || commit.unspent.contains(&index) {
                let task = state.tasks.entry(job.task_id).or_default();
                task.report_ids.remove(&id_key(job.scope, &bucket, report.report_id));
            }
            if !requeued {
                state.records.remove(&report.place.offset);
                continue;
            }
            let number = state.next_requeued;
            state.next_requeued += 1;
            state.requeued.push_back(Requeued {
                number,
                position: report.place.offset,
                task_id: job.task_id,
                time: if let Bucket::Time(time) = bucket { Some(time) } else { None },
                due_ms,
            });
        }
        Ok(())
    }

    async fn release(&self, lease: Lease, pause: Duration) -> Result<()> {
        let due_ms = self.now_ms().saturating_add(milliseconds(pause));
        let mut state = self.lock();
        let hold = if state.jobs.contains_key(&lease.job) {
            &mut state.held_job(lease)?.hold
        } else {
            &mut state.held_collection(lease)?.hold
        };
        *hold = Hold { due_ms, ..Hold::default() };
        Ok(())
    }

    async fn abandon_job(&self, lease: Lease) -> Result<()> {
        let mut state = self.lock();
        state.held_job(lease)?;
        let Some(job) = state.jobs.remove(&lease.job) else { return Err(StoreError::Fenced) };
        for report in &job.reports {
            state.records.remove(&report.place.offset);
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
        Ok(self.lock().delete_collection(task_id, id))
    }

    async fn lease_collection(&self, duration: Duration) -> Result<Option<LeasedCollection>> {
        let now_ms = self.now_ms();
        Ok(self.lock().lease_collection(now_ms, duration))
    }

    async fn close_batch(&self, lease: Lease, min_batch_size: u64) -> Result<Closing> {
        self.lock().close_batch(lease, min_batch_size)
    }

    async fn finish_collection(&self, lease: Lease, response: Vec<u8>) -> Result<()> {
        self.lock().finish_collection(lease, response)
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
        let place = RecordPlace { segment: 0, offset: position };
        Some(Record { place, task_id: *task_id, report: report.clone() })
    }

    /// Whether the batch that a job may have to open is a new one.
    fn is_fresh(&self, job: &NewJob) -> bool {
        let NewJobBatch::LeaderSelected { if_none_open } = job.batch else { return true };
        self.tasks.get(&job.task_id).is_none_or(|task| {
            task.open_batch().is_some() || !task.batches.contains_key(&if_none_open)
        })
    }

    /// The job with the reports that could be reserved.
    fn fix_job(&mut self, job: NewJob, struck: &mut Rejections) -> Job {
        let task = self.tasks.entry(job.task_id).or_default();
        let mut kept: Vec<NewJobReport> = Vec::new();
        for report in job.reports {
            let (admitted, bucket) = match job.batch {
                NewJobBatch::TimeInterval => {
                    (task.admits(report.time, report.place.offset), Bucket::Time(report.time))
                }
                NewJobBatch::LeaderSelected { if_none_open } => (true, Bucket::Batch(if_none_open)),
            };
            let reason = if !admitted {
                Rejection::BatchCollected
            } else if !task.report_ids.insert(id_key(job.scope, &bucket, report.report_id)) {
                Rejection::ReportReplayed
            } else {
                kept.push(report);
                continue;
            };
            task.counters.rejections.add(reason);
            struck.add(reason);
        }
        let batch_id = match job.batch {
            NewJobBatch::LeaderSelected { if_none_open } if !kept.is_empty() => {
                Some(task.open_batch().unwrap_or_else(|| {
                    task.batches.insert(if_none_open, BatchState::Open);
                    if_none_open
                }))
            }
            _ => None,
        };
        let NewJob { task_id, now, scope, .. } = job;
        Job { hold: Hold::default(), task_id, now, batch_id, scope, reports: kept, digest: None }
    }
}

impl super::TaskState {
    pub(super) fn open_batch(&self) -> Option<BatchId> {
        self.batches.iter().find(|(_, state)| **state == BatchState::Open).map(|(id, _)| *id)
    }
}

impl Job {
    pub(super) fn bucket_of(&self, report: &NewJobReport) -> Bucket {
        self.batch_id.map_or(Bucket::Time(report.time), Bucket::Batch)
    }
}

/// Each report of the job must be accounted for, in a bucket of the job. No index may stand twice: an id that is
/// released must not be that of a report which counts.
fn check_commit(job: &Job, commit: &JobCommit) -> Result<()> {
    let ours: HashSet<Bucket> = job.reports.iter().map(|report| job.bucket_of(report)).collect();
    if commit.buckets.keys().any(|bucket| !ours.contains(bucket)) {
        return Err(StoreError::Backend("the commit has a bucket that its job has not".into()));
    }
    let indices = commit.requeue.iter().chain(&commit.unspent).copied();
    let released: HashSet<usize> = indices.filter(|index| *index < job.reports.len()).collect();
    let (requeued, unspent) = (commit.requeue.len() as u64, commit.unspent.len() as u64);
    let aggregated: u64 = commit.buckets.values().map(|aggregate| aggregate.count).sum();
    let refused = commit.rejections.total();
    if released.len() as u64 != requeued + unspent
        || unspent > refused
        || aggregated + refused + requeued != job.reports.len() as u64
    {
        return Err(StoreError::Backend("the commit does not account for each report".into()));
    }
    Ok(())
}
