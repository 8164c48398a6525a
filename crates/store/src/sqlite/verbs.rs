//! The verbs: each goes to the thread that handles it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::params;
use sotto_protocol::helper::HelperOutcome;
use sotto_protocol::leader::aggregate::{FormedJobs, LeaderOutcome};
use sotto_protocol::{Bucket, Digest, Moment, Rejection, ReplayScope};
use sotto_wire::{BatchSelector, CollectionJobId, HpkeConfigId, Query, ReportId, TaskId};

use super::log::{Part, Position, Waiting};
use super::{Reads, SqliteStore, collections, helper, public_log, reader, tasks};
use crate::{
    Backlog, Batch, Closing, CollectionCreated, CollectionDeleted, CollectionState, Committed,
    Counters, Fixed, HelperStore, LeaderStore, Lease, LeasedCollection, LeasedJob,
    ListedCollection, Load, LogCheckpoint, NewReport, OwedReceipts, Record, Release, Result,
    StoreError, StoredTask, Stretch, TaskFilter, TaskJobs, TaskStore, Turn,
};

#[async_trait]
impl TaskStore for SqliteStore {
    async fn put_task(&self, task_id: TaskId, task: StoredTask) -> Result<()> {
        self.db.run(move |db| db.put_task(task_id, &task)).await
    }

    async fn tasks(&self) -> Result<Vec<(TaskId, StoredTask)>> {
        self.reads.run(|reads| tasks::stored(&reads.conn)).await
    }

    async fn put_log_checkpoint(&self, checkpoint: LogCheckpoint) -> Result<()> {
        self.db.run(move |db| db.put_log_checkpoint(&checkpoint)).await
    }

    async fn log_checkpoint(&self, origin: String) -> Result<Option<LogCheckpoint>> {
        self.reads.run(move |reads| public_log::checkpoint(&reads.conn, origin)).await
    }

    async fn forget_task(&self, task_id: TaskId) -> Result<()> {
        self.db.run(move |db| db.forget_task(task_id)).await
    }

    async fn forgotten_tasks(&self) -> Result<Vec<TaskId>> {
        self.reads.run(|reads| tasks::forgotten(&reads.conn)).await
    }

    async fn next_receipts(&self, now: Moment) -> Result<OwedReceipts> {
        self.db.run(move |db| db.next_receipts(now)).await
    }

    async fn receipt_sent(&self, task_id: TaskId, number: u64) -> Result<()> {
        self.db.run(move |db| db.receipt_sent(&task_id, number)).await
    }

    async fn counters(&self, task_id: TaskId) -> Result<Counters> {
        self.reads.run(move |reads| tasks::counters(&reads.conn, &task_id)).await
    }

    async fn load(&self) -> Result<Load> {
        Ok(Load {
            backlog_bytes: self.log.backlog_bytes(),
            segment_bytes: self.log.segment_bytes(),
            jobs: self.gauges.jobs.load(Ordering::Relaxed),
            collections: self.gauges.collections.load(Ordering::Relaxed),
        })
    }
}

#[async_trait]
impl LeaderStore for SqliteStore {
    async fn accept_reports(
        &self,
        reports: Vec<NewReport>,
    ) -> Result<Vec<std::result::Result<(), Rejection>>> {
        match &self.writer {
            _ if reports.is_empty() => Ok(Vec::new()),
            Some(writer) => writer.append(reports).await,
            None => Err(StoreError::Backend("the store has stopped".into())),
        }
    }

    async fn backlog(
        &self,
        max_reports: usize,
        max_bytes: usize,
        is_served: TaskFilter,
    ) -> Result<Backlog> {
        self.reads.run(move |reads| reads.backlog(max_reports, max_bytes, &is_served)).await
    }

    async fn fix_jobs(&self, stretch: Stretch, formed: FormedJobs) -> Result<Fixed> {
        self.db.run(move |db| db.fix_jobs(stretch.get()?, &formed)).await
    }

    async fn lease_job(&self, duration: Duration, turn: Turn) -> Result<Option<LeasedJob>> {
        loop {
            let turn = turn.clone();
            let picked = self.db.run(move |db| db.pick_job(duration, &turn)).await?;
            let Some((mut job, positions)) = picked else { return Ok(None) };
            let read = self.reads.run(move |reads| reader::read_records(&reads.log, &positions));
            match read.await {
                Ok(records) => {
                    job.records = records;
                    return Ok(Some(job));
                }
                Err(error) => {
                    // Its task may have been forgotten meanwhile, and its segment removed.
                    let lease = job.lease;
                    if self.db.run(move |db| Ok(db.held_job(lease).is_ok())).await? {
                        tracing::error!(%error, "the records of a job cannot be read");
                        return Err(error);
                    }
                }
            }
        }
    }

    async fn jobs_by_task(&self) -> Result<HashMap<TaskId, TaskJobs>> {
        self.db.run(|db| Ok(db.jobs.by_task().collect())).await
    }

    async fn mark_sent(&self, lease: Lease, digest: Digest) -> Result<()> {
        self.db.run(move |db| db.mark_sent(lease, digest)).await
    }

    async fn commit_job(&self, lease: Lease, outcome: LeaderOutcome) -> Result<()> {
        self.db.run(move |db| db.commit_job(lease, &outcome)).await
    }

    async fn release(&self, lease: Lease, pause: Duration) -> Result<()> {
        self.db.run(move |db| db.release(lease, pause)).await
    }

    async fn abandon_job(&self, lease: Lease) -> Result<()> {
        self.db.run(move |db| db.abandon_job(lease)).await
    }

    async fn create_collection(
        &self,
        task_id: TaskId,
        request: Vec<u8>,
        query: Query,
    ) -> Result<CollectionCreated> {
        self.db.run(move |db| db.create_collection(task_id, &request, query)).await
    }

    async fn collection(
        &self,
        task_id: TaskId,
        id: CollectionJobId,
    ) -> Result<Option<CollectionState>> {
        self.reads.run(move |reads| collections::state(&reads.conn, &task_id, &id)).await
    }

    async fn delete_collection(
        &self,
        task_id: TaskId,
        id: CollectionJobId,
    ) -> Result<CollectionDeleted> {
        self.db.run(move |db| db.delete_collection(&task_id, &id, false)).await
    }

    async fn cancel_collection(
        &self,
        task_id: TaskId,
        id: CollectionJobId,
    ) -> Result<CollectionDeleted> {
        self.db.run(move |db| db.delete_collection(&task_id, &id, true)).await
    }

    async fn collections(&self, task_id: TaskId) -> Result<Vec<ListedCollection>> {
        self.reads.run(move |reads| collections::list(&reads.conn, &task_id)).await
    }

    async fn lease_collection(
        &self,
        duration: Duration,
        turn: Turn,
    ) -> Result<Option<LeasedCollection>> {
        self.db.run(move |db| db.lease_collection(duration, &turn)).await
    }

    async fn close_batch(&self, lease: Lease, min_batch_size: u64) -> Result<Closing> {
        self.db.run(move |db| db.close_batch(lease, min_batch_size)).await
    }

    async fn finish_collection(&self, lease: Lease, release: Release) -> Result<()> {
        self.db.run(move |db| db.finish_collection(lease, &release)).await
    }

    async fn fail_collection(&self, lease: Lease, problem: String, detail: String) -> Result<()> {
        self.db.run(move |db| db.fail_collection(lease, &problem, &detail)).await
    }

    async fn live_hpke_configs(&self) -> Result<Vec<HpkeConfigId>> {
        Ok(self.log.configs().iter().collect())
    }
}

#[async_trait]
impl HelperStore for SqliteStore {
    async fn response(&self, task_id: TaskId, digest: Digest) -> Result<Option<Vec<u8>>> {
        self.reads.run(move |reads| helper::response(&reads.conn, &task_id, &digest)).await
    }

    async fn spent_reports(
        &self,
        task_id: TaskId,
        scope: ReplayScope,
        reports: Vec<(Bucket, ReportId)>,
    ) -> Result<Vec<Option<Rejection>>> {
        let spent =
            move |reads: &mut Reads| helper::spent_reports(&reads.conn, &task_id, scope, &reports);
        self.reads.run(spent).await
    }

    async fn commit_helper_job(
        &self,
        task_id: TaskId,
        digest: Digest,
        outcome: HelperOutcome,
    ) -> Result<Committed> {
        self.db.run(move |db| db.commit_helper_job(&task_id, &digest, &outcome)).await
    }

    async fn forget_response(&self, task_id: TaskId, digest: Digest) -> Result<()> {
        self.db.run(move |db| db.forget_response(&task_id, &digest)).await
    }

    async fn batch(&self, task_id: TaskId, selector: BatchSelector) -> Result<Batch> {
        self.reads.run(move |reads| helper::batch(&reads.conn, &task_id, &selector)).await
    }

    async fn collect_batch(
        &self,
        task_id: TaskId,
        selector: BatchSelector,
        expected: (u64, [u8; 32]),
        digest: Digest,
        release: Release,
    ) -> Result<Committed> {
        self.db
            .run(move |db| db.collect_batch(&task_id, &selector, expected, &digest, &release))
            .await
    }
}

impl Reads {
    fn backlog(
        &mut self,
        max_reports: usize,
        max_bytes: usize,
        is_served: &TaskFilter,
    ) -> Result<Backlog> {
        let (due, others): (Vec<_>, Vec<_>) = self
            .log
            .requeues_due((self.clock)())
            .into_iter()
            .partition(|(task_id, _)| is_served(task_id));
        let rows = self.requeued(&due, max_reports.max(1), max_bytes)?;
        let mut backlog = match self.read(&rows)? {
            Some(records) if !rows.is_empty() => {
                let stretch = Some(Stretch::new(Part::Requeued(rows)));
                Backlog { stretch, records, unserved: Vec::new() }
            }
            _ => reader::read_backlog(&self.log, max_reports, max_bytes, is_served)?,
        };
        backlog.unserved.extend(others.into_iter().map(|(task_id, _)| task_id));
        backlog.unserved.sort_unstable();
        backlog.unserved.dedup();
        Ok(backlog)
    }

    /// The oldest rows of the table `requeued` with these numbers.
    fn requeued(
        &self,
        due: &[(TaskId, Range<i64>)],
        max_reports: usize,
        max_bytes: usize,
    ) -> Result<Vec<(i64, Waiting)>> {
        let mut statement = self.conn.prepare_cached(
            // In the order of the rows: by the index, each call would read all rows of the task.
            "SELECT number, position, bytes FROM requeued NOT INDEXED JOIN tasks USING (task)
             WHERE number >= ?1 AND number < ?2 AND task_id = ?3 ORDER BY number LIMIT ?4",
        )?;
        let limit = i64::try_from(max_reports).unwrap_or(i64::MAX);
        let mut found = Vec::new();
        for (task_id, numbers) in due {
            let waiting = |row: &rusqlite::Row<'_>| {
                let (position, bytes) = (Position::from_sql(row.get(1)?), row.get::<_, i64>(2)?);
                let bytes = bytes as u64;
                Ok((row.get(0)?, Waiting { task_id: *task_id, position, bytes }))
            };
            let task = task_id.as_bytes();
            let rows =
                statement.query_map(params![numbers.start, numbers.end, task, limit], waiting);
            for row in rows? {
                found.push(row?);
            }
        }
        found.sort_unstable_by_key(|(number, _)| *number);
        let mut bytes = 0;
        let within = |(_, waiting): &&(i64, Waiting)| {
            let is_within = bytes < max_bytes as u64;
            bytes += waiting.bytes;
            is_within
        };
        let count = found.iter().take(max_reports).take_while(within).count();
        found.truncate(count);
        Ok(found)
    }

    /// The records of these rows; `None` if another caller took them meanwhile and their segment is
    /// gone.
    fn read(&self, rows: &[(i64, Waiting)]) -> Result<Option<Vec<Record>>> {
        let positions: Vec<Position> = rows.iter().map(|(_, waiting)| waiting.position).collect();
        let error = match reader::read_records(&self.log, &positions) {
            Ok(records) => return Ok(Some(records)),
            Err(error) => error,
        };
        let mut statement = self.conn.prepare_cached("SELECT 1 FROM requeued WHERE number = ?1")?;
        for (number, _) in rows {
            if !statement.exists(params![number])? {
                return Ok(None);
            }
        }
        Err(error)
    }
}
