//! Reports of the largest size, from devices through relay and gateway to leader and helper, each
//! a process of its own: what arrives, what it sums to, and how much memory each role takes.
//!
//! Reports are prepared first, into a file, so that they then arrive as fast as the servers take
//! them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_client::{
    ExchangeError, HttpOptions, HttpTransport, Poll, PreparedReport, RelayTransport, RetryPolicy,
    UploadError, UploadOutcome, Uploader,
};
use sotto_protocol::client::{consume_hpke_config_list, produce_report};
use sotto_vdaf::{AggregateResult, Measurement};
use sotto_wire::{HpkeConfig, Interval, Query, ReportError, Time, Url};

use crate::pair::{Pair, get};
use crate::phone::now;
use crate::process::run_json;
use crate::service::Service;
use crate::task::{TaskFiles, read_key};

/// The largest element of a measurement, of either sign. The norm bound follows from it.
const MAX_ELEMENT: u64 = 500;
/// The name of the leader's operator at the relay.
const OPERATOR: &str = "leader.example";
/// The pause between two looks at counters.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// How long a whole run may take at most.
const PATIENCE: Duration = Duration::from_secs(1800);
/// Longer than any request waits.
const REQUEST_PATIENCE: Duration = Duration::from_secs(120);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Vectors of signed integers of bounded norm (PINE).
    Pine,
    /// Vectors of integers of 16 bits (Prio3SumVec).
    SumVec,
}

/// Leader, helper and relay with one task. Dropping it kills the processes.
#[derive(Debug)]
pub struct LargeReports {
    /// Leader, with a gateway, and helper.
    pub pair: Pair,
    /// The relay in front of the leader's gateway.
    pub relay: Service,
    /// The devices.
    pub devices: Devices,
}

/// Devices that send through the relay.
#[derive(Debug)]
pub struct Devices {
    files: TaskFiles,
    kind: Kind,
    length: u32,
    time: Time,
    gateway_key: PathBuf,
    relay: String,
}

/// Reports in a file, all of one length.
#[derive(Debug)]
pub struct Reports {
    file: File,
    report_len: usize,
    count: u64,
}

/// What sending the reports took.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Attempts that the relay, the gateway or the leader asked to repeat later.
    pub turned_away: u64,
    /// From the first request to the last answer.
    pub took: Duration,
}

impl LargeReports {
    /// Makes a task whose measurements have `length` elements, with a minimum batch of `count`. Nothing
    /// runs yet.
    pub fn new(kind: Kind, length: u32, count: u64) -> Result<Self> {
        let mut pair = Pair::new()?;
        let norm_bound = MAX_ELEMENT * (u64::from(length).isqrt() + 1);
        let (length_text, count, norm_bound) =
            (length.to_string(), count.to_string(), norm_bound.to_string());
        let options = match kind {
            Kind::Pine => ["--vdaf", "pine", "--length", &length_text, "--norm-bound", &norm_bound],
            Kind::SumVec => {
                ["--vdaf", "sum-vec", "--length", &length_text, "--max-measurement", "65535"]
            }
        };
        let options = [&options[..], &["--min-batch-size", &count]].concat();
        let files = pair.add_task("large", &options)?;
        let gateway_key = pair.folder().join("leader-gateway.toml");
        let out = gateway_key.to_str().context("the folder's name is not UTF-8")?;
        run_json(["--json", "keys", "new", "--id", "21", "--out", out])?;
        pair.leader.configure("[gateway]\nkeys = [\"leader-gateway.toml\"]\n")?;
        let relay = Service::new(pair.folder(), "relay", "relay")?;
        let time = files.past_time()?;
        let devices = Devices { files, kind, length, time, gateway_key, relay: relay.url() };
        Ok(Self { pair, relay, devices })
    }

    /// Starts all three, the relay with these settings beside its gateway. All devices have one
    /// address here, so nothing is limited by source.
    pub fn start(&mut self, relay: &str) -> Result<()> {
        let url = &self.pair.leader.url;
        let gateway =
            format!("\n[[gateways]]\noperator = \"{OPERATOR}\"\nurl = \"{url}gateway\"\n");
        self.relay.write_config(&format!("{relay}\n[sources]\nmax = 0\n{gateway}"))?;
        self.pair.start()?;
        self.relay.start()
    }

    /// Prepares reports on all processors, one after the other on each.
    pub fn prepare(&self, count: u64) -> Result<Reports> {
        let keys = self.devices.keys()?;
        let first = self.devices.report(&keys, 0)?;
        let file = File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(self.pair.folder().join("reports"))?;
        let reports = Reports { file, report_len: first.len(), count };
        reports.file.write_all_at(&first, 0)?;
        let next = AtomicU64::new(1);
        on_threads(thread::available_parallelism()?.get(), || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return Ok(());
                }
                let report = self.devices.report(&keys, index)?;
                ensure!(report.len() == reports.report_len, "reports differ in length");
                reports.file.write_all_at(&report, index * reports.report_len as u64)?;
            }
        })?;
        Ok(reports)
    }

    /// Sends all reports through the relay, `lanes` at once, and repeats what was turned away.
    pub fn send(&self, reports: &Reports, lanes: usize) -> Result<Sent> {
        let begin = Instant::now();
        let uploader = self.devices.uploader()?;
        let (next, turned_away) = (AtomicU64::new(0), AtomicU64::new(0));
        on_threads(lanes, || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= reports.count {
                    return Ok(());
                }
                let again = deliver(&uploader, reports.read(index)?, begin + PATIENCE)?;
                turned_away.fetch_add(again, Ordering::Relaxed);
            }
        })?;
        let turned_away = turned_away.into_inner();
        Ok(Sent { turned_away, took: begin.elapsed() })
    }

    /// One attempt to send one report.
    pub fn try_send(&self, reports: &Reports, index: u64) -> Result<UploadOutcome, UploadError> {
        let uploader = self.devices.uploader().map_err(|_| no_connection())?;
        let report = reports.read(index).map_err(|_| no_connection())?;
        attempt(&uploader, &PreparedReport::from_bytes(report)?)
    }

    /// Waits until all reports are aggregated, and checks that they were, once each, and what they
    /// sum to.
    pub fn finish(&self, count: u64) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.pair.leader.metric("sotto_reports_aggregated_total")? < count as f64 {
            ensure!(Instant::now() < deadline, "not aggregated in {PATIENCE:?}");
            thread::sleep(LOOK_PAUSE);
        }
        ensure!(self.devices.collect(count)? == self.devices.expected(count), "the sum is wrong");
        Ok(())
    }

    /// The peak memory of each process so far, in bytes.
    pub fn peaks(&self) -> Result<[(&'static str, u64); 3]> {
        peaks(&self.relay, &self.pair)
    }
}

impl Devices {
    /// Those of a pair in another process, in this folder.
    pub fn join(folder: &Path, kind: Kind, length: u32, time: u64, relay: String) -> Result<Self> {
        let files = TaskFiles::open(&folder.join("tasks").join("large"))?;
        let gateway_key = folder.join("leader-gateway.toml");
        Ok(Self { files, kind, length, time: Time::new(time), gateway_key, relay })
    }

    /// What [`Self::join`] needs, as arguments of a program.
    pub fn arguments(&self) -> [String; 2] {
        [self.time.as_units().to_string(), self.relay.clone()]
    }

    /// Device `index` makes its report and sends it.
    pub fn answer(&self, index: u64) -> Result<()> {
        let report = self.report(&self.keys()?, index)?;
        deliver(&self.uploader()?, report, Instant::now() + PATIENCE)?;
        Ok(())
    }

    /// The keys of leader and helper.
    fn keys(&self) -> Result<[HpkeConfig; 2]> {
        let configuration = self.files.task().configuration();
        let fetch = |endpoint: &Url| {
            let address = endpoint.as_str().trim_start_matches("http://").trim_end_matches('/');
            let answer = get(address.parse()?, "/hpke_config")?;
            Ok::<_, anyhow::Error>(consume_hpke_config_list(&answer.body)?)
        };
        Ok([
            fetch(configuration.leader_aggregator_endpoint())?,
            fetch(configuration.helper_aggregator_endpoint())?,
        ])
    }

    /// A report of device `index`.
    fn report(&self, keys: &[HpkeConfig; 2], index: u64) -> Result<Vec<u8>> {
        let elements = (0..u64::from(self.length)).map(|at| self.kind.element(index, at));
        let measurement = match self.kind {
            Kind::Pine => Measurement::Vector(elements.collect()),
            Kind::SumVec => Measurement::SumVec(elements.map(i64::cast_unsigned).collect()),
        };
        let mut rng = ChaCha20Rng::seed_from_u64(index);
        let [leader, helper] = keys;
        let task = self.files.task();
        Ok(produce_report(task, leader, helper, &measurement, self.time, None, &mut rng)?)
    }

    /// Sends through the relay, and never repeats by itself.
    fn uploader(&self) -> Result<Uploader> {
        let options = HttpOptions { request_timeout: REQUEST_PATIENCE, ..HttpOptions::default() };
        let gateway = read_key(&self.gateway_key)?.config().clone();
        let transport = RelayTransport::new(
            Arc::new(HttpTransport::new(options)?),
            vec![self.relay.clone()],
            OPERATOR.parse()?,
            vec![gateway],
            Arc::new(now),
            Arc::new(|| Box::new(ChaCha20Rng::seed_from_u64(new_seed()))),
        );
        let uploader = Uploader::new(self.files.task().clone(), Arc::new(transport));
        Ok(uploader.with_retry(RetryPolicy::never()))
    }

    fn collect(&self, count: u64) -> Result<Vec<i128>> {
        let collector = self.files.collector()?;
        let query = Query::TimeInterval(Interval::bucket(self.time)?);
        let mut rng = ChaCha20Rng::seed_from_u64(0);
        let (job, mut poll) = collector.start(&query, &mut rng)?;
        loop {
            match poll {
                Poll::Ready(collection) => {
                    ensure!(collection.report_count == count, "{}", collection.report_count);
                    return Ok(match collection.result {
                        AggregateResult::Scalar(sum) => vec![sum],
                        AggregateResult::Vector(sums) => sums,
                    });
                }
                Poll::Pending { .. } => thread::sleep(LOOK_PAUSE),
            }
            poll = collector.poll(&job, &mut rng)?;
        }
    }

    fn expected(&self, count: u64) -> Vec<i128> {
        let sum = |at| (0..count).map(|index| i128::from(self.kind.element(index, at))).sum();
        (0..u64::from(self.length)).map(sum).collect()
    }
}

impl Kind {
    /// Element `at` of the measurement of device `index`.
    fn element(self, index: u64, at: u64) -> i64 {
        let mixed = index.wrapping_mul(40_503).wrapping_add(at.wrapping_mul(2_654_435_761)) >> 7;
        let element = (mixed % (2 * MAX_ELEMENT + 1)) as i64;
        if self == Self::Pine { element - MAX_ELEMENT as i64 } else { element }
    }
}

impl Reports {
    /// The length of each report in bytes.
    pub fn report_len(&self) -> usize {
        self.report_len
    }

    fn read(&self, index: u64) -> Result<Vec<u8>> {
        let mut report = vec![0; self.report_len];
        self.file.read_exact_at(&mut report, index * self.report_len as u64)?;
        Ok(report)
    }
}

/// Sends a report until the leader has it. Returns how often it was turned away.
fn deliver(uploader: &Uploader, report: Vec<u8>, deadline: Instant) -> Result<u64> {
    let report = PreparedReport::from_bytes(report)?;
    for turned_away in 0.. {
        match attempt(uploader, &report) {
            Ok(UploadOutcome::Accepted) => return Ok(turned_away),
            // The leader has it from an attempt whose answer was lost.
            Ok(UploadOutcome::Rejected(ReportError::ReportReplayed)) if turned_away > 0 => {
                return Ok(turned_away);
            }
            Ok(UploadOutcome::Rejected(error)) => bail!("a report was rejected: {error:?}"),
            Err(UploadError::Upload(error)) if error.is_transient() => {
                ensure!(Instant::now() < deadline, "still turned away: {error}");
                thread::sleep(pause(&error));
            }
            Err(error) => return Err(error.into()),
        }
    }
    bail!("turned away for ever")
}

/// A seed that no other request has, of this process or of another: of two requests with one key, a
/// gateway takes the first.
fn new_seed() -> u64 {
    static DRAWS: AtomicU64 = AtomicU64::new(0);
    u64::from(std::process::id()) << 32 | DRAWS.fetch_add(1, Ordering::Relaxed)
}

fn attempt(uploader: &Uploader, report: &PreparedReport) -> Result<UploadOutcome, UploadError> {
    // With one attempt, nothing is drawn from it.
    let mut rng = ChaCha20Rng::seed_from_u64(0);
    let outcomes = uploader.upload(std::slice::from_ref(report), &mut rng)?;
    outcomes.first().copied().ok_or_else(no_connection)
}

fn no_connection() -> UploadError {
    ExchangeError::BadResponse("there was no upload").into()
}

/// How long whoever turned a report away asks to wait.
fn pause(error: &ExchangeError) -> Duration {
    let asked = match error {
        ExchangeError::Transport(error) => error.retry_after(),
        _ => None,
    };
    asked.unwrap_or(Duration::from_secs(1))
}

/// The peak memory of relay, leader (with its gateway) and helper so far, in bytes.
pub(crate) fn peaks(relay: &Service, pair: &Pair) -> Result<[(&'static str, u64); 3]> {
    Ok([
        ("relay", relay.process()?.peak_memory()?),
        ("leader", pair.leader.process()?.peak_memory()?),
        ("helper", pair.helper.process()?.peak_memory()?),
    ])
}

/// Runs a worker on this many threads, and returns the first error.
pub(crate) fn on_threads(count: usize, worker: impl Fn() -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(&worker)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(_) => Err(anyhow!("a thread panicked")),
        })
    })
}
