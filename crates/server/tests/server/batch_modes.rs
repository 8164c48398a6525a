//! From uploads to results, in both batch modes, in memory and on disk.

use reqwest::{Method, StatusCode};
use sotto_wire::{BatchMode, Query, Time};

use crate::background::eventually;
use crate::server::harness::{Pair, Setup, histogram};

async fn time_interval(pair: &mut Pair) {
    pair.upload_all([0, 1, 1, 3, 3, 3]).await;
    // Several reports in one request, over several buckets of time.
    let earlier = Time::new(pair.now().as_units() - 1);
    let mut body = pair.report_at(2, earlier);
    body.extend(pair.report(2));
    assert_eq!(pair.upload(body).await.status(), StatusCode::OK);

    let everything = pair.everything();
    let collection = pair.collect(&everything).await;
    assert_eq!(collection.report_count, 8);
    assert_eq!(collection.result, histogram(&[1, 2, 2, 3]));
    assert_eq!(collection.interval.start(), earlier);

    // A collected batch is closed.
    let late = pair.report(0);
    let id: [u8; 16] = late[..16].try_into().unwrap();
    let response = pair.upload(late).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/ppm-dap;message=upload-errors");
    let errors = response.bytes().await.unwrap();
    assert_eq!(errors.as_ref(), [&id[..], &[1]].concat(), "batch_collected");
    assert_eq!(pair.leader.metric("sotto_reports_accepted_total").await, 8.0);
    assert_eq!(pair.leader.metric("sotto_reports_aggregated_total").await, 8.0);
    assert_eq!(pair.helper.metric("sotto_reports_aggregated_total").await, 8.0);
    let rejected = r#"sotto_reports_rejected_total{reason="batch_collected"}"#;
    assert_eq!(pair.leader.metric(rejected).await, 1.0);
}

async fn leader_selected(pair: &mut Pair) {
    let next = Query::LeaderSelected;
    pair.upload_all([0, 1, 2, 3, 3]).await;
    let (status, first) = pair.ask(&next).await;
    assert_eq!(status, StatusCode::CREATED);
    let first = first.unwrap();
    let collection = pair.wait(&first, &next).await;
    assert_eq!(collection.result, histogram(&[1, 1, 1, 2]));

    // Without a deletion, the same request is the same job, as a retry needs.
    pair.upload_all([0, 0, 0, 0, 0, 1]).await;
    assert_eq!(pair.ask(&next).await.1.unwrap(), first);
    // The next batch could be released without the sixth report.
    let aggregated = "sotto_reports_aggregated_total";
    eventually("all are aggregated", async || pair.leader.metric(aggregated).await == 11.0).await;

    let deleted = pair.collector_request(Method::DELETE, &first).await;
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    let second = pair.ask(&next).await.1.unwrap();
    assert_ne!(first, second);
    // A late retry of a deletion must not affect the next job.
    let deleted = pair.collector_request(Method::DELETE, &first).await;
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    let collection = pair.wait(&second, &next).await;
    assert_eq!(collection.report_count, 6);
    assert_eq!(collection.result, histogram(&[5, 1, 0, 0]));
    let gone = pair.collector_request(Method::GET, &first).await;
    assert_eq!(gone.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn time_interval_in_memory() {
    let mut pair = Setup::new(BatchMode::TimeInterval).start().await;
    time_interval(&mut pair).await;
    pair.stop().await;
}

#[tokio::test]
async fn time_interval_on_disk() {
    let mut pair = Setup::new(BatchMode::TimeInterval).on_disk().start().await;
    time_interval(&mut pair).await;
    pair.stop().await;
}

#[tokio::test]
async fn leader_selected_in_memory() {
    let mut pair = Setup::new(BatchMode::LeaderSelected).start().await;
    leader_selected(&mut pair).await;
    pair.stop().await;
}

#[tokio::test]
async fn leader_selected_on_disk() {
    let mut pair = Setup::new(BatchMode::LeaderSelected).on_disk().start().await;
    leader_selected(&mut pair).await;
    pair.stop().await;
}

#[tokio::test]
async fn many_small_jobs_under_a_base_path() {
    let mut setup = Setup::new(BatchMode::TimeInterval);
    setup.leader.server.http.base_path = "/dap/leader".into();
    setup.helper.server.http.base_path = "/dap/helper".into();
    setup.helper_url = Box::new(|address| format!("http://{address}/dap/helper"));
    setup.leader.aggregation.max_job_reports = 3;
    setup.leader.aggregation.max_open_jobs = 2;
    let mut pair = setup.start().await;
    pair.upload_all((0..40).map(|index| index % 4)).await;
    let everything = pair.everything();
    let collection = pair.collect(&everything).await;
    assert_eq!(collection.result, histogram(&[10, 10, 10, 10]));
    assert!(
        pair.leader.metric(r#"sotto_aggregation_jobs_total{outcome="committed"}"#).await >= 13.0
    );
    pair.stop().await;
}
