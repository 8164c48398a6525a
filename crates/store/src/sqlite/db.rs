//! The state of the thread that writes to the database, and what all its verbs share.
//!
//! Leases and pauses exist only in this thread's memory. The embedded store serves one process, so
//! opening it voids all leases, and leasing costs no commit. Fences start with the number of times
//! that the store was opened, so an earlier lease is never mistaken for a new one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use sotto_protocol::Bucket;
use sotto_wire::{BatchId, TaskId};

use super::frame::StoreId;
use super::log::{Log, Position};
use super::recovery::Known;
use super::tasks::Ids;
use super::worker;
use super::writer::Writer;
use super::{public_log, ranges, receipts, schema, tasks};
use crate::hold::Hold;
use crate::intervals::IntervalSet;
use crate::queue::Queue;
use crate::{Clock, Lease, LogCheckpoint, Result, StoreError, StoredTask};

/// Everything that the database thread owns.
pub(super) struct Db {
    pub(super) conn: Connection,
    pub(super) log: Arc<Log>,
    pub(super) writer: Writer,
    pub(super) clock: Clock,
    pub(super) gauges: Arc<Gauges>,
    /// Aggregation jobs that are not committed yet.
    pub(super) jobs: Queue<LiveJob>,
    /// Collection jobs that are neither finished nor failed.
    pub(super) collections: Queue<()>,
    next_fence: u64,
    is_purging: bool,
}

/// Numbers that any thread may read at any time.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    pub(super) jobs: AtomicU64,
    pub(super) collections: AtomicU64,
}

/// A number that no task has.
const NO_TASK: i64 = 0;

/// What is kept in memory about an aggregation job.
#[derive(Clone, Debug)]
pub(super) struct LiveJob {
    pub(super) task: i64,
    pub(super) ids: Ids,
    pub(super) report_count: u64,
    pub(super) touches: Touches,
    pub(super) segments: BTreeSet<u32>,
}

/// The buckets that a job may add to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Touches {
    Times(BTreeSet<u64>),
    Batch(BatchId),
}

impl LiveJob {
    /// The batch, in leader-selected tasks.
    pub(super) fn batch_id(&self) -> Option<BatchId> {
        match &self.touches {
            Touches::Times(_) => None,
            Touches::Batch(batch_id) => Some(*batch_id),
        }
    }
}

impl Touches {
    pub(super) fn contains(&self, bucket: &Bucket) -> bool {
        match (bucket, self) {
            (Bucket::Time(time), Self::Times(times)) => times.contains(&time.as_units()),
            (Bucket::Batch(batch_id), Self::Batch(ours)) => batch_id == ours,
            _ => false,
        }
    }
}

/// What is read from the database before the log can be opened.
pub(super) struct Loaded {
    pub(super) known: Known,
    pub(super) closed: HashMap<TaskId, IntervalSet>,
    pub(super) live: Live,
}

/// What the database thread keeps in memory.
pub(super) struct Live {
    jobs: Queue<LiveJob>,
    collections: Queue<()>,
    epoch: u64,
    /// The rows of the table `requeued`: each task's row numbers, and their bytes.
    requeued: HashMap<TaskId, (Range<i64>, u64)>,
}

/// Reads what opening the store needs, and begins a new epoch.
pub(super) fn load(conn: &Connection) -> Result<Loaded> {
    conn.execute("UPDATE store SET epoch = epoch + 1", [])?;
    let (store_id, cursor, epoch): (StoreId, i64, i64) =
        conn.query_row("SELECT store_id, cursor, epoch FROM store", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    let jobs = super::jobs::load(conn)?;
    let mut refs = BTreeMap::new();
    for number in jobs.iter().flat_map(|job| &job.segments) {
        *refs.entry(*number).or_insert(0) += 1;
    }
    let mut requeued: HashMap<TaskId, (Range<i64>, u64)> = HashMap::new();
    let mut statement = conn.prepare(
        "SELECT number, position, bytes, task_id FROM requeued JOIN tasks USING (task)
         ORDER BY number",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (number, bytes): (i64, i64) = (row.get(0)?, row.get(2)?);
        *refs.entry(Position::from_sql(row.get(1)?).segment()).or_insert(0) += 1;
        let (numbers, sum) =
            requeued.entry(TaskId::new(row.get(3)?)).or_insert((number..number, 0));
        numbers.end = number + 1;
        *sum += bytes as u64;
    }
    let mut forgotten = HashMap::new();
    let mut statement = conn.prepare("SELECT task_id, position FROM forgotten")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        forgotten.insert(TaskId::new(row.get(0)?), Position::from_sql(row.get(1)?));
    }
    let mut closed: HashMap<TaskId, IntervalSet> = HashMap::new();
    for (task_id, interval) in ranges::closed(conn, None)? {
        closed.entry(task_id).or_default().insert(interval);
    }
    let known = Known { store_id, cursor: Position::from_sql(cursor), refs, forgotten };
    let collections = super::collections::load(conn)?;
    Ok(Loaded { known, closed, live: Live { jobs, collections, epoch: epoch as u64, requeued } })
}

impl Db {
    pub(super) fn new(
        conn: Connection,
        log: Arc<Log>,
        writer: Writer,
        clock: Clock,
        gauges: Arc<Gauges>,
        live: Live,
    ) -> Self {
        let Live { jobs, collections, epoch, requeued } = live;
        for (task_id, (numbers, bytes)) in requeued {
            log.requeued(task_id, numbers, 0, bytes);
        }
        let next_fence = (epoch << 32) + 1;
        let db = Self {
            conn,
            log,
            writer,
            clock,
            gauges,
            jobs,
            collections,
            next_fence,
            is_purging: true,
        };
        db.publish();
        db
    }

    /// Begins a writing transaction. If it is dropped without a commit, nothing changes.
    pub(super) fn begin(conn: &mut Connection) -> Result<Transaction<'_>> {
        Ok(conn.transaction_with_behavior(TransactionBehavior::Immediate)?)
    }

    /// Called after a commit that deleted shares and scheduled ids for deletion.
    pub(super) fn purge(&mut self) {
        self.is_purging = true;
        if let Err(error) = schema::empty_wal(&self.conn) {
            tracing::warn!(%error, "deleted shares are still in the WAL");
        }
    }

    /// A fresh fence, and the time until which it holds.
    pub(super) fn grant(&mut self, duration: Duration) -> Hold {
        let fence = self.next_fence;
        self.next_fence += 1;
        Hold::held(fence, (self.clock)(), duration)
    }

    /// The aggregation job that a lease is for.
    pub(super) fn held_job(&self, lease: Lease) -> Result<&LiveJob> {
        self.jobs.held(lease).ok_or(StoreError::Fenced)
    }

    /// Fails unless a lease on a collection job counts.
    pub(super) fn check_collection(&self, lease: Lease) -> Result<()> {
        self.collections.held(lease).copied().ok_or(StoreError::Fenced)
    }

    /// Gives back a lease of either kind.
    pub(super) fn release(&mut self, lease: Lease, pause: Duration) -> Result<()> {
        let released = Hold::released((self.clock)(), pause);
        if self.jobs.held(lease).is_some() {
            self.jobs.hold(lease.job, released);
        } else {
            self.check_collection(lease)?;
            self.collections.hold(lease.job, released);
        }
        Ok(())
    }

    /// Called after a commit: drops what a job needed, removes dead segments, updates the gauges.
    pub(super) fn settle(&mut self, ended: Option<&LiveJob>) {
        for number in ended.iter().flat_map(|job| &job.segments) {
            self.log.drop_ref(*number);
        }
        for (number, sealed) in self.log.dead() {
            if sealed {
                self.log.remove_dead(number);
            } else if let Err(error) = self.writer.remove_dead(number) {
                tracing::error!(segment = number, %error, "a dead segment could not be removed");
            }
        }
        self.publish();
    }

    /// Stores a task that was learned while the server ran.
    pub(super) fn put_task(&mut self, task_id: TaskId, task: &StoredTask) -> Result<()> {
        let tx = Self::begin(&mut self.conn)?;
        tasks::put(&tx, &task_id, task)?;
        Ok(tx.commit()?)
    }

    /// Stores what a public log has committed to.
    pub(super) fn put_log_checkpoint(&mut self, checkpoint: &LogCheckpoint) -> Result<()> {
        let tx = Self::begin(&mut self.conn)?;
        public_log::put(&tx, checkpoint)?;
        Ok(tx.commit()?)
    }

    /// Deletes everything about a task. Its records stay in segments that others need, but are
    /// never returned again.
    pub(super) fn forget_task(&mut self, task_id: TaskId) -> Result<()> {
        let end = self.writer.flush()?;
        let tx = Self::begin(&mut self.conn)?;
        let task = tasks::number(&tx, &task_id)?.unwrap_or(NO_TASK);
        let requeued: Vec<(i64, i64)> = tx
            .prepare_cached("SELECT position, bytes FROM requeued WHERE task = ?1")?
            .query_map(params![task], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let is_in_backlog = end > self.log.cursor();
        if is_in_backlog {
            tx.prepare_cached("INSERT OR REPLACE INTO forgotten VALUES (?1, ?2)")?
                .execute(params![task_id.as_bytes(), end.to_sql()])?;
        }
        tasks::forget(&tx, task)?;
        tx.prepare_cached("INSERT OR IGNORE INTO tombstones VALUES (?1)")?
            .execute(params![task_id.as_bytes()])?;
        receipts::forget_sent(&tx, &task_id)?;
        tx.commit()?;

        if is_in_backlog {
            self.log.forget(task_id, end);
        }
        let bytes = requeued.iter().map(|(_, bytes)| *bytes as u64).sum();
        self.log.requeues_forgotten(&task_id, bytes);
        for (position, _) in requeued {
            self.log.drop_ref(Position::from_sql(position).segment());
        }
        self.collections.remove_task(&task_id);
        for number in self.jobs.remove_task(&task_id).into_iter().flat_map(|job| job.segments) {
            self.log.drop_ref(number);
        }
        self.purge();
        self.settle(None);
        self.writer.set_closed(task_id, IntervalSet::default())
    }

    fn publish(&self) {
        self.gauges.jobs.store(self.jobs.len() as u64, Ordering::Relaxed);
        self.gauges.collections.store(self.collections.len() as u64, Ordering::Relaxed);
    }
}

impl worker::State for Db {
    fn tidy(&mut self) -> bool {
        if !self.is_purging {
            return false;
        }
        self.is_purging = tasks::purge(&mut self.conn).unwrap_or_else(|error| {
            tracing::warn!(%error, "report ids could not be purged; will retry");
            false
        });
        self.is_purging
    }
}

#[cfg(test)]
mod tests;
