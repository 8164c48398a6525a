//! Fixing the sets of new aggregation jobs.
//!
//! One transaction takes a stretch out of the backlog and decides everything that could make the
//! leader refuse a report later: whatever is in a job afterwards, the leader stands by.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, hash_map};

use rusqlite::{Connection, params};
use sotto_protocol::{Bucket, Rejection, Rejections, ReplayScope};
use sotto_wire::{BatchId, TaskId, Time};

use super::buckets::{self, BatchState};
use super::db::{Db, Hold, LiveJob, Touches};
use super::entries::Entry;
use super::log::{Position, Stretch};
use super::ranges::{self, Standing};
use super::tasks::{self, Scope};
use crate::{Fixed, NewJob, NewJobBatch, NewJobReport, Result, StoreError};

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
    let mut reports = Vec::with_capacity(kept.len() * Entry::LEN);
    for NewJobReport { place, time, report_id } in &kept {
        let position = Position::from_place(*place)?;
        segments.insert(position.segment());
        Entry { position, time: *time, report_id: *report_id }.encode(&mut reports);
    }
    let (batch_id, times) = match &touches {
        Touches::Batch(batch_id) => (Some(batch_id.as_bytes()), Vec::new()),
        Touches::Times(times) => (None, times.iter().flat_map(|t| t.to_le_bytes()).collect()),
    };
    let segment_bytes: Vec<u8> = segments.iter().flat_map(|n| n.to_le_bytes()).collect();
    let report_count = kept.len() as u64;
    conn.prepare_cached("INSERT INTO jobs VALUES (?1, ?2, ?3, ?4, ?5, NULL, ?6, ?7, ?8, ?9)")?
        .execute(params![
            number,
            task,
            job.now.0 as i64,
            batch_id,
            job.scope == ReplayScope::Task,
            report_count as i64,
            segment_bytes,
            times,
            reports
        ])?;
    let (hold, scope) = (Hold::default(), job.scope);
    Ok(Some(LiveJob { hold, task, scope, report_count, touches, segments }))
}

/// Takes the ids of a job's reports and returns those that stay, in their order.
fn reserve(
    conn: &Connection,
    task: i64,
    job: &NewJob,
    struck: &mut Rejections,
) -> Result<Vec<NewJobReport>> {
    // Neighbouring ids share pages. The sort is stable: of two copies the one that came first stays. Its
    // timestamp is no part of the order where the scope is the task, or it would choose between them.
    let bucket_of = |report: &NewJobReport| match job.batch {
        NewJobBatch::TimeInterval => Bucket::Time(report.time),
        NewJobBatch::LeaderSelected { if_none_open } => Bucket::Batch(if_none_open),
    };
    let mut order: Vec<(usize, &NewJobReport)> = job.reports.iter().enumerate().collect();
    let scope_of = |report: &NewJobReport| Scope::of(job.scope, &bucket_of(report));
    order.sort_by_key(|(_, report)| (scope_of(report), report.report_id));
    let mut keep = vec![false; job.reports.len()];
    let mut standings: HashMap<Time, Standing> = HashMap::new();
    for (index, report) in order {
        if let Bucket::Time(time) = bucket_of(report) {
            let standing = match standings.entry(time) {
                hash_map::Entry::Occupied(known) => *known.get(),
                hash_map::Entry::Vacant(new) => *new.insert(ranges::standing(conn, task, time)?),
            };
            if !standing.admits(Position::from_place(report.place)?) {
                struck.add(Rejection::BatchCollected);
                continue;
            }
        }
        if tasks::take_id(conn, task, scope_of(report), &report.report_id)? {
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
