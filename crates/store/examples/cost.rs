//! What the embedded store costs per report, in CPU time of its threads.
//!
//! `cargo run --release -p sotto-store --example cost -- [reports] [report bytes] [per upload] [connections]`
//!
//! With `tokens` before the numbers, the reports are of one task that asks for tokens: their ids
//! are spent in the whole task, stay after the collection, and are looked for again after a
//! restart.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sotto_protocol::helper::HelperOutcome;
use sotto_protocol::leader::aggregate::{
    FormedBatch, FormedJob, FormedJobs, FormedReport, LeaderOutcome,
};
use sotto_protocol::{
    Bucket, BucketAggregate, BucketAggregates, Moment, Rejection, Rejections, ReplayScope,
};
use sotto_store::{
    Committed, Fixed, HelperStore, LeaderStore, NewReport, SqliteOptions, SqliteStore, TaskStore,
    Turn,
};
use sotto_vdaf::AggregateShare;
use sotto_wire::{BatchSelector, HpkeConfigId, Interval, ReportId, ReportIdChecksum, TaskId, Time};

const TASK: TaskId = TaskId::new([1; 32]);
const TIME: Time = Time::new(500_000);
const JOB_REPORTS: usize = 500;

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    let is_tokens = arguments.next_if(|argument| argument == "tokens").is_some();
    let scope = if is_tokens { ReplayScope::Task } else { ReplayScope::Bucket };
    let mut arguments = arguments.map(|argument| argument.parse().expect("a number"));
    let reports: usize = arguments.next().unwrap_or(100_000);
    let report_bytes: usize = arguments.next().unwrap_or(6_000);
    let uploads = Uploads {
        reports_each: arguments.next().unwrap_or(1),
        connections: arguments.next().unwrap_or(64),
    };
    let dir = tempfile::tempdir_in(".").unwrap();
    let open = |dir: &Path| SqliteStore::open(dir, SqliteOptions::default()).unwrap();
    let store = open(dir.path());
    leader(&store, scope, reports, report_bytes, uploads);
    drop(store);
    if is_tokens {
        leader_again(&open(dir.path()), reports);
    }
    let dir = tempfile::tempdir_in(".").unwrap();
    let store = open(dir.path());
    helper(&store, scope, reports);
    drop(store);
    if is_tokens {
        helper_again(&open(dir.path()), reports);
    }
    let file = std::fs::metadata(dir.path().join("sotto.sqlite")).unwrap().len();
    println!("database: {:.1} bytes per report", file as f64 / reports as f64);
    println!("peak memory: {}", field("/proc/self/status", "VmHWM"));
}

/// How devices send.
#[derive(Clone, Copy)]
struct Uploads {
    reports_each: usize,
    connections: usize,
}

fn leader(
    store: &SqliteStore,
    scope: ReplayScope,
    reports: usize,
    report_bytes: usize,
    uploads: Uploads,
) {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut body = vec![0; report_bytes];
    ChaCha20Rng::seed_from_u64(3).fill_bytes(&mut body);
    let mut totals = [Duration::ZERO; 5];
    let started = Instant::now();
    let mut done = 0;
    while done < reports {
        let round = 4_000.min(reports - done);
        measure(&mut totals[0], || accept(store, round, uploads, &body));
        loop {
            let backlog = measure(&mut totals[1], || {
                block_on(store.backlog(2_000, 64 << 20, Arc::new(|_| true))).unwrap()
            });
            let Some(stretch) = backlog.stretch else { break };
            done += backlog.records.len();
            let records: Vec<usize> = (0..backlog.records.len()).collect();
            let jobs = records.chunks(JOB_REPORTS).map(|r| job(r, scope, &mut rng)).collect();
            let formed = FormedJobs { jobs, rejections: Vec::new() };
            measure(&mut totals[2], || block_on(store.fix_jobs(stretch, formed)).unwrap());
        }
        loop {
            let lease = Duration::from_secs(60);
            let leased = measure(&mut totals[3], || {
                block_on(store.lease_job(lease, Turn::default())).unwrap()
            });
            let Some(job) = leased else { break };
            let commit =
                LeaderOutcome { buckets: buckets(job.records.len()), ..LeaderOutcome::default() };
            measure(&mut totals[4], || {
                block_on(store.mark_sent(job.lease, [1; 32])).unwrap();
                block_on(store.commit_job(job.lease, commit)).unwrap();
            });
        }
    }
    let Uploads { reports_each, connections } = uploads;
    println!("leader: {reports} reports of {report_bytes} bytes, {reports_each} per upload,");
    println!("  {connections} connections, {:.1?}", started.elapsed());
    print_costs(&["accept", "backlog", "fix", "lease", "mark + commit"], &totals, reports);
    assert_eq!(block_on(store.load()).unwrap().segment_bytes, 0);
}

/// The same ids again, in another bucket, after a restart: none is free. Every tenth job is tried.
fn leader_again(store: &SqliteStore, reports: usize) {
    assert_eq!(block_on(store.report_ids()).unwrap(), reports as u64);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut total = Duration::ZERO;
    let mut tried = 0;
    for job in 0..reports / JOB_REPORTS {
        let ids: Vec<ReportId> = (0..JOB_REPORTS).map(|_| report_id(&mut rng)).collect();
        if job % 10 != 0 {
            continue;
        }
        accept(store, JOB_REPORTS, Uploads { reports_each: JOB_REPORTS, connections: 1 }, &[0]);
        let backlog = block_on(store.backlog(JOB_REPORTS, 64 << 20, Arc::new(|_| true))).unwrap();
        let copies = ids.into_iter().enumerate().map(|(record, report_id)| FormedReport {
            record,
            report_id,
            time: Time::new(600_000),
        });
        let (batch, scope) = (FormedBatch::TimeInterval, ReplayScope::Task);
        let reports = copies.collect();
        let job = FormedJob { task_id: TASK, now: Moment(0), batch, scope, reports };
        let formed = FormedJobs { jobs: vec![job], rejections: Vec::new() };
        let stretch = backlog.stretch.unwrap();
        let fixed = measure(&mut total, || block_on(store.fix_jobs(stretch, formed)).unwrap());
        let mut struck = Rejections::default();
        struck.add_many(Rejection::ReportReplayed, JOB_REPORTS as u64);
        assert_eq!(fixed, Fixed::Committed { jobs: 0, rejections: struck });
        tried += JOB_REPORTS;
    }
    println!("leader after a restart: {reports} ids kept, {tried} replays, all refused");
    print_costs(&["fix"], &[total], tried);
}

fn job(records: &[usize], scope: ReplayScope, rng: &mut ChaCha20Rng) -> FormedJob {
    let reports = records.iter().map(|record| FormedReport {
        record: *record,
        report_id: report_id(rng),
        time: TIME,
    });
    let reports = reports.collect();
    FormedJob { task_id: TASK, now: Moment(0), batch: FormedBatch::TimeInterval, scope, reports }
}

fn helper(store: &SqliteStore, scope: ReplayScope, reports: usize) {
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let mut totals = [Duration::ZERO; 4];
    let started = Instant::now();
    for job in 0..reports / JOB_REPORTS {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&job.to_le_bytes());
        let ids: Vec<_> =
            (0..JOB_REPORTS).map(|_| (Bucket::Time(TIME), report_id(&mut rng))).collect();
        let asked = ids.clone();
        measure(&mut totals[0], || {
            assert!(block_on(store.response(TASK, digest)).unwrap().is_none());
            block_on(store.spent_reports(TASK, scope, asked)).unwrap()
        });
        let commit = HelperOutcome {
            scope,
            reports: ids,
            buckets: buckets(JOB_REPORTS),
            rejections: Rejections::default(),
            response: vec![7; 58 * JOB_REPORTS],
        };
        measure(&mut totals[1], || {
            block_on(store.commit_helper_job(TASK, digest, commit)).unwrap()
        });
        measure(&mut totals[2], || block_on(store.forget_response(TASK, digest)).unwrap());
    }
    let batch = BatchSelector::TimeInterval(Interval::bucket(TIME).unwrap());
    let expected = (reports as u64 / JOB_REPORTS as u64 * JOB_REPORTS as u64, [0; 32]);
    measure(&mut totals[3], || {
        let collected = store.collect_batch(TASK, batch, expected, [9; 32], Vec::new().into());
        assert_eq!(block_on(collected).unwrap(), Committed::Done);
        let purged = scope == ReplayScope::Bucket;
        while purged && block_on(store.report_ids()).unwrap() > 0 {
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    println!("helper: {reports} reports, {:.1?}", started.elapsed());
    print_costs(&["spent", "commit", "forget", "collect"], &totals, reports);
}

/// The same ids again, in another bucket, after a restart: all are spent.
fn helper_again(store: &SqliteStore, reports: usize) {
    assert_eq!(block_on(store.report_ids()).unwrap(), reports as u64);
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let mut total = Duration::ZERO;
    for _ in 0..reports / JOB_REPORTS {
        let later = Bucket::Time(Time::new(600_000));
        let ids = (0..JOB_REPORTS).map(|_| (later, report_id(&mut rng))).collect();
        let spent = measure(&mut total, || {
            block_on(store.spent_reports(TASK, ReplayScope::Task, ids)).unwrap()
        });
        assert!(spent.iter().all(|verdict| *verdict == Some(Rejection::ReportReplayed)));
    }
    println!("helper after a restart and the collection: {reports} ids kept, all spent");
    print_costs(&["spent"], &[total], reports);
}

fn print_costs(names: &[&str], totals: &[Duration], reports: usize) {
    let per_report = |total: Duration| total.as_secs_f64() * 1e6 / reports as f64;
    for (name, total) in names.iter().zip(totals) {
        println!("  {name:14}{:7.2} us CPU per report", per_report(*total));
    }
    let written: f64 = field("/proc/self/io", "wchar").parse().unwrap();
    println!("  {:14}{:7.0} bytes per report since the start", "written", written / reports as f64);
    println!("  {:14}{:7.2} us CPU per report", "sum", per_report(totals.iter().sum()));
}

/// Uploads on several connections at once; each waits for its answer before it goes on.
fn accept(store: &SqliteStore, reports: usize, uploads: Uploads, body: &[u8]) {
    let left = AtomicUsize::new(reports);
    std::thread::scope(|scope| {
        for _ in 0..uploads.connections {
            scope.spawn(|| {
                let each = uploads.reports_each;
                let take = |left: usize| Some(left.saturating_sub(each));
                while let Ok(before @ 1..) = left.fetch_update(Relaxed, Relaxed, take) {
                    let new = |_| NewReport {
                        task_id: TASK,
                        bucket: Some(TIME),
                        hpke_config_id: HpkeConfigId::new(1),
                        report: body.to_vec().into(),
                    };
                    let reports = (0..each.min(before)).map(new).collect();
                    block_on(store.accept_reports(reports)).unwrap();
                }
            });
        }
    });
}

fn buckets(count: usize) -> BucketAggregates {
    // Histogram of 256: Field128.
    let mut share = vec![0; 1 + 256 * 16];
    share[0] = 2;
    let aggregate = BucketAggregate {
        share: AggregateShare::from_store_bytes(&share).unwrap(),
        count: count as u64,
        checksum: ReportIdChecksum::default(),
        first: TIME,
        last: TIME,
    };
    [(Bucket::Time(TIME), aggregate)].into()
}

fn report_id(rng: &mut ChaCha20Rng) -> ReportId {
    let mut id = [0; 16];
    rng.fill_bytes(&mut id);
    ReportId::new(id)
}

/// Adds the CPU time of the store's threads during a call.
fn measure<T>(total: &mut Duration, call: impl FnOnce() -> T) -> T {
    let before = cpu_time();
    let result = call();
    *total += cpu_time().saturating_sub(before);
    result
}

/// CPU time of the store's threads, from the scheduler's statistics.
fn cpu_time() -> Duration {
    let threads =
        std::fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
    let is_ours = |thread: &PathBuf| {
        std::fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.starts_with("sotto-"))
    };
    Duration::from_nanos(threads.filter(is_ours).map(on_cpu).sum())
}

fn on_cpu(thread: impl AsRef<Path>) -> u64 {
    let stat = std::fs::read_to_string(thread.as_ref().join("schedstat")).unwrap_or_default();
    stat.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).unwrap_or(0)
}

fn field(file: &str, field: &str) -> String {
    let status = std::fs::read_to_string(file).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    line.split_once(':').map_or("", |(_, value)| value.trim()).to_owned()
}
