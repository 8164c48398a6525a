//! The back-ends, with a clock that the test controls.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_executor::block_on;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_store::{
    Clock, HelperStore, LeaderStore, MemoryStore, PostgresOptions, PostgresStore, PostgresUrl,
    Result, SqliteOptions, SqliteStore, StoreKey, StoreKeys,
};
use sotto_testing::postgres::Database;
use tempfile::TempDir;

use super::forgetful::ForgetfulFiles;

/// How long the tests lease for.
pub(crate) const LEASE: Duration = Duration::from_secs(60);

/// Short, so that a few reports fill several segments.
const SEGMENT_BYTES: u64 = 1_000;

/// A store for both roles.
pub(crate) trait Store: LeaderStore + HelperStore {}
impl<S: LeaderStore + HelperStore> Store for S {}

/// Which store, and what [`Bench::restart`] does to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Cannot be restarted: only its leases expire.
    Memory,
    /// Also not restarted: its in-memory state must stay right.
    Sqlite,
    /// The process is killed: everything written is there, synced or not.
    SqliteKilled,
    /// The power fails: only what was synced remains of the segments.
    SqlitePowerless,
    /// Not restarted: several processes share the database all the time.
    Postgres,
    /// The process is killed. What it held in the database stays, until its leases end.
    PostgresKilled,
}

impl Kind {
    fn is_sqlite(self) -> bool {
        matches!(self, Self::Sqlite | Self::SqliteKilled | Self::SqlitePowerless)
    }

    fn is_postgres(self) -> bool {
        matches!(self, Self::Postgres | Self::PostgresKilled)
    }
}

/// A store under test.
pub(crate) struct Bench {
    kind: Kind,
    max_backlog_bytes: u64,
    clock_ms: Arc<AtomicU64>,
    fresh: AtomicU64,
    /// How often the store was opened.
    opened: AtomicU64,
    // Dropped before its directory, which is removed on drop.
    store: Option<Arc<dyn Store>>,
    dir: Option<TempDir>,
    database: Option<Database>,
    files: ForgetfulFiles,
}

/// Creates a test of each case for each store.
macro_rules! on_every_store {
    ($($case:ident),+ $(,)?) => {
        $crate::conformance::bench::on_store!(memory, Memory, $($case),+);
        $crate::conformance::bench::on_store!(sqlite, Sqlite, $($case),+);
        $crate::conformance::bench::on_store!(sqlite_killed, SqliteKilled, $($case),+);
        $crate::conformance::bench::on_store!(sqlite_powerless, SqlitePowerless, $($case),+);
        $crate::conformance::bench::on_store!(postgres, Postgres, $($case),+);
    };
}
pub(crate) use on_every_store;

macro_rules! on_store {
    ($module:ident, $kind:ident, $($case:ident),+) => {
        mod $module {
            use $crate::conformance::bench::{Bench, Kind};
            $(
                #[test]
                fn $case() {
                    if let Some(mut bench) = Bench::new(Kind::$kind) {
                        super::$case(&mut bench);
                    }
                }
            )+
        }
    };
}
pub(crate) use on_store;

impl Bench {
    /// `None` if the store needs a server and there is none.
    pub(crate) fn new(kind: Kind) -> Option<Self> {
        Self::seeded(kind, 1)
    }

    /// A store whose power failures are derived from this seed.
    pub(crate) fn seeded(kind: Kind, seed: u64) -> Option<Self> {
        Self::with(kind, seed, u64::MAX)
    }

    /// An empty store of the same kind with this limit on the backlog.
    pub(crate) fn bounded(&self, max_backlog_bytes: u64) -> Self {
        Self::with(self.kind, 1, max_backlog_bytes).expect("there was a server before")
    }

    fn with(kind: Kind, seed: u64, max_backlog_bytes: u64) -> Option<Self> {
        let mut bench = Self {
            kind,
            max_backlog_bytes,
            // Not zero, so that a moment in the past can be told from no moment.
            clock_ms: Arc::new(AtomicU64::new(1_000_000)),
            fresh: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            store: None,
            dir: kind.is_sqlite().then(temporary_dir),
            database: if kind.is_postgres() { Some(migrated()?) } else { None },
            files: ForgetfulFiles::new(seed),
        };
        bench.store = Some(bench.open());
        Some(bench)
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.store.as_ref().unwrap()
    }

    /// The directory of a durable store.
    pub(crate) fn dir(&self) -> Option<&Path> {
        self.dir.as_ref().map(TempDir::path)
    }

    /// The segments of [`Kind::SqlitePowerless`].
    pub(crate) fn files(&self) -> &ForgetfulFiles {
        &self.files
    }

    /// Bytes that this bench has not returned before.
    pub(crate) fn fresh_bytes(&self) -> [u8; 32] {
        let mut bytes = [0xee; 32];
        bytes[..8].copy_from_slice(&self.fresh.fetch_add(1, Ordering::SeqCst).to_be_bytes());
        bytes
    }

    pub(crate) fn advance(&self, time: Duration) {
        let time_ms = u64::try_from(time.as_millis()).unwrap();
        self.clock_ms.fetch_add(time_ms, Ordering::SeqCst);
    }

    /// Ends the store without warning and reopens it, if it can be restarted. In any case every
    /// lease and pause ends.
    pub(crate) fn restart(&mut self) {
        match self.kind {
            Kind::Memory | Kind::Sqlite | Kind::Postgres => self.advance(LEASE),
            Kind::PostgresKilled => {
                self.store = None;
                self.advance(LEASE);
                self.store = Some(self.open());
            }
            Kind::SqliteKilled | Kind::SqlitePowerless => self.crash(),
        }
    }

    /// As [`Self::restart`], but the power fails again after this many changes to the segments. If
    /// that is before the store is open, it is opened once more. Returns whether the power failure
    /// is still to come.
    pub(crate) fn restart_interrupted(&mut self, operations: u64) -> bool {
        self.crash_disk(self.files.restart());
        self.files.cut_power_after(operations);
        match self.try_open() {
            Ok(store) => {
                self.store = Some(store);
                true
            }
            Err(_) => {
                self.crash();
                false
            }
        }
    }

    /// Ends only the process of a [`Kind::SqlitePowerless`]: what it wrote is there, but not
    /// synced.
    pub(crate) fn restart_process(&mut self) {
        self.crash_disk(self.files.restart_process());
        self.store = Some(self.open());
    }

    fn crash(&mut self) {
        self.crash_disk(self.files.restart());
        self.store = Some(self.open());
    }

    /// Copies the current state of the disk to another directory; the old store ends in its own
    /// time.
    fn crash_disk(&mut self, files: ForgetfulFiles) {
        let image = temporary_dir();
        let dir = self.dir.as_ref().unwrap().path();
        self.files = files;
        // Segments first: a segment that the database calls dead may be gone, but not the other way
        // round.
        for folder in ["segments", ""] {
            copy_files(&dir.join(folder), &image.path().join(folder));
        }
        self.store = None;
        self.dir = Some(image);
    }

    /// The database of [`Kind::Postgres`].
    pub(crate) fn database(&self) -> &Database {
        self.database.as_ref().unwrap()
    }

    /// Another process on the same database.
    pub(crate) fn another(
        &self,
        change: impl FnOnce(&mut PostgresOptions),
    ) -> Result<PostgresStore> {
        let reader = Arc::clone(&self.clock_ms);
        let seed = self.opened.fetch_add(1, Ordering::SeqCst);
        let mut options = PostgresOptions {
            url: PostgresUrl::new(&self.database().url(), None)?,
            role: "leader and helper",
            max_connections: 4,
            max_backlog_bytes: self.max_backlog_bytes,
            cache_bytes: 4_000,
            segment_bytes: SEGMENT_BYTES as usize,
            keys: StoreKeys { current: StoreKey::new([7; 32]), previous: Vec::new() },
            rng: Box::new(ChaCha20Rng::seed_from_u64(seed)),
            clock: Some(Arc::new(move || reader.load(Ordering::SeqCst))),
        };
        change(&mut options);
        block_on(PostgresStore::open(options))
    }

    fn open(&self) -> Arc<dyn Store> {
        self.try_open().unwrap()
    }

    fn try_open(&self) -> Result<Arc<dyn Store>> {
        let reader = Arc::clone(&self.clock_ms);
        let clock: Clock = Arc::new(move || reader.load(Ordering::SeqCst));
        let options = SqliteOptions {
            max_backlog_bytes: self.max_backlog_bytes,
            segment_bytes: SEGMENT_BYTES,
            cache_bytes: 1 << 20,
            clock: Some(Arc::clone(&clock)),
        };
        match (self.kind, self.dir()) {
            (Kind::Sqlite | Kind::SqliteKilled, Some(dir)) => {
                Ok(Arc::new(SqliteStore::open(dir, options)?))
            }
            (Kind::SqlitePowerless, Some(dir)) => {
                let files = Arc::new(self.files.clone());
                Ok(Arc::new(SqliteStore::open_with_files(dir, options, files)?))
            }
            (Kind::Postgres | Kind::PostgresKilled, _) => Ok(Arc::new(self.another(|_| {})?)),
            _ => {
                let store = MemoryStore::with_clock(clock);
                Ok(Arc::new(store.with_max_backlog_bytes(self.max_backlog_bytes)))
            }
        }
    }
}

/// A database with the tables of a store. The first of a process is the template of the others.
fn migrated() -> Option<Database> {
    static TEMPLATE: Mutex<Option<Database>> = Mutex::new(None);
    let mut template = TEMPLATE.lock().unwrap_or_else(PoisonError::into_inner);
    if template.is_none() {
        let database = Database::new()?;
        block_on(sotto_store::migrate(&PostgresUrl::new(&database.url(), None).unwrap())).unwrap();
        *template = Some(database);
    }
    Database::copy_of(template.as_ref()?)
}

/// A directory in memory where the system has one: crashes are simulated, so a real disk would
/// prove nothing, and each test commits often.
fn temporary_dir() -> TempDir {
    let memory = Path::new("/dev/shm");
    let in_memory = memory.is_dir().then(|| TempDir::new_in(memory).ok()).flatten();
    in_memory.unwrap_or_else(|| TempDir::new().unwrap())
}

/// Copies the files of a folder, which need not exist. SQLite's index of its WAL is omitted: it is
/// rebuilt.
fn copy_files(from: &Path, to: &Path) {
    let Ok(entries) = std::fs::read_dir(from) else { return };
    std::fs::create_dir_all(to).unwrap();
    for entry in entries {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if entry.file_type().unwrap().is_file() && !name.to_string_lossy().ends_with("-shm") {
            // Not `fs::copy`: a segment that disappears meanwhile is dead.
            if let Ok(bytes) = std::fs::read(entry.path()) {
                std::fs::write(to.join(name), bytes).unwrap();
            }
        }
    }
}
