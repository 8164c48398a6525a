//! What the leader answers to requests that are wrong, or merely unusual.

use reqwest::{Method, Response, StatusCode};
use serde_json::Value;
use sotto_protocol::client::{consume_hpke_config_list, consume_upload_errors};
use sotto_wire::{BatchMode, MediaType, ReportError, TaskId, Time};

use crate::background::eventually;
use crate::server::harness::{COLLECTOR_TOKEN, LEADER_TOKEN, Pair, Setup};

const DAP: &str = "urn:ietf:params:ppm:dap:error:";

pub(crate) async fn problem(response: Response) -> Value {
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let status = response.status().as_u16();
    let document: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
    assert_eq!(document["status"], status);
    document
}

async fn start() -> Pair {
    Setup::new(BatchMode::TimeInterval).start().await
}

async fn post_upload(pair: &Pair, url: &str, media_type: Option<&str>, body: Vec<u8>) -> Response {
    let mut request = pair.http.post(url).body(body);
    if let Some(media_type) = media_type {
        request = request.header("content-type", media_type);
    }
    request.send().await.unwrap()
}

#[tokio::test]
async fn keys_are_served_with_a_lifetime() {
    let pair = start().await;
    for (url, keys) in [
        (pair.leader.url.clone(), &pair.leader_keys),
        (format!("{}/", pair.helper.url), &pair.helper_keys),
    ] {
        let response = pair.http.get(format!("{url}hpke_config")).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], MediaType::HpkeConfigList.as_str());
        assert_eq!(response.headers()["cache-control"], "max-age=86400");
        let config = consume_hpke_config_list(&response.bytes().await.unwrap()).unwrap();
        assert_eq!(config, keys.configs()[0]);
    }
    pair.stop().await;
}

#[tokio::test]
async fn media_types_are_checked_and_named() {
    let mut pair = start().await;
    let report = pair.report(1);
    let url = pair.leader_resource("reports");
    for wrong in [None, Some("application/octet-stream"), Some("application/dap-report")] {
        let response = post_upload(&pair, &url, wrong, report.clone()).await;
        assert_eq!(response.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{wrong:?}");
        let document = problem(response).await;
        assert!(document["detail"].as_str().unwrap().contains("message=upload-req"), "{document}");
    }
    // Another spelling of the right one.
    let spelled = "Application/PPM-DAP; version=18; message=\"upload-req\"";
    let response = post_upload(&pair, &url, Some(spelled), report).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(pair.leader.metric("sotto_reports_accepted_total").await, 1.0);
    pair.stop().await;
}

#[tokio::test]
async fn tasks_and_routes_that_do_not_exist() {
    let mut pair = start().await;
    let other = TaskId::new([1; 32]);
    let url = format!("{}tasks/{other}/reports", pair.leader.url);
    let report = pair.report(0);
    let response = post_upload(&pair, &url, Some(MediaType::UploadReq.as_str()), report).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    let document = problem(response).await;
    assert_eq!(document["type"], format!("{DAP}unrecognizedTask"));
    assert_eq!(document["taskid"], other.to_string());

    let url = format!("{}tasks/not-an-id/reports", pair.leader.url);
    let response = post_upload(&pair, &url, Some(MediaType::UploadReq.as_str()), Vec::new()).await;
    assert_eq!(problem(response).await["type"], format!("{DAP}invalidMessage"));

    for (method, path, status) in [
        (Method::GET, "nowhere", StatusCode::NOT_FOUND),
        (Method::GET, "../../etc", StatusCode::NOT_FOUND),
        (Method::PUT, "reports", StatusCode::METHOD_NOT_ALLOWED),
    ] {
        let url = pair.leader_resource(path);
        let response = pair.http.request(method, url).send().await.unwrap();
        assert_eq!(response.status(), status, "{path}");
        assert_eq!(problem(response).await["type"], "about:blank");
    }
    pair.stop().await;
}

#[tokio::test]
async fn bodies_that_are_too_long_or_malformed_or_empty() {
    let mut setup = Setup::new(BatchMode::TimeInterval);
    setup.leader.server.bodies.max_upload = 10_000;
    let mut pair = setup.start().await;
    let response = pair.upload(vec![0; 10_001]).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert!(problem(response).await["detail"].as_str().unwrap().contains("10000"));

    let mut report = pair.report(1);
    report.pop();
    let response = pair.upload(report).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let document = problem(response).await;
    assert_eq!(document["type"], format!("{DAP}invalidMessage"));
    assert_eq!(document["taskid"], pair.task.id().to_string());

    let response = pair.upload(Vec::new()).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert!(response.bytes().await.unwrap().is_empty());
    assert_eq!(pair.leader.metric("sotto_reports_accepted_total").await, 0.0);
    pair.stop().await;
}

#[tokio::test]
async fn only_failures_are_listed_in_order() {
    let mut pair = start().await;
    let far_ahead = Time::new(pair.now().as_units() + 10);
    let (early, good) = (pair.report_at(0, far_ahead), pair.report(1));
    let id = |report: &[u8]| -> [u8; 16] { report[..16].try_into().unwrap() };
    let body = [&good[..], &early, &good].concat();
    let response = pair.upload(body).await;
    assert_eq!(response.status(), StatusCode::OK);
    let errors = consume_upload_errors(&response.bytes().await.unwrap()).unwrap();
    let errors: Vec<_> = errors.iter().map(|(id, error)| (*id.as_bytes(), *error)).collect();
    assert_eq!(
        errors,
        [(id(&early), ReportError::ReportTooEarly), (id(&good), ReportError::ReportReplayed)]
    );
    pair.stop().await;
}

#[tokio::test]
async fn a_report_uploaded_twice_counts_once() {
    let mut pair = start().await;
    let report = pair.report(2);
    for _ in 0..3 {
        assert_eq!(pair.upload(report.clone()).await.status(), StatusCode::OK);
    }
    pair.upload_all([0, 1, 1, 1]).await;
    let everything = pair.everything();
    let collection = pair.collect(&everything).await;
    assert_eq!(collection.result, crate::server::harness::histogram(&[1, 3, 1, 0]));
    let dropped = r#"sotto_reports_dropped_total{reason="report_replayed"}"#;
    assert_eq!(pair.leader.metric(dropped).await, 2.0);
    pair.stop().await;
}

#[tokio::test]
async fn strangers_learn_and_change_nothing() {
    let mut pair = start().await;
    pair.upload_all([0, 1, 2, 3, 0]).await;
    let request = pair.collection_request(&pair.everything());
    let url = pair.leader_resource("collection_jobs");
    let attempt = |name: &'static str, value: String| {
        pair.http
            .post(&url)
            .header(name, value)
            .header("content-type", MediaType::CollectionJobReq.as_str())
            .body(request.clone())
            .send()
    };
    for (name, value, status) in [
        ("accept", "*/*".to_owned(), 401),
        ("authorization", "Basic Zm9vOmJhcg==".to_owned(), 401),
        ("authorization", format!("Bearer {LEADER_TOKEN}"), 403),
        ("authorization", format!("Bearer {}", &COLLECTOR_TOKEN[1..]), 403),
        ("dap-auth-token", "guess".to_owned(), 403),
    ] {
        let response = attempt(name, value).await.unwrap();
        assert_eq!(response.status(), status);
        assert!(response.headers().get("location").is_none());
        let document = problem(response).await;
        assert_eq!(document["type"], "about:blank");
        assert!(!document.to_string().contains("token-"), "{document}");
    }
    assert_eq!(pair.leader_store.load().await.unwrap().collections, 0);
    // The older header works like a bearer token.
    let response = attempt("dap-auth-token", COLLECTOR_TOKEN.to_owned()).await.unwrap();
    assert_eq!(response.status(), StatusCode::CREATED);
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    let job = response.url().join(&location).unwrap();
    for method in [Method::GET, Method::DELETE] {
        let refused = pair.http.request(method, job.clone()).send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    }
    pair.stop().await;
}

#[tokio::test]
async fn a_full_backlog_turns_uploads_away() {
    let mut setup = Setup::new(BatchMode::TimeInterval);
    // Room for a handful of reports; no jobs are formed for an hour.
    let store = sotto_store::MemoryStore::new().with_max_backlog_bytes(4_000);
    setup.leader_store = std::sync::Arc::new(store);
    setup.leader.aggregation.job_delay = std::time::Duration::from_secs(3600);
    let mut pair = setup.start().await;
    let mut accepted = 0;
    let refused = loop {
        let report = pair.report(0);
        let response = pair.upload(report).await;
        if response.status() != StatusCode::OK {
            break response;
        }
        accepted += 1;
        assert!(accepted < 100, "never full");
    };
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    problem(refused).await;
    assert_eq!(pair.leader.metric("sotto_reports_accepted_total").await, f64::from(accepted));
    assert_eq!(pair.leader.metric("sotto_uploads_throttled_total").await, 1.0);
    pair.stop().await;
}

#[tokio::test]
async fn a_full_disk_is_not_ready() {
    let mut setup = Setup::new(BatchMode::TimeInterval);
    setup.leader.aggregation.max_segment_bytes = 1;
    setup.leader.aggregation.job_delay = std::time::Duration::from_secs(3600);
    let mut pair = setup.start().await;
    pair.upload_all([1]).await;
    let leader = &pair.leader;
    eventually("the leader notices", || async {
        leader.readyz().await.0 == StatusCode::SERVICE_UNAVAILABLE
    })
    .await;
    assert_eq!(leader.readyz().await.1["reasons"][0]["name"], "backlog_full");
    let report = pair.report(1);
    assert_eq!(pair.upload(report).await.status(), StatusCode::TOO_MANY_REQUESTS);
    pair.stop().await;
}
