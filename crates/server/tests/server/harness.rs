//! A leader and a helper on loopback, with a device and a collector.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand_chacha::ChaCha20Rng;
use reqwest::{Client, Method, Response, StatusCode};
use sotto_crypto::HpkeKeypair;
use sotto_protocol::client::produce_report;
use sotto_protocol::collector::{
    Collection, consume_collection_job_resp, produce_collection_job_req,
};
use sotto_protocol::{HpkeKeyring, Moment, Task};
use sotto_server::{
    AuthToken, Helper, HelperConfig, Leader, LeaderConfig, ServedTask, TaskRegistry,
};
use sotto_store::{HelperStore, LeaderStore, MemoryStore, SqliteOptions, SqliteStore};
pub(crate) use sotto_testing::aggregators::aggregator_task;
pub(crate) use sotto_testing::keys::keypair;
use sotto_vdaf::{AggregateResult, Measurement, VdafConfig};
use sotto_wire::{
    BatchMode, Duration as Units, Interval, MediaType, Query, Role, TaskConfiguration,
    TaskExtension, TaskId, TaskParameters, Time, TimePrecision, Url, VdafType,
};

use crate::background::{self, LOOPBACK, PATIENCE, client};

pub(crate) const LEADER_TOKEN: &str = "token-between-leader-and-helper";
pub(crate) const COLLECTOR_TOKEN: &str = "token-of-the-collector";
/// Seconds in a unit of time.
pub(crate) const PRECISION: u64 = 3600;
static SEED: AtomicU64 = AtomicU64::new(1);

/// What a test varies.
pub(crate) struct Setup {
    pub(crate) vdaf: VdafConfig,
    pub(crate) mode: BatchMode,
    pub(crate) min_batch_size: u64,
    pub(crate) interval: Option<Interval>,
    /// Sigma of the server noise, in millionths.
    pub(crate) noise: Option<u64>,
    pub(crate) leader: LeaderConfig,
    pub(crate) helper: HelperConfig,
    pub(crate) leader_store: Arc<dyn LeaderStore>,
    pub(crate) helper_store: Arc<dyn HelperStore>,
    /// The helper's URL for the leader, given the helper's address.
    pub(crate) helper_url: Box<dyn FnOnce(SocketAddr) -> String>,
    pub(crate) scheme: &'static str,
    pub(crate) folder: Option<tempfile::TempDir>,
}

impl Setup {
    pub(crate) fn new(mode: BatchMode) -> Self {
        let mut leader = LeaderConfig::new(LOOPBACK, vec![keypair(1)]);
        leader.aggregation.job_delay = Duration::from_millis(20);
        let mut helper = HelperConfig::new(LOOPBACK, vec![keypair(2)]);
        for server in [&mut leader.server, &mut helper.server] {
            server.insecure_plain_tasks = true;
            server.http.admin_listen = Some(LOOPBACK);
        }
        Self {
            vdaf: VdafConfig::histogram(4),
            mode,
            min_batch_size: 5,
            interval: None,
            noise: None,
            leader,
            helper,
            leader_store: Arc::new(MemoryStore::new()),
            helper_store: Arc::new(MemoryStore::new()),
            helper_url: Box::new(|address| format!("http://{address}/")),
            scheme: "http",
            folder: None,
        }
    }

    /// On disk instead of in memory.
    pub(crate) fn on_disk(mut self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            let store = SqliteStore::open(&folder.path().join(name), SqliteOptions::default());
            Arc::new(store.unwrap())
        };
        self.leader_store = open("leader");
        self.helper_store = open("helper");
        self.folder = Some(folder);
        self
    }

    pub(crate) async fn start(self) -> Pair {
        let leader_keys = HpkeKeyring::new(&self.leader.server.hpke_keys).unwrap();
        let helper_keys = HpkeKeyring::new(&self.helper.server.hpke_keys).unwrap();
        let leader_path = self.leader.server.http.base_path.clone();
        let helper = Helper::bind(self.helper, Arc::clone(&self.helper_store)).await.unwrap();
        let leader = Leader::bind(self.leader, Arc::clone(&self.leader_store)).await.unwrap();
        let leader_url = format!("{}://{}{leader_path}/", self.scheme, leader.addr());
        let helper_url = (self.helper_url)(helper.addr());
        let interval = self.interval.map(TaskExtension::TaskInterval);
        let noise = self.noise.map(|sigma_micro| TaskExtension::ServerNoise { sigma_micro });
        let configuration = TaskConfiguration::new(TaskParameters {
            task_info: b"server test".to_vec(),
            leader_aggregator_endpoint: Url::new(leader_url.clone()).unwrap(),
            helper_aggregator_endpoint: Url::new(helper_url.clone()).unwrap(),
            time_precision: TimePrecision::from_seconds(PRECISION).unwrap(),
            min_batch_size: self.min_batch_size,
            batch_mode: self.mode,
            vdaf_type: VdafType::new(self.vdaf.vdaf_type()),
            vdaf_configuration: self.vdaf.encode_configuration(),
            extensions: interval.into_iter().chain(noise).collect(),
        })
        .unwrap();
        let task = Task::new(TaskId::new([9; 32]), configuration).unwrap();
        let (leader_tasks, helper_tasks) = (leader.tasks().unwrap(), helper.tasks().unwrap());
        let collector = keypair(3);
        leader_tasks.add(served(&task, Role::Leader, &collector)).unwrap();
        helper_tasks.add(served(&task, Role::Helper, &collector)).unwrap();
        let helper_base = format!("{}://{}", self.scheme, helper.addr());
        Pair {
            leader: Server::at(leader_url, leader),
            helper: Server::at(helper_base, helper),
            task,
            collector,
            leader_keys,
            helper_keys,
            leader_tasks,
            helper_tasks,
            leader_store: self.leader_store,
            helper_store: self.helper_store,
            http: client(None),
            rng: sotto_testing::keys::rng(SEED.fetch_add(1, Ordering::Relaxed)),
            _folder: self.folder,
        }
    }
}

/// A leader or a helper that runs in the background.
pub(crate) type Server = background::Server<Leader>;

impl Server {
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        self.counted(name).await.unwrap_or_else(|| panic!("no {name}"))
    }
}

/// Both aggregators, and what devices and collectors know.
pub(crate) struct Pair {
    pub(crate) leader: Server,
    pub(crate) helper: Server,
    pub(crate) task: Task,
    pub(crate) collector: HpkeKeypair,
    pub(crate) leader_keys: HpkeKeyring,
    pub(crate) helper_keys: HpkeKeyring,
    pub(crate) leader_tasks: Arc<TaskRegistry>,
    pub(crate) helper_tasks: Arc<TaskRegistry>,
    pub(crate) leader_store: Arc<dyn LeaderStore>,
    pub(crate) helper_store: Arc<dyn HelperStore>,
    pub(crate) http: Client,
    pub(crate) rng: ChaCha20Rng,
    pub(crate) _folder: Option<tempfile::TempDir>,
}

impl Pair {
    /// A report for histogram bucket `index`.
    pub(crate) fn report(&mut self, index: u32) -> Vec<u8> {
        self.report_at(index, self.now())
    }

    pub(crate) fn report_at(&mut self, index: u32, time: Time) -> Vec<u8> {
        let (leader, helper) = (&self.leader_keys.configs()[0], &self.helper_keys.configs()[0]);
        let measurement = Measurement::Histogram(index);
        produce_report(&self.task, leader, helper, &measurement, time, None, &mut self.rng).unwrap()
    }

    pub(crate) fn now(&self) -> Time {
        self.task.time(moment())
    }

    /// Uploads one report per bucket index, one request each, and expects all to be accepted.
    pub(crate) async fn upload_all(&mut self, indices: impl IntoIterator<Item = u32>) {
        for index in indices {
            let report = self.report(index);
            let response = self.upload(report).await;
            assert_eq!(response.status(), StatusCode::OK);
            assert_eq!(response.bytes().await.unwrap().as_ref(), b"");
        }
    }

    pub(crate) async fn upload(&self, body: Vec<u8>) -> Response {
        self.http
            .post(self.leader_resource("reports"))
            .header("content-type", MediaType::UploadReq.as_str())
            .body(body)
            .send()
            .await
            .unwrap()
    }

    pub(crate) fn leader_resource(&self, name: &str) -> String {
        format!("{}tasks/{}/{name}", self.leader.url, self.task.id())
    }

    pub(crate) fn helper_resource(&self, name: &str) -> String {
        format!("{}/tasks/{}/{name}", self.helper.url, self.task.id())
    }

    /// An interval that covers all times that tests use.
    pub(crate) fn everything(&self) -> Query {
        let start = Time::new(self.now().as_units() - 2);
        Query::TimeInterval(Interval::new(start, Units::new(4)).unwrap())
    }

    pub(crate) fn collection_request(&self, query: &Query) -> Vec<u8> {
        produce_collection_job_req(&self.task, query).unwrap()
    }

    /// Requests a batch. Returns the job's URL.
    pub(crate) async fn ask(&self, query: &Query) -> (StatusCode, Option<String>) {
        let response = self
            .http
            .post(self.leader_resource("collection_jobs"))
            .bearer_auth(COLLECTOR_TOKEN)
            .header("content-type", MediaType::CollectionJobReq.as_str())
            .body(self.collection_request(query))
            .send()
            .await
            .unwrap();
        let location = response
            .headers()
            .get("location")
            .map(|value| response.url().join(value.to_str().unwrap()).unwrap().to_string());
        (response.status(), location)
    }

    pub(crate) async fn collector_request(&self, method: Method, url: &str) -> Response {
        self.http.request(method, url).bearer_auth(COLLECTOR_TOKEN).send().await.unwrap()
    }

    /// Waits for a collection job and opens its result.
    pub(crate) async fn wait(&self, location: &str, query: &Query) -> Collection {
        let body = tokio::time::timeout(PATIENCE, async {
            loop {
                let response = self.collector_request(Method::GET, location).await;
                assert!(response.status().is_success(), "{}", response.text().await.unwrap());
                let body = response.bytes().await.unwrap();
                if !body.is_empty() {
                    return body;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .unwrap();
        let request = self.collection_request(query);
        consume_collection_job_resp(&self.task, &self.collector, &request, &body).unwrap()
    }

    pub(crate) async fn collect(&self, query: &Query) -> Collection {
        let (status, location) = self.ask(query).await;
        assert!(status.is_success(), "{status}");
        self.wait(&location.unwrap(), query).await
    }

    pub(crate) async fn stop(self) {
        self.leader.stopped().await;
        self.helper.stopped().await;
    }
}

pub(crate) fn histogram(counts: &[i128]) -> AggregateResult {
    AggregateResult::Vector(counts.to_vec())
}

pub(crate) fn served(task: &Task, role: Role, collector: &HpkeKeypair) -> ServedTask {
    let task = aggregator_task(task, role, collector);
    let leader_token = token(LEADER_TOKEN);
    match role {
        Role::Leader => ServedTask::leader(task, leader_token, token(COLLECTOR_TOKEN)).unwrap(),
        _ => ServedTask::helper(task, leader_token).unwrap(),
    }
}

pub(crate) fn token(text: &str) -> Arc<AuthToken> {
    Arc::new(AuthToken::bearer(text).unwrap())
}

pub(crate) fn moment() -> Moment {
    Moment(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs())
}
