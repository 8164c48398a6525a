//! Server noise: nobody gets two draws for one batch, whatever is repeated. A share is sealed with
//! fresh randomness each time it is made, so equal bytes are one draw.

use bytes::Bytes;
use reqwest::{Method, StatusCode};
use sotto_protocol::leader::aggregate::consume_aggregation_job_resp;
use sotto_protocol::leader::collect::produce_aggregate_share_req;
use sotto_protocol::recipe::derive_task;
use sotto_wire::recipe::Noise;
use sotto_wire::{
    AggregateShareReq, BatchMode, BatchSelector, CollectionJobReq, Decode, Duration, Encode,
    Interval, MediaType, Query, Role, Time,
};

use crate::server::harness::{LEADER_TOKEN, Pair, Setup, aggregator_task};
use crate::server::helper::{job, post};
use crate::server::public_log::PublicLog;
use crate::server::recipes::{NEVER, Places, answer, deliver, interval, until_served};
use crate::server::requests::problem;

/// Wide enough that two draws for four buckets are practically never equal.
const SIGMA_MICRO: u64 = 1_000_000_000;
const OVERLAP: &str = "urn:ietf:params:ppm:dap:error:batchOverlap";

fn setups(mode: BatchMode) -> [Setup; 2] {
    let noisy = || Setup { noise: Some(SIGMA_MICRO), ..Setup::new(mode) };
    [noisy(), noisy().on_disk()]
}

fn share_request(pair: &Pair, body: &AggregateShareReq) -> reqwest::RequestBuilder {
    pair.http
        .post(pair.helper_resource("aggregate_shares"))
        .bearer_auth(LEADER_TOKEN)
        .header("content-type", MediaType::AggregateShareReq.as_str())
        .body(body.to_bytes())
}

/// Asks the helper as a leader may that wants a second draw.
#[tokio::test]
async fn the_helper_draws_once() {
    for setup in setups(BatchMode::TimeInterval) {
        let mut pair = setup.start().await;
        let job = job(&mut pair, &[0, 1, 2, 3, 3]);
        let answer = post(&pair, job.request.clone()).await.bytes().await.unwrap();
        let outcome = consume_aggregation_job_resp(job, &answer).unwrap();
        let mut batch = outcome.buckets.into_values();
        let mut aggregate = batch.next().unwrap();
        batch.for_each(|other| aggregate.merge(&other).unwrap());
        let Query::TimeInterval(interval) = pair.everything() else { unreachable!() };
        let request = |queried: Interval, selected: Interval| {
            let task = aggregator_task(&pair.task, Role::Leader, &pair.collector);
            let collection = CollectionJobReq::new(Query::TimeInterval(queried)).to_bytes();
            let selector = BatchSelector::TimeInterval(selected);
            let body = produce_aggregate_share_req(&task, &collection, &selector, &aggregate);
            AggregateShareReq::from_bytes(&body.unwrap()).unwrap()
        };

        // Many copies at once.
        let body = request(interval, interval);
        let attempts: Vec<_> = (0..8)
            .map(|_| {
                let send = share_request(&pair, &body).send();
                tokio::spawn(async move {
                    let response = send.await.unwrap();
                    assert_eq!(response.status(), StatusCode::CREATED);
                    let location = response.headers()["location"].to_str().unwrap().to_owned();
                    let location = response.url().join(&location).unwrap();
                    (location, response.bytes().await.unwrap())
                })
            })
            .collect();
        let mut answers = Vec::new();
        for attempt in attempts {
            answers.push(attempt.await.unwrap());
        }
        assert!(answers.iter().all(|answer| *answer == answers[0]));
        let (location, share) = &answers[0];
        let polled = pair.http.get(location.clone()).bearer_auth(LEADER_TOKEN).send();
        assert_eq!(polled.await.unwrap().bytes().await.unwrap(), share);

        // The same batch by other names, and parts of it with the same reports.
        let start = interval.start().as_units();
        let longer = Interval::new(Time::new(start - 1), Duration::new(6)).unwrap();
        let shorter = Interval::new(Time::new(start + 1), Duration::new(3)).unwrap();
        for (queried, selected) in [(longer, interval), (longer, longer), (interval, shorter)] {
            let refused = share_request(&pair, &request(queried, selected)).send().await.unwrap();
            assert_eq!(problem(refused).await["type"], OVERLAP, "{queried:?} {selected:?}");
        }
        // The same request, once its stored answer is gone.
        let deletion = pair.http.request(Method::DELETE, location.clone());
        let deleted = deletion.bearer_auth(LEADER_TOKEN).send().await.unwrap();
        assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
        let refused = share_request(&pair, &body).send().await.unwrap();
        assert_eq!(problem(refused).await["type"], OVERLAP);
        pair.stop().await;
    }
}

/// The bytes of a finished job, as the collector gets them.
async fn result(pair: &Pair, location: &str, query: &Query) -> Bytes {
    pair.wait(location, query).await;
    pair.collector_request(Method::GET, location).await.bytes().await.unwrap()
}

/// Asks the leader as a collector may that wants a second draw.
#[tokio::test]
async fn the_leader_draws_once() {
    for mode in [BatchMode::TimeInterval, BatchMode::LeaderSelected] {
        for setup in setups(mode) {
            let mut pair = setup.start().await;
            pair.upload_all([0, 1, 2, 3, 0]).await;
            let query = match mode {
                BatchMode::TimeInterval => pair.everything(),
                BatchMode::LeaderSelected => Query::LeaderSelected,
            };
            let location = pair.ask(&query).await.1.unwrap();
            let first = result(&pair, &location, &query).await;
            for _ in 0..3 {
                let again = pair.ask(&query).await.1.unwrap();
                assert_eq!(again, location);
                assert_eq!(result(&pair, &again, &query).await, first);
            }
            // The noise is there, and it is signed: four buckets without it are 2, 1, 1, 1.
            let collection = pair.wait(&location, &query).await;
            assert_eq!(collection.report_count, 5);
            let far = |sum: &i128| sum.abs() > 10;
            assert!(collection.result.as_slice().iter().any(far), "{:?}", collection.result);

            let deleted = pair.collector_request(Method::DELETE, &location).await;
            assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
            let (status, next) = pair.ask(&query).await;
            match mode {
                BatchMode::TimeInterval => assert_eq!(status, StatusCode::BAD_REQUEST),
                // The next batch, which has no reports yet.
                BatchMode::LeaderSelected => {
                    assert_ne!(next.as_ref(), Some(&location));
                    let waiting = pair.collector_request(Method::GET, &next.unwrap()).await;
                    assert_eq!(waiting.status(), StatusCode::ACCEPTED);
                }
            }
            pair.stop().await;
        }
    }
}

/// From the log to the result: both aggregators join a recipe with noise, and both add it.
#[tokio::test]
async fn a_recipe_with_noise_is_served_with_it() {
    let (mut world, places) = (PublicLog::new().await, Places::new());
    let mut recipe = places.recipe(&world, "noisy");
    recipe.noise = Some(Noise::ServerGaussian { sigma_micro: SIGMA_MICRO });
    let mut entries = places.key_sets(&world);
    entries.push(world.sign(&recipe));
    world.publish(&entries);
    let task = derive_task(&recipe).unwrap();
    let pair = places.start(&world, task.clone(), NEVER).await;
    until_served(&pair, &recipe).await;
    for tasks in [&pair.leader_tasks, &pair.helper_tasks] {
        let served = tasks.task(task.id()).unwrap();
        assert_eq!(served.aggregator().task.noise(), task.noise());
    }
    for bucket in [0, 1, 1, 2, 3] {
        let response = deliver(&pair, &answer(&world, bucket)[0]).await;
        assert_eq!(response.status(), StatusCode::OK);
    }
    let collection = pair.collect(&Query::TimeInterval(interval(&pair, 4))).await;
    assert_eq!(collection.report_count, 5, "the count is exact");
    let sums = collection.result.as_slice();
    // Noise of four buckets within ten of 0 has a probability of about 1e-9; ten deviations.
    assert!(sums.iter().any(|sum| sum.abs() > 10), "{sums:?}");
    assert!(sums.iter().all(|sum| sum.abs() < 15_000), "{sums:?}");
    pair.stop().await;
}
