//! Tasks that requests announce.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use reqwest::StatusCode;
use sotto_crypto::Secret;
use sotto_protocol::Task;
use sotto_protocol::recipe::derive_task;
use sotto_protocol::taskprov::TaskprovPolicy;
use sotto_server::{
    BindError, Helper, HelperConfig, Leader, LeaderConfig, TaskRefused, TaskprovConfig,
};
use sotto_store::{LeaderStore, MemoryStore, StoredTask, TaskStore};
use sotto_wire::{
    BatchMode, Duration as Units, Encode, Interval, MediaType, Role, TaskConfiguration,
    TaskExtension, TaskParameters, Time, Url, taskprov,
};

use crate::background::LOOPBACK;
use crate::server::harness::{
    COLLECTOR_TOKEN, LEADER_TOKEN, Pair, Setup, histogram, keypair, token,
};
use crate::server::public_log::PublicLog;
use crate::server::recipes::{NEVER, Places};
use crate::server::requests::problem;

pub(crate) fn config(role: Role, leader: &str, helper: &str) -> TaskprovConfig {
    TaskprovConfig {
        policy: TaskprovPolicy {
            role,
            verify_key_init: Secret::new([6; 32]),
            collector_hpke_config: keypair(3).config().clone(),
            leader_endpoint: Url::new(leader).unwrap(),
            helper_endpoint: Url::new(helper).unwrap(),
            min_batch_size: 2,
            max_lifetime_s: 365 * 24 * 3600,
        },
        leader_token: token(LEADER_TOKEN),
        collector_token: (role == Role::Leader).then(|| token(COLLECTOR_TOKEN)),
        max_tasks: 2,
    }
}

/// A free port on loopback, for URLs that must be known before a server is bound. Below the ports
/// that the system gives to connections, which could take it in the meantime.
pub(crate) fn free_address() -> std::net::SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(21_000);
    loop {
        let address = ([127, 0, 0, 1], NEXT.fetch_add(1, Ordering::Relaxed)).into();
        if std::net::TcpListener::bind::<std::net::SocketAddr>(address).is_ok() {
            return address;
        }
    }
}

async fn start() -> (Pair, Arc<MemoryStore>) {
    let mut setup = Setup::new(BatchMode::TimeInterval);
    let store = Arc::new(MemoryStore::new());
    setup.leader_store = Arc::clone(&store) as _;
    let (leader, helper) = (free_address(), free_address());
    let (leader_url, helper_url) = (format!("http://{leader}/"), format!("http://{helper}/"));
    setup.leader.server.http.listen = leader;
    setup.helper.server.http.listen = helper;
    setup.leader.server.taskprov = Some(config(Role::Leader, &leader_url, &helper_url));
    setup.helper.server.taskprov = Some(config(Role::Helper, &leader_url, &helper_url));
    (setup.start().await, store)
}

/// A task like the pair's, but announced.
fn announced(pair: &Pair, info: &str, lasting: u64) -> Task {
    let like = pair.task.configuration();
    let start = Time::new(pair.now().as_units() - 5);
    let interval = Interval::new(start, Units::new(lasting)).unwrap();
    let configuration = TaskConfiguration::new(TaskParameters {
        task_info: info.as_bytes().to_vec(),
        leader_aggregator_endpoint: like.leader_aggregator_endpoint().clone(),
        helper_aggregator_endpoint: like.helper_aggregator_endpoint().clone(),
        time_precision: like.time_precision(),
        min_batch_size: like.min_batch_size(),
        batch_mode: like.batch_mode(),
        vdaf_type: like.vdaf_type(),
        vdaf_configuration: like.vdaf_configuration().to_vec(),
        extensions: vec![TaskExtension::TaskInterval(interval)],
    })
    .unwrap();
    Task::new(taskprov::task_id(&configuration.to_bytes()), configuration).unwrap()
}

pub(crate) fn with_header(pair: &mut Pair) {
    let value = taskprov::header_value(pair.task.encoded_configuration());
    let headers = [(taskprov::HEADER.try_into().unwrap(), value.parse().unwrap())];
    pair.http = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .default_headers(headers.into_iter().collect())
        .build()
        .unwrap();
}

#[tokio::test]
async fn an_announced_task_is_served_end_to_end_and_remembered() {
    let (mut pair, store) = start().await;
    pair.task = announced(&pair, "one", 20);
    let report = pair.report(0);
    let response = pair.upload(report).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND, "not announced yet");
    with_header(&mut pair);
    pair.upload_all([0, 1, 2, 3, 3]).await;
    assert_eq!(store.tasks().await.unwrap().len(), 1);
    // The helper learns of the task from the leader's requests.
    let everything = pair.everything();
    assert_eq!(pair.collect(&everything).await.result, histogram(&[1, 1, 1, 2]));
    assert!(pair.helper_tasks.task(pair.task.id()).is_some());

    // After a restart the header is not needed.
    let configuration = pair.task.configuration();
    let (leader_url, helper_url) = (
        configuration.leader_aggregator_endpoint().to_string(),
        configuration.helper_aggregator_endpoint().to_string(),
    );
    let id = *pair.task.id();
    pair.stop().await;
    let mut leader = LeaderConfig::new(LOOPBACK, vec![keypair(1)]);
    let plain = Leader::bind(LeaderConfig::new(LOOPBACK, vec![keypair(1)]), store.clone()).await;
    assert!(matches!(plain.unwrap_err(), BindError::Config(_)), "its reports would be lost");
    leader.server.insecure_plain_tasks = true;
    leader.server.taskprov = Some(config(Role::Leader, &leader_url, &helper_url));
    let leader = Leader::bind(leader, store as Arc<dyn LeaderStore>).await.unwrap();
    assert!(leader.tasks().unwrap().task(&id).is_some());
}

#[tokio::test]
async fn announcements_are_judged_and_bounded() {
    let (mut pair, store) = start().await;
    let good = [announced(&pair, "one", 20), announced(&pair, "two", 20)];
    let too_many = announced(&pair, "three", 20);
    let over = announced(&pair, "over", 3);
    pair.task = over;
    with_header(&mut pair);
    let while_it_ran = Time::new(pair.now().as_units() - 4);
    let report = pair.report_at(0, while_it_ran);
    let document = problem(pair.upload(report).await).await;
    assert_eq!(document["type"], "urn:ietf:params:ppm:dap:error:invalidTask");
    for task in good {
        pair.task = task;
        with_header(&mut pair);
        pair.upload_all([0]).await;
    }
    pair.task = too_many;
    with_header(&mut pair);
    let report = pair.report(0);
    let document = problem(pair.upload(report).await).await;
    assert_eq!(document["type"], "urn:ietf:params:ppm:dap:error:invalidTask");
    assert_eq!(document["taskid"], pair.task.id().to_string());
    assert_eq!(store.tasks().await.unwrap().len(), 2);
    pair.stop().await;
}

#[tokio::test]
async fn a_stranger_cannot_announce_to_a_guarded_resource() {
    let (mut pair, _) = start().await;
    pair.task = announced(&pair, "one", 20);
    with_header(&mut pair);
    for (url, media_type) in [
        (pair.helper_resource("aggregation_jobs"), MediaType::AggregationJobInitReq),
        (pair.leader_resource("collection_jobs"), MediaType::CollectionJobReq),
    ] {
        let response = pair
            .http
            .post(url)
            .bearer_auth("guess")
            .header("content-type", media_type.as_str())
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
    }
    assert!(pair.helper_store.tasks().await.unwrap().is_empty());
    assert!(pair.leader_store.tasks().await.unwrap().is_empty());
    pair.stop().await;
}

/// A task that was joined in band before this aggregator served recipes, and that belongs to a
/// recipe. If it were announced now it would be refused, so it is also refused when it is found in
/// the store.
#[tokio::test]
async fn a_stored_task_of_a_recipe_is_not_served_in_band() {
    let (world, places) = (PublicLog::new().await, Places::new());
    let recipe = places.recipe(&world, "one");
    let task = derive_task(&recipe).unwrap();
    let (leader_url, helper_url) = (&recipe.parties.leader.url, &recipe.parties.helper.url);
    let store = Arc::new(MemoryStore::new());
    let announced = StoredTask::Announced(task.encoded_configuration().to_vec());
    store.put_task(*task.id(), announced).await.unwrap();

    let leader = |serves_recipes: bool| {
        let mut config = places.leader_config(&world, NEVER);
        config.server.recipes.take_if(|_| !serves_recipes);
        config.server.insecure_plain_tasks = true;
        config.server.taskprov = Some(self::config(Role::Leader, leader_url, helper_url));
        config
    };
    let helper = |serves_recipes: bool| {
        let mut config = places.helper_config(&world, NEVER);
        config.server.recipes.take_if(|_| !serves_recipes);
        config.server.insecure_plain_tasks = true;
        config.server.taskprov = Some(self::config(Role::Helper, leader_url, helper_url));
        config
    };
    let bind_leader = async |config: LeaderConfig| Leader::bind(config, store.clone()).await;
    let bind_helper = async |config: HelperConfig| Helper::bind(config, store.clone()).await;
    // Where no recipes are served, it is a task like any other.
    assert!(bind_leader(leader(false)).await.unwrap().tasks().unwrap().task(task.id()).is_some());
    assert!(bind_helper(helper(false)).await.unwrap().tasks().unwrap().task(task.id()).is_some());
    for refused in
        [bind_leader(leader(true)).await.unwrap_err(), bind_helper(helper(true)).await.unwrap_err()]
    {
        let text = refused.to_string();
        assert!(
            matches!(refused, BindError::Task(TaskRefused::RecipeInBand(id)) if id == *task.id())
        );
        assert!(text.contains("forget_tasks") && text.contains(&task.id().to_string()), "{text}");
    }
    // The advice in the message helps.
    let mut forgetting = helper(true);
    forgetting.server.forget_tasks = vec![*task.id()];
    let bound = bind_helper(forgetting).await.unwrap();
    assert!(bound.tasks().unwrap().task(task.id()).is_none());
    assert!(store.tasks().await.unwrap().is_empty());
}
