//! Tasks, their totals and their report ids.
//!
//! **The scope of a report id** is the timestamp, the whole task or a series; [`ReplayScope`] says
//! which and why. The ids of a timestamp are deleted with its collected bucket. Those of a whole task
//! are stored outside all timestamps, so that no collection can touch them, and stay until the task
//! is forgotten. Those of a series belong to a task that is the series itself, and has nothing else.

use rusqlite::types::{ToSql, ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, params};
use sotto_protocol::{Bucket, Rejection, Rejections, ReplayScope};
use sotto_wire::{Interval, ReportId, TaskId};

use super::ranges::spans;
use crate::{Counters, Result, StoreError, StoredTask};

/// The code under which aggregated reports are counted; no rejection has it.
const AGGREGATED: i64 = 0;

/// Where within a task a report id must be unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Time(i64),
    WholeTask,
}

/// Among which ids those of a task's reports must be new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ids {
    /// The number of the task, or of its series.
    task: i64,
    /// Whether only those of the same timestamp count.
    is_narrow: bool,
}

impl Ids {
    /// For a task that has this number. Gives its series a number if it has none.
    pub(super) fn ensure(conn: &Connection, task: i64, scope: ReplayScope) -> Result<Self> {
        let series = match scope {
            ReplayScope::Series(series) => Some(ensure(conn, &series)?),
            _ => None,
        };
        Ok(Self { task: series.unwrap_or(task), is_narrow: scope == ReplayScope::Bucket })
    }

    /// For a task that may have a number. `None` if no such id was ever taken.
    pub(super) fn find(
        conn: &Connection,
        task: Option<i64>,
        scope: ReplayScope,
    ) -> Result<Option<Self>> {
        let task = match scope {
            ReplayScope::Series(series) => number(conn, &series)?,
            _ => task,
        };
        Ok(task.map(|task| Self { task, is_narrow: scope == ReplayScope::Bucket }))
    }

    /// As the table of jobs holds it: 0, which no task has, if timestamps count.
    pub(super) fn to_sql(self) -> i64 {
        if self.is_narrow { 0 } else { self.task }
    }

    pub(super) fn from_sql(stored: i64, task: i64) -> Self {
        Self { task: if stored == 0 { task } else { stored }, is_narrow: stored == 0 }
    }

    pub(super) fn scope(self, bucket: &Bucket) -> Scope {
        match bucket {
            Bucket::Time(time) if self.is_narrow => Scope::Time(time.as_units() as i64),
            _ => Scope::WholeTask,
        }
    }
}

impl ToSql for Scope {
    /// SQLite uses the same order: every integer comes before every blob.
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Time(time) => ValueRef::Integer(*time),
            Self::WholeTask => ValueRef::Blob(&[]),
        }))
    }
}

/// How many ids one purging transaction deletes: a few milliseconds of work.
const PURGE_STEP: i64 = 4096;

/// The number of a task, if the store has seen it.
pub(super) fn number(conn: &Connection, task_id: &TaskId) -> Result<Option<i64>> {
    let mut statement = conn.prepare_cached("SELECT task FROM tasks WHERE task_id = ?1")?;
    Ok(statement.query_row(params![task_id.as_bytes()], |row| row.get(0)).optional()?)
}

/// The number of a task, assigned now if it has none.
pub(super) fn ensure(conn: &Connection, task_id: &TaskId) -> Result<i64> {
    if let Some(task) = number(conn, task_id)? {
        return Ok(task);
    }
    conn.prepare_cached("INSERT INTO tasks (task_id) VALUES (?1)")?
        .execute(params![task_id.as_bytes()])?;
    Ok(conn.last_insert_rowid())
}

pub(super) fn task_id(conn: &Connection, task: i64) -> Result<TaskId> {
    let mut statement = conn.prepare_cached("SELECT task_id FROM tasks WHERE task = ?1")?;
    Ok(TaskId::new(statement.query_row(params![task], |row| row.get(0))?))
}

pub(super) fn put(conn: &Connection, task_id: &TaskId, stored: &StoredTask) -> Result<()> {
    let task = ensure(conn, task_id)?;
    let (configuration, recipe, audience) = match stored {
        StoredTask::Announced(configuration) => (Some(configuration), None, None),
        StoredTask::Recipe { json, audience } => {
            (None, Some(json), audience.map(|audience| audience as i64))
        }
    };
    conn.prepare_cached(
        "UPDATE tasks SET configuration = ?2, recipe = ?3, audience = ?4 WHERE task = ?1
         AND (configuration IS NOT ?2 OR recipe IS NOT ?3 OR audience IS NOT ?4)",
    )?
    .execute(params![task, configuration, recipe, audience])?;
    Ok(())
}

/// The tasks that were learned while the server ran.
pub(super) fn stored(conn: &Connection) -> Result<Vec<(TaskId, StoredTask)>> {
    let mut statement = conn.prepare_cached(
        "SELECT task_id, configuration, recipe, audience FROM tasks
         WHERE configuration IS NOT NULL OR recipe IS NOT NULL ORDER BY task",
    )?;
    let rows = statement.query_map([], |row| {
        let stored = match row.get(1)? {
            Some(configuration) => StoredTask::Announced(configuration),
            None => {
                let audience = row.get::<_, Option<i64>>(3)?.map(|audience| audience as u64);
                StoredTask::Recipe { json: row.get(2)?, audience }
            }
        };
        Ok((TaskId::new(row.get(0)?), stored))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The tasks that were forgotten.
pub(super) fn forgotten(conn: &Connection) -> Result<Vec<TaskId>> {
    let mut statement = conn.prepare_cached("SELECT task_id FROM tombstones")?;
    let rows = statement.query_map([], |row| Ok(TaskId::new(row.get(0)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Deletes a task's rows, except its ids, which are only scheduled for deletion.
pub(super) fn forget(conn: &Connection, task: i64) -> Result<()> {
    conn.execute(
        "DELETE FROM response_buckets WHERE response IN
         (SELECT response FROM responses WHERE task = ?1)",
        params![task],
    )?;
    for table in [
        "counters",
        "buckets",
        "ranges",
        "batches",
        "jobs",
        "requeued",
        "collections",
        "ordinals",
        "responses",
        "tasks",
    ] {
        conn.execute(&format!("DELETE FROM {table} WHERE task = ?1"), params![task])?;
    }
    schedule_purge(conn, task, Scope::Time(i64::MIN), Scope::WholeTask)
}

pub(super) fn count_aggregated(conn: &Connection, task: i64, count: u64) -> Result<()> {
    add_to_counter(conn, task, AGGREGATED, count)
}

pub(super) fn count_rejections(
    conn: &Connection,
    task: i64,
    rejections: &Rejections,
) -> Result<()> {
    for (reason, count) in rejections.iter() {
        add_to_counter(conn, task, reason.code().into(), count)?;
    }
    Ok(())
}

pub(super) fn counters(conn: &Connection, task_id: &TaskId) -> Result<Counters> {
    let mut counters = Counters::default();
    let Some(task) = number(conn, task_id)? else { return Ok(counters) };
    let mut statement =
        conn.prepare_cached("SELECT reason, count FROM counters WHERE task = ?1")?;
    let mut rows = statement.query(params![task])?;
    while let Some(row) = rows.next()? {
        let (code, count) = (row.get::<_, i64>(0)?, row.get::<_, i64>(1)? as u64);
        if code == AGGREGATED {
            counters.aggregated = count;
            continue;
        }
        let reason = u8::try_from(code).ok().and_then(Rejection::from_code);
        let reason = reason
            .ok_or_else(|| StoreError::Backend(format!("rejection code {code} is unknown")))?;
        counters.rejections.add_many(reason, count);
    }
    Ok(counters)
}

/// Takes an id. Returns whether it was free.
pub(super) fn take_id(
    conn: &Connection,
    ids: Ids,
    bucket: &Bucket,
    report_id: &ReportId,
) -> Result<bool> {
    let mut statement =
        conn.prepare_cached("INSERT OR IGNORE INTO report_ids VALUES (?1, ?2, ?3)")?;
    Ok(statement.execute(params![ids.task, ids.scope(bucket), report_id.as_bytes()])? == 1)
}

pub(super) fn is_taken(
    conn: &Connection,
    ids: Ids,
    bucket: &Bucket,
    report_id: &ReportId,
) -> Result<bool> {
    let mut statement = conn.prepare_cached(
        "SELECT 1 FROM report_ids WHERE task = ?1 AND scope = ?2 AND report_id = ?3",
    )?;
    Ok(statement.exists(params![ids.task, ids.scope(bucket), report_id.as_bytes()])?)
}

pub(super) fn release_id(
    conn: &Connection,
    ids: Ids,
    bucket: &Bucket,
    report_id: &ReportId,
) -> Result<()> {
    conn.prepare_cached(
        "DELETE FROM report_ids WHERE task = ?1 AND scope = ?2 AND report_id = ?3",
    )?
    .execute(params![ids.task, ids.scope(bucket), report_id.as_bytes()])?;
    Ok(())
}

/// Schedules the ids in the timestamps of a collected interval for deletion. There may be many, so
/// they are deleted a little at a time. Until then they do no harm: the interval rejects reports
/// before their ids are looked up.
pub(super) fn schedule_purge_of(conn: &Connection, task: i64, interval: Interval) -> Result<()> {
    for (first, last) in spans(interval) {
        schedule_purge(conn, task, Scope::Time(first), Scope::Time(last))?;
    }
    Ok(())
}

/// Deletes some ids that are no longer needed. Returns whether there are more.
pub(super) fn purge(conn: &mut Connection) -> Result<bool> {
    let tx = conn.transaction()?;
    let next = tx
        .prepare_cached("SELECT purge, task, first, last FROM purges ORDER BY purge LIMIT 1")?
        .query_row([], |row| {
            let (purge, task): (i64, i64) = (row.get(0)?, row.get(1)?);
            Ok((purge, task, row.get::<_, Value>(2)?, row.get::<_, Value>(3)?))
        })
        .optional()?;
    let Some((purge, task, first, last)) = next else { return Ok(false) };
    let step_end: Option<(Value, Vec<u8>)> = tx
        .prepare_cached(
            "SELECT scope, report_id FROM report_ids
             WHERE task = ?1 AND scope BETWEEN ?2 AND ?3
             ORDER BY task, scope, report_id LIMIT 1 OFFSET ?4",
        )?
        .query_row(params![task, first, last, PURGE_STEP], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match step_end {
        Some((scope, report_id)) => {
            tx.prepare_cached(
                "DELETE FROM report_ids WHERE task = ?1 AND scope >= ?2 AND scope < ?3",
            )?
            .execute(params![task, first, scope])?;
            tx.prepare_cached(
                "DELETE FROM report_ids WHERE task = ?1 AND scope = ?2 AND report_id < ?3",
            )?
            .execute(params![task, scope, report_id])?;
        }
        None => {
            tx.prepare_cached(
                "DELETE FROM report_ids WHERE task = ?1 AND scope BETWEEN ?2 AND ?3",
            )?
            .execute(params![task, first, last])?;
            tx.prepare_cached("DELETE FROM purges WHERE purge = ?1")?.execute(params![purge])?;
        }
    }
    tx.commit()?;
    Ok(true)
}

fn schedule_purge(conn: &Connection, task: i64, first: Scope, last: Scope) -> Result<()> {
    conn.prepare_cached("INSERT INTO purges (task, first, last) VALUES (?1, ?2, ?3)")?
        .execute(params![task, first, last])?;
    Ok(())
}

fn add_to_counter(conn: &Connection, task: i64, reason: i64, count: u64) -> Result<()> {
    if count > 0 {
        conn.prepare_cached(
            "INSERT INTO counters VALUES (?1, ?2, ?3)
             ON CONFLICT (task, reason) DO UPDATE SET count = count + excluded.count",
        )?
        .execute(params![task, reason, count as i64])?;
    }
    Ok(())
}
