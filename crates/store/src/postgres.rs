//! The store on PostgreSQL, for any number of leader and helper processes.
//!
//! Processes share nothing but the database. Leases and pauses are columns, judged by the database's
//! clock, so they survive the process that took them.
//!
//! **Reports** are grouped into segments: what several uploads bring within one commit becomes one
//! sealed body (`segments.rs`, `accept.rs`). Bodies are only inserted. A table of bodies without
//! live segments is emptied by TRUNCATE (`tidy.rs`), because rows that are deleted cannot be
//! vacuumed while anybody holds an old snapshot.
//!
//! **Closing** a time must exclude uploads that other processes are writing. Whoever adds to a task
//! locks its row in share mode and compares the number of closings that it knows; whoever closes
//! increments the number.
//!
//! Every verb is one transaction of a few round trips, in which statements are pipelined. It is
//! repeated if the database asks for it, or if the connection was lost: repeating any verb is
//! safe, also after a commit whose answer was lost.

mod accept;
mod backlog;
mod buckets;
mod collections;
mod connect;
mod fixing;
mod helper;
mod jobs;
mod pipeline;
mod receipts;
mod schema;
mod seal;
mod segments;
mod tasks;
mod tidy;
mod values;
mod verbs;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool_postgres::{Client, Pool};
use futures_channel::oneshot;
use rand_core::CryptoRng;
use sotto_wire::TaskId;
use tokio::runtime::Runtime;

use self::accept::Accepting;
use self::connect::Failure;
pub use self::connect::PostgresUrl;
pub use self::schema::{MigrationPlan, check_schema, migrate, migration_plan};
pub use self::seal::{StoreKey, StoreKeys};
use self::segments::Cache;
use self::values::SHARDS;
use crate::{Clock, Result, StoreError};

/// How the store is opened.
pub struct PostgresOptions {
    /// The database.
    pub url: PostgresUrl,
    /// Who uses the database: another role is refused, since two roles in one database would have
    /// both halves of every report.
    pub role: &'static str,
    /// How many connections are open at most.
    pub max_connections: usize,
    /// What may wait for jobs, in bytes.
    pub max_backlog_bytes: u64,
    /// What is kept in memory of the bodies that this process has seen, in bytes.
    pub cache_bytes: usize,
    /// How many bytes of reports one commit takes at most, unless a single one is longer.
    pub segment_bytes: usize,
    /// The keys that seal the keys of bodies.
    pub keys: StoreKeys,
    /// For keys and the choice of shards.
    pub rng: Box<dyn CryptoRng + Send>,
    /// Replaces the clock of the database, in tests.
    pub clock: Option<Clock>,
}

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    inner: Arc<Inner>,
    accepting: Accepting,
    /// Taken on drop, which must not wait for it.
    runtime: Option<Runtime>,
}

/// What all verbs share.
struct Inner {
    pool: Pool,
    clock: Option<Clock>,
    keys: StoreKeys,
    rng: Mutex<Box<dyn CryptoRng + Send>>,
    max_backlog_bytes: u64,
    segment_bytes: usize,
    /// Names this process among those that add reports.
    writer: i64,
    cache: Mutex<Cache>,
    /// Numbers of tasks. A number is never used for another task, but its task may be forgotten.
    numbers: Mutex<HashMap<TaskId, i64>>,
    floors: tidy::Floors,
}

/// How a transaction ended.
enum Done<T> {
    Committed(T),
    /// Nothing is to be changed.
    Nothing(T),
}

/// What a verb comes to, before failures are judged.
type Verdict<T> = std::result::Result<T, Failure>;

impl PostgresStore {
    /// Connects. The schema must be one that this program knows; see [`migrate`].
    pub async fn open(options: PostgresOptions) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("sotto-postgres")
            .enable_all()
            .build()
            .map_err(|error| StoreError::Backend(format!("no threads for the store: {error}")))?;
        let opening = Self::connect(options);
        let opened = run_on(&runtime, opening).await;
        let (inner, accepting) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        runtime.spawn(tidy::run(Arc::downgrade(&inner)));
        Ok(Self { inner, accepting, runtime: Some(runtime) })
    }

    async fn connect(options: PostgresOptions) -> Result<(Arc<Inner>, Accepting)> {
        let pool = options.url.pool(options.max_connections)?;
        let client = pool.get().await.map_err(|error| Failure::from(error).into_store())?;
        schema::check(&client).await?;
        schema::claim(&client, options.role).await.map_err(Failure::into_store)?;
        let row = client.query_one("SELECT nextval('writers')", &[]).await;
        let writer = row.map_err(|error| Failure::from(error).into_store())?.get(0);
        drop(client);
        let inner = Arc::new(Inner {
            pool,
            clock: options.clock,
            keys: options.keys,
            rng: Mutex::new(options.rng),
            max_backlog_bytes: options.max_backlog_bytes,
            segment_bytes: options.segment_bytes,
            writer,
            cache: Mutex::new(Cache::new(options.cache_bytes)),
            numbers: Mutex::default(),
            floors: tidy::Floors::default(),
        });
        let accepting = Accepting::start(&inner);
        Ok((inner, accepting))
    }

    /// Runs a verb on the store's threads, again if that is worthwhile.
    async fn verb<T, F, Fut>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(Arc<Inner>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Verdict<T>> + Send + 'static,
    {
        let Some(runtime) = &self.runtime else { return Err(stopped()) };
        let inner = Arc::clone(&self.inner);
        let again = Arc::clone(&inner);
        run_on(runtime, async move { repeat(&again, || work(Arc::clone(&inner))).await }).await
    }
}

/// How often a verb is repeated, and the first pause, which doubles each time: 1.5 seconds in all.
const ATTEMPTS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Repeats what failed for a passing reason.
async fn repeat<T, Fut: Future<Output = Verdict<T>>>(
    inner: &Inner,
    work: impl Fn() -> Fut,
) -> Result<T> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..ATTEMPTS {
        match work().await {
            Err(failure) if failure.is_passing() => {
                tracing::debug!(reason = %failure, "a step of the store is repeated");
                // Callers that collided must not meet again.
                let mut jitter = [0];
                inner.fill(&mut jitter);
                tokio::time::sleep(pause + Duration::from_millis(jitter[0].into())).await;
                pause *= 2;
            }
            other => return other.map_err(Failure::into_store),
        }
    }
    work().await.map_err(Failure::into_store)
}

/// Runs a future on the store's threads, whatever runtime the caller has.
async fn run_on<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = oneshot::channel();
    runtime.spawn(async move {
        let done = work.await;
        drop(sender.send(done));
    });
    receiver.await.unwrap_or_else(|_| Err(stopped()))
}

fn stopped() -> StoreError {
    StoreError::Backend("the store has stopped".into())
}

impl Inner {
    async fn client(&self) -> Verdict<Client> {
        Ok(self.pool.get().await?)
    }

    /// The time that statements are given: `None` stands for that of the database.
    fn now_ms(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock() as i64)
    }

    fn fill(&self, bytes: &mut [u8]) {
        lock(&self.rng).fill_bytes(bytes);
    }

    /// The shard that a transaction adds to.
    fn shard(&self) -> i16 {
        let mut byte = [0];
        self.fill(&mut byte);
        i16::from(byte[0] % SHARDS)
    }
}

/// Ends the transaction of a verb.
async fn end<T>(client: Client, done: Verdict<Done<T>>) -> Verdict<T> {
    match done {
        Ok(Done::Committed(value)) => Ok(value),
        Ok(Done::Nothing(value)) => {
            client.batch_execute("ROLLBACK").await?;
            Ok(value)
        }
        Err(failure) => {
            if client.batch_execute("ROLLBACK").await.is_err() {
                // Nobody may go on in this transaction.
                drop(deadpool_postgres::Object::take(client));
            }
            Err(failure)
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}
