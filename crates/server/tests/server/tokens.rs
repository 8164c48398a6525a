//! Recipes that require tokens: their tasks are served with the check of tokens, even after a
//! restart, and the operator sees why a report was refused.

use std::sync::Arc;

use rand_core::Rng;
use reqwest::StatusCode;
use sotto_crypto::blind_rsa::{IssuerKey, blind};
use sotto_protocol::Task;
use sotto_protocol::client::produce_report;
use sotto_protocol::recipe::derive_task;
use sotto_protocol::token::{ReportTokens, TokenTerms, report_id};
use sotto_store::{MemoryStore, TaskStore};
use sotto_testing::world::endorsed;
use sotto_vdaf::Measurement;
use sotto_wire::recipe::{EndorsedKey, Recipe};
use sotto_wire::token::{TOKEN_TYPE, Token, token_input};
use sotto_wire::{
    Encode, Interval, MediaType, Query, Role, TaskConfiguration, TaskParameters, Time,
};

use crate::background::eventually;
use crate::server::harness::{LEADER_TOKEN, Pair, Server, histogram};
use crate::server::public_log::PublicLog;
use crate::server::recipes::{NEVER, Places, start, until_served};
use crate::server::requests::problem;
use crate::server::taskprov;

/// The issuers' keys for one recipe.
struct Issuer {
    leader: IssuerKey,
    helper: IssuerKey,
}

impl Issuer {
    fn new() -> Self {
        Self { leader: IssuerKey::generate().unwrap(), helper: IssuerKey::generate().unwrap() }
    }

    /// A recipe that requires tokens of these keys.
    fn recipe(&self, world: &PublicLog, places: &Places, name: &str) -> Recipe {
        let mut recipe = places.recipe(world, name);
        let text = |key: &IssuerKey| EndorsedKey::key_text(key.token_key().spki());
        let (leader, helper) = (text(&self.leader), text(&self.helper));
        recipe.parties.tokens = endorsed(&world.issuers, &recipe, &leader, Some(&helper));
        recipe
    }

    /// The same recipe, published in the log.
    fn publish(&self, world: &mut PublicLog, places: &Places, name: &str) -> Recipe {
        let recipe = self.recipe(world, places, name);
        let mut entries = places.key_sets(world);
        entries.extend(world.issuer_key_sets());
        entries.push(world.sign(&recipe));
        world.publish(&entries);
        recipe
    }

    /// Both tokens for a new nonce.
    fn tokens(&self, recipe: &Recipe, pair: &mut Pair) -> ReportTokens {
        let mut nonce = [0; 32];
        pair.rng.fill_bytes(&mut nonce);
        let mut token = |role, key: &IssuerKey| {
            let terms = TokenTerms::of(recipe, role).unwrap().unwrap();
            let (challenge_digest, token_key_id) = (*terms.challenge_digest(), *terms.key().id());
            let input = token_input(TOKEN_TYPE, &nonce, &challenge_digest, &token_key_id);
            let (blinded, unblinder) = blind(terms.key(), &input, &mut pair.rng).unwrap();
            let signature = key.blind_sign(&blinded).unwrap();
            let authenticator = unblinder.finalize(terms.key(), &input, &signature).unwrap();
            let token_type = TOKEN_TYPE;
            Token { token_type, nonce, challenge_digest, token_key_id, authenticator }.to_bytes()
        };
        let leader = token(Role::Leader, &self.leader);
        let helper = Some(token(Role::Helper, &self.helper));
        ReportTokens { report_id: report_id(&nonce), leader, helper }
    }
}

/// Uploads a report. The leader acknowledges it, because it does not open it yet.
async fn upload(pair: &mut Pair, index: u32, time: Time, tokens: Option<&ReportTokens>) {
    let (leader, helper) = (&pair.leader_keys.configs()[0], &pair.helper_keys.configs()[0]);
    let measurement = Measurement::Histogram(index);
    let report =
        produce_report(&pair.task, leader, helper, &measurement, time, tokens, &mut pair.rng);
    let response = pair.upload(report.unwrap()).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.bytes().await.unwrap().as_ref(), b"");
}

async fn until_dropped(server: &Server, reason: &str, count: f64) {
    let name = format!(r#"sotto_reports_dropped_total{{reason="{reason}"}}"#);
    eventually(&name, || async { server.metric(&name).await == count }).await;
}

#[tokio::test]
async fn tokens_are_asked_for_and_counted_by_what_is_wrong() {
    let (mut world, places, issuer) = (PublicLog::new().await, Places::new(), Issuer::new());
    let recipe = issuer.publish(&mut world, &places, "tokens");
    let store = Arc::new(MemoryStore::new());
    let configs = || (places.leader_config(&world, NEVER), places.helper_config(&world, NEVER));
    let (leader, helper) = configs();
    let task = derive_task(&recipe).unwrap();
    let mut pair = start(task.clone(), leader, helper, Arc::clone(&store) as _).await;
    until_served(&pair, &recipe).await;

    let now = pair.now();
    let before = Time::new(now.as_units() - 1);
    let mut spent = Vec::new();
    for index in [0, 1, 1, 2, 3, 3] {
        let tokens = issuer.tokens(&recipe, &mut pair);
        upload(&mut pair, index, before, Some(&tokens)).await;
        spent.push(tokens);
    }
    // No token; the leader's token in the helper's share; a token that was spent in another bucket.
    upload(&mut pair, 0, before, None).await;
    let mut swapped = issuer.tokens(&recipe, &mut pair);
    swapped.helper = Some(swapped.leader.clone());
    upload(&mut pair, 0, before, Some(&swapped)).await;
    upload(&mut pair, 0, now, Some(&spent[0])).await;
    until_dropped(&pair.leader, "token_missing", 1.0).await;
    until_dropped(&pair.leader, "report_replayed", 1.0).await;
    until_dropped(&pair.leader, "invalid_message", 1.0).await;
    until_dropped(&pair.helper, "token_wrong_key", 1.0).await;

    let query = Query::TimeInterval(Interval::bucket(before).unwrap());
    assert_eq!(pair.collect(&query).await.result, histogram(&[1, 2, 1, 2]));
    pair.stop().await;

    // The same in the next process, from the store alone: the bucket is collected, and the tokens
    // are still spent.
    let (leader, helper) = configs();
    let mut pair = start(task, leader, helper, store).await;
    upload(&mut pair, 0, now, None).await;
    upload(&mut pair, 0, now, Some(&spent[1])).await;
    until_dropped(&pair.leader, "token_missing", 1.0).await;
    until_dropped(&pair.leader, "report_replayed", 1.0).await;
    pair.stop().await;
}

/// If its task were joined when it is announced, before the log shows the recipe, it would be
/// served without the check of tokens.
#[tokio::test]
async fn the_task_of_a_recipe_is_not_joined_in_band() {
    let (mut world, places, issuer) = (PublicLog::new().await, Places::new(), Issuer::new());
    world.publish(&places.key_sets(&world));
    let recipe = issuer.recipe(&world, &places, "tokens");
    let task = derive_task(&recipe).unwrap();
    let (mut leader, mut helper) =
        (places.leader_config(&world, NEVER), places.helper_config(&world, NEVER));
    let (leader_url, helper_url) = (&recipe.parties.leader.url, &recipe.parties.helper.url);
    leader.server.taskprov = Some(taskprov::config(Role::Leader, leader_url, helper_url));
    helper.server.taskprov = Some(taskprov::config(Role::Helper, leader_url, helper_url));
    for server in [&mut leader.server, &mut helper.server] {
        server.insecure_plain_tasks = true;
    }
    let store = Arc::new(MemoryStore::new());
    let mut pair = start(task.clone(), leader, helper, Arc::clone(&store) as _).await;
    taskprov::with_header(&mut pair);
    let report = pair.report(0);
    let upload = pair.upload(report).await;
    let job = pair
        .http
        .post(pair.helper_resource("aggregation_jobs"))
        .bearer_auth(LEADER_TOKEN)
        .header("content-type", MediaType::AggregationJobInitReq.as_str());
    for refused in [upload, job.send().await.unwrap()] {
        let document = problem(refused).await;
        assert_eq!(document["type"], "urn:ietf:params:ppm:dap:error:invalidTask", "{document}");
    }
    assert!(pair.helper_tasks.task(task.id()).is_none());
    assert!(store.tasks().await.unwrap().is_empty());

    // The recipe is the reason: the same task without one is joined.
    let like = task.configuration();
    let plain = TaskConfiguration::new(TaskParameters {
        task_info: b"in band".to_vec(),
        leader_aggregator_endpoint: like.leader_aggregator_endpoint().clone(),
        helper_aggregator_endpoint: like.helper_aggregator_endpoint().clone(),
        time_precision: like.time_precision(),
        min_batch_size: like.min_batch_size(),
        batch_mode: like.batch_mode(),
        vdaf_type: like.vdaf_type(),
        vdaf_configuration: like.vdaf_configuration().to_vec(),
        extensions: like.extensions().iter().cloned().collect(),
    })
    .unwrap();
    let id = sotto_wire::taskprov::task_id(&plain.to_bytes());
    pair.task = Task::new(id, plain).unwrap();
    taskprov::with_header(&mut pair);
    let report = pair.report(0);
    assert_eq!(pair.upload(report).await.status(), StatusCode::OK);
    assert_eq!(store.tasks().await.unwrap().len(), 1);
    pair.stop().await;
}
