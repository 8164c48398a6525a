//! Recipes: learned from a log, checked as a device would, served for listed authors, kept over a
//! restart.

mod peers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use sotto_crypto::Secret;
use sotto_crypto::note::NoteKey;
use sotto_protocol::admission::Watch;
use sotto_protocol::device::{DeviceStore, Host, MemoryState, Pending, pass};
use sotto_protocol::expression::{Attributes, Value as AttributeValue};
use sotto_protocol::recipe::derive_task;
use sotto_protocol::{HpkeKeyring, Moment, Task};
use sotto_server::{
    BindError, Environment, Helper, HelperConfig, Leader, LeaderConfig, RecipeAuthor, RecipePeer,
    RecipesConfig, TaskRefused,
};
use sotto_store::{HelperStore, LeaderStore, MemoryStore, StoredTask, TaskStore};
use sotto_testing::keys::{hybrid, key, signer};
use sotto_wire::recipe::Recipe;
use sotto_wire::{
    AggregateShareReq, BatchSelector, CollectionJobReq, Decode, Duration as Units, Encode, Entry,
    Interval, MediaType, Query, ReportIdChecksum, TaskConfiguration, TaskParameters, Time,
    taskprov,
};

use crate::background::{LOOPBACK, client, eventually};
use crate::server::harness::{
    COLLECTOR_TOKEN, LEADER_TOKEN, Pair, Server, histogram, moment, token,
};
use crate::server::public_log::{PublicLog, key_set};
use crate::server::requests::problem;
use crate::server::taskprov::free_address;

/// Long enough that the loop does not read a second time by itself during a test.
pub(crate) const NEVER: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_millis(50);
const UNRECOGNIZED: &str = "urn:ietf:params:ppm:dap:error:unrecognizedTask";
const BATCH_INVALID: &str = "urn:ietf:params:ppm:dap:error:batchInvalid";

/// Each device has its own randomness.
static DEVICES: AtomicU64 = AtomicU64::new(1000);

/// Where leader and helper will be.
pub(crate) struct Places {
    pub(crate) leader: SocketAddr,
    pub(crate) helper: SocketAddr,
}

impl Places {
    pub(crate) fn new() -> Self {
        Self { leader: free_address(), helper: free_address() }
    }

    fn leader_url(&self) -> String {
        format!("http://{}/", self.leader)
    }

    fn helper_url(&self) -> String {
        format!("http://{}/", self.helper)
    }

    /// Key sets of both operators: the keys that the harness gives to leader and helper.
    pub(crate) fn key_sets(&self, world: &PublicLog) -> Vec<Entry> {
        vec![
            key_set(&world.leader, 1, &[hybrid(1)], &self.leader_url()),
            key_set(&world.helper, 1, &[hybrid(2)], &self.helper_url()),
        ]
    }

    pub(crate) fn recipe(&self, world: &PublicLog, name: &str) -> Recipe {
        world.recipe(name, &self.leader_url(), &self.helper_url())
    }

    pub(crate) fn leader_config(&self, world: &PublicLog, poll: Duration) -> LeaderConfig {
        let mut config = LeaderConfig::new(self.leader, vec![hybrid(1)]);
        config.aggregation.job_delay = Duration::from_millis(20);
        config.server.http.admin_listen = Some(LOOPBACK);
        let mut recipes = recipes(world, poll);
        recipes.operator = world.leader.name().clone();
        recipes.public_url = self.leader_url();
        recipes.peers = vec![peer(&world.helper, self.helper_url())];
        recipes.authors[0].collector_token = Some(token(COLLECTOR_TOKEN));
        config.server.recipes = Some(recipes);
        config
    }

    pub(crate) fn helper_config(&self, world: &PublicLog, poll: Duration) -> HelperConfig {
        let mut config = HelperConfig::new(self.helper, vec![hybrid(2)]);
        config.server.http.admin_listen = Some(LOOPBACK);
        let mut recipes = recipes(world, poll);
        recipes.operator = world.helper.name().clone();
        recipes.public_url = self.helper_url();
        recipes.peers = vec![peer(&world.leader, self.leader_url())];
        config.server.recipes = Some(recipes);
        config
    }

    pub(crate) async fn start(&self, world: &PublicLog, task: Task, poll: Duration) -> Pair {
        let (leader, helper) = (self.leader_config(world, poll), self.helper_config(world, poll));
        start(task, leader, helper, Arc::new(MemoryStore::new())).await
    }
}

fn recipes(world: &PublicLog, poll: Duration) -> RecipesConfig {
    RecipesConfig {
        trust: world.trust(),
        operator: world.leader.name().clone(),
        public_url: String::new(),
        log_url: world.url.clone(),
        log_certificates: None,
        peers: Vec::new(),
        authors: vec![RecipeAuthor { key: world.author.verifier(), collector_token: None }],
        poll,
        insecure_early_release: true,
        receipts: None,
    }
}

/// The aggregator of an operator, as the other one lists it.
fn peer(operator: &NoteKey, url: String) -> RecipePeer {
    RecipePeer {
        operator: operator.name().clone(),
        url,
        token: token(LEADER_TOKEN),
        verify_key_init: Secret::new([8; 32]),
        private_addresses: true,
    }
}

/// A peer with other secrets, which serves no recipe of these tests.
fn second_peer() -> RecipePeer {
    RecipePeer {
        operator: "second.example".parse().unwrap(),
        token: token("token-of-the-second"),
        verify_key_init: Secret::new([9; 32]),
        ..peer(&key("second.example"), "https://second.example/".to_owned())
    }
}

pub(crate) async fn start(
    task: Task,
    leader: LeaderConfig,
    helper: HelperConfig,
    leader_store: Arc<dyn LeaderStore>,
) -> Pair {
    start_with(task, leader, helper, leader_store, Arc::new(MemoryStore::new())).await
}

async fn start_with(
    task: Task,
    leader: LeaderConfig,
    helper: HelperConfig,
    leader_store: Arc<dyn LeaderStore>,
    helper_store: Arc<dyn HelperStore>,
) -> Pair {
    let (leader_keys, helper_keys) = (
        HpkeKeyring::new(&leader.server.hpke_keys).unwrap(),
        HpkeKeyring::new(&helper.server.hpke_keys).unwrap(),
    );
    let leader = Leader::bind(leader, Arc::clone(&leader_store)).await.unwrap();
    let helper = Helper::bind(helper, Arc::clone(&helper_store)).await.unwrap();
    let (leader_url, helper_url) =
        (format!("http://{}/", leader.addr()), format!("http://{}", helper.addr()));
    Pair {
        leader_tasks: leader.tasks().unwrap(),
        helper_tasks: helper.tasks().unwrap(),
        leader: Server::at(leader_url, leader),
        helper: Server::at(helper_url, helper),
        task,
        collector: hybrid(3),
        leader_keys,
        helper_keys,
        leader_store,
        helper_store,
        http: client(None),
        rng: ChaCha20Rng::seed_from_u64(1),
        _folder: None,
    }
}

/// The reports that a device with this attribute has decided to send.
pub(crate) fn answer(world: &PublicLog, bucket: i64) -> Vec<Pending> {
    let mut watch = Watch::new(world.files.copy());
    watch.refresh(&world.trust(), moment()).unwrap();
    let attributes: Attributes = [("bucket".to_owned(), AttributeValue::Int(bucket))].into();
    let host = Host { conditions_met: true, attributes: &attributes, learner: None };
    let mut rng = ChaCha20Rng::seed_from_u64(DEVICES.fetch_add(1, Ordering::Relaxed));
    let mut state = MemoryState::default();
    pass(&mut state, &mut watch, &world.trust(), &host, moment(), &mut rng).unwrap();
    state.state().pending().map(|(_, pending)| pending.clone()).collect()
}

/// Sends a stored report as the device stored it.
pub(crate) async fn deliver(pair: &Pair, pending: &Pending) -> Response {
    let encoded = &pending.task_configuration;
    let url = format!("{}tasks/{}/reports", pair.leader.url, taskprov::task_id(encoded));
    pair.http
        .post(url)
        .header("content-type", MediaType::UploadReq.as_str())
        .header(taskprov::HEADER, taskprov::header_value(encoded))
        .body(pending.report.clone())
        .send()
        .await
        .unwrap()
}

async fn reasons(server: &Server) -> Vec<String> {
    let (_, document) = server.readyz().await;
    let name = |reason: &Value| reason["name"].as_str().unwrap().to_owned();
    document["reasons"].as_array().unwrap().iter().map(name).collect()
}

async fn until_reasons(server: &Server, expected: &[&str]) {
    eventually(&format!("readyz gives {expected:?}"), || async {
        reasons(server).await == expected
    })
    .await;
}

/// Reasons about the log alone: a restarted helper may also refuse what it had left unfinished.
async fn until_log_is(server: &Server, expected: &[&str]) {
    eventually(&format!("readyz says of the log {expected:?}"), || async {
        let mut reasons = reasons(server).await;
        reasons.retain(|reason| reason.starts_with("log_"));
        reasons == expected
    })
    .await;
}

pub(crate) async fn until_served(pair: &Pair, recipe: &Recipe) {
    let id = *derive_task(recipe).unwrap().id();
    eventually("both aggregators have learned the recipe", || async {
        pair.leader_tasks.task(&id).is_some() && pair.helper_tasks.task(&id).is_some()
    })
    .await;
}

pub(crate) fn interval(pair: &Pair, units: u64) -> Interval {
    Interval::new(Time::new(pair.now().as_units() - 2), Units::new(units)).unwrap()
}

#[tokio::test]
async fn a_recipe_is_learned_answered_and_collected() {
    let (mut world, places) = (PublicLog::new().await, Places::new());
    let recipe = places.recipe(&world, "one");
    let mut entries = places.key_sets(&world);
    entries.push(world.sign(&recipe));
    world.publish(&entries);
    let pair = places.start(&world, derive_task(&recipe).unwrap(), NEVER).await;
    until_served(&pair, &recipe).await;
    until_reasons(&pair.leader, &[]).await;
    until_reasons(&pair.helper, &[]).await;

    for bucket in [0, 1, 1, 2, 3, 3, 7] {
        let pending = answer(&world, bucket);
        assert_eq!(pending.len(), 1);
        let response = deliver(&pair, &pending[0]).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.bytes().await.unwrap().as_ref(), b"");
    }
    assert_eq!(pair.leader.metric("sotto_recipes_served").await, 1.0);
    assert_eq!(pair.leader.metric("sotto_log_entries").await, 3.0);

    // Both aggregators limit what is ever released to what the recipe allows.
    let too_long = Query::TimeInterval(interval(&pair, 5));
    let response = pair
        .http
        .post(pair.leader_resource("collection_jobs"))
        .bearer_auth(COLLECTOR_TOKEN)
        .header("content-type", MediaType::CollectionJobReq.as_str())
        .body(pair.collection_request(&too_long))
        .send()
        .await
        .unwrap();
    assert_eq!(problem(response).await["type"], BATCH_INVALID);
    let request = AggregateShareReq {
        collection_job_req: CollectionJobReq::from_bytes(&pair.collection_request(&too_long))
            .unwrap(),
        batch_selector: BatchSelector::TimeInterval(interval(&pair, 5)),
        report_count: 7,
        checksum: ReportIdChecksum::default(),
    };
    let response = pair
        .http
        .post(pair.helper_resource("aggregate_shares"))
        .bearer_auth(LEADER_TOKEN)
        .header("content-type", MediaType::AggregateShareReq.as_str())
        .body(request.to_bytes())
        .send()
        .await
        .unwrap();
    let document = problem(response).await;
    assert_eq!(document["type"], BATCH_INVALID);
    assert!(document["detail"].as_str().unwrap().contains("of the recipe"), "{document}");

    let fine = Query::TimeInterval(interval(&pair, 4));
    let collection = pair.collect(&fine).await;
    // The device beyond the last bucket sent the fallback.
    assert_eq!(collection.result, histogram(&[2, 2, 1, 2]));
    pair.stop().await;
}

#[tokio::test]
async fn an_announced_task_has_the_log_read_again_but_not_for_ever() {
    let (mut world, places) = (PublicLog::new().await, Places::new());
    world.publish(&places.key_sets(&world));
    let recipe = places.recipe(&world, "late");
    let pair = places.start(&world, derive_task(&recipe).unwrap(), NEVER).await;
    until_reasons(&pair.leader, &[]).await;
    until_reasons(&pair.helper, &[]).await;
    assert_eq!(world.fetched.load(Ordering::Relaxed), 2);

    world.publish(&[world.sign(&recipe)]);
    let pending = answer(&world, 1);
    // Without the header, the log is not read.
    let plain = pair.upload(pending[0].report.clone()).await;
    assert_eq!(problem(plain).await["type"], UNRECOGNIZED);
    assert_eq!(world.fetched.load(Ordering::Relaxed), 2);
    assert_eq!(deliver(&pair, &pending[0]).await.status(), StatusCode::OK);
    assert_eq!(world.fetched.load(Ordering::Relaxed), 3, "the leader has read again");
    for bucket in 0..4 {
        assert_eq!(deliver(&pair, &answer(&world, bucket)[0]).await.status(), StatusCode::OK);
    }
    // The helper learns of the task from the leader's requests.
    let query = Query::TimeInterval(interval(&pair, 4));
    assert_eq!(pair.collect(&query).await.report_count, 5);
    assert_eq!(world.fetched.load(Ordering::Relaxed), 4, "and the helper");

    // Another recipe, too soon after the last request.
    let next = places.recipe(&world, "later");
    world.publish(&[world.sign(&next)]);
    let pending = answer(&world, 2);
    let unknown = |pending: &&Pending| {
        taskprov::task_id(&pending.task_configuration) == *derive_task(&next).unwrap().id()
    };
    let refused = deliver(&pair, pending.iter().find(unknown).unwrap()).await;
    assert_eq!(problem(refused).await["type"], UNRECOGNIZED);
    assert_eq!(world.fetched.load(Ordering::Relaxed), 4);
    pair.stop().await;
}

#[tokio::test]
async fn a_foreign_configuration_under_the_id_of_a_recipe_is_refused() {
    let (mut world, places) = (PublicLog::new().await, Places::new());
    let recipe = places.recipe(&world, "one");
    let mut entries = places.key_sets(&world);
    entries.push(world.sign(&recipe));
    world.publish(&entries);
    let task = derive_task(&recipe).unwrap();
    let pair = places.start(&world, task.clone(), NEVER).await;
    until_served(&pair, &recipe).await;
    // The same except for the minimum batch size.
    let like = task.configuration();
    let foreign = TaskConfiguration::new(TaskParameters {
        task_info: like.task_info().to_vec(),
        leader_aggregator_endpoint: like.leader_aggregator_endpoint().clone(),
        helper_aggregator_endpoint: like.helper_aggregator_endpoint().clone(),
        time_precision: like.time_precision(),
        min_batch_size: 1,
        batch_mode: like.batch_mode(),
        vdaf_type: like.vdaf_type(),
        vdaf_configuration: like.vdaf_configuration().to_vec(),
        extensions: like.extensions().iter().cloned().collect(),
    })
    .unwrap();
    let pending = Pending {
        report: answer(&world, 1).remove(0).report,
        task_configuration: foreign.to_bytes(),
        from: 0,
        sends: 0,
        route: None,
    };
    assert_eq!(problem(deliver(&pair, &pending).await).await["type"], UNRECOGNIZED);
    // A configuration that does not match the task id does not even cause a read of the log.
    let before = world.fetched.load(Ordering::Relaxed);
    let response = pair
        .http
        .post(format!("{}tasks/{}/reports", pair.leader.url, sotto_wire::TaskId::new([1; 32])))
        .header("content-type", MediaType::UploadReq.as_str())
        .header(taskprov::HEADER, taskprov::header_value(task.encoded_configuration()))
        .body(pending.report)
        .send()
        .await
        .unwrap();
    assert_eq!(problem(response).await["type"], UNRECOGNIZED);
    assert_eq!(world.fetched.load(Ordering::Relaxed), before);
    assert_eq!(pair.leader_store.tasks().await.unwrap().len(), 1);
    pair.stop().await;
}

#[tokio::test]
async fn only_listed_authors_and_recipes_that_name_us_are_served() {
    let (mut world, places) = (PublicLog::new().await, Places::new());
    let good = places.recipe(&world, "good");
    let mut stranger = places.recipe(&world, "stranger");
    stranger.author = signer(&world.stranger);
    let mut swapped = places.recipe(&world, "swapped");
    std::mem::swap(&mut swapped.parties.leader.operator, &mut swapped.parties.helper.operator);
    let mut elsewhere = places.recipe(&world, "elsewhere");
    elsewhere.parties.leader.url = format!("{}dap/", places.leader_url());
    elsewhere.parties.helper.url = format!("{}dap/", places.helper_url());
    let mut unpinned = places.recipe(&world, "unpinned");
    unpinned.parties.helper.operator = "other.example".parse().unwrap();
    let mut small = places.recipe(&world, "small");
    small.aggregation.min_batch = 3;
    let mut again = places.recipe(&world, "good");
    again.purpose = "To test again.".to_owned();
    let mut entries = places.key_sets(&world);
    let bad = [stranger, swapped, elsewhere, unpinned, small];
    entries.extend(bad.iter().map(|recipe| world.sign(recipe)));
    entries.push(world.sign(&good));
    world.publish(&entries);
    let pair = places.start(&world, derive_task(&good).unwrap(), SOON).await;
    until_served(&pair, &good).await;
    // A second recipe under the name of a served one.
    world.publish(&[world.sign(&again)]);
    eventually("the log is read", || async {
        pair.leader.metric("sotto_log_entries").await == 9.0
            && pair.helper.metric("sotto_log_entries").await == 9.0
    })
    .await;
    for server in [&pair.leader, &pair.helper] {
        assert_eq!(server.metric("sotto_recipes_served").await, 1.0);
    }
    for recipe in bad.iter().chain([&again]) {
        let id = *derive_task(recipe).unwrap().id();
        assert!(pair.leader_tasks.task(&id).is_none(), "{}", recipe.name);
        assert!(pair.helper_tasks.task(&id).is_none(), "{}", recipe.name);
    }
    // The operator can see what is served, and why the rest is not.
    let status = async || {
        let (_, text) = pair.leader.admin_get("status").await;
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let last = again.id().to_string();
    eventually("all are judged", || async {
        status().await["not_served"].to_string().contains(&last)
    })
    .await;
    let status = status().await;
    let reason = |recipe: &Recipe| {
        let id = recipe.id().to_string();
        let listed = status["not_served"].as_array().unwrap().iter();
        let mut reasons = listed.filter(|listed| listed["recipe_id"] == id.as_str());
        reasons.next().map(|listed| listed["reason"].as_str().unwrap().to_owned())
    };
    assert_eq!(status["tasks"][0]["recipe_id"], good.id().to_string());
    assert_eq!(status["tasks"][0]["closes_s"], good.when.closes);
    assert_eq!(status["tasks"].as_array().unwrap().len(), 1);
    assert!(reason(&bad[0]).unwrap().contains("is not listed"));
    assert!(reason(&again).unwrap().contains("has used the name"));
    assert_eq!(reason(&good), None);
    // A plain task still needs its own setting.
    let task = derive_task(&bad[0]).unwrap();
    let plain = crate::server::harness::served(&task, sotto_wire::Role::Leader, &hybrid(3));
    assert!(matches!(pair.leader_tasks.add(plain).unwrap_err(), TaskRefused::Plain(_)));
    pair.stop().await;
}

#[tokio::test]
async fn each_author_has_its_own_collector() {
    let (mut world, places) = (PublicLog::new().await, Places::new());
    let one = places.recipe(&world, "one");
    let mut other = places.recipe(&world, "other");
    other.author = signer(&world.stranger);
    let mut entries = places.key_sets(&world);
    entries.extend([world.sign(&one), world.sign(&other)]);
    world.publish(&entries);
    let mut leader = places.leader_config(&world, NEVER);
    leader.server.recipes.as_mut().unwrap().authors.push(RecipeAuthor {
        key: world.stranger.verifier(),
        collector_token: Some(token("token-of-the-other")),
    });
    let mut helper = places.helper_config(&world, NEVER);
    let key = world.stranger.verifier();
    let author = RecipeAuthor { key, collector_token: None };
    helper.server.recipes.as_mut().unwrap().authors.push(author);
    let store = Arc::new(MemoryStore::new());
    let mut pair = start(derive_task(&one).unwrap(), leader, helper, store).await;
    until_served(&pair, &one).await;
    until_served(&pair, &other).await;
    let query = Query::TimeInterval(interval(&pair, 4));
    let ask = async |pair: &Pair, token: &str| {
        pair.http
            .post(pair.leader_resource("collection_jobs"))
            .bearer_auth(token)
            .header("content-type", MediaType::CollectionJobReq.as_str())
            .body(pair.collection_request(&query))
            .send()
            .await
            .unwrap()
            .status()
    };
    assert_eq!(ask(&pair, "token-of-the-other").await, StatusCode::FORBIDDEN);
    assert_eq!(ask(&pair, COLLECTOR_TOKEN).await, StatusCode::CREATED);
    pair.task = derive_task(&other).unwrap();
    assert_eq!(ask(&pair, COLLECTOR_TOKEN).await, StatusCode::FORBIDDEN);
    assert_eq!(ask(&pair, "token-of-the-other").await, StatusCode::CREATED);
    // Strangers cannot make an aggregator read its log.
    let before = world.fetched.load(Ordering::Relaxed);
    pair.task = derive_task(&places.recipe(&world, "unknown")).unwrap();
    assert_eq!(ask(&pair, "guess").await, StatusCode::FORBIDDEN);
    assert_eq!(world.fetched.load(Ordering::Relaxed), before);
    pair.stop().await;
}

#[tokio::test]
async fn a_recipe_outlives_the_process_and_the_log() {
    let (mut world, places) = (PublicLog::new().await, Places::new());
    let recipe = places.recipe(&world, "one");
    let mut entries = places.key_sets(&world);
    entries.push(world.sign(&recipe));
    world.publish(&entries);
    let task = derive_task(&recipe).unwrap();
    let store = Arc::new(MemoryStore::new());
    let (leader, helper) =
        (places.leader_config(&world, NEVER), places.helper_config(&world, NEVER));
    let pair = start(task.clone(), leader, helper, Arc::clone(&store) as _).await;
    until_served(&pair, &recipe).await;
    pair.stop().await;
    let stored = store.tasks().await.unwrap();
    assert_eq!(
        stored,
        [(*task.id(), StoredTask::Recipe { json: recipe.to_json(), audience: None })]
    );

    // Not without the configuration that is needed to serve it.
    let bind = async |config: LeaderConfig| Leader::bind(config, store.clone()).await;
    let mut bare = places.leader_config(&world, NEVER);
    bare.server.recipes = None;
    assert!(matches!(bind(bare).await.unwrap_err(), BindError::Config(_)));
    let mut unlisted = places.leader_config(&world, NEVER);
    unlisted.server.recipes.as_mut().unwrap().authors[0].key = world.stranger.verifier();
    let refused = bind(unlisted).await.unwrap_err().to_string();
    assert!(refused.contains("author.example is not listed"), "{refused}");
    // Nor with another aggregator than the one with which it was joined.
    let mut elsewhere = places.leader_config(&world, NEVER);
    elsewhere.server.recipes.as_mut().unwrap().peers[0].url += "dap/";
    let refused = bind(elsewhere).await.unwrap_err().to_string();
    assert!(refused.contains("not listed under [[recipes.peers]]"), "{refused}");
    assert!(refused.contains("forget_tasks"), "{refused}");

    // The log is gone: the task is still served, and the operator is told.
    let mut leader = places.leader_config(&world, SOON);
    leader.server.recipes.as_mut().unwrap().log_url = format!("http://{}/", free_address());
    let helper = places.helper_config(&world, NEVER);
    let pair = start(task.clone(), leader, helper, Arc::clone(&store) as _).await;
    assert!(pair.leader_tasks.task(task.id()).is_some());
    eventually("the log is out of reach", || async {
        pair.leader.metric(r#"sotto_log_readings_total{outcome="unreachable"}"#).await >= 2.0
    })
    .await;
    until_reasons(&pair.leader, &["log_unreachable"]).await;
    assert_eq!(pair.leader.readyz().await.0, StatusCode::OK, "what is known is served");
    assert_eq!(deliver(&pair, &answer(&world, 1)[0]).await.status(), StatusCode::OK);
    pair.stop().await;

    // A task that the operator has forgotten is not learned again while its recipe is open.
    let mut leader = places.leader_config(&world, SOON);
    leader.server.forget_tasks = vec![*task.id()];
    let helper = places.helper_config(&world, NEVER);
    let pair = start(task.clone(), leader, helper, Arc::clone(&store) as _).await;
    eventually("the log is read", || async {
        pair.leader.metric(r#"sotto_log_readings_total{outcome="read"}"#).await >= 2.0
    })
    .await;
    assert!(pair.leader_tasks.task(task.id()).is_none());
    assert!(store.tasks().await.unwrap().is_empty());
    pair.stop().await;
}

#[tokio::test]
async fn a_recipe_that_is_over_is_forgotten() {
    let (mut world, places) = (PublicLog::new().await, Places::new());
    let mut recipe = places.recipe(&world, "one");
    recipe.when.closes = recipe.when.opens + recipe.when.window_s;
    let mut entries = places.key_sets(&world);
    entries.push(world.sign(&recipe));
    world.publish(&entries);
    let task = derive_task(&recipe).unwrap();
    // It was joined while it was open.
    let store = Arc::new(MemoryStore::new());
    store
        .put_task(*task.id(), StoredTask::Recipe { json: recipe.to_json(), audience: None })
        .await
        .unwrap();
    let mut leader = places.leader_config(&world, SOON);
    leader.server.retention_grace = Duration::ZERO;
    let helper = places.helper_config(&world, NEVER);
    let pair = start(task.clone(), leader, helper, Arc::clone(&store) as _).await;
    eventually("the task is forgotten and the log is read", || async {
        store.tasks().await.unwrap().is_empty()
            && pair.leader.metric(r#"sotto_log_readings_total{outcome="read"}"#).await >= 2.0
    })
    .await;
    assert!(pair.leader_tasks.task(task.id()).is_none(), "and it is not learned again");
    pair.stop().await;
}

/// A leader that has forgotten everything sends the helper each report of a recipe again.
#[tokio::test]
async fn a_clock_that_goes_back_revives_no_task() {
    let (mut world, places) = (PublicLog::new().await, Places::new());
    let recipe = places.recipe(&world, "one");
    let mut entries = places.key_sets(&world);
    entries.push(world.sign(&recipe));
    world.publish(&entries);
    let task = derive_task(&recipe).unwrap();
    let helper_store: Arc<dyn HelperStore> = Arc::new(MemoryStore::new());
    let start = || {
        let (leader, helper) =
            (places.leader_config(&world, NEVER), places.helper_config(&world, NEVER));
        let leader_store = Arc::new(MemoryStore::new());
        start_with(task.clone(), leader, helper, leader_store, Arc::clone(&helper_store))
    };
    let reports = [answer(&world, 1), answer(&world, 2)].concat();
    let pair = start().await;
    until_served(&pair, &recipe).await;
    for report in &reports {
        assert_eq!(deliver(&pair, report).await.status(), StatusCode::OK);
    }
    eventually("the helper counts them", || async {
        pair.helper.metric("sotto_reports_aggregated_total").await == 2.0
    })
    .await;
    pair.stop().await;

    // Its clock is years ahead for a while.
    let years = 10 * 366 * 86_400;
    let fill = |bytes: &mut [u8]| {
        ChaCha20Rng::seed_from_u64(2).fill_bytes(bytes);
        Ok(())
    };
    let late = Environment::new(move || Moment(moment().0 + years), fill);
    let config = places.helper_config(&world, NEVER);
    let role = Helper { config, store: Arc::clone(&helper_store) };
    let helper = Server::run(sotto_server::Server::bind(role, late).await.unwrap());
    eventually("the helper forgets the task", || async {
        helper_store.tasks().await.unwrap().is_empty()
    })
    .await;
    helper.stopped().await;

    let pair = start().await;
    eventually("the leader has learned the recipe", || async {
        pair.leader_tasks.task(task.id()).is_some()
    })
    .await;
    for report in &reports {
        assert_eq!(deliver(&pair, report).await.status(), StatusCode::OK);
    }
    let refused = r#"sotto_helper_request_errors_total{reason="unrecognizedTask"}"#;
    eventually("the helper refuses", || async { pair.leader.metric(refused).await >= 1.0 }).await;
    assert!(pair.helper_tasks.task(task.id()).is_none());
    assert_eq!(pair.helper.metric("sotto_reports_aggregated_total").await, 0.0);
    pair.stop().await;
}

#[tokio::test]
async fn a_forked_log_is_not_learned_from() {
    let (mut world, places) = (PublicLog::new().await, Places::new());
    let (first, second) = (places.recipe(&world, "first"), places.recipe(&world, "second"));
    let mut entries = places.key_sets(&world);
    entries.push(world.sign(&first));
    world.publish(&entries);
    let task = derive_task(&first).unwrap();
    let store = Arc::new(MemoryStore::new());
    let config =
        |world: &PublicLog| (places.leader_config(world, SOON), places.helper_config(world, NEVER));
    let (leader, helper) = config(&world);
    let pair = start(task.clone(), leader, helper, Arc::clone(&store) as _).await;
    until_served(&pair, &first).await;
    let (honest, pending) = (world.files.copy(), answer(&world, 1).remove(0));

    // Another history, properly signed and cosigned, and longer.
    world.fork();
    let mut entries = places.key_sets(&world);
    entries.extend([world.sign(&second), world.sign(&places.recipe(&world, "third"))]);
    world.publish(&entries);
    until_reasons(&pair.leader, &["log_forked"]).await;
    assert_eq!(pair.leader.metric(r#"sotto_log_readings_total{outcome="forked"}"#).await, 1.0);
    let second = *derive_task(&second).unwrap().id();
    assert!(pair.leader_tasks.task(&second).is_none());
    // Known tasks are served; nothing more is learned, and nobody waits for it.
    assert_eq!(deliver(&pair, &pending).await.status(), StatusCode::OK);
    let unknown = answer(&world, 1).remove(0);
    assert_eq!(problem(deliver(&pair, &unknown).await).await["type"], UNRECOGNIZED);
    pair.stop().await;

    // A process that starts with the fork compares it with what the earlier one saw.
    let (leader, helper) = config(&world);
    let pair = start(task.clone(), leader, helper, Arc::clone(&store) as _).await;
    until_log_is(&pair.leader, &["log_forked"]).await;
    assert!(pair.leader_tasks.task(task.id()).is_some());
    assert!(pair.leader_tasks.task(&second).is_none());
    pair.stop().await;

    // An older checkpoint may come from a cache: it is refused until a newer one comes.
    world.files.replace(honest);
    let (leader, helper) = config(&world);
    let pair = start(task, leader, helper, store).await;
    until_log_is(&pair.leader, &[]).await;
    let honest = world.files.copy();
    world.fork();
    world.publish(&places.key_sets(&world));
    until_log_is(&pair.leader, &["log_refused"]).await;
    world.files.replace(honest);
    until_log_is(&pair.leader, &[]).await;
    pair.stop().await;
}

#[tokio::test]
async fn a_flipped_bit_is_no_fork() {
    let (mut world, places) = (PublicLog::new().await, Places::new());
    let (first, second) = (places.recipe(&world, "first"), places.recipe(&world, "second"));
    let mut entries = places.key_sets(&world);
    entries.push(world.sign(&first));
    world.publish(&entries);
    // What comes next, not served yet.
    let grown = world.publish_aside(&[world.sign(&second)]);
    let (task, store) = (derive_task(&first).unwrap(), Arc::new(MemoryStore::new()));
    let (leader, helper) = (places.leader_config(&world, SOON), places.helper_config(&world, SOON));
    let pair = start(task, leader, helper, store as _).await;
    until_served(&pair, &first).await;

    let tile = "tile/0/000.p/4";
    let spoil = |place: usize| {
        let mut spoiled = grown.clone();
        spoiled.get_mut(tile).unwrap()[place] ^= 0x10;
        world.files.replace(spoiled);
    };
    for place in [3, 35, 67, 99] {
        spoil(place);
        for server in [&pair.leader, &pair.helper] {
            let refused = r#"sotto_log_readings_total{outcome="refused"}"#;
            let before = server.metric(refused).await;
            eventually("the log is read again and refused", || async {
                server.metric(refused).await >= before + 2.0
            })
            .await;
            assert_eq!(reasons(server).await, ["log_refused"]);
        }
    }
    assert_eq!(pair.leader.metric(r#"sotto_log_readings_total{outcome="forked"}"#).await, 0.0);
    let refused = derive_task(&second).unwrap();
    assert!(pair.leader_tasks.task(refused.id()).is_none());
    // It recovers by itself.
    world.files.replace(grown);
    until_served(&pair, &second).await;
    until_reasons(&pair.leader, &[]).await;
    pair.stop().await;
}

#[tokio::test]
async fn keys_that_are_not_those_of_the_log_are_noticed() {
    let (mut world, places) = (PublicLog::new().await, Places::new());
    let recipe = places.recipe(&world, "one");
    let pair = places.start(&world, derive_task(&recipe).unwrap(), SOON).await;
    until_reasons(&pair.leader, &["log_unreachable"]).await;
    let set =
        |operator: &NoteKey, seq, keys: &[_]| key_set(operator, seq, keys, "https://a.example/");
    world.publish(&[set(&world.helper, 1, &[hybrid(2)])]);
    until_reasons(&pair.leader, &["hpke_keys_unlogged"]).await;
    until_reasons(&pair.helper, &[]).await;
    world.publish(&[set(&world.leader, 1, &[hybrid(7)])]);
    until_reasons(&pair.leader, &["hpke_key_missing", "hpke_keys_unlogged"]).await;
    world.publish(&[set(&world.leader, 2, &[hybrid(1), hybrid(7)])]);
    until_reasons(&pair.leader, &["hpke_key_missing"]).await;
    world.publish(&[set(&world.leader, 3, &[hybrid(1)])]);
    until_reasons(&pair.leader, &[]).await;
    pair.stop().await;
}

#[tokio::test]
async fn what_cannot_be_is_refused_at_the_start() {
    let (world, places) = (PublicLog::new().await, Places::new());
    let refused = async |change: &dyn Fn(&mut RecipesConfig)| {
        let mut config = places.leader_config(&world, NEVER);
        change(config.server.recipes.as_mut().unwrap());
        let store = Arc::new(MemoryStore::new());
        Leader::bind(config, store).await.unwrap_err().to_string()
    };
    let text = refused(&|recipes| recipes.operator = "other.example".parse().unwrap()).await;
    assert!(text.contains("do not pin this operator"), "{text}");
    let text = refused(&|recipes| recipes.authors[0].collector_token = None).await;
    assert!(text.contains("needs a token"), "{text}");
    let text = refused(&|recipes| {
        let (key, collector_token) = (world.author.verifier(), Some(token("x")));
        recipes.authors.push(RecipeAuthor { key, collector_token });
    })
    .await;
    assert!(text.contains("listed twice"), "{text}");
    for (change, words) in [
        ((|peers, _| peers.clear()) as fn(&mut Vec<RecipePeer>, &PublicLog), "no peer is listed"),
        (|peers, world| peers[0].operator = world.leader.name().clone(), "of this server"),
        (|peers, world| peers.push(peer(&world.helper, peers[0].url.clone())), "listed twice"),
        (
            |peers, _| peers.push(RecipePeer { token: token(LEADER_TOKEN), ..second_peer() }),
            "the same authentication_token",
        ),
        (
            |peers, _| {
                let verify_key_init = Secret::new([8; 32]);
                peers.push(RecipePeer { verify_key_init, ..second_peer() });
            },
            "the same verify_key_init",
        ),
    ] {
        let text = refused(&|recipes| change(&mut recipes.peers, &world)).await;
        assert!(text.contains(words), "{text}");
    }
    // An operator that moves keeps its secrets, and its old URL while recipes name it.
    let mut moving = places.leader_config(&world, NEVER);
    let moved = peer(&world.helper, "https://new.example/".to_owned());
    moving.server.recipes.as_mut().unwrap().peers.extend([moved, second_peer()]);
    Leader::bind(moving, Arc::new(MemoryStore::new())).await.unwrap();
}
