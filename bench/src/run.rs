//! One measured run: two processes of the release binary on loopback, durable SQLite, prepared
//! reports uploaded one per request while the leader aggregates, then a collection whose result
//! must be correct.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;
use sotto_client::Poll;
use sotto_tests::pair::{Aggregator, Pair};
use sotto_tests::task::TaskFiles;
use sotto_vdaf::AggregateResult;
use sotto_wire::{BatchMode, Interval, Query, Time};

use crate::load::{self, Uploaded};
use crate::prepare::Prepared;
use crate::proxy::Traffic;
use crate::setup::{PORTS, Setup};
use crate::workload::suite_name;

/// The time between two looks at counters and folders: long enough not to show in the CPU time.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// How long it may take until the last ids of a collected bucket are deleted.
const PURGE_PATIENCE: Duration = Duration::from_secs(60);

/// What one run measured.
#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) workload: &'static str,
    pub(crate) batch_mode: &'static str,
    pub(crate) suite: &'static str,
    pub(crate) reports: u64,
    pub(crate) uploads_per_s: f64,
    pub(crate) aggregated_per_s: f64,
    /// From the first upload to the result.
    pub(crate) total_s: f64,
    /// From the request for the batch to the result.
    pub(crate) collect_s: f64,
    pub(crate) turned_away: u64,
    pub(crate) leader: Role,
    pub(crate) helper: Role,
    pub(crate) wire: Wire,
}

/// The resources of one aggregator, per report except memory and counts.
#[derive(Debug, Serialize)]
pub(crate) struct Role {
    pub(crate) cpu_us: f64,
    pub(crate) peak_memory_bytes: u64,
    /// Bytes that the process caused to be written.
    pub(crate) written_bytes: f64,
    /// The peak disk usage.
    pub(crate) peak_disk_bytes: f64,
    /// Pages of the database that hold something after the collection.
    pub(crate) database_bytes: f64,
    /// All segments after the collection, in bytes.
    pub(crate) segment_bytes_after: u64,
    /// Report ids in the database after the collection.
    pub(crate) report_ids_after: u64,
}

/// Bytes per report, HTTP heads included.
#[derive(Debug, Serialize)]
pub(crate) struct Wire {
    pub(crate) upload: f64,
    pub(crate) leader_to_helper: f64,
    pub(crate) helper_to_leader: f64,
}

/// Runs it on fresh stores; `traffic` counts the bytes between the two.
pub(crate) fn run(setup: &Setup, reports: &Prepared, traffic: &Traffic) -> Result<Measured> {
    let mut pair = Pair::at(&setup.folder, PORTS)?;
    for aggregator in [&pair.leader, &pair.helper] {
        match fs::remove_dir_all(aggregator.data_dir()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    pair.serve_task(&setup.files);
    pair.leader.configure(&setup.key_setting("leader"))?;
    pair.helper.configure(&setup.key_setting("helper"))?;
    pair.start()?;
    let disks = [Disk::watch(pair.leader.data_dir()), Disk::watch(pair.helper.data_dir())];
    let clocks = [Clock::start(&pair.leader)?, Clock::start(&pair.helper)?];

    traffic.take();
    let begin = Instant::now();
    let path = format!("/tasks/{}/reports", setup.files.task().id());
    let uploaded = load::upload(pair.leader.address(), &path, reports)?;
    let upload_time = begin.elapsed();
    wait_until_aggregated(&pair.leader, reports.count())?;
    let aggregate_time = begin.elapsed();
    let result = collect(&setup.files, setup.time, reports.count())?;
    let total_time = begin.elapsed();
    setup.workload.check(reports.count(), &result)?;

    let [leader_clock, helper_clock] = clocks;
    let leader = leader_clock.stop(&pair.leader, reports.count())?;
    let helper = helper_clock.stop(&pair.helper, reports.count())?;
    let by_time = setup.batch_mode() == BatchMode::TimeInterval;
    let [leader_disk, helper_disk] = disks;
    let leader = leader_disk.finish(&mut pair.leader, leader, by_time, reports.count())?;
    let helper = helper_disk.finish(&mut pair.helper, helper, by_time, reports.count())?;
    Ok(Measured {
        workload: setup.workload.name(),
        batch_mode: if by_time { "time-interval" } else { "leader-selected" },
        suite: suite_name(setup.suite),
        reports: reports.count(),
        uploads_per_s: reports.count() as f64 / upload_time.as_secs_f64(),
        aggregated_per_s: reports.count() as f64 / aggregate_time.as_secs_f64(),
        total_s: total_time.as_secs_f64(),
        collect_s: (total_time - aggregate_time).as_secs_f64(),
        turned_away: uploaded.turned_away,
        leader,
        helper,
        wire: wire(&uploaded, traffic, reports.count()),
    })
}

fn wire(uploaded: &Uploaded, traffic: &Traffic, reports: u64) -> Wire {
    let (to_helper, to_leader) = traffic.take();
    Wire {
        upload: uploaded.sent_bytes as f64 / reports as f64,
        leader_to_helper: to_helper as f64 / reports as f64,
        helper_to_leader: to_leader as f64 / reports as f64,
    }
}

fn wait_until_aggregated(leader: &Aggregator, count: u64) -> Result<()> {
    while leader.metric("sotto_reports_aggregated_total")? < count as f64 {
        thread::sleep(LOOK_PAUSE);
    }
    Ok(())
}

/// Collects the one batch and returns its sum.
fn collect(files: &TaskFiles, time: Time, count: u64) -> Result<Vec<i128>> {
    let collector = files.collector()?;
    let query = match files.task().configuration().batch_mode() {
        BatchMode::TimeInterval => Query::TimeInterval(Interval::bucket(time)?),
        BatchMode::LeaderSelected => Query::LeaderSelected,
    };
    let mut rng = ChaCha20Rng::seed_from_u64(0);
    let (job, mut poll) = collector.start(&query, &mut rng)?;
    loop {
        match poll {
            Poll::Ready(collection) => {
                ensure!(collection.report_count == count, "{} reports", collection.report_count);
                return Ok(match collection.result {
                    AggregateResult::Scalar(sum) => vec![sum],
                    AggregateResult::Vector(sums) => sums,
                });
            }
            Poll::Pending { .. } => thread::sleep(Duration::from_millis(10)),
        }
        poll = collector.poll(&job, &mut rng)?;
    }
}

/// CPU time and writes since the process started serving.
struct Clock {
    cpu: Duration,
    written: u64,
}

impl Clock {
    fn start(aggregator: &Aggregator) -> Result<Self> {
        let process = aggregator.process()?;
        Ok(Self { cpu: process.cpu()?, written: process.written()? })
    }

    fn stop(self, aggregator: &Aggregator, reports: u64) -> Result<Role> {
        let process = aggregator.process()?;
        let cpu = process.cpu()?.saturating_sub(self.cpu);
        Ok(Role {
            cpu_us: cpu.as_secs_f64() * 1e6 / reports as f64,
            peak_memory_bytes: process.peak_memory()?,
            written_bytes: (process.written()? - self.written) as f64 / reports as f64,
            peak_disk_bytes: 0.0,
            database_bytes: 0.0,
            segment_bytes_after: 0,
            report_ids_after: 0,
        })
    }
}

/// A thread that watches the size of a folder.
struct Disk {
    folder: PathBuf,
    peak: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Disk {
    fn watch(folder: PathBuf) -> Self {
        let disk = Self { folder, peak: Arc::default(), over: Arc::default() };
        let (folder, peak, over) =
            (disk.folder.clone(), Arc::clone(&disk.peak), Arc::clone(&disk.over));
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                peak.fetch_max(folder_bytes(&folder), Ordering::Relaxed);
                thread::sleep(LOOK_PAUSE);
            }
        });
        disk
    }

    /// Stops the process and inspects what it left.
    fn finish(
        self,
        aggregator: &mut Aggregator,
        mut role: Role,
        ids_must_go: bool,
        reports: u64,
    ) -> Result<Role> {
        self.over.store(true, Ordering::Relaxed);
        let database = Database::open(&self.folder.join("sotto.sqlite"))?;
        if ids_must_go {
            let deadline = Instant::now() + PURGE_PATIENCE;
            while database.report_ids()? > 0 && Instant::now() < deadline {
                thread::sleep(LOOK_PAUSE);
            }
        }
        role.report_ids_after = database.report_ids()?;
        role.database_bytes = database.used_bytes()? as f64 / reports as f64;
        ensure!(aggregator.stop()?, "an aggregator did not exit cleanly");
        role.peak_disk_bytes = self.peak.load(Ordering::Relaxed) as f64 / reports as f64;
        role.segment_bytes_after = folder_bytes(&self.folder.join("segments"));
        Ok(role)
    }
}

/// The bytes of all files below a folder. Files may appear and disappear in the meantime.
fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Read access to an aggregator's database.
struct Database(Connection);

impl Database {
    fn open(path: &Path) -> Result<Self> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        Ok(Self(connection))
    }

    /// Report ids that it still holds.
    fn report_ids(&self) -> Result<u64> {
        self.number("SELECT COUNT(*) FROM report_ids")
    }

    /// Bytes of pages in use, whether still in the write-ahead log or not.
    fn used_bytes(&self) -> Result<u64> {
        let pages = self.number("PRAGMA page_count")? - self.number("PRAGMA freelist_count")?;
        Ok(pages * self.number("PRAGMA page_size")?)
    }

    fn number(&self, query: &str) -> Result<u64> {
        let number: i64 = self.0.query_row(query, [], |row| row.get(0))?;
        u64::try_from(number).context("a negative number")
    }
}
