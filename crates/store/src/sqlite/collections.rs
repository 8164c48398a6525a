//! Collection jobs: creating them, closing their batches, finishing them.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest as _, Sha256};
use sotto_protocol::Digest;
use sotto_wire::{
    BatchId, BatchSelector, CollectionJobId, Duration as Units, Interval, JobState, Query, TaskId,
    Time,
};

use super::buckets::{self, BatchState};
use super::db::{Db, Touches};
use super::log::Position;
use super::{ranges, receipts, tasks};
use crate::collection_id::collection_job_id;
use crate::queue::Queue;
use crate::{
    Closing, CollectionCreated, CollectionDeleted, CollectionState, Lease, LeasedCollection,
    ListedCollection, MAX_LISTED, Release, Result, StoreError, Turn,
};

const PENDING: i64 = 0;
const CLOSING: i64 = 1;
const FINISHED: i64 = 2;
const FAILED: i64 = 3;

/// What is known of the batch of a collection job.
struct Wanted {
    task: i64,
    state: i64,
    /// `None` in leader-selected tasks.
    interval: Option<Interval>,
    batch_id: Option<BatchId>,
}

/// All unfinished collection jobs. None is leased yet.
pub(super) fn load(conn: &Connection) -> Result<Queue<()>> {
    let mut statement = conn.prepare(
        "SELECT job, task_id FROM collections JOIN tasks USING (task) WHERE state IN (?1, ?2)",
    )?;
    let mut rows = statement.query(params![PENDING, CLOSING])?;
    let mut collections = Queue::default();
    while let Some(row) = rows.next()? {
        collections.insert(row.get::<_, i64>(0)? as u64, TaskId::new(row.get(1)?), 0, ());
    }
    Ok(collections)
}

/// The state of a collection job. For the reading connection.
pub(super) fn state(
    conn: &Connection,
    task_id: &TaskId,
    id: &CollectionJobId,
) -> Result<Option<CollectionState>> {
    let Some(task) = tasks::number(conn, task_id)? else { return Ok(None) };
    let mut statement = conn.prepare_cached(
        "SELECT state, response, problem, detail FROM collections
         WHERE task = ?1 AND collection_id = ?2",
    )?;
    let row = statement.query_row(params![task, id.as_bytes()], |row| {
        Ok(match row.get::<_, i64>(0)? {
            FINISHED => CollectionState::Finished(row.get(1)?),
            FAILED => CollectionState::Failed { problem: row.get(2)?, detail: row.get(3)? },
            _ => CollectionState::Pending,
        })
    });
    Ok(row.optional()?)
}

/// The newest collection jobs of a task. For the reading connection.
pub(super) fn list(conn: &Connection, task_id: &TaskId) -> Result<Vec<ListedCollection>> {
    let Some(task) = tasks::number(conn, task_id)? else { return Ok(Vec::new()) };
    let mut statement = conn.prepare_cached(
        "SELECT collection_id, state, start, duration FROM collections
         WHERE task = ?1 ORDER BY job DESC LIMIT ?2",
    )?;
    let mut rows = statement.query(params![task, MAX_LISTED as i64])?;
    let mut listed = Vec::new();
    while let Some(row) = rows.next()? {
        let state = match row.get::<_, i64>(1)? {
            FINISHED => JobState::Finished,
            FAILED => JobState::Failed,
            _ => JobState::Pending,
        };
        let interval = stored_interval(row.get(2)?, row.get(3)?);
        listed.push((CollectionJobId::new(row.get(0)?), interval, state));
    }
    Ok(listed)
}

impl Db {
    pub(super) fn create_collection(
        &mut self,
        task_id: TaskId,
        request: &[u8],
        query: Query,
    ) -> Result<CollectionCreated> {
        let tx = Self::begin(&mut self.conn)?;
        let task = tasks::ensure(&tx, &task_id)?;
        let id = collection_job_id(&task_id, request, ordinal(&tx, task, request)?);
        if find(&tx, task, &id)?.is_some() {
            return Ok(CollectionCreated::Existing(id));
        }
        let interval = match query {
            Query::TimeInterval(interval) => Some(interval),
            Query::LeaderSelected => None,
        };
        if let Some(interval) = interval
            && (ranges::is_any_collected(&tx, task, interval)?
                || is_any_wanted(&tx, task, interval)?)
        {
            return Ok(CollectionCreated::Overlap);
        }
        let job: i64 = tx.query_row("SELECT next_job FROM store", [], |row| row.get(0))?;
        tx.execute("UPDATE store SET next_job = ?1", params![job + 1])?;
        tx.prepare_cached(
            "INSERT INTO collections (job, task, collection_id, state, start, duration, request)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            job,
            task,
            id.as_bytes(),
            PENDING,
            interval.map(|interval| interval.start().as_units() as i64),
            interval.map(|interval| interval.duration().as_units() as i64),
            request,
        ])?;
        tx.commit()?;
        self.collections.insert(job as u64, task_id, 0, ());
        self.settle(None);
        Ok(CollectionCreated::Created(id))
    }

    pub(super) fn delete_collection(
        &mut self,
        task_id: &TaskId,
        id: &CollectionJobId,
        keep_finished: bool,
    ) -> Result<CollectionDeleted> {
        let tx = Self::begin(&mut self.conn)?;
        let found = match tasks::number(&tx, task_id)? {
            Some(task) => find(&tx, task, id)?.map(|(job, state)| (task, job, state)),
            None => None,
        };
        let Some((task, job, state)) = found else { return Ok(CollectionDeleted::Deleted) };
        if state == CLOSING {
            return Ok(CollectionDeleted::UnderWay);
        }
        if keep_finished && state == FINISHED {
            return Ok(CollectionDeleted::Finished);
        }
        let request: Vec<u8> =
            tx.query_row("SELECT request FROM collections WHERE job = ?1", params![job], |row| {
                row.get(0)
            })?;
        tx.execute(
            "INSERT INTO ordinals VALUES (?1, ?2, 1)
             ON CONFLICT (task, request_hash) DO UPDATE SET deleted = deleted + 1",
            params![task, request_hash(&request)],
        )?;
        tx.execute("DELETE FROM collections WHERE job = ?1", params![job])?;
        tx.commit()?;
        self.collections.remove(job as u64);
        self.settle(None);
        Ok(CollectionDeleted::Deleted)
    }

    pub(super) fn lease_collection(
        &mut self,
        duration: Duration,
        turn: &Turn,
    ) -> Result<Option<LeasedCollection>> {
        let Some(job) = self.collections.next(turn, (self.clock)()) else { return Ok(None) };
        let hold = self.grant(duration);
        let leased = self
            .conn
            .prepare_cached(
                "SELECT task_id, collection_id, request, digest
                 FROM collections JOIN tasks USING (task) WHERE job = ?1",
            )?
            .query_row(params![job as i64], |row| {
                Ok(LeasedCollection {
                    lease: hold.lease(job),
                    task_id: TaskId::new(row.get(0)?),
                    id: CollectionJobId::new(row.get(1)?),
                    request: row.get(2)?,
                    request_digest: row.get(3)?,
                })
            })?;
        self.collections.hold(job, hold);
        Ok(Some(leased))
    }

    pub(super) fn close_batch(&mut self, lease: Lease, min_batch_size: u64) -> Result<Closing> {
        self.check_collection(lease)?;
        let mut wanted = wanted(&self.conn, lease)?;
        if wanted.state == PENDING {
            let closed = match wanted.interval {
                Some(interval) => {
                    self.close_interval(lease, wanted.task, interval, min_batch_size)?
                }
                None => self.close_open_batch(lease, &mut wanted, min_batch_size)?,
            };
            if !closed {
                return Ok(Closing::TooFew);
            }
        }
        let selector = wanted.selector()?;
        if self.is_draining(wanted.task, &selector)? {
            return Ok(Closing::Draining);
        }
        match buckets::load(&self.conn, wanted.task, &selector)? {
            Some(aggregate) => Ok(Closing::Drained { selector, aggregate }),
            None => Err(StoreError::Backend("a closed batch is empty".into())),
        }
    }

    pub(super) fn finish_collection(&mut self, lease: Lease, release: &Release) -> Result<()> {
        self.check_collection(lease)?;
        let wanted = wanted(&self.conn, lease)?;
        let selector = wanted.selector()?;
        if wanted.state != CLOSING || self.is_draining(wanted.task, &selector)? {
            return Err(StoreError::Backend("the batch is not drained".into()));
        }
        let tx = Self::begin(&mut self.conn)?;
        buckets::collect(&tx, wanted.task, &selector)?;
        if let BatchSelector::TimeInterval(interval) = selector {
            tasks::schedule_purge_of(&tx, wanted.task, interval)?;
        }
        tx.prepare_cached("UPDATE collections SET state = ?2, response = ?3 WHERE job = ?1")?
            .execute(params![lease.job as i64, FINISHED, release.response])?;
        if let Some(released) = &release.receipt {
            receipts::owe(&tx, &tasks::task_id(&tx, wanted.task)?, released)?;
        }
        tx.commit()?;
        self.collections.remove(lease.job);
        self.purge();
        self.settle(None);
        Ok(())
    }

    pub(super) fn fail_collection(
        &mut self,
        lease: Lease,
        problem: &str,
        detail: &str,
    ) -> Result<()> {
        self.check_collection(lease)?;
        self.conn
            .prepare_cached(
                "UPDATE collections SET state = ?2, problem = ?3, detail = ?4 WHERE job = ?1",
            )?
            .execute(params![lease.job as i64, FAILED, problem, detail])?;
        self.collections.remove(lease.job);
        self.settle(None);
        Ok(())
    }

    /// Closes an interval that has enough reports. First the writer starts to reject reports, then
    /// the database records the closing. A crash in between leaves the interval open.
    fn close_interval(
        &mut self,
        lease: Lease,
        task: i64,
        interval: Interval,
        min_batch_size: u64,
    ) -> Result<bool> {
        if buckets::count(&self.conn, task, interval)? < min_batch_size {
            return Ok(false);
        }
        let task_id = tasks::task_id(&self.conn, task)?;
        let closed = self.writer.close(task_id, interval).and_then(|position| {
            let tx = Self::begin(&mut self.conn)?;
            ranges::close(&tx, task, interval, position)?;
            tx.prepare_cached("UPDATE collections SET state = ?2 WHERE job = ?1")?
                .execute(params![lease.job as i64, CLOSING])?;
            Ok(tx.commit()?)
        });
        if let Err(error) = closed {
            // Not closed after all: the writer must not reject what the database admits.
            let closed = ranges::closed(&self.conn, Some(task))?;
            self.writer.set_closed(task_id, closed.into_iter().map(|(_, i)| i).collect())?;
            return Err(error);
        }
        Ok(true)
    }

    /// Closes an open batch of a leader-selected task that has enough reports. Its jobs in flight
    /// are still added to it; new jobs open another one.
    fn close_open_batch(
        &mut self,
        lease: Lease,
        wanted: &mut Wanted,
        min_batch_size: u64,
    ) -> Result<bool> {
        let tx = Self::begin(&mut self.conn)?;
        let Some(batch_id) = buckets::ready_batch(&tx, wanted.task, min_batch_size)? else {
            return Ok(false);
        };
        buckets::set_batch_state(&tx, wanted.task, &batch_id, BatchState::Closed)?;
        tx.prepare_cached("UPDATE collections SET state = ?2, batch_id = ?3 WHERE job = ?1")?
            .execute(params![lease.job as i64, CLOSING, batch_id.as_bytes()])?;
        tx.commit()?;
        wanted.batch_id = Some(batch_id);
        Ok(true)
    }

    /// Whether a report accepted before the batch was closed may still be added.
    fn is_draining(&self, task: i64, selector: &BatchSelector) -> Result<bool> {
        let in_job = self.jobs.iter().filter(|job| job.task == task).any(|job| {
            match (selector, &job.touches) {
                (BatchSelector::TimeInterval(interval), Touches::Times(times)) => {
                    let (start, end) = (interval.start().as_units(), interval.end().as_units());
                    times.range(start..end).next().is_some()
                }
                (BatchSelector::LeaderSelected(batch_id), Touches::Batch(id)) => id == batch_id,
                _ => false,
            }
        });
        let BatchSelector::TimeInterval(interval) = selector else { return Ok(in_job) };
        if in_job {
            return Ok(true);
        }
        for (first, last) in ranges::spans(*interval) {
            let is_requeued = self
                .conn
                .prepare_cached(
                    // A report without a time was set aside unread, and may belong to any bucket.
                    "SELECT 1 FROM requeued
                     WHERE task = ?1 AND (time IS NULL OR time BETWEEN ?2 AND ?3)",
                )?
                .exists(params![task, first, last])?;
            let closing_end: Option<i64> = self
                .conn
                .prepare_cached(
                    "SELECT MAX(position) FROM ranges
                     WHERE task = ?1 AND is_collected = 0 AND first <= ?3 AND last >= ?2",
                )?
                .query_row(params![task, first, last], |row| row.get(0))?;
            let is_untaken =
                closing_end.is_some_and(|end| Position::from_sql(end) > self.log.cursor());
            if is_requeued || is_untaken {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Wanted {
    fn selector(&self) -> Result<BatchSelector> {
        match (self.interval, self.batch_id) {
            (Some(interval), _) => Ok(BatchSelector::TimeInterval(interval)),
            (None, Some(batch_id)) => Ok(BatchSelector::LeaderSelected(batch_id)),
            (None, None) => Err(StoreError::Backend("the batch is not closed".into())),
        }
    }
}

fn wanted(conn: &Connection, lease: Lease) -> Result<Wanted> {
    let mut statement = conn.prepare_cached(
        "SELECT task, state, start, duration, batch_id FROM collections WHERE job = ?1",
    )?;
    Ok(statement.query_row(params![lease.job as i64], |row| {
        Ok(Wanted {
            task: row.get(0)?,
            state: row.get(1)?,
            interval: stored_interval(row.get(2)?, row.get(3)?),
            batch_id: row.get::<_, Option<[u8; 32]>>(4)?.map(BatchId::new),
        })
    })?)
}

fn stored_interval(start: Option<i64>, duration: Option<i64>) -> Option<Interval> {
    Interval::new(Time::new(start? as u64), Units::new(duration? as u64)).ok()
}

/// A collection job and its state.
fn find(conn: &Connection, task: i64, id: &CollectionJobId) -> Result<Option<(i64, i64)>> {
    let mut statement = conn.prepare_cached(
        "SELECT job, state FROM collections WHERE task = ?1 AND collection_id = ?2",
    )?;
    let row =
        statement.query_row(params![task, id.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(row.optional()?)
}

/// Whether an unfinished job covers part of an interval.
fn is_any_wanted(conn: &Connection, task: i64, interval: Interval) -> Result<bool> {
    let mut statement = conn.prepare_cached(
        "SELECT start, duration FROM collections WHERE task = ?1 AND state IN (?2, ?3)",
    )?;
    let mut rows = statement.query(params![task, PENDING, CLOSING])?;
    while let Some(row) = rows.next()? {
        if stored_interval(row.get(0)?, row.get(1)?).is_some_and(|other| other.overlaps(&interval))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// How many jobs of this request were deleted.
fn ordinal(conn: &Connection, task: i64, request: &[u8]) -> Result<u64> {
    let mut statement =
        conn.prepare_cached("SELECT deleted FROM ordinals WHERE task = ?1 AND request_hash = ?2")?;
    let row = statement.query_row(params![task, request_hash(request)], |row| row.get::<_, i64>(0));
    Ok(row.optional()?.unwrap_or(0) as u64)
}

fn request_hash(request: &[u8]) -> Digest {
    Sha256::digest(request).into()
}
