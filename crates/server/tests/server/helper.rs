//! What the helper answers to a leader: the same to the same request, and nothing to others.

use reqwest::{Method, Response, StatusCode};
use sotto_protocol::leader::aggregate::{JobInput, LeaderJob, produce_aggregation_job_init_req};
use sotto_store::Committed;
use sotto_wire::{
    AggregationJobResp, BatchMode, BatchSelector, Decode, Interval, MediaType, ReportError, Role,
    Time, VerifyRespKind,
};

use crate::server::harness::{COLLECTOR_TOKEN, LEADER_TOKEN, Pair, Setup, aggregator_task, moment};
use crate::server::requests::problem;

/// A request of the leader about some reports, as the leader would send it.
pub(crate) fn job(pair: &mut Pair, indices: &[u32]) -> LeaderJob {
    let reports: Vec<_> = indices.iter().map(|index| pair.report(*index)).collect();
    job_of(pair, &reports)
}

fn job_of(pair: &Pair, reports: &[Vec<u8>]) -> LeaderJob {
    let reports: Vec<&[u8]> = reports.iter().map(Vec::as_slice).collect();
    let task = aggregator_task(&pair.task, Role::Leader, &pair.collector);
    let input = JobInput { reports: &reports, now: moment(), batch_id: None };
    produce_aggregation_job_init_req(&task, &pair.leader_keys, &input).unwrap()
}

pub(crate) async fn post(pair: &Pair, body: Vec<u8>) -> Response {
    pair.http
        .post(pair.helper_resource("aggregation_jobs"))
        .bearer_auth(LEADER_TOKEN)
        .header("content-type", MediaType::AggregationJobInitReq.as_str())
        .body(body)
        .send()
        .await
        .unwrap()
}

async fn replays_get_identical_bytes(setup: Setup) {
    let mut pair = setup.start().await;
    let request = job(&mut pair, &[0, 1, 2]).request;
    let first = post(&pair, request.clone()).await;
    assert_eq!(first.status(), StatusCode::CREATED);
    assert_eq!(first.headers()["content-type"], MediaType::AggregationJobResp.as_str());
    let location = first.headers()["location"].clone();
    assert!(location.to_str().unwrap().ends_with("?step=0"));
    let job_url = first.url().join(location.to_str().unwrap()).unwrap();
    let answer = first.bytes().await.unwrap();
    for _ in 0..3 {
        let again = post(&pair, request.clone()).await;
        assert_eq!(again.headers()["location"], location);
        assert_eq!(again.bytes().await.unwrap(), answer);
    }
    // Many copies at once of a request that is new.
    let request = job(&mut pair, &[3, 3, 3, 3]).request;
    let attempts: Vec<_> = (0..8)
        .map(|_| {
            let send = pair
                .http
                .post(pair.helper_resource("aggregation_jobs"))
                .bearer_auth(LEADER_TOKEN)
                .header("content-type", MediaType::AggregationJobInitReq.as_str())
                .body(request.clone())
                .send();
            tokio::spawn(async move { send.await.unwrap().bytes().await.unwrap() })
        })
        .collect();
    let mut answers = Vec::new();
    for attempt in attempts {
        answers.push(attempt.await.unwrap());
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    // Every verdict is "continue": no copy was taken for a replay of another.
    assert_eq!(answers[0][16], 0);
    assert_eq!(pair.helper.metric("sotto_reports_aggregated_total").await, 7.0);

    // The stored answer can be requested and deleted; the reports stay counted.
    let get = |url: String| pair.http.get(url).bearer_auth(LEADER_TOKEN).send();
    let polled = get(job_url.to_string()).await.unwrap();
    assert_eq!(polled.status(), StatusCode::OK);
    assert_eq!(polled.bytes().await.unwrap(), answer);
    for (query, token) in [("step=1", "stepMismatch"), ("", "invalidMessage")] {
        let mut url = job_url.clone();
        url.set_query(Some(query));
        let document = problem(get(url.to_string()).await.unwrap()).await;
        assert_eq!(document["type"], format!("urn:ietf:params:ppm:dap:error:{token}"));
    }
    let deletion = pair.http.request(Method::DELETE, job_url.clone()).bearer_auth(LEADER_TOKEN);
    assert_eq!(deletion.send().await.unwrap().status(), StatusCode::NO_CONTENT);
    let gone = problem(get(job_url.to_string()).await.unwrap()).await;
    assert_eq!(gone["type"], "urn:ietf:params:ppm:dap:error:unrecognizedAggregationJob");
    pair.stop().await;
}

#[tokio::test]
async fn replays_get_identical_bytes_in_memory() {
    replays_get_identical_bytes(Setup::new(BatchMode::TimeInterval)).await;
}

#[tokio::test]
async fn replays_get_identical_bytes_on_disk() {
    replays_get_identical_bytes(Setup::new(BatchMode::TimeInterval).on_disk()).await;
}

#[tokio::test]
async fn a_report_in_two_jobs_counts_once() {
    let mut pair = Setup::new(BatchMode::TimeInterval).start().await;
    let report = pair.report(1);
    let others = [pair.report(0), pair.report(2)];
    let task = aggregator_task(&pair.task, Role::Leader, &pair.collector);
    let mut verdicts = Vec::new();
    for other in &others {
        let reports: [&[u8]; 2] = [&report, other];
        let input = JobInput { reports: &reports, now: moment(), batch_id: None };
        let job = produce_aggregation_job_init_req(&task, &pair.leader_keys, &input).unwrap();
        let answer = post(&pair, job.request).await.bytes().await.unwrap();
        verdicts.push((answer[16], answer[17]));
    }
    assert_eq!(verdicts[0].0, 0, "continue");
    assert_eq!(verdicts[1], (2, 2), "reject, report_replayed");
    assert_eq!(pair.helper.metric("sotto_reports_aggregated_total").await, 3.0);
    pair.stop().await;
}

/// The helper's error for each report of a job; none if the report is counted.
async fn verdicts(pair: &Pair, reports: &[&Vec<u8>]) -> Vec<Option<ReportError>> {
    let reports: Vec<Vec<u8>> = reports.iter().copied().cloned().collect();
    let response = post(pair, job_of(pair, &reports).request).await;
    assert_eq!(response.status(), StatusCode::CREATED);
    let body = response.bytes().await.unwrap();
    let answers = AggregationJobResp::from_bytes(&body).unwrap().verify_resps;
    let verdict = |kind: &VerifyRespKind<'_>| match kind {
        VerifyRespKind::Reject(error) => Some(*error),
        _ => None,
    };
    answers.iter().map(|answer| verdict(&answer.kind)).collect()
}

/// The store is asked what is spent only after it has refused a commit: the answer is the same.
async fn spent_reports_are_refused_alone(setup: Setup) {
    let mut pair = setup.start().await;
    let jobs = async |pair: &Pair| {
        let mut counts = Vec::new();
        for outcome in ["committed", "conflicted", "replayed"] {
            let name = format!(r#"sotto_aggregation_jobs_total{{outcome="{outcome}"}}"#);
            counts.push(pair.helper.metric(&name).await);
        }
        counts
    };
    let now = pair.now();
    let before = Time::new(now.as_units() - 1);
    let old: Vec<_> = (0..3).map(|index| pair.report_at(index, before)).collect();
    let new: Vec<_> = (0..4).map(|index| pair.report_at(index, now)).collect();
    assert_eq!(verdicts(&pair, &[&old[0], &old[1], &new[0]]).await, [None; 3]);
    assert_eq!(jobs(&pair).await, [1.0, 0.0, 0.0], "what is new is not looked up");

    let replayed = Some(ReportError::ReportReplayed);
    let mixed = [&old[2], &old[1], &new[1], &new[0]];
    assert_eq!(verdicts(&pair, &mixed).await, [None, replayed, None, replayed]);
    assert_eq!(jobs(&pair).await, [2.0, 1.0, 0.0]);
    assert_eq!(verdicts(&pair, &[&old[0]]).await, [replayed], "and nothing is left");

    // The older bucket is collected: its reports are refused, whether they are new or not.
    let selector = BatchSelector::TimeInterval(Interval::bucket(before).unwrap());
    let (id, store) = (*pair.task.id(), &pair.helper_store);
    let held = store.batch(id, selector).await.unwrap().aggregate.unwrap();
    let expected = (held.count, *held.checksum.as_bytes());
    assert_eq!(held.count, 3);
    let collected = store.collect_batch(id, selector, expected, [1; 32], Vec::new().into());
    assert_eq!(collected.await.unwrap(), Committed::Done);
    let late = pair.report_at(3, before);
    let mixed = [&late, &new[2], &old[0], &new[1], &new[3]];
    let collected = Some(ReportError::BatchCollected);
    assert_eq!(verdicts(&pair, &mixed).await, [collected, None, collected, replayed, None]);

    assert_eq!(jobs(&pair).await, [4.0, 3.0, 0.0]);
    assert_eq!(pair.helper.metric("sotto_reports_aggregated_total").await, 7.0);
    for (reason, count) in [("report_replayed", 4.0), ("batch_collected", 2.0)] {
        let name = format!(r#"sotto_reports_dropped_total{{reason="{reason}"}}"#);
        assert_eq!(pair.helper.metric(&name).await, count, "{reason}");
    }
    pair.stop().await;
}

#[tokio::test]
async fn spent_reports_are_refused_alone_in_memory() {
    spent_reports_are_refused_alone(Setup::new(BatchMode::TimeInterval)).await;
}

#[tokio::test]
async fn spent_reports_are_refused_alone_on_disk() {
    spent_reports_are_refused_alone(Setup::new(BatchMode::TimeInterval).on_disk()).await;
}

#[tokio::test]
async fn strangers_change_nothing() {
    let mut pair = Setup::new(BatchMode::TimeInterval).start().await;
    let request = job(&mut pair, &[0, 1]).request;
    for resource in ["aggregation_jobs", "aggregate_shares"] {
        for (token, status) in [(None, 401), (Some(COLLECTOR_TOKEN), 403), (Some(""), 403)] {
            let mut attempt = pair.http.post(pair.helper_resource(resource)).body(request.clone());
            if let Some(token) = token {
                attempt = attempt.header("dap-auth-token", token);
            }
            let response = attempt.send().await.unwrap();
            assert_eq!(response.status(), status, "{resource} {token:?}");
            assert!(response.headers().get("location").is_none());
            problem(response).await;
        }
    }
    assert_eq!(pair.helper.metric("sotto_reports_aggregated_total").await, 0.0);
    // The same request from the leader is new, not a replay.
    assert_eq!(post(&pair, request).await.status(), StatusCode::CREATED);
    assert_eq!(
        pair.helper.metric(r#"sotto_aggregation_jobs_total{outcome="replayed"}"#).await,
        0.0
    );
    pair.stop().await;
}

#[tokio::test]
async fn wrong_requests_are_refused_before_anything_is_counted() {
    let mut setup = Setup::new(BatchMode::TimeInterval);
    setup.helper.server.bodies.max_aggregation_job = 50_000;
    let mut pair = setup.start().await;
    let request = job(&mut pair, &[0, 1]).request;
    let response = pair
        .http
        .post(pair.helper_resource("aggregation_jobs"))
        .bearer_auth(LEADER_TOKEN)
        .header("content-type", MediaType::AggregateShareReq.as_str())
        .body(request.clone())
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(post(&pair, vec![0; 50_001]).await.status(), StatusCode::PAYLOAD_TOO_LARGE);

    let cut = request[..request.len() - 1].to_vec();
    let document = problem(post(&pair, cut).await).await;
    assert_eq!(document["type"], "urn:ietf:params:ppm:dap:error:invalidMessage");
    // An unknown extension instead of none.
    let mut extended = request[..5].to_vec();
    extended.extend([0, 4, 0xff, 0, 0, 0]);
    extended.extend(&request[7..]);
    let document = problem(post(&pair, extended).await).await;
    assert_eq!(document["type"], "urn:ietf:params:ppm:dap:error:unsupportedExtension");

    let created = post(&pair, request).await;
    let location = created.headers()["location"].to_str().unwrap();
    let url = created.url().join(location).unwrap();
    for (url, body, token) in [
        (url.clone(), vec![0, 1], "stepMismatch"),
        (url.clone(), vec![0, 0], "invalidMessage"),
        (
            url.join("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").unwrap(),
            vec![0, 1],
            "unrecognizedAggregationJob",
        ),
    ] {
        let response = pair
            .http
            .post(url)
            .bearer_auth(LEADER_TOKEN)
            .header("content-type", MediaType::AggregationJobContinueReq.as_str())
            .body(body)
            .send()
            .await
            .unwrap();
        let document = problem(response).await;
        assert_eq!(document["type"], format!("urn:ietf:params:ppm:dap:error:{token}"));
    }
    assert_eq!(pair.helper.metric("sotto_reports_aggregated_total").await, 2.0);
    pair.stop().await;
}
