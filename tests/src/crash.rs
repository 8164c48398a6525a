//! `kill -9` of the leader or the helper at a time that a seed picks, a restart, and a check of the
//! complete sum.
//!
//! Each device has its own bucket of a histogram: a bucket of 0 is a lost report, one of 2 a double
//! count. The helper releases its share only if leader and helper agree on count and checksum, so a
//! result proves that they do. Uploads without an answer are resent, byte for byte, until they are
//! acknowledged.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rusqlite::{Connection, OpenFlags};
use sotto_client::{CollectError, Poll};
use sotto_protocol::client::produce_report;
use sotto_protocol::collector::Collection;
use sotto_vdaf::{AggregateResult, Measurement};
use sotto_wire::{BatchMode, Interval, Query, Role, Time};

use crate::devices::upload_all;
use crate::pair::Pair;
use crate::task::TaskFiles;

/// Devices of one run.
pub const DEVICES: usize = 64;
/// Small jobs, so that several are in progress whenever the kill happens.
const SMALL_JOBS: &str = "[jobs]\nmax_reports = 8\ndelay_ms = 5";
const CONNECTIONS: usize = 4;
/// The kill happens at most this long after the acknowledgement that triggers it.
const MAX_DELAY_US: u64 = 40_000;
/// Much longer than any recovery; a run that takes longer has lost something.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL_PAUSE: Duration = Duration::from_millis(5);

/// When and whom to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The aggregator to kill.
    pub victim: Role,
    /// The batch mode of the task.
    pub batch_mode: BatchMode,
    /// After how many acknowledged reports.
    pub acknowledged: usize,
    /// How long after that.
    pub delay: Duration,
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// The moment of the kill.
    pub moment: Moment,
    /// From the restart until the process serves again.
    pub serving: Duration,
    /// From the restart until the leader's store has counted every report.
    pub aggregated: Duration,
    /// From the restart until the collector has the result.
    pub collected: Duration,
}

impl Moment {
    /// The moment that a seed determines.
    pub fn from_seed(seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut below = |bound: u64| rng.next_u64() % bound;
        let victim = if below(2) == 0 { Role::Leader } else { Role::Helper };
        let batch_mode =
            if below(2) == 0 { BatchMode::TimeInterval } else { BatchMode::LeaderSelected };
        // In one of five runs, after the last report, when jobs end and the collection starts.
        let acknowledged = (below(DEVICES as u64 * 5 / 4) as usize).min(DEVICES);
        let delay = Duration::from_micros(below(MAX_DELAY_US));
        Self { victim, batch_mode, acknowledged, delay }
    }
}

/// One run. An error means a lost or doubled report, or no recovery at all.
pub fn run(seed: u64) -> Result<Recovery> {
    let moment = Moment::from_seed(seed);
    let mut pair = Pair::new()?;
    pair.leader.configure(SMALL_JOBS)?;
    let length = DEVICES.to_string();
    let mut options = vec!["--vdaf", "histogram", "--length", &length];
    match moment.batch_mode {
        // So that a lost report shows as an empty bucket.
        BatchMode::TimeInterval => options.extend(["--min-batch-size", "1"]),
        // So that one batch holds them all.
        BatchMode::LeaderSelected => {
            options.extend(["--min-batch-size", &length, "--batch-mode", "leader-selected"]);
        }
    }
    let files = pair.add_task("crash", &options)?;
    pair.start()?;
    let time = files.past_time()?;
    let reports = make_reports(&pair, &files, time, seed)?;
    let outcome = Scene { files: &files, moment, time }.play(&mut pair, &reports);
    outcome.with_context(|| {
        format!(
            "seed {seed}, {moment:?}\nleader:\n{}\nhelper:\n{}",
            pair.leader.log_text(),
            pair.helper.log_text()
        )
    })
}

/// One report for each bucket.
fn make_reports(pair: &Pair, files: &TaskFiles, time: Time, seed: u64) -> Result<Vec<Vec<u8>>> {
    let (leader, helper) = (pair.leader.hpke_config()?, pair.helper.hpke_config()?);
    let mut rng = ChaCha20Rng::seed_from_u64(seed ^ u64::MAX);
    (0..DEVICES as u32)
        .map(|bucket| {
            let measurement = Measurement::Histogram(bucket);
            let task = files.task();
            Ok(produce_report(task, &leader, &helper, &measurement, time, None, &mut rng)?)
        })
        .collect()
}

struct Scene<'a> {
    files: &'a TaskFiles,
    moment: Moment,
    time: Time,
}

impl Scene<'_> {
    /// Uploads and collects while one thread kills and another watches the count.
    fn play(&self, pair: &mut Pair, reports: &[Vec<u8>]) -> Result<Recovery> {
        let leader = pair.leader.address();
        let database = pair.leader.data_dir().join("sotto.sqlite");
        let (acknowledged, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let killer = scope.spawn(|| self.kill_and_restart(pair, &acknowledged, &failed));
            let watcher = scope.spawn(|| wait_for_count(&database, &failed));
            let task = self.files.task();
            let played = upload_all(task, leader, reports, CONNECTIONS, PATIENCE, &acknowledged)
                .and_then(|()| self.collect());
            if played.is_err() {
                failed.store(true, Ordering::SeqCst);
            }
            let killed = killer.join().map_err(|_| anyhow!("the killer panicked"))?;
            let counted = watcher.join().map_err(|_| anyhow!("the watcher panicked"))?;
            let (collection, collected) = played?;
            check(&collection)?;
            let (restart, serving) = killed?;
            Ok(Recovery {
                moment: self.moment,
                serving: serving.saturating_duration_since(restart),
                aggregated: counted?.saturating_duration_since(restart),
                collected: collected.saturating_duration_since(restart),
            })
        })
    }

    /// Waits for the moment, kills, restarts. Returns when it restarted and when it served again.
    fn kill_and_restart(
        &self,
        pair: &mut Pair,
        acknowledged: &AtomicUsize,
        failed: &AtomicBool,
    ) -> Result<(Instant, Instant)> {
        while acknowledged.load(Ordering::SeqCst) < self.moment.acknowledged {
            ensure!(!failed.load(Ordering::SeqCst), "the moment did not come");
            thread::sleep(Duration::from_micros(100));
        }
        thread::sleep(self.moment.delay);
        let victim = pair.aggregator(self.moment.victim);
        victim.kill()?;
        let restart = Instant::now();
        victim.start()?;
        Ok((restart, Instant::now()))
    }

    /// Requests the batch until it is ready, even while an aggregator is down.
    fn collect(&self) -> Result<(Collection, Instant)> {
        let collector = self.files.collector()?;
        let query = match self.moment.batch_mode {
            BatchMode::TimeInterval => Query::TimeInterval(Interval::bucket(self.time)?),
            BatchMode::LeaderSelected => Query::LeaderSelected,
        };
        let deadline = Instant::now() + PATIENCE;
        let mut rng = ChaCha20Rng::seed_from_u64(0);
        let mut job = None;
        loop {
            let polled = match &job {
                None => collector.start(&query, &mut rng).map(|(started, poll)| {
                    job = Some(started);
                    poll
                }),
                Some(job) => collector.poll(job, &mut rng),
            };
            match polled {
                Ok(Poll::Ready(collection)) => return Ok((collection, Instant::now())),
                Ok(Poll::Pending { .. }) => {}
                Err(CollectError::Exchange(error)) if error.is_transient() => {}
                Err(error) => return Err(error.into()),
            }
            ensure!(Instant::now() < deadline, "no result in {PATIENCE:?}");
            thread::sleep(POLL_PAUSE);
        }
    }
}

/// Waits until the leader's store has counted every report. Its counter is committed with the sums;
/// those of `/metrics` restart at 0 with the process.
fn wait_for_count(database: &Path, failed: &AtomicBool) -> Result<Instant> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // It may be locked for a moment while the leader opens it.
        if counted(database).is_ok_and(|count| count >= DEVICES as u64) {
            return Ok(Instant::now());
        }
        ensure!(!failed.load(Ordering::SeqCst), "the reports were not counted");
        ensure!(Instant::now() < deadline, "the reports were not counted in {PATIENCE:?}");
        thread::sleep(POLL_PAUSE);
    }
}

fn counted(database: &Path) -> rusqlite::Result<u64> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let query = "SELECT COALESCE(SUM(count), 0) FROM counters WHERE reason = 0";
    let count: i64 = connection.query_row(query, [], |row| row.get(0))?;
    Ok(u64::try_from(count).unwrap_or(0))
}

/// Checks that every device is counted exactly once.
fn check(collection: &Collection) -> Result<()> {
    let AggregateResult::Vector(buckets) = &collection.result else {
        bail!("the result is not a histogram");
    };
    let lost = buckets.iter().filter(|count| **count == 0).count();
    let doubled = buckets.iter().filter(|count| **count > 1).count();
    ensure!(lost == 0 && doubled == 0, "{lost} reports lost, {doubled} counted more than once");
    ensure!(buckets.len() == DEVICES && collection.report_count == DEVICES as u64, "the count");
    Ok(())
}
