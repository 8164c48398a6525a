//! Aggregation jobs: leasing and committing. Fixing their sets is in [`super::fixing`].

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use rusqlite::{Connection, params};
use sotto_protocol::{Bucket, Digest, Moment, Rejection, Rejections, ReplayScope};
use sotto_wire::BatchId;

use super::db::{Db, Hold, LiveJob, Touches};
use super::entries::Entry;
use super::log::Position;
use super::tasks::Scope;
use super::{buckets, reader, tasks};
use crate::clock::milliseconds;
use crate::{JobCommit, Lease, LeasedJob, REQUEUE_PAUSE, Result, StoreError};

/// A job as its worker will see it, before its records are read.
pub(super) type PickedJob = (LeasedJob, Vec<Position>);

/// All jobs, as they are kept in memory.
pub(super) fn load(conn: &Connection) -> Result<BTreeMap<u64, LiveJob>> {
    let mut statement = conn.prepare(
        "SELECT job, task, batch_id, report_count, segments, times, is_task_scope FROM jobs",
    )?;
    let mut rows = statement.query([])?;
    let mut jobs = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let segments: Vec<u8> = row.get(4)?;
        let times: Vec<u8> = row.get(5)?;
        let touches = match row.get::<_, Option<[u8; 32]>>(2)? {
            Some(batch_id) => Touches::Batch(BatchId::new(batch_id)),
            None => Touches::Times(
                times.as_chunks().0.iter().map(|time| u64::from_le_bytes(*time)).collect(),
            ),
        };
        let job = LiveJob {
            hold: Hold::default(),
            task: row.get(1)?,
            scope: if row.get(6)? { ReplayScope::Task } else { ReplayScope::Bucket },
            report_count: row.get::<_, i64>(3)? as u64,
            touches,
            segments: segments.as_chunks().0.iter().map(|n| u32::from_le_bytes(*n)).collect(),
        };
        jobs.insert(row.get::<_, i64>(0)? as u64, job);
    }
    Ok(jobs)
}

impl Db {
    /// Picks the oldest job that is due and in nobody's hands.
    pub(super) fn pick_job(&mut self, duration: Duration) -> Result<Option<PickedJob>> {
        let now_ms = (self.clock)();
        let free = self.jobs.iter().find(|(_, job)| job.hold.is_free(now_ms));
        let Some((&number, _)) = free else { return Ok(None) };
        let hold = self.grant(duration);
        let (task, now, batch_id, digest, reports): (i64, i64, Option<_>, _, Vec<u8>) = self
            .conn
            .prepare_cached("SELECT task, now, batch_id, digest, reports FROM jobs WHERE job = ?1")?
            .query_row(params![number as i64], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
            })?;
        let task_id = tasks::task_id(&self.conn, task)?;
        if let Some(job) = self.jobs.get_mut(&number) {
            job.hold = hold;
        }
        let job = LeasedJob {
            lease: hold.lease(number),
            task_id,
            now: Moment(now as u64),
            batch_id: batch_id.map(BatchId::new),
            records: Vec::new(),
            request_digest: digest,
        };
        Ok(Some((job, Entry::decode_all(&reports).map(|entry| entry.position).collect())))
    }

    /// For both kinds of job.
    pub(super) fn mark_sent(&mut self, lease: Lease, digest: Digest) -> Result<()> {
        let (select, update) = if self.held_job(lease).is_ok() {
            ("SELECT digest FROM jobs WHERE job = ?1", "UPDATE jobs SET digest = ?2 WHERE job = ?1")
        } else {
            self.check_collection(lease)?;
            (
                "SELECT digest FROM collections WHERE job = ?1",
                "UPDATE collections SET digest = ?2 WHERE job = ?1",
            )
        };
        let job = lease.job as i64;
        let stored: Option<Digest> =
            self.conn.prepare_cached(select)?.query_row(params![job], |row| row.get(0))?;
        match stored {
            Some(stored) if stored == digest => Ok(()),
            Some(_) => Err(StoreError::RequestDiffers),
            None => {
                self.conn.prepare_cached(update)?.execute(params![job, digest])?;
                Ok(())
            }
        }
    }

    pub(super) fn commit_job(&mut self, lease: Lease, commit: &JobCommit) -> Result<()> {
        let job = self.held_job(lease)?.clone();
        check_commit(&job, commit)?;
        let tx = Self::begin(&mut self.conn)?;
        let mut aggregated = 0;
        for (bucket, aggregate) in &commit.buckets {
            if buckets::is_collected(&tx, job.task, bucket)? {
                return Err(StoreError::Backend("the bucket is collected".into()));
            }
            buckets::add(&tx, job.task, bucket, aggregate)?;
            aggregated += aggregate.count;
        }
        tasks::count_aggregated(&tx, job.task, aggregated)?;
        tasks::count_rejections(&tx, job.task, &commit.rejections)?;
        let mut requeued = Vec::new();
        let mut requeued_bytes = 0;
        if !(commit.requeue.is_empty() && commit.unspent.is_empty()) {
            let reports: Vec<u8> = tx
                .prepare_cached("SELECT reports FROM jobs WHERE job = ?1")?
                .query_row(params![lease.job as i64], |row| row.get(0))?;
            let all: Vec<Entry> = Entry::decode_all(&reports).collect();
            for entry in commit.requeue.iter().filter_map(|index| all.get(*index)) {
                let bytes = reader::record_len(&self.log, entry.position)?;
                requeue(&tx, &job, entry, bytes)?;
                requeued.push(entry.position.segment());
                requeued_bytes += bytes;
            }
            for entry in commit.unspent.iter().filter_map(|index| all.get(*index)) {
                release_id(&tx, &job, entry)?;
            }
        }
        let below = tx.last_insert_rowid() + 1;
        delete_job(&tx, lease)?;
        tx.commit()?;

        self.jobs.remove(&lease.job);
        if !requeued.is_empty() {
            let due_ms = (self.clock)().saturating_add(milliseconds(REQUEUE_PAUSE));
            self.log.requeued(below, due_ms, requeued_bytes);
            for segment in requeued {
                self.log.add_ref(segment);
            }
        }
        self.settle(Some(&job));
        Ok(())
    }

    pub(super) fn abandon_job(&mut self, lease: Lease) -> Result<()> {
        let job = self.held_job(lease)?.clone();
        let tx = Self::begin(&mut self.conn)?;
        let mut rejections = Rejections::default();
        rejections.add_many(Rejection::JobAbandoned, job.report_count);
        tasks::count_rejections(&tx, job.task, &rejections)?;
        delete_job(&tx, lease)?;
        tx.commit()?;
        self.jobs.remove(&lease.job);
        self.settle(Some(&job));
        Ok(())
    }
}

/// Each report of the job must be accounted for, in a bucket of the job. No index may stand twice: an id that is
/// released must not be that of a report which counts.
fn check_commit(job: &LiveJob, commit: &JobCommit) -> Result<()> {
    let is_ours = |bucket: &Bucket| match (bucket, &job.touches) {
        (Bucket::Time(time), Touches::Times(times)) => times.contains(&time.as_units()),
        (Bucket::Batch(batch_id), Touches::Batch(ours)) => batch_id == ours,
        _ => false,
    };
    if !commit.buckets.keys().all(is_ours) {
        return Err(StoreError::Backend("the commit has a bucket that its job has not".into()));
    }
    let mut seen = HashSet::new();
    let mut released = commit.requeue.iter().chain(&commit.unspent);
    let are_distinct =
        released.all(|index| (*index as u64) < job.report_count && seen.insert(*index));
    let (requeued, refused) = (commit.requeue.len() as u64, commit.rejections.total());
    let aggregated: u64 = commit.buckets.values().map(|aggregate| aggregate.count).sum();
    if !are_distinct
        || commit.unspent.len() as u64 > refused
        || aggregated + refused + requeued != job.report_count
    {
        return Err(StoreError::Backend("the commit does not account for each report".into()));
    }
    Ok(())
}

/// Puts a report back: its id is free again, its record stays where it is.
fn requeue(conn: &Connection, job: &LiveJob, entry: &Entry, bytes: u64) -> Result<()> {
    release_id(conn, job, entry)?;
    let time = match &job.touches {
        Touches::Times(_) => Some(entry.time.as_units() as i64),
        Touches::Batch(_) => None,
    };
    conn.prepare_cached(
        "INSERT INTO requeued (task, time, position, bytes) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![job.task, time, entry.position.to_sql(), bytes as i64])?;
    Ok(())
}

fn release_id(conn: &Connection, job: &LiveJob, entry: &Entry) -> Result<()> {
    let bucket = match &job.touches {
        Touches::Times(_) => Bucket::Time(entry.time),
        Touches::Batch(batch_id) => Bucket::Batch(*batch_id),
    };
    tasks::release_id(conn, job.task, Scope::of(job.scope, &bucket), &entry.report_id)
}

fn delete_job(conn: &Connection, lease: Lease) -> Result<()> {
    conn.prepare_cached("DELETE FROM jobs WHERE job = ?1")?.execute(params![lease.job as i64])?;
    Ok(())
}
