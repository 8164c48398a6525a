//! The tables, and how the database is opened.
//!
//! SQLite is trusted to keep what it committed: WAL with `synchronous=FULL` syncs the WAL in every
//! commit. `secure_delete` overwrites deleted shares, responses and ids in the file, and the WAL is
//! emptied after a collection.
//!
//! Times are unsigned 64-bit integers on the wire. They are stored bit for bit in SQLite's signed
//! integers, and [`super::ranges::spans`] keeps comparisons right.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::{Result, StoreError};

/// Incremented with every change to the tables.
const VERSION: i64 = 7;

/// Small, because report ids are random: each new one dirties its own leaf, so every id costs the
/// write of a page.
const PAGE_BYTES: u32 = 2048;

/// The number of bytes after which the WAL is checkpointed. A longer WAL merges more writes to the
/// same pages: a million random ids have 13,000 leaves, and this length touches each more than
/// twice.
const WAL_BYTES: u32 = 64 << 20;

const TABLES: &str = "
CREATE TABLE store (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 0),
    store_id BLOB NOT NULL,      -- binds the segments to this database
    cursor INTEGER NOT NULL,     -- everything in the log before it was taken or refused
    next_job INTEGER NOT NULL,   -- one sequence for aggregation and collection jobs: leases name both
    epoch INTEGER NOT NULL       -- how often the store was opened: fences of older leases are lower
) STRICT;
INSERT INTO store VALUES (0, randomblob(16), 0, 1, 0);

CREATE TABLE tasks (
    task INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: ids are purged after the task is gone
    task_id BLOB NOT NULL UNIQUE,
    configuration BLOB,          -- of tasks announced in band
    recipe BLOB,                 -- canonical JSON, of tasks learned from a log
    audience INTEGER,            -- the certified audience of the recipe
    CHECK (configuration IS NULL OR recipe IS NULL)
) STRICT;

CREATE TABLE public_logs (       -- the newest checkpoint that was acted upon
    origin TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    root BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE counters (
    task INTEGER NOT NULL,
    reason INTEGER NOT NULL,     -- a rejection's code, or 0: aggregated
    count INTEGER NOT NULL,
    PRIMARY KEY (task, reason)
) STRICT, WITHOUT ROWID;

-- One row per report: kept small.
CREATE TABLE report_ids (
    task INTEGER NOT NULL,
    scope ANY NOT NULL,          -- the timestamp, or an empty blob: the whole task
    report_id BLOB NOT NULL,
    PRIMARY KEY (task, scope, report_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE purges (            -- ids that nobody needs, to be deleted bit by bit
    purge INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,
    first ANY NOT NULL,          -- scopes; an empty blob comes after all timestamps
    last ANY NOT NULL
) STRICT;

CREATE TABLE buckets (
    row INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,
    bucket ANY NOT NULL,         -- a time or a batch id
    count INTEGER NOT NULL,
    checksum BLOB NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    share BLOB NOT NULL,
    UNIQUE (task, bucket)
) STRICT;

CREATE TABLE ranges (            -- closed times
    task INTEGER NOT NULL,
    is_collected INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    position INTEGER NOT NULL,   -- while closing: reports before it still enter
    PRIMARY KEY (task, is_collected, first, last)
) STRICT, WITHOUT ROWID;

CREATE TABLE batches (           -- leader-selected
    task INTEGER NOT NULL,
    batch_id BLOB NOT NULL,
    state INTEGER NOT NULL,      -- 0 open, 1 closed, 2 collected
    window INTEGER,              -- at most one is open in each; NULL takes all, from version 3
    PRIMARY KEY (task, batch_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
    job INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,
    now INTEGER NOT NULL,
    batch_id BLOB,
    ids INTEGER NOT NULL,        -- the task in which its ids are taken; 0: in its timestamps
    digest BLOB,
    report_count INTEGER NOT NULL,
    segments BLOB NOT NULL,      -- distinct, u32 each
    times BLOB NOT NULL,         -- distinct, u64 each; empty in leader-selected tasks
    reports BLOB NOT NULL        -- position, time, report id of each; last, because it is long
) STRICT;

CREATE TABLE requeued (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    task INTEGER NOT NULL,
    time INTEGER,                -- in time-interval tasks; NULL if set aside unread
    position INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
CREATE INDEX requeued_by_task ON requeued (task, time);

CREATE TABLE forgotten (         -- records of a task before the position are passed over
    task_id BLOB PRIMARY KEY,
    position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tombstones (        -- tasks whose ids and buckets were deleted: never served again
    task_id BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE collections (
    job INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,
    collection_id BLOB NOT NULL,
    state INTEGER NOT NULL,      -- 0 pending, 1 closing, 2 finished, 3 failed
    start INTEGER,               -- of the interval, in time-interval tasks
    duration INTEGER,
    batch_id BLOB,               -- once closing, in leader-selected tasks
    digest BLOB,
    problem TEXT,
    detail TEXT,
    request BLOB NOT NULL,
    response BLOB,
    UNIQUE (task, collection_id)
) STRICT;

CREATE TABLE ordinals (
    task INTEGER NOT NULL,
    request_hash BLOB NOT NULL,
    deleted INTEGER NOT NULL,    -- how many jobs of this request were deleted
    PRIMARY KEY (task, request_hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE responses (
    response INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,
    digest BLOB NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (task, digest)
) STRICT;

CREATE TABLE response_buckets (  -- the buckets that a job's response is about
    task INTEGER NOT NULL,
    bucket ANY NOT NULL,
    response INTEGER NOT NULL,
    PRIMARY KEY (task, bucket, response)
) STRICT, WITHOUT ROWID;
CREATE INDEX response_buckets_by_response ON response_buckets (response);

CREATE TABLE receipts (          -- of released batches, for the public log
    receipt INTEGER PRIMARY KEY,
    task_id BLOB NOT NULL,       -- not its number: a receipt may outlive the task
    recipe BLOB NOT NULL,
    start INTEGER NOT NULL,
    until INTEGER NOT NULL,
    count INTEGER NOT NULL,      -- rounded down to a power of two
    batch_id BLOB,               -- in leader-selected tasks
    due INTEGER NOT NULL,
    number INTEGER,              -- once it was to be sent
    is_sent INTEGER NOT NULL,
    UNIQUE (task_id, number)
) STRICT;
CREATE INDEX receipts_owed ON receipts (task_id, due) WHERE is_sent = 0;
";

/// The changes to the tables, each from one version to the next.
const UPGRADES: [&str; 2] = [FROM_5, FROM_6];

/// Version 5 knew no receipts.
const FROM_5: &str = "
CREATE TABLE receipts (
    receipt INTEGER PRIMARY KEY,
    task_id BLOB NOT NULL,
    recipe BLOB NOT NULL,
    start INTEGER NOT NULL,
    until INTEGER NOT NULL,
    count INTEGER NOT NULL,
    batch_id BLOB,
    due INTEGER NOT NULL,
    number INTEGER,
    is_sent INTEGER NOT NULL,
    UNIQUE (task_id, number)
) STRICT;
CREATE INDEX receipts_owed ON receipts (task_id, due) WHERE is_sent = 0;
";

/// Version 6 knew no series: the ids of a job were taken in its task, or in its timestamps.
const FROM_6: &str = "
ALTER TABLE jobs RENAME COLUMN is_task_scope TO ids;
UPDATE jobs SET ids = task WHERE ids <> 0;
";

/// Opens the only connection that writes. Creates the tables if there are none, and upgrades those
/// of the versions before.
pub(super) fn open_writer(path: &Path, cache_bytes: u64) -> Result<Connection> {
    open_database(path, cache_bytes, VERSION, TABLES, &UPGRADES)
}

/// As [`open_writer`], with the tables of another role.
pub(crate) fn open_database(
    path: &Path,
    cache_bytes: u64,
    known: i64,
    tables: &str,
    upgrades: &[&str],
) -> Result<Connection> {
    let mut conn = Connection::open(path)?;
    let version: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let behind = usize::try_from(known - version).ok();
    let upgrades = behind.and_then(|behind| upgrades.get(upgrades.len().checked_sub(behind)?..));
    let change = if version == 0 { Some(tables.to_owned()) } else { upgrades.map(<[_]>::concat) };
    let Some(change) = change else {
        return Err(StoreError::Backend(format!(
            "{} has schema version {version}, this program knows {known}: open it with the \
             program that wrote it, or start with an empty directory",
            path.display()
        )));
    };
    conn.pragma_update(None, "page_size", PAGE_BYTES)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "secure_delete", "ON")?;
    conn.pragma_update(None, "wal_autocheckpoint", WAL_BYTES / PAGE_BYTES)?;
    conn.pragma_update(None, "journal_size_limit", i64::from(WAL_BYTES))?;
    bound(&conn, cache_bytes)?;
    if version != known {
        let tx = conn.transaction()?;
        tx.execute_batch(&change)?;
        tx.pragma_update(None, "user_version", known)?;
        tx.commit()?;
    }
    Ok(conn)
}

/// Opens a connection that reads while the other one writes.
pub(crate) fn open_reader(path: &Path, cache_bytes: u64) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    bound(&conn, cache_bytes)?;
    Ok(conn)
}

/// Checkpoints the WAL and empties it, so that its file holds no deleted share or id either.
pub(super) fn empty_wal(conn: &Connection) -> Result<()> {
    Ok(conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
}

fn bound(conn: &Connection, cache_bytes: u64) -> Result<()> {
    conn.busy_timeout(Duration::from_secs(10))?;
    // A negative value is in KiB.
    conn.pragma_update(None, "cache_size", -i64::try_from(cache_bytes >> 10).unwrap_or(i64::MAX))?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.set_prepared_statement_cache_capacity(128);
    Ok(())
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Backend(format!("SQLite: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::params;
    use sotto_protocol::receipt::Released;
    use sotto_protocol::recipe::windows::Span;
    use sotto_protocol::{Moment, ReplayScope};
    use sotto_wire::{EntryId, TaskId};

    use super::super::{jobs, receipts, tasks};
    use super::*;
    use crate::StoredTask;

    #[test]
    fn another_version_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let version = |conn: &Connection| -> i64 {
            conn.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
        };
        let conn = open_writer(&path, 1 << 20).unwrap();
        assert_eq!(version(&conn), VERSION);
        conn.pragma_update(None, "user_version", VERSION + 1).unwrap();
        drop(conn);
        let Err(StoreError::Backend(why)) = open_writer(&path, 1 << 20) else {
            panic!("a database of a later version was opened");
        };
        let versions = (format!("schema version {}", VERSION + 1), format!("knows {VERSION}"));
        assert!(why.contains(&versions.0) && why.contains(&versions.1), "{why}");
        assert_eq!(version(&Connection::open(&path).unwrap()), VERSION + 1);
    }

    #[test]
    fn versions_before_are_upgraded_to_the_same_tables() {
        let start = TABLES.find("    ids INTEGER NOT NULL").unwrap();
        let line = TABLES[start..].lines().next().unwrap();
        let of_6 = TABLES.replace(line, "    is_task_scope INTEGER NOT NULL,");
        let (of_5, _) = of_6.split_once("CREATE TABLE receipts").unwrap();
        upgrade_from(5, of_5);
        upgrade_from(6, &of_6);
    }

    fn upgrade_from(version: i64, tables: &str) {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        let conn = open_database(&old, 1 << 20, version, tables, &[]).unwrap();
        let task_id = TaskId::new([7; 32]);
        conn.execute("INSERT INTO tasks VALUES (12, x'00', NULL, NULL, NULL)", []).unwrap();
        let insert = "INSERT INTO tasks (task_id, recipe, audience) VALUES (?1, ?2, 9)";
        conn.execute(insert, params![task_id.as_bytes(), [1_u8, 2]]).unwrap();
        let job = "INSERT INTO jobs VALUES (?1, 13, 0, NULL, ?2, NULL, 1, x'', x'', x'')";
        conn.execute(job, [3, 0]).unwrap();
        conn.execute(job, [4, 1]).unwrap();
        drop(conn);
        let describe = |conn: &Connection| -> Vec<(String, Option<String>)> {
            let mut statement = conn
                .prepare(
                    "SELECT m.name, (SELECT group_concat(name || type || \"notnull\")
                                     FROM pragma_table_info(m.name))
                     FROM sqlite_master m ORDER BY m.name",
                )
                .unwrap();
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            rows.collect::<Result<_, _>>().unwrap()
        };
        let upgraded = open_writer(&old, 1 << 20).unwrap();
        let recipe = StoredTask::Recipe { json: vec![1, 2], audience: Some(9) };
        assert_eq!(tasks::stored(&upgraded).unwrap(), [(task_id, recipe)]);
        let ids = |scope| tasks::Ids::find(&upgraded, Some(13), scope).unwrap().unwrap();
        let loaded: Vec<_> = jobs::load(&upgraded).unwrap().iter().map(|job| job.ids).collect();
        assert_eq!(loaded, [ReplayScope::Bucket, ReplayScope::Task].map(ids));
        assert_eq!(describe(&upgraded), describe(&open_writer(&new, 1 << 20).unwrap()));
        let released = Released {
            recipe: EntryId::new([1; 32]),
            span: Span { start: 0, end: 60 },
            count: 4,
            batch: None,
            due: Moment(7),
        };
        receipts::owe(&upgraded, &task_id, &released).unwrap();
        drop(upgraded);
        open_writer(&old, 1 << 20).unwrap();
    }

    #[test]
    fn the_database_is_durable_and_forgets_for_good() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let conn = open_writer(&path, 1 << 20).unwrap();
        let number =
            |name: &str| -> i64 { conn.pragma_query_value(None, name, |row| row.get(0)).unwrap() };
        let text: String = conn.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        assert_eq!(text, "wal");
        assert_eq!(number("synchronous"), 2); // FULL
        assert_eq!(number("secure_delete"), 1);
        assert_eq!(number("page_size"), i64::from(PAGE_BYTES));
        let reader = open_reader(&path, 1 << 20).unwrap();
        assert!(reader.execute("DELETE FROM store", []).is_err());
    }
}
