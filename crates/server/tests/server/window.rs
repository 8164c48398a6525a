//! Leader-selected batches and the longest time that a recipe lets one cover.

use reqwest::{Method, StatusCode};
use serde_json::Value;
use sotto_server::ServedTask;
use sotto_wire::{BatchMode, Query, Role, Time};

use crate::background::eventually;
use crate::server::backlog::{end_leader, leader_config, start_leader};
use crate::server::harness::{
    COLLECTOR_TOKEN, LEADER_TOKEN, PRECISION, Pair, Setup, aggregator_task, histogram, token,
};

/// The leader starts again, and may release one unit of time at once.
async fn restart_with_limit(pair: &mut Pair) {
    end_leader(pair, 0).await;
    let mut task = aggregator_task(&pair.task, Role::Leader, &pair.collector);
    task.release.max_window_s = Some(PRECISION);
    let served = ServedTask::leader(task, token(LEADER_TOKEN), token(COLLECTOR_TOKEN)).unwrap();
    let mut config = leader_config();
    config.server.tasks.push(served);
    start_leader(pair, config).await;
}

/// The collection fails permanently, and does not affect the next batch. The batch was filled while
/// there was no limit.
#[tokio::test]
async fn a_batch_that_covers_too_much_time_is_not_released() {
    let mut pair = Setup::new(BatchMode::LeaderSelected).start().await;
    let now = pair.now();
    let before = Time::new(now.as_units() - 1);
    for time in [before, now, now, now, now] {
        let report = pair.report_at(1, time);
        assert_eq!(pair.upload(report).await.status(), StatusCode::OK);
    }
    let aggregated =
        async || pair.leader_store.counters(*pair.task.id()).await.unwrap().aggregated == 5;
    eventually("all are aggregated", aggregated).await;
    restart_with_limit(&mut pair).await;
    let (_, location) = pair.ask(&Query::LeaderSelected).await;
    let location = location.unwrap();
    let state = async || pair.collector_request(Method::GET, &location).await;
    eventually("the collection fails", async || state().await.status().is_client_error()).await;
    let problem: Value = serde_json::from_slice(&state().await.bytes().await.unwrap()).unwrap();
    assert_eq!(problem["type"], "urn:ietf:params:ppm:dap:error:batchInvalid");
    let aggregate_shares = r#"sotto_aggregate_shares_total{outcome="collected"}"#;
    assert_eq!(pair.helper.metric(aggregate_shares).await, 0.0, "the helper was not asked");

    pair.collector_request(Method::DELETE, &location).await;
    for _ in 0..5 {
        let report = pair.report_at(2, now);
        assert_eq!(pair.upload(report).await.status(), StatusCode::OK);
    }
    let collection = pair.collect(&Query::LeaderSelected).await;
    assert_eq!(collection.result, histogram(&[0, 0, 5, 0]));
    pair.stop().await;
}

/// A late report waits for others of its own window, and none is lost.
#[tokio::test]
async fn a_late_report_does_not_hold_up_a_batch() {
    let mut pair = Setup::new(BatchMode::LeaderSelected).start().await;
    restart_with_limit(&mut pair).await;
    let now = pair.now();
    let before = Time::new(now.as_units() - 1);
    let late = [before, now, now, now, now, now].map(|time| (time, u32::from(time == now) + 1));
    let rest = [(before, 1); 4];
    for (reports, expected) in [(&late[..], [0, 0, 5, 0]), (&rest[..], [0, 5, 0, 0])] {
        for &(time, value) in reports {
            let report = pair.report_at(value, time);
            assert_eq!(pair.upload(report).await.status(), StatusCode::OK);
        }
        let (_, location) = pair.ask(&Query::LeaderSelected).await;
        let location = location.unwrap();
        let collection = pair.wait(&location, &Query::LeaderSelected).await;
        assert_eq!(collection.result, histogram(&expected));
        pair.collector_request(Method::DELETE, &location).await;
    }
    pair.stop().await;
}
