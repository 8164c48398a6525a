//! The fault campaign: leaders and helpers on two PostgreSQL databases, under load, while something
//! breaks every few seconds.
//!
//! All the while a transaction holds an old snapshot in each database, and an idle replication slot
//! keeps the log. Each device has its own bucket of a histogram: a bucket of 0 is a lost report, one
//! of 2 a double count. The helper releases its share only if leader and helper agree on count and
//! checksum, so a result proves that they do.

use std::fmt;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sotto_client::{CollectError, Poll};
use sotto_protocol::client::produce_report;
use sotto_protocol::collector::Collection;
use sotto_testing::postgres::Database;
use sotto_vdaf::{AggregateResult, Measurement};
use sotto_wire::{Interval, Query, Role, Time};

use crate::devices::upload_all;
use crate::replicas::{Group, Replicas};
use crate::task::TaskFiles;

/// Short leases, so that a stopped process loses its jobs.
const SETTINGS: &str = "[jobs]\nmax_reports = 50\ndelay_ms = 20\nlease_s = 4\nhelper_timeout_s = 3";
/// Longer than a lease.
const STOPPED: Duration = Duration::from_secs(6);
/// Devices of one round. Rounds follow each other until the time is over.
const DEVICES: usize = 400;
const CONNECTIONS: usize = 8;
/// Much longer than any recovery; a round that takes longer has lost something.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL_PAUSE: Duration = Duration::from_millis(50);

/// How the campaign is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many leaders.
    pub leaders: usize,
    /// How many helpers.
    pub helpers: usize,
    /// How long faults come.
    pub seconds: u64,
    /// The seed of the faults.
    pub seed: u64,
}

/// What happened. Everything was counted exactly once.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// How many batches were collected.
    pub rounds: usize,
    /// How many reports were counted.
    pub reports: usize,
    /// How many faults there were.
    pub faults: usize,
    /// From the last acknowledgement of a round to its result, the longest.
    pub longest: Duration,
    /// What each fault was, in order.
    pub log: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, reports, faults, longest, .. } = self;
        write!(
            f,
            "{reports} reports in {rounds} batches, each counted once, with {faults} faults; the \
             longest wait for a result {:.1} s",
            longest.as_secs_f64()
        )
    }
}

/// What breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A process is killed and started again.
    Kill(Role, usize),
    /// A process is stopped for longer than its leases last.
    Stop(Role, usize),
    /// The connections of a group are cut.
    Cut(Role),
    /// PostgreSQL is restarted, waiting for transactions or not.
    Restart { immediate: bool },
}

impl Fault {
    fn draw(rng: &mut ChaCha20Rng, plan: &Plan, can_restart: bool) -> Self {
        let mut below = |bound: u64| rng.next_u64() % bound.max(1);
        let role = if below(2) == 0 { Role::Leader } else { Role::Helper };
        let count = if role == Role::Leader { plan.leaders } else { plan.helpers };
        let member = below(count as u64) as usize;
        match below(if can_restart { 10 } else { 8 }) {
            0..4 => Self::Kill(role, member),
            4..6 => Self::Stop(role, member),
            6..8 => Self::Cut(role),
            _ => Self::Restart { immediate: below(2) == 0 },
        }
    }
}

/// Runs the campaign. An error means a lost or doubled report, a job that hangs, or a row that
/// nobody deletes. `None` if there is no PostgreSQL server.
pub fn run(plan: &Plan) -> Result<Option<Outcome>> {
    let Some(mut replicas) = Replicas::new(plan.leaders, plan.helpers, SETTINGS)? else {
        return Ok(None);
    };
    let length = DEVICES.to_string();
    // A task for each round: rounds are short, and so is the life of a bucket.
    let rounds = 1 + plan.seconds as usize / 4;
    let options = ["--vdaf", "histogram", "--length", &length, "--min-batch-size", "1"];
    let tasks: Vec<TaskFiles> = (0..rounds)
        .map(|round| replicas.add_task(&format!("round-{round}"), &options))
        .collect::<Result<_>>()?;
    replicas.start()?;
    let outcome = play(plan, &mut replicas, &tasks);
    outcome.map(Some).with_context(|| {
        let logs = replicas.leaders.members.iter().chain(&replicas.helpers.members);
        let logs: Vec<String> = logs.map(|member| tail(&member.log_text())).collect();
        format!("{plan:?}\n{}", logs.join("\n---\n"))
    })
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

fn play(plan: &Plan, replicas: &mut Replicas, tasks: &[TaskFiles]) -> Result<Outcome> {
    let end = Instant::now() + Duration::from_secs(plan.seconds);
    let leader = replicas.leaders.balancer.address();
    let configs =
        (replicas.leaders.members[0].hpke_config()?, replicas.helpers.members[0].hpke_config()?);
    let snapshots =
        [&replicas.leaders, &replicas.helpers].map(|group| Snapshot::of(&group.database));
    let has_failed = AtomicBool::new(false);
    let mut outcome = thread::scope(|scope| {
        let faults = scope.spawn(|| break_things(plan, replicas, end, &has_failed));
        let mut outcome = Outcome::default();
        let played: Result<()> =
            tasks.iter().take_while(|_| Instant::now() < end).try_for_each(|files| {
                let longest = round(files, &configs, leader, outcome.rounds as u64, plan.seed)?;
                outcome.rounds += 1;
                outcome.reports += DEVICES;
                outcome.longest = outcome.longest.max(longest);
                Ok(())
            });
        has_failed.store(played.is_err(), Ordering::SeqCst);
        let log = faults.join().map_err(|_| anyhow!("the thread of faults panicked"))?;
        played?;
        outcome.log = log?;
        outcome.faults = outcome.log.len();
        Ok::<_, anyhow::Error>(outcome)
    })?;
    drop(snapshots);
    for group in [&replicas.leaders, &replicas.helpers] {
        wait_until_clean(group).with_context(|| format!("after {:?}", outcome.log))?;
    }
    outcome.log.truncate(200);
    Ok(outcome)
}

/// Uploads a batch and collects it. Returns how long the result took after the last report.
fn round(
    files: &TaskFiles,
    configs: &(sotto_wire::HpkeConfig, sotto_wire::HpkeConfig),
    leader: SocketAddr,
    number: u64,
    seed: u64,
) -> Result<Duration> {
    let time = files.past_time()?;
    let mut rng = ChaCha20Rng::seed_from_u64(seed << 32 | number);
    let reports: Vec<Vec<u8>> = (0..DEVICES as u32)
        .map(|bucket| {
            let measurement = Measurement::Histogram(bucket);
            let (leader, helper) = configs;
            Ok(produce_report(files.task(), leader, helper, &measurement, time, None, &mut rng)?)
        })
        .collect::<Result<_>>()?;
    let acknowledged = AtomicUsize::new(0);
    upload_all(files.task(), leader, &reports, CONNECTIONS, PATIENCE, &acknowledged)?;
    let uploaded = Instant::now();
    let collection = collect(files, time).with_context(|| format!("round {number}"))?;
    check(&collection).with_context(|| format!("round {number}"))?;
    Ok(uploaded.elapsed())
}

/// Requests the batch until it is ready, whatever is down.
fn collect(files: &TaskFiles, time: Time) -> Result<Collection> {
    let collector = files.collector()?;
    let query = Query::TimeInterval(Interval::bucket(time)?);
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
            // A result for part of the reports would close the batch: the others are still in jobs.
            Ok(Poll::Ready(collection)) => return Ok(collection),
            Ok(Poll::Pending { .. }) => {}
            Err(CollectError::Exchange(error)) if error.is_transient() => {}
            Err(error) => return Err(error.into()),
        }
        ensure!(Instant::now() < deadline, "no result in {PATIENCE:?}");
        thread::sleep(POLL_PAUSE);
    }
}

/// Checks that every device is counted exactly once.
fn check(collection: &Collection) -> Result<()> {
    let AggregateResult::Vector(buckets) = &collection.result else {
        bail!("the result is not a histogram");
    };
    let lost = buckets.iter().filter(|count| **count == 0).count();
    let doubled = buckets.iter().filter(|count| **count > 1).count();
    ensure!(lost == 0 && doubled == 0, "{lost} reports lost, {doubled} counted more than once");
    ensure!(collection.report_count == DEVICES as u64, "the count");
    Ok(())
}

/// Breaks one thing after the other until the time is over; at the end, everything runs.
fn break_things(
    plan: &Plan,
    replicas: &mut Replicas,
    end: Instant,
    has_failed: &AtomicBool,
) -> Result<Vec<String>> {
    let control = std::env::var("SOTTO_POSTGRES_CONTROL").ok();
    let mut rng = ChaCha20Rng::seed_from_u64(plan.seed);
    let mut log = Vec::new();
    while Instant::now() < end && !has_failed.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(500 + rng.next_u64() % 2_500));
        let fault = Fault::draw(&mut rng, plan, control.is_some());
        log.push(format!("{fault:?}"));
        match fault {
            Fault::Kill(role, member) => {
                let group = replicas.group(role);
                group.members[member].kill()?;
                thread::sleep(Duration::from_millis(rng.next_u64() % 1_000));
                group.members[member].start()?;
            }
            Fault::Stop(role, member) => {
                let group = replicas.group(role);
                group.balancer.set_out(member, true);
                group.members[member].process()?.signal("STOP")?;
                thread::sleep(STOPPED);
                group.members[member].process()?.signal("CONT")?;
                group.balancer.set_out(member, false);
            }
            Fault::Cut(role) => {
                let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                           WHERE datname = current_database() AND application_name = 'sotto'";
                replicas.group(role).database.sql(sql);
            }
            Fault::Restart { immediate } => {
                let mode = if immediate { "immediate" } else { "fast" };
                let control = control.as_deref().unwrap_or_default();
                let mut restart = Command::new("sh");
                restart.args(["-c", &format!("{control} restart -m {mode}")]);
                let done = restart.stdout(Stdio::null()).status()?;
                ensure!(done.success(), "PostgreSQL did not restart");
            }
        }
    }
    Ok(log)
}

/// A transaction that holds a snapshot until it is dropped, and a replication slot that nobody reads.
struct Snapshot {
    holder: Child,
}

impl Snapshot {
    fn of(database: &Database) -> Result<Self> {
        let mut holder = Command::new("psql");
        holder.args(["-qAtX", "-d", &database.url(), "-c"]);
        holder.arg("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tasks; SELECT pg_sleep(3600)");
        let holder =
            holder.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Self { holder: holder.context("`psql` cannot be run")? })
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Tables that are empty once everything is collected.
const EMPTY: [&str; 11] = [
    "jobs",
    "requeued",
    "segments",
    "buckets",
    "report_ids",
    "purges",
    "bodies_0",
    "bodies_1",
    "bodies_2",
    "bodies_3",
    "collections WHERE state < 2",
];

/// Waits until the database holds nothing that nobody needs.
fn wait_until_clean(group: &Group) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left: Vec<&str> = EMPTY
            .into_iter()
            .filter(|table| group.database.sql(&format!("SELECT count(*) FROM {table}")) != "0")
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "rows are left in {left:?}");
        thread::sleep(Duration::from_millis(500));
    }
}
