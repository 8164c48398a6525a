//! `kill -9` of the leader or the helper while they release a batch with server noise: whatever
//! happens, one share of each aggregator leaves, and so one draw of its noise.
//!
//! A share is sealed with fresh randomness each time it is made, so equal bytes are one draw. All
//! that the helper ever answers is recorded between the two, and all that the collector gets is
//! compared. At the end the test asks the helper once more, with the leader's own request.

use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_executor::block_on;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sotto_crypto::HpkeKeypair;
use sotto_protocol::Task;
use sotto_protocol::client::produce_report;
use sotto_protocol::collector::{consume_collection_job_resp, produce_collection_job_req};
use sotto_store::{SqliteOptions, SqliteStore, StoredTask, TaskStore};
use sotto_vdaf::{Measurement, VdafConfig};
use sotto_wire::{
    BatchMode, Duration as Units, Encode, HpkeConfigId, Interval, MediaType, Query, Role,
    TaskConfiguration, TaskExtension, TaskParameters, Time, TimePrecision, Url, VdafType, taskprov,
};

use crate::devices::upload_all;
use crate::http::{Connection, Response, head};
use crate::pair::{Aggregator, Pair};
use crate::pipe::Pipe;

/// Reports of one batch, all in the first of four buckets.
const DEVICES: usize = 8;
/// So wide that four draws are practically never all 0.
const SIGMA_MICRO: u64 = 1_000_000_000;
/// The kill happens at most this long after the request for the batch.
const MAX_DELAY: Duration = Duration::from_millis(8);
const PRECISION_S: u64 = 3_600;
/// Much longer than any recovery.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL_PAUSE: Duration = Duration::from_millis(2);

const LEADER_TOKEN: &str = "token-between-leader-and-helper";
const COLLECTOR_TOKEN: &str = "token-of-the-collector";

/// Whom to kill, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The aggregator to kill.
    pub victim: Role,
    /// The batch mode of the task.
    pub batch_mode: BatchMode,
    /// How long after the collector's request.
    pub delay: Duration,
}

/// How far the release was at the kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The helper had not answered.
    Begun,
    /// The helper had answered; nobody had seen the result yet.
    HelperReleased,
    /// The collector had seen the result.
    Finished,
}

impl Kill {
    /// The kill that a seed determines.
    pub fn from_seed(seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut below = |bound: u64| rng.next_u64() % bound;
        let victim = if below(2) == 0 { Role::Leader } else { Role::Helper };
        let batch_mode =
            if below(2) == 0 { BatchMode::TimeInterval } else { BatchMode::LeaderSelected };
        Self {
            victim,
            batch_mode,
            delay: Duration::from_micros(below(MAX_DELAY.as_micros() as u64)),
        }
    }
}

/// One run. An error means a second draw, no noise, or no recovery.
pub fn run(seed: u64) -> Result<(Kill, Stage)> {
    let kill = Kill::from_seed(seed);
    let mut scene = Scene::new(kill.batch_mode, seed)?;
    let stage = scene.play(kill).with_context(|| {
        let Pair { leader, helper, .. } = &scene.pair;
        format!(
            "seed {seed}, {kill:?}\nleader:\n{}\nhelper:\n{}",
            leader.log_text(),
            helper.log_text()
        )
    });
    Ok((kill, stage?))
}

struct Scene {
    pair: Pair,
    /// Between leader and helper.
    pipe: Pipe,
    task: Task,
    collector: HpkeKeypair,
    time: Time,
    rng: ChaCha20Rng,
}

impl Scene {
    /// Two aggregators that have joined a task with noise.
    fn new(batch_mode: BatchMode, seed: u64) -> Result<Self> {
        let mut pair = Pair::new()?;
        let pipe = Pipe::before(pair.helper.address())?;
        let mut rng = ChaCha20Rng::seed_from_u64(seed ^ u64::MAX);
        let collector = HpkeKeypair::generate(HpkeConfigId::new(3), &mut rng);
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let time = Time::new(now / PRECISION_S - 1);
        let start = Time::new(time.as_units() - 10);
        let configuration = TaskConfiguration::new(TaskParameters {
            task_info: format!("release {seed}").into_bytes(),
            leader_aggregator_endpoint: Url::new(&*pair.leader.url)?,
            helper_aggregator_endpoint: Url::new(pipe.url())?,
            time_precision: TimePrecision::from_seconds(PRECISION_S)?,
            min_batch_size: DEVICES as u64,
            batch_mode,
            vdaf_type: VdafType::PRIO3_HISTOGRAM,
            vdaf_configuration: VdafConfig::histogram(4).encode_configuration(),
            extensions: vec![
                TaskExtension::TaskInterval(Interval::new(start, Units::new(20))?),
                TaskExtension::ServerNoise { sigma_micro: SIGMA_MICRO },
            ],
        })?;
        let encoded = configuration.to_bytes();
        let task = Task::new(taskprov::task_id(&encoded), configuration)?;
        let key = URL_SAFE_NO_PAD.encode(collector.config().to_bytes());
        let shared = format!(
            "leader = \"{}\"\nhelper = \"{}\"\nleader_authentication_token = \"{LEADER_TOKEN}\"\n\
             verify_key_init = \"{}\"\ncollector_hpke_config = \"{key}\"\nmin_batch_size = 1\n",
            pair.leader.url,
            pipe.url(),
            URL_SAFE_NO_PAD.encode([4; 32])
        );
        for (aggregator, own) in [
            (&mut pair.leader, format!("collector_authentication_token = \"{COLLECTOR_TOKEN}\"\n")),
            (&mut pair.helper, String::new()),
        ] {
            aggregator.configure(&format!("[taskprov]\n{shared}{own}"))?;
            // In band they would not join it; what is stored is served.
            let store = SqliteStore::open(&aggregator.data_dir(), SqliteOptions::default())?;
            block_on(store.put_task(*task.id(), StoredTask::Announced(encoded.clone())))?;
        }
        Ok(Self { pair, pipe, task, collector, time, rng })
    }

    fn play(&mut self, kill: Kill) -> Result<Stage> {
        self.pair.start()?;
        self.upload()?;
        let query = match kill.batch_mode {
            BatchMode::TimeInterval => Query::TimeInterval(Interval::bucket(self.time)?),
            BatchMode::LeaderSelected => Query::LeaderSelected,
        };
        let request = produce_collection_job_req(&self.task, &query)?;
        let path = format!("/tasks/{}/collection_jobs", self.task.id());
        let created = self.ask("POST", &path, &request)?;
        ensure!(created.status == 201, "the leader answered {}", created.status);
        let job = created.header("location").context("no location")?.to_owned();
        thread::sleep(kill.delay);
        // A late look may find the result. It takes time, so an early kill comes without one.
        let early = match kill.delay > MAX_DELAY / 2 {
            true => self.ask("GET", &job, &[])?.body,
            false => Vec::new(),
        };
        let stage = match (early.is_empty(), self.shares().is_empty()) {
            (false, _) => Stage::Finished,
            (true, false) => Stage::HelperReleased,
            (true, true) => Stage::Begun,
        };
        self.restart(kill.victim)?;
        let result = self.wait(&job)?;
        ensure!(early.is_empty() || early == result, "the result changed with the kill");
        self.restart(kill.victim)?;
        ensure!(self.wait(&job)? == result, "the result changed with a restart");
        let again = self.ask("POST", &path, &request)?.body;
        ensure!(again == result, "the same request got another result");
        self.check_helper()?;
        let collection =
            consume_collection_job_resp(&self.task, &self.collector, &request, &result)?;
        let sums = collection.result.as_slice();
        ensure!(sums != [DEVICES as i128, 0, 0, 0], "there is no noise");
        // Both noises together, ten times their deviation.
        ensure!(sums.iter().all(|sum| sum.abs() < 15_000), "{sums:?}");
        Ok(stage)
    }

    /// Uploads all reports, and waits until both have counted them.
    fn upload(&mut self) -> Result<()> {
        let (leader, helper) = (self.pair.leader.hpke_config()?, self.pair.helper.hpke_config()?);
        let (task, time, rng) = (&self.task, self.time, &mut self.rng);
        let report =
            |_| produce_report(task, &leader, &helper, &Measurement::Histogram(0), time, None, rng);
        let reports = (0..DEVICES).map(report).collect::<Result<Vec<_>, _>>()?;
        let acknowledged = AtomicUsize::new(0);
        upload_all(task, self.pair.leader.address(), &reports, 2, PATIENCE, &acknowledged)?;
        let deadline = Instant::now() + PATIENCE;
        // The helper has counted them before the leader does.
        while self.pair.leader.metric("sotto_reports_aggregated_total")? < DEVICES as f64 {
            ensure!(Instant::now() < deadline, "the reports are not counted");
            thread::sleep(POLL_PAUSE);
        }
        Ok(())
    }

    fn restart(&mut self, victim: Role) -> Result<()> {
        let victim: &mut Aggregator = self.pair.aggregator(victim);
        victim.kill()?;
        victim.start()
    }

    /// A request of the collector.
    fn ask(&self, method: &str, path: &str, body: &[u8]) -> Result<Response> {
        let token = format!("Bearer {COLLECTOR_TOKEN}");
        let media_type = MediaType::CollectionJobReq.as_str();
        let headers = [("authorization", &*token), ("content-type", media_type)];
        let head = head(method, path, &headers, body.len());
        Ok(Connection::open(self.pair.leader.address())?.exchange(&head, body)?)
    }

    /// The finished job's result.
    fn wait(&self, job: &str) -> Result<Vec<u8>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let polled = self.ask("GET", job, &[])?;
            ensure!(polled.status < 300, "status {}: {:?}", polled.status, polled.body);
            if !polled.body.is_empty() {
                return Ok(polled.body);
            }
            ensure!(Instant::now() < deadline, "no result in {PATIENCE:?}");
            thread::sleep(POLL_PAUSE);
        }
    }

    /// All shares that the helper has given to the leader.
    fn shares(&self) -> Vec<Vec<u8>> {
        let content = format!("content-type: {}", MediaType::AggregateShare.as_str());
        let is_share = |(head, _): &(String, Vec<u8>)| {
            head.starts_with("HTTP/1.1 20") && head.to_ascii_lowercase().contains(&content)
        };
        self.recorded().filter(is_share).map(|(_, body)| body).collect()
    }

    /// Every message that passed between leader and helper, as head and body.
    fn recorded(&self) -> impl Iterator<Item = (String, Vec<u8>)> {
        self.pipe.recorded().into_iter().flat_map(messages)
    }

    /// The helper has given one share, and gives no other.
    fn check_helper(&self) -> Result<()> {
        let shares = self.shares();
        let Some(share) = shares.first() else { bail!("the helper gave no share") };
        ensure!(shares.iter().all(|other| other == share), "the helper gave two shares");
        let is_request = |(head, _): &(String, Vec<u8>)| {
            head.starts_with("POST ") && head.contains("/aggregate_shares ")
        };
        let asked: Vec<_> = self.recorded().filter(is_request).collect();
        let (head, body) = asked.first().context("the leader asked for no share")?;
        ensure!(asked.iter().all(|(_, other)| other == body), "the leader asked for two shares");
        let address: SocketAddr = self.pair.helper.address();
        let again = Connection::open(address)?.exchange(head.as_bytes(), body)?;
        // The leader deletes the stored share once it has its result.
        ensure!(again.status >= 400 || again.body == *share, "asked again, it gave another share");
        Ok(())
    }
}

/// The complete HTTP messages of one direction of a connection.
fn messages(record: Vec<u8>) -> Vec<(String, Vec<u8>)> {
    let (mut messages, mut rest) = (Vec::new(), &record[..]);
    while let Some(end) = rest.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
        let (head, after) = rest.split_at(end + 4);
        let head = String::from_utf8_lossy(head).into_owned();
        let lower = head.to_ascii_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.and_then(|text| text.parse().ok()).unwrap_or(0);
        let Some((body, after)) = after.split_at_checked(length) else { break };
        messages.push((head, body.to_vec()));
        rest = after;
    }
    messages
}
