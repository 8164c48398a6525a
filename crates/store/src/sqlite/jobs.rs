//! Aggregation jobs: leasing and committing. [`super::fixing`] fixes their report sets.

use std::time::Duration;

use rusqlite::{Connection, params};
use sotto_protocol::leader::aggregate::LeaderOutcome;
use sotto_protocol::{Bucket, Digest, Moment, Rejection, Rejections};
use sotto_wire::{BatchId, TaskId};

use super::db::{Db, LiveJob, Touches};
use super::entries::Entry;
use super::fixing::insert_requeued;
use super::log::Position;
use super::tasks::Ids;
use super::{buckets, reader, tasks};
use crate::clock::milliseconds;
use crate::outcome::check_leader;
use crate::queue::Queue;
use crate::{Lease, LeasedJob, REQUEUE_PAUSE, Result, StoreError, Turn};

/// A job as its worker will see it, before its records are read.
pub(super) type PickedJob = (LeasedJob, Vec<Position>);

/// All jobs, in their in-memory form.
pub(super) fn load(conn: &Connection) -> Result<Queue<LiveJob>> {
    let mut statement = conn.prepare(
        "SELECT job, task, batch_id, report_count, segments, times, ids, task_id
         FROM jobs JOIN tasks USING (task)",
    )?;
    let mut rows = statement.query([])?;
    let mut jobs = Queue::default();
    while let Some(row) = rows.next()? {
        let segments: Vec<u8> = row.get(4)?;
        let times: Vec<u8> = row.get(5)?;
        let touches = match row.get::<_, Option<[u8; 32]>>(2)? {
            Some(batch_id) => Touches::Batch(BatchId::new(batch_id)),
            None => Touches::Times(
                times.as_chunks().0.iter().map(|time| u64::from_le_bytes(*time)).collect(),
            ),
        };
        let task = row.get(1)?;
        let job = LiveJob {
            task,
            ids: Ids::from_sql(row.get(6)?, task),
            report_count: row.get::<_, i64>(3)? as u64,
            touches,
            segments: segments.as_chunks().0.iter().map(|n| u32::from_le_bytes(*n)).collect(),
        };
        let (number, task_id) = (row.get::<_, i64>(0)? as u64, TaskId::new(row.get(7)?));
        jobs.insert(number, task_id, job.report_count, job);
    }
    Ok(jobs)
}

impl Db {
    /// Picks the oldest free job of the task whose turn it is.
    pub(super) fn pick_job(
        &mut self,
        duration: Duration,
        turn: &Turn,
    ) -> Result<Option<PickedJob>> {
        let Some(number) = self.jobs.next(turn, (self.clock)()) else { return Ok(None) };
        let hold = self.grant(duration);
        let (task, now, batch_id, digest, reports): (i64, i64, Option<_>, _, Vec<u8>) = self
            .conn
            .prepare_cached("SELECT task, now, batch_id, digest, reports FROM jobs WHERE job = ?1")?
            .query_row(params![number as i64], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
            })?;
        let task_id = tasks::task_id(&self.conn, task)?;
        self.jobs.hold(number, hold);
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

    pub(super) fn commit_job(&mut self, lease: Lease, outcome: &LeaderOutcome) -> Result<()> {
        let job = self.held_job(lease)?.clone();
        check_leader(outcome, job.report_count, |bucket| job.touches.contains(bucket))?;
        let tx = Self::begin(&mut self.conn)?;
        let mut aggregated = 0;
        for (bucket, aggregate) in &outcome.buckets {
            if buckets::is_collected(&tx, job.task, bucket)? {
                return Err(StoreError::Backend("the bucket is collected".into()));
            }
            buckets::add(&tx, job.task, bucket, aggregate)?;
            aggregated += aggregate.count;
        }
        tasks::count_aggregated(&tx, job.task, aggregated)?;
        tasks::count_rejections(&tx, job.task, &outcome.rejections)?;
        let mut requeued = Vec::new();
        if !(outcome.requeue.is_empty() && outcome.unspent.is_empty()) {
            let reports: Vec<u8> = tx
                .prepare_cached("SELECT reports FROM jobs WHERE job = ?1")?
                .query_row(params![lease.job as i64], |row| row.get(0))?;
            let all: Vec<Entry> = Entry::decode_all(&reports).collect();
            for entry in outcome.requeue.iter().filter_map(|index| all.get(*index)) {
                // Its id is free again; its record stays where it is.
                release_id(&tx, &job, entry)?;
                let bytes = reader::record_len(&self.log, entry.position)?;
                let time = job.batch_id().is_none().then_some(entry.time);
                let number = insert_requeued(&tx, job.task, time, entry.position, bytes)?;
                requeued.push((number, entry.position.segment(), bytes));
            }
            for entry in outcome.unspent.iter().filter_map(|index| all.get(*index)) {
                release_id(&tx, &job, entry)?;
            }
        }
        let task_id = tasks::task_id(&tx, job.task)?;
        delete_job(&tx, lease)?;
        tx.commit()?;

        self.jobs.remove(lease.job);
        if let (Some((first, ..)), Some((last, ..))) = (requeued.first(), requeued.last()) {
            let due_ms = (self.clock)().saturating_add(milliseconds(REQUEUE_PAUSE));
            let bytes = requeued.iter().map(|(_, _, bytes)| bytes).sum();
            self.log.requeued(task_id, *first..last + 1, due_ms, bytes);
            for (_, segment, _) in requeued {
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
        self.jobs.remove(lease.job);
        self.settle(Some(&job));
        Ok(())
    }
}

fn release_id(conn: &Connection, job: &LiveJob, entry: &Entry) -> Result<()> {
    let bucket = job.batch_id().map_or(Bucket::Time(entry.time), Bucket::Batch);
    tasks::release_id(conn, job.ids, &bucket, &entry.report_id)
}

fn delete_job(conn: &Connection, lease: Lease) -> Result<()> {
    conn.prepare_cached("DELETE FROM jobs WHERE job = ?1")?.execute(params![lease.job as i64])?;
    Ok(())
}
