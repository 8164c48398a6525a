//! Aggregation jobs: fixing sets, leasing, committing.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use rusqlite::{Connection, params};
use sotto_protocol::{Bucket, Digest, Moment, Rejection, Rejections};
use sotto_wire::{BatchId, ReportId, TaskId, Time};

use super::buckets::{self, BatchState};
use super::db::{Db, Hold, LiveJob, Touches};
use super::log::{Position, Stretch};
use super::{ranges, reader, tasks};
use crate::clock::milliseconds;
use crate::{
    Fixed, JobCommit, Lease, LeasedJob, NewJob, NewJobBatch, NewJobReport, REQUEUE_PAUSE, Result,
    StoreError,
};

/// Position, time and report id.
const REPORT_ENTRY_LEN: usize = 8 + 8 + 16;

/// A job as its worker will see it, before its records are read.
pub(super) type PickedJob = (LeasedJob, Vec<Position>);

/// One report of a stored job.
struct Entry {
    position: Position,
    time: Time,
    report_id: ReportId,
}

/// All jobs, as they are kept in memory.
pub(super) fn load(conn: &Connection) -> Result<BTreeMap<u64, LiveJob>> {
    let mut statement =
        conn.prepare("SELECT job, task, batch_id, report_count, segments, times FROM jobs")?;
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
            report_count: row.get::<_, i64>(3)? as u64,
            touches,
            segments: segments.as_chunks().0.iter().map(|n| u32::from_le_bytes(*n)).collect(),
        };
        jobs.insert(row.get::<_, i64>(0)? as u64, job);
    }
    Ok(jobs)
}

impl Db {
    pub(super) fn fix_jobs(
        &mut self,
        from: u64,
        to: u64,
        jobs: &[NewJob],
        rejections: &[(TaskId, Rejection)],
    ) -> Result<Fixed> {
        let stretch = Stretch::from_tokens(from, to)?;
        let (cursor, end) = (self.log.cursor(), self.log.end());
        let tx = Self::begin(&mut self.conn)?;
        let Some(taken) = take(&tx, stretch, cursor, end)? else { return Ok(Fixed::Moved) };
        let mut struck = Rejections::default();
        let mut fixed = Vec::new();
        let mut next_job: i64 = tx.query_row("SELECT next_job FROM store", [], |row| row.get(0))?;
        for job in jobs {
            taken.check(job)?;
            if let Some(live) = fix_job(&tx, next_job, job, &mut struck)? {
                fixed.push((next_job as u64, live));
                next_job += 1;
            }
        }
        tx.prepare_cached("UPDATE store SET next_job = ?1")?.execute(params![next_job])?;
        let mut by_task: BTreeMap<TaskId, Rejections> = BTreeMap::new();
        for (task_id, reason) in rejections {
            by_task.entry(*task_id).or_default().add(*reason);
        }
        for (task_id, rejections) in by_task {
            tasks::count_rejections(&tx, tasks::ensure(&tx, &task_id)?, &rejections)?;
        }
        tx.commit()?;

        let count = fixed.len();
        for (number, live) in fixed {
            for segment in &live.segments {
                self.log.add_ref(*segment);
            }
            self.jobs.insert(number, live);
        }
        match taken {
            Taken::Log { to, .. } => self.log.advance(to),
            Taken::Requeued { to, positions, bytes } => {
                self.log.requeues_taken(to, bytes);
                for position in positions {
                    self.log.drop_ref(position.segment());
                }
            }
        }
        self.settle(None);
        Ok(Fixed::Committed { jobs: count, rejections: struck })
    }

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
        Ok(Some((job, entries(&reports).map(|entry| entry.position).collect())))
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
        if !commit.requeue.is_empty() {
            let reports: Vec<u8> = tx
                .prepare_cached("SELECT reports FROM jobs WHERE job = ?1")?
                .query_row(params![lease.job as i64], |row| row.get(0))?;
            let all: Vec<Entry> = entries(&reports).collect();
            for entry in commit.requeue.iter().filter_map(|index| all.get(*index)) {
                let bytes = reader::record_len(&self.log, entry.position)?;
                requeue(&tx, &job, entry, bytes)?;
                requeued.push(entry.position.segment());
                requeued_bytes += bytes;
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

/// A stretch that this transaction takes out of the backlog.
enum Taken {
    Log { from: Position, to: Position },
    Requeued { to: i64, positions: HashSet<Position>, bytes: u64 },
}

impl Taken {
    /// A job may only have reports of its stretch.
    fn check(&self, job: &NewJob) -> Result<()> {
        for report in &job.reports {
            let position = Position::from_place(report.place)?;
            let is_inside = match self {
                Self::Log { from, to } => *from <= position && position < *to,
                Self::Requeued { positions, .. } => positions.contains(&position),
            };
            if !is_inside {
                return Err(StoreError::Backend("a record outside the stretch".into()));
            }
        }
        Ok(())
    }
}

/// Takes a stretch, unless the backlog does not begin there any more.
fn take(
    conn: &Connection,
    stretch: Stretch,
    cursor: Position,
    end: Position,
) -> Result<Option<Taken>> {
    match stretch {
        Stretch::Log { from, .. } if from != cursor => Ok(None),
        Stretch::Log { to, .. } if to > end => {
            Err(StoreError::Backend("a stretch beyond the end of the log".into()))
        }
        Stretch::Log { from, to } => {
            conn.prepare_cached("UPDATE store SET cursor = ?1")?.execute(params![to.to_sql()])?;
            conn.prepare_cached("DELETE FROM forgotten WHERE position <= ?1")?
                .execute(params![to.to_sql()])?;
            Ok(Some(Taken::Log { from, to }))
        }
        Stretch::Requeued { from, to } => {
            let mut statement = conn.prepare_cached(
                "SELECT number, position, bytes FROM requeued WHERE number < ?1 ORDER BY number",
            )?;
            let mut rows = statement.query(params![to])?;
            let mut positions = HashSet::new();
            let mut bytes = 0;
            while let Some(row) = rows.next()? {
                if positions.is_empty() && row.get::<_, i64>(0)? != from {
                    return Ok(None);
                }
                positions.insert(Position::from_sql(row.get(1)?));
                bytes += row.get::<_, i64>(2)? as u64;
            }
            if positions.is_empty() {
                return Ok(None);
            }
            conn.prepare_cached("DELETE FROM requeued WHERE number < ?1")?.execute(params![to])?;
            Ok(Some(Taken::Requeued { to, positions, bytes }))
        }
    }
}

/// Reserves what a job needs and stores it. `None` if none of its reports is left.
fn fix_job(
    conn: &Connection,
    number: i64,
    job: &NewJob,
    struck: &mut Rejections,
) -> Result<Option<LiveJob>> {
    let task = tasks::ensure(conn, &job.task_id)?;
    let mut here = Rejections::default();
    let kept = reserve(conn, task, job, &mut here)?;
    tasks::count_rejections(conn, task, &here)?;
    for (reason, count) in here.iter() {
        struck.add_many(reason, count);
    }
    if kept.is_empty() {
        return Ok(None);
    }
    let touches = match job.batch {
        NewJobBatch::TimeInterval => {
            Touches::Times(kept.iter().map(|report| report.time.as_units()).collect())
        }
        NewJobBatch::LeaderSelected { if_none_open } => {
            Touches::Batch(match buckets::open_batch(conn, task)? {
                Some(batch_id) => batch_id,
                None => open_new_batch(conn, task, if_none_open)?,
            })
        }
    };
    let mut segments = BTreeSet::new();
    let mut reports = Vec::with_capacity(kept.len() * REPORT_ENTRY_LEN);
    for report in &kept {
        let position = Position::from_place(report.place)?;
        segments.insert(position.segment());
        reports.extend_from_slice(&position.to_sql().to_le_bytes());
        reports.extend_from_slice(&report.time.as_units().to_le_bytes());
        reports.extend_from_slice(report.report_id.as_bytes());
    }
    let (batch_id, times) = match &touches {
        Touches::Batch(batch_id) => (Some(batch_id.as_bytes()), Vec::new()),
        Touches::Times(times) => (None, times.iter().flat_map(|t| t.to_le_bytes()).collect()),
    };
    let segment_bytes: Vec<u8> = segments.iter().flat_map(|n| n.to_le_bytes()).collect();
    let report_count = kept.len() as u64;
    conn.prepare_cached("INSERT INTO jobs VALUES (?1, ?2, ?3, ?4, NULL, ?5, ?6, ?7, ?8)")?
        .execute(params![
            number,
            task,
            job.now.0 as i64,
            batch_id,
            report_count as i64,
            segment_bytes,
            times,
            reports
        ])?;
    Ok(Some(LiveJob { hold: Hold::default(), task, report_count, touches, segments }))
}

/// Takes the ids of a job's reports and returns those that stay, in their order.
fn reserve(
    conn: &Connection,
    task: i64,
    job: &NewJob,
    struck: &mut Rejections,
) -> Result<Vec<NewJobReport>> {
    // Neighbouring ids share pages. The sort is stable: of two copies the one that came first stays.
    let bucket_of = |report: &NewJobReport| match job.batch {
        NewJobBatch::TimeInterval => Bucket::Time(report.time),
        NewJobBatch::LeaderSelected { if_none_open } => Bucket::Batch(if_none_open),
    };
    let mut order: Vec<(usize, &NewJobReport)> = job.reports.iter().enumerate().collect();
    order.sort_by_key(|(_, report)| (bucket_of(report), report.report_id));
    let mut keep = vec![false; job.reports.len()];
    let mut standing = None;
    for (index, report) in order {
        let bucket = bucket_of(report);
        if let Bucket::Time(time) = bucket {
            let now = match standing {
                Some((of, now)) if of == time => now,
                _ => ranges::standing(conn, task, time)?,
            };
            standing = Some((time, now));
            if !now.admits(Position::from_place(report.place)?) {
                struck.add(Rejection::BatchCollected);
                continue;
            }
        }
        if tasks::take_id(conn, task, tasks::scope(&bucket), &report.report_id)? {
            keep[index] = true;
        } else {
            struck.add(Rejection::ReportReplayed);
        }
    }
    Ok(job.reports.iter().zip(keep).filter(|(_, keep)| *keep).map(|(report, _)| *report).collect())
}

fn open_new_batch(conn: &Connection, task: i64, batch_id: BatchId) -> Result<BatchId> {
    if buckets::batch_state(conn, task, &batch_id)?.is_some() {
        return Err(StoreError::Backend("the id of the new batch is not fresh".into()));
    }
    buckets::set_batch_state(conn, task, &batch_id, BatchState::Open)?;
    Ok(batch_id)
}

/// Each report of the job must be accounted for, in a bucket of the job.
fn check_commit(job: &LiveJob, commit: &JobCommit) -> Result<()> {
    let is_ours = |bucket: &Bucket| match (bucket, &job.touches) {
        (Bucket::Time(time), Touches::Times(times)) => times.contains(&time.as_units()),
        (Bucket::Batch(batch_id), Touches::Batch(ours)) => batch_id == ours,
        _ => false,
    };
    let distinct: HashSet<usize> = commit.requeue.iter().copied().collect();
    let requeued = commit.requeue.len() as u64;
    let in_range = commit.requeue.iter().all(|index| (*index as u64) < job.report_count);
    let aggregated: u64 = commit.buckets.values().map(|aggregate| aggregate.count).sum();
    if !commit.buckets.keys().all(is_ours) {
        return Err(StoreError::Backend("the commit has a bucket that its job has not".into()));
    }
    if !in_range
        || distinct.len() as u64 != requeued
        || aggregated + commit.rejections.total() + requeued != job.report_count
    {
        return Err(StoreError::Backend("the commit does not account for each report".into()));
    }
    Ok(())
}

/// Puts a report back: its id is free again, its record stays where it is.
fn requeue(conn: &Connection, job: &LiveJob, entry: &Entry, bytes: u64) -> Result<()> {
    let (time, bucket) = match &job.touches {
        Touches::Times(_) => (Some(entry.time.as_units() as i64), Bucket::Time(entry.time)),
        Touches::Batch(batch_id) => (None, Bucket::Batch(*batch_id)),
    };
    tasks::release_id(conn, job.task, tasks::scope(&bucket), &entry.report_id)?;
    conn.prepare_cached(
        "INSERT INTO requeued (task, time, position, bytes) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![job.task, time, entry.position.to_sql(), bytes as i64])?;
    Ok(())
}

fn delete_job(conn: &Connection, lease: Lease) -> Result<()> {
    conn.prepare_cached("DELETE FROM jobs WHERE job = ?1")?.execute(params![lease.job as i64])?;
    Ok(())
}

fn entries(reports: &[u8]) -> impl Iterator<Item = Entry> + '_ {
    reports.as_chunks::<REPORT_ENTRY_LEN>().0.iter().map(|entry| {
        let (position, rest) = entry.split_at(8);
        let (time, report_id) = rest.split_at(8);
        let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        Entry {
            position: Position::from_sql(word(position) as i64),
            time: Time::new(word(time)),
            report_id: ReportId::new(report_id.first_chunk().copied().unwrap_or_default()),
        }
    })
}
