//! Fixes the report sets of new aggregation jobs.
//!
//! One transaction takes a part of the backlog and decides everything that could make the leader
//! reject a report later: the leader stands by whatever is in a job afterwards. Reports of tasks
//! that are not served keep their record and get a row in the table `requeued`, in the same
//! transaction. The cursor passes them, and nothing is lost.

use std::collections::{BTreeMap, BTreeSet, HashMap, hash_map};
use std::ops::Range;

use rusqlite::{Connection, params};
use sotto_protocol::leader::aggregate::{FormedBatch, FormedJob, FormedJobs};
use sotto_protocol::{Bucket, Rejection, Rejections};
use sotto_wire::{TaskId, Time};

use super::buckets;
use super::db::{Db, LiveJob, Touches};
use super::entries::Entry;
use super::log::{Part, Position, Waiting};
use super::ranges::{self, Standing};
use super::tasks::{self, Ids};
use crate::{Fixed, Result, StoreError};

impl Db {
    pub(super) fn fix_jobs(&mut self, part: &Part, formed: &FormedJobs) -> Result<Fixed> {
        let (cursor, end) = (self.log.cursor(), self.log.end());
        let tx = Self::begin(&mut self.conn)?;
        if !take(&tx, part, cursor, end)? {
            return Ok(Fixed::Moved);
        }
        let mut struck = Rejections::default();
        let mut fixed = Vec::new();
        let mut next_job: i64 = tx.query_row("SELECT next_job FROM store", [], |row| row.get(0))?;
        for job in &formed.jobs {
            if let Some(live) = fix_job(&tx, next_job, job, part, &mut struck)? {
                fixed.push((next_job as u64, job.task_id, live));
                next_job += 1;
            }
        }
        tx.prepare_cached("UPDATE store SET next_job = ?1")?.execute(params![next_job])?;
        let mut by_task: BTreeMap<TaskId, Rejections> = BTreeMap::new();
        for (task_id, reason) in &formed.rejections {
            by_task.entry(*task_id).or_default().add(*reason);
        }
        for (task_id, rejections) in by_task {
            tasks::count_rejections(&tx, tasks::ensure(&tx, &task_id)?, &rejections)?;
        }
        // A task that was forgotten after the part was read must not come back.
        let is_kept = |left: &&Waiting| !self.log.is_forgotten(&left.task_id, left.position);
        let left: Vec<Waiting> = part.left().iter().filter(is_kept).copied().collect();
        let set_aside = set_aside(&tx, &left)?;
        tx.commit()?;

        let count = fixed.len();
        for (number, task_id, live) in fixed {
            for segment in &live.segments {
                self.log.add_ref(*segment);
            }
            self.jobs.insert(number, task_id, live.report_count, live);
        }
        for left in &left {
            self.log.add_ref(left.position.segment());
        }
        for (task_id, (numbers, bytes)) in set_aside {
            self.log.requeued(task_id, numbers, 0, bytes);
        }
        match part {
            Part::Log { to, .. } => self.log.advance(*to),
            Part::Requeued(rows) => {
                for (number, Waiting { task_id, position, bytes }) in rows {
                    self.log.requeues_taken(task_id, *number, *bytes);
                    self.log.drop_ref(position.segment());
                }
            }
        }
        self.settle(None);
        Ok(Fixed::Committed { jobs: count, rejections: struck })
    }
}

impl Part {
    /// The position of the record with this index.
    fn position(&self, record: usize) -> Result<Position> {
        let position = match self {
            Self::Log { records, .. } => records.get(record).copied(),
            Self::Requeued(rows) => rows.get(record).map(|(_, waiting)| waiting.position),
        };
        position.ok_or_else(|| StoreError::Backend("a record is outside the stretch".into()))
    }

    fn left(&self) -> &[Waiting] {
        match self {
            Self::Log { left, .. } => left,
            Self::Requeued(_) => &[],
        }
    }
}

/// Takes a part of the backlog. Returns false if another caller has taken any of it.
fn take(conn: &Connection, part: &Part, cursor: Position, end: Position) -> Result<bool> {
    match part {
        Part::Log { from, .. } if *from != cursor => Ok(false),
        Part::Log { to, .. } if *to > end => {
            Err(StoreError::Backend("a stretch beyond the end of the log".into()))
        }
        Part::Log { to, .. } => {
            conn.prepare_cached("UPDATE store SET cursor = ?1")?.execute(params![to.to_sql()])?;
            conn.prepare_cached("DELETE FROM forgotten WHERE position <= ?1")?
                .execute(params![to.to_sql()])?;
            Ok(true)
        }
        Part::Requeued(rows) => {
            let mut statement = conn.prepare_cached("DELETE FROM requeued WHERE number = ?1")?;
            for (number, _) in rows {
                if statement.execute(params![number])? == 0 {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

/// Gives each report of a task that is not served its own row. Returns each task's row numbers, and
/// their bytes.
fn set_aside(conn: &Connection, left: &[Waiting]) -> Result<HashMap<TaskId, (Range<i64>, u64)>> {
    let mut rows: HashMap<TaskId, (Range<i64>, u64)> = HashMap::new();
    for Waiting { task_id, position, bytes } in left {
        let task = tasks::ensure(conn, task_id)?;
        let number = insert_requeued(conn, task, None, *position, *bytes)?;
        let (numbers, sum) = rows.entry(*task_id).or_insert((number..number, 0));
        numbers.end = number + 1;
        *sum += bytes;
    }
    Ok(rows)
}

/// Adds a row to the table `requeued` and returns its number.
pub(super) fn insert_requeued(
    conn: &Connection,
    task: i64,
    time: Option<Time>,
    position: Position,
    bytes: u64,
) -> Result<i64> {
    let time = time.map(|time| time.as_units() as i64);
    conn.prepare_cached(
        "INSERT INTO requeued (task, time, position, bytes) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![task, time, position.to_sql(), bytes as i64])?;
    Ok(conn.last_insert_rowid())
}

/// Reserves what a job needs and stores it. `None` if none of its reports remains.
fn fix_job(
    conn: &Connection,
    number: i64,
    job: &FormedJob,
    part: &Part,
    struck: &mut Rejections,
) -> Result<Option<LiveJob>> {
    let task = tasks::ensure(conn, &job.task_id)?;
    let entries = job.reports.iter().map(|report| {
        let position = part.position(report.record)?;
        Ok(Entry { position, time: report.time, report_id: report.report_id })
    });
    let entries: Vec<Entry> = entries.collect::<Result<_>>()?;
    let mut here = Rejections::default();
    let ids = Ids::ensure(conn, task, job.scope)?;
    let kept = reserve(conn, task, ids, job, &entries, &mut here)?;
    tasks::count_rejections(conn, task, &here)?;
    for (reason, count) in here.iter() {
        struck.add_many(reason, count);
    }
    if kept.is_empty() {
        return Ok(None);
    }
    let touches = match job.batch {
        FormedBatch::TimeInterval => {
            Touches::Times(kept.iter().map(|entry| entry.time.as_units()).collect())
        }
        FormedBatch::LeaderSelected { window, if_none_open } => {
            Touches::Batch(match buckets::open_batch(conn, task, window)? {
                Some(batch_id) => batch_id,
                None => {
                    buckets::open_new_batch(conn, task, window, &if_none_open)?;
                    if_none_open
                }
            })
        }
    };
    let segments: BTreeSet<u32> = kept.iter().map(|entry| entry.position.segment()).collect();
    let mut reports = Vec::with_capacity(kept.len() * Entry::LEN);
    kept.iter().for_each(|entry| entry.encode(&mut reports));
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
            ids.to_sql(),
            report_count as i64,
            segment_bytes,
            times,
            reports
        ])?;
    Ok(Some(LiveJob { task, ids, report_count, touches, segments }))
}

/// Takes the ids of a job's reports and returns the reports that stay, in order.
fn reserve(
    conn: &Connection,
    task: i64,
    ids: Ids,
    job: &FormedJob,
    entries: &[Entry],
    struck: &mut Rejections,
) -> Result<Vec<Entry>> {
    // Neighbouring ids share pages. The sort is stable: of two copies, the first to arrive stays.
    // Where the scope is wider, the timestamp is not part of the order, or it would decide
    // between them.
    let bucket_of = |entry: &Entry| match job.batch {
        FormedBatch::TimeInterval => Bucket::Time(entry.time),
        FormedBatch::LeaderSelected { if_none_open, .. } => Bucket::Batch(if_none_open),
    };
    let mut order: Vec<(usize, &Entry)> = entries.iter().enumerate().collect();
    order.sort_by_key(|(_, entry)| (ids.scope(&bucket_of(entry)), entry.report_id));
    let mut keep = vec![false; entries.len()];
    let mut standings: HashMap<Time, Standing> = HashMap::new();
    for (index, entry) in order {
        let bucket = bucket_of(entry);
        if let Bucket::Time(time) = bucket {
            let standing = match standings.entry(time) {
                hash_map::Entry::Occupied(known) => *known.get(),
                hash_map::Entry::Vacant(new) => *new.insert(ranges::standing(conn, task, time)?),
            };
            if !standing.admits(entry.position) {
                struck.add(Rejection::BatchCollected);
                continue;
            }
        }
        if tasks::take_id(conn, ids, &bucket, &entry.report_id)? {
            keep[index] = true;
        } else {
            struck.add(Rejection::ReportReplayed);
        }
    }
    Ok(entries.iter().zip(keep).filter(|(_, keep)| *keep).map(|(entry, _)| *entry).collect())
}
