//! The embedded store: one directory, one process.
//!
//! ```text
//! DIR/sotto.lock        held while the store is open
//! DIR/sotto.sqlite      ids, jobs, buckets, responses (WAL, synchronous=FULL)
//! DIR/segments/*.seg    accepted reports, append-only
//! ```
//! Report bodies go to segments because a B-tree would cost as much as opening a report. A report
//! is written once, read twice and deleted with its segment. The database holds what must change
//! atomically.
//!
//! Three threads: `sotto-segments` appends ([`writer`]), `sotto-database` owns the only connection
//! that writes ([`db`]), `sotto-reads` reads records and answers queries. The database thread may
//! wait for the segment thread, never the other way round.
//!
//! SQLite is trusted to make committed transactions survive a crash, and the file system to keep
//! synced bytes and names. The conformance suite replaces the segments' file layer with one that
//! forgets everything else.

mod buckets;
mod chunks;
mod collections;
mod db;
mod entries;
mod files;
mod fixing;
mod frame;
mod helper;
mod jobs;
mod log;
mod public_log;
mod ranges;
mod reader;
mod receipts;
mod recovery;
pub(crate) mod schema;
mod tasks;
mod verbs;
pub(crate) mod worker;
mod writer;

use std::fmt;
use std::fs::{File, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use rusqlite::Connection;

use self::db::{Db, Gauges};
use self::log::Log;
use self::recovery::Recovered;
use self::worker::Worker;
use self::writer::{Writer, WriterState};
use crate::lock::try_lock;
use crate::{Clock, Result, StoreError, clock};

pub use self::files::{DiskFiles, SegmentFile, SegmentFiles};

/// Bounds of a [`SqliteStore`].
#[derive(Clone)]
pub struct SqliteOptions {
    /// Uploads are rejected with [`StoreError::Full`] while more than this waits for jobs.
    pub max_backlog_bytes: u64,
    /// The approximate length of a segment. Longer segments keep dead reports longer.
    pub segment_bytes: u64,
    /// Memory for database pages.
    pub cache_bytes: u64,
    /// The clock by which leases expire; `None` is the machine's monotonic clock.
    pub clock: Option<Clock>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            max_backlog_bytes: 4 << 30,
            segment_bytes: 16 << 20,
            cache_bytes: 32 << 20,
            clock: None,
        }
    }
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("max_backlog_bytes", &self.max_backlog_bytes)
            .field("segment_bytes", &self.segment_bytes)
            .field("cache_bytes", &self.cache_bytes)
            .finish_non_exhaustive()
    }
}

/// The embedded store. Dropping it finishes the calls in progress and closes the files.
pub struct SqliteStore {
    db: Worker<Db>,
    reads: Worker<Reads>,
    writer: Option<Writer>,
    writer_thread: Option<JoinHandle<()>>,
    log: Arc<Log>,
    gauges: Arc<Gauges>,
    _lock: File,
}

/// What the reading thread owns.
pub(crate) struct Reads {
    conn: Connection,
    log: Arc<Log>,
    clock: Clock,
}

impl worker::State for Reads {}

/// The reading connection gets this fraction of the page memory. Each commit of the writer empties
/// its cache, so it needs little.
const READER_CACHE_SHARE: u64 = 8;

impl SqliteStore {
    /// Opens the store in `dir`, and creates the directory if it is missing.
    ///
    /// Before it returns, all leases of earlier processes are void, torn tails are cut and dead
    /// segments removed. A directory that is in use, damaged, or of another version is an error
    /// that says so, and nothing in it that may be needed is changed.
    pub fn open(dir: &Path, options: SqliteOptions) -> Result<Self> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|error| StoreError::Backend(format!("{}: {error}", dir.display())))?;
        let files = DiskFiles::new(&dir.join("segments"))
            .map_err(|error| StoreError::Backend(format!("{}: {error}", dir.display())))?;
        Self::open_with_files(dir, options, Arc::new(files))
    }

    /// As [`Self::open`], with the segments elsewhere: for tests of crashes.
    pub fn open_with_files(
        dir: &Path,
        options: SqliteOptions,
        files: Arc<dyn SegmentFiles>,
    ) -> Result<Self> {
        let lock = lock(dir)?;
        let path = dir.join("sotto.sqlite");
        let clock = options.clock.unwrap_or_else(clock::monotonic);
        let conn = schema::open_writer(&path, options.cache_bytes)?;
        let read_conn = schema::open_reader(&path, options.cache_bytes / READER_CACHE_SHARE)?;
        let loaded = db::load(&conn)?;
        let store_id = loaded.known.store_id;
        let Recovered { log, active, next_number } = recovery::recover(files, loaded.known)?;
        let failed = |error: std::io::Error| StoreError::Backend(error.to_string());
        let (writer, writer_thread) = Writer::start(WriterState {
            log: log.clone(),
            store_id,
            active,
            next_number,
            closed: loaded.closed,
            segment_bytes: options.segment_bytes,
            max_backlog_bytes: options.max_backlog_bytes,
        })
        .map_err(failed)?;
        let gauges = Arc::new(Gauges::default());
        let db =
            Db::new(conn, log.clone(), writer.clone(), clock.clone(), gauges.clone(), loaded.live);
        let reads = Reads { conn: read_conn, log: log.clone(), clock };
        Ok(Self {
            db: Worker::start("sotto-database", db).map_err(failed)?,
            reads: Worker::start("sotto-reads", reads).map_err(failed)?,
            writer: Some(writer),
            writer_thread: Some(writer_thread),
            log,
            gauges,
            _lock: lock,
        })
    }

    /// How many report ids are held against replays. Counts every row: for benchmarks and tests.
    pub async fn report_ids(&self) -> Result<u64> {
        self.reads
            .run(|reads| {
                let count = "SELECT COUNT(*) FROM report_ids";
                Ok(reads.conn.query_row(count, [], |row| row.get::<_, i64>(0))? as u64)
            })
            .await
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").finish_non_exhaustive()
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // The writing connection closes last and cleans up its WAL; then the thread that it sends
        // to.
        self.reads.stop();
        self.db.stop();
        self.writer = None;
        if let Some(thread) = self.writer_thread.take() {
            // A thread that panicked has already reported it.
            let _ = thread.join();
        }
    }
}

/// Locks the directory for this process.
pub(crate) fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("sotto.lock");
    let failed =
        |error: std::io::Error| StoreError::Backend(format!("{}: {error}", path.display()));
    let mut options = File::options();
    options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.open(&path).map_err(failed)?;
    match try_lock(&file) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Backend(format!(
            "{} is in use by another process: stop it, or choose another directory",
            dir.display()
        ))),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}
