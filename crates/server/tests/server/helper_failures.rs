//! Helpers that are down, lose answers, refuse, or are slow.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use reqwest::{Client, StatusCode};
use sotto_protocol::{RequestKind, request_digest};
use sotto_server::{Helper, HelperConfig, ServedTask};
use sotto_store::{MemoryStore, Turn};
use sotto_wire::{
    AggregationJobInitReq, AggregationJobResp, BatchMode, Decode, Encode, Interval, MediaType,
    Query, ReportError, Role, TaskConfiguration, TaskId, TaskParameters, Time, Url, VerifyResp,
    VerifyRespKind,
};
use tokio::net::TcpListener;

use crate::background::{LOOPBACK, client, eventually};
use crate::server::harness::{
    LEADER_TOKEN, Pair, Server, Setup, aggregator_task, histogram, keypair, served, token,
};

/// What the proxy does with a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fate {
    /// Forwards it and returns the answer.
    Pass,
    /// Forwards it and breaks off in the middle of the answer.
    LoseAnswer,
    /// Forwards it and answers with an error.
    BadGateway,
    /// Forwards it, says "not ready" and serves the answer to polls.
    Later,
    /// Does not forward it: the helper's clock is behind.
    TooEarly,
    /// Does not forward it.
    Refuse(&'static str),
    /// Does not answer at all.
    Hang,
}

/// A proxy between leader and helper. Each POST uses up one fate, in order; after that, all pass.
#[derive(Clone)]
pub(crate) struct Proxy {
    helper: Arc<Mutex<Option<SocketAddr>>>,
    fates: Arc<Mutex<VecDeque<Fate>>>,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
    refuse_polls: Arc<AtomicBool>,
    http: Client,
}

impl Proxy {
    async fn start(fates: &[Fate]) -> (Self, SocketAddr) {
        let proxy = Self {
            helper: Arc::default(),
            fates: Arc::new(Mutex::new(fates.iter().copied().collect())),
            seen: Arc::default(),
            refuse_polls: Arc::default(),
            http: client(None),
        };
        let listener = TcpListener::bind(LOOPBACK).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(forward).with_state(proxy.clone());
        tokio::spawn(async { axum::serve(listener, router).await });
        (proxy, address)
    }

    fn fates_left(&self) -> usize {
        self.fates.lock().unwrap().len()
    }
}

async fn forward(State(proxy): State<Proxy>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let post = parts.method == "POST";
    let fate = if post { proxy.fates.lock().unwrap().pop_front() } else { None };
    let fate = fate.unwrap_or(Fate::Pass);
    if post {
        proxy.seen.lock().unwrap().push(body.to_vec());
    }
    let refused_poll = parts.method == "GET" && proxy.refuse_polls.load(Ordering::SeqCst);
    let fate = if refused_poll { Fate::Refuse(INVALID) } else { fate };
    if fate == Fate::TooEarly {
        return too_early(&body);
    }
    if let Fate::Refuse(problem) = fate {
        let document = format!(r#"{{"type":"{problem}","status":400}}"#);
        return Response::builder().status(400).body(Body::from(document)).unwrap();
    }
    if fate == Fate::Hang {
        std::future::pending::<()>().await;
    }
    let Some(helper) = *proxy.helper.lock().unwrap() else {
        return Response::builder().status(503).body(Body::empty()).unwrap();
    };
    let url = format!("http://{helper}{}", parts.uri);
    let forwarded = proxy.http.request(parts.method, url).headers(parts.headers).body(body);
    let Ok(answer) = forwarded.send().await else {
        return Response::builder().status(502).body(Body::empty()).unwrap();
    };
    let mut response = Response::builder().status(answer.status());
    for name in ["content-type", "location", "retry-after"] {
        if let Some(value) = answer.headers().get(name) {
            response = response.header(name, value);
        }
    }
    match fate {
        Fate::Pass => response.body(Body::from(answer.bytes().await.unwrap())).unwrap(),
        Fate::BadGateway => Response::builder().status(502).body(Body::empty()).unwrap(),
        Fate::LoseAnswer => {
            let whole = answer.bytes().await.unwrap();
            let length = whole.len();
            let half = Body::new(Broken(Some(whole.slice(..length / 2))));
            response.header("content-length", length).body(half).unwrap()
        }
        Fate::Later => {
            let location = answer.headers()["location"].to_str().unwrap();
            // Without the step: the leader must add it.
            let location = location.split('?').next().unwrap();
            Response::builder()
                .status(202)
                .header("location", location)
                .header("retry-after", "0")
                .body(Body::empty())
                .unwrap()
        }
        Fate::TooEarly | Fate::Refuse(_) | Fate::Hang => unreachable!(),
    }
}

/// The answer of a helper for which every report is from the future.
fn too_early(request: &[u8]) -> Response {
    let request = AggregationJobInitReq::from_bytes(request).unwrap();
    let reports =
        request.verify_inits.iter().map(|init| init.report_share.report_metadata.report_id);
    let kind = || VerifyRespKind::Reject(ReportError::ReportTooEarly);
    let verify_resps = reports.map(|report_id| VerifyResp { report_id, kind: kind() }).collect();
    Response::builder()
        .status(201)
        .header("content-type", MediaType::AggregationJobResp.as_str())
        .body(Body::from(AggregationJobResp { verify_resps }.to_bytes()))
        .unwrap()
}

/// A body that breaks off.
struct Broken(Option<bytes::Bytes>);

impl hyper::body::Body for Broken {
    type Data = bytes::Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<bytes::Bytes>, std::io::Error>>> {
        std::task::Poll::Ready(Some(match self.0.take() {
            Some(half) => Ok(hyper::body::Frame::data(half)),
            None => Err(std::io::ErrorKind::ConnectionReset.into()),
        }))
    }
}

/// A pair with a proxy in between.
pub(crate) async fn start(mode: BatchMode, fates: &[Fate]) -> (Pair, Proxy) {
    start_with(Setup::new(mode), fates).await
}

pub(crate) async fn start_with(mut setup: Setup, fates: &[Fate]) -> (Pair, Proxy) {
    let (proxy, address) = Proxy::start(fates).await;
    let helper = Arc::clone(&proxy.helper);
    setup.helper_url = Box::new(move |real| {
        *helper.lock().unwrap() = Some(real);
        format!("http://{address}/")
    });
    (setup.start().await, proxy)
}

#[tokio::test]
async fn lost_answers_count_once() {
    let fates = [Fate::LoseAnswer, Fate::BadGateway, Fate::LoseAnswer];
    for mode in [BatchMode::TimeInterval, BatchMode::LeaderSelected] {
        let (mut pair, proxy) = start(mode, &fates).await;
        pair.upload_all([0, 1, 2, 3, 3]).await;
        // The same bytes were sent each time, whatever happened to the answer.
        eventually("the job is committed", || async {
            pair.leader.metric("sotto_reports_aggregated_total").await == 5.0
        })
        .await;
        assert_eq!(proxy.fates_left(), 0);
        let seen = proxy.seen.lock().unwrap().clone();
        assert!(seen.len() >= 4);
        assert!(seen[..4].iter().filter(|body| **body == seen[0]).count() >= 2);
        assert_eq!(pair.helper.metric("sotto_reports_aggregated_total").await, 5.0);

        // The answer to the collection is also lost.
        proxy.fates.lock().unwrap().extend(fates);
        let query = match mode {
            BatchMode::TimeInterval => pair.everything(),
            BatchMode::LeaderSelected => sotto_wire::Query::LeaderSelected,
        };
        let collection = pair.collect(&query).await;
        assert_eq!(collection.report_count, 5);
        assert_eq!(collection.result, histogram(&[1, 1, 1, 2]));
        assert_eq!(proxy.fates_left(), 0);
        pair.stop().await;
    }
}

#[tokio::test]
async fn an_asynchronous_helper_is_polled() {
    let (mut pair, proxy) = start(BatchMode::TimeInterval, &[Fate::Later, Fate::Later]).await;
    pair.upload_all([0, 1, 2, 3, 3]).await;
    let everything = pair.everything();
    assert_eq!(pair.collect(&everything).await.result, histogram(&[1, 1, 1, 2]));
    assert_eq!(proxy.fates_left(), 0);
    let errors = r#"sotto_helper_request_errors_total{reason="foreign_answer"}"#;
    assert_eq!(pair.leader.metric(errors).await, 0.0);
    pair.stop().await;
}

/// The helper accepted the job, or the batch: an answer to a poll cannot undo that.
#[tokio::test]
async fn a_refused_poll_ends_nothing() {
    let (mut pair, proxy) = start(BatchMode::TimeInterval, &[Fate::Later, Fate::Later]).await;
    proxy.refuse_polls.store(true, Ordering::SeqCst);
    pair.upload_all([0, 1, 2, 3, 3]).await;
    let leader = &pair.leader;
    let refused = r#"sotto_helper_request_errors_total{reason="invalidMessage"}"#;
    eventually("the poll is refused", || async { leader.metric(refused).await >= 1.0 }).await;
    proxy.refuse_polls.store(false, Ordering::SeqCst);
    eventually("the job is committed", || async {
        leader.metric("sotto_reports_aggregated_total").await == 5.0
    })
    .await;
    assert_eq!(pair.helper.metric("sotto_reports_aggregated_total").await, 5.0);
    let abandoned = r#"sotto_aggregation_jobs_total{outcome="abandoned"}"#;
    assert_eq!(leader.metric(abandoned).await, 0.0);

    // The same for a collection.
    let before = leader.metric(refused).await;
    proxy.fates.lock().unwrap().extend([Fate::Later]);
    proxy.refuse_polls.store(true, Ordering::SeqCst);
    let everything = pair.everything();
    let (_, location) = pair.ask(&everything).await;
    eventually("the poll is refused", || async { leader.metric(refused).await > before }).await;
    proxy.refuse_polls.store(false, Ordering::SeqCst);
    let collection = pair.wait(&location.unwrap(), &everything).await;
    assert_eq!(collection.result, histogram(&[1, 1, 1, 2]));
    pair.stop().await;
}

/// Nothing else arrives that would make the leader look again.
#[tokio::test]
async fn reports_that_came_too_early_are_tried_again() {
    for on_disk in [false, true] {
        let setup = Setup::new(BatchMode::TimeInterval);
        let setup = if on_disk { setup.on_disk() } else { setup };
        let (mut pair, _proxy) = start_with(setup, &[Fate::TooEarly, Fate::TooEarly]).await;
        let body: Vec<u8> = (0..5).flat_map(|index| pair.report(index % 4)).collect();
        assert_eq!(pair.upload(body).await.status(), StatusCode::OK);
        eventually("the reports are counted", || async {
            pair.leader.metric("sotto_reports_aggregated_total").await == 5.0
        })
        .await;
        pair.stop().await;
    }
}

/// The helper keeps its answer only until the leader has committed.
#[tokio::test]
async fn a_committed_job_is_deleted_at_the_helper() {
    let (mut pair, proxy) = start(BatchMode::TimeInterval, &[]).await;
    pair.upload_all([0, 1, 2]).await;
    eventually("the reports are counted", || async {
        pair.leader.metric("sotto_reports_aggregated_total").await == 3.0
    })
    .await;
    let requests = proxy.seen.lock().unwrap().clone();
    let (task_id, store) = (*pair.task.id(), Arc::clone(&pair.helper_store));
    let digest =
        |request: &[u8]| request_digest(&task_id, RequestKind::AggregationJobInit, request);
    for request in &requests {
        eventually("the answer is gone", || async {
            store.response(task_id, digest(request)).await.unwrap().is_none()
        })
        .await;
    }
    // It was there under this name: when it is asked again, the helper stores an answer again.
    let again = pair
        .http
        .post(pair.helper_resource("aggregation_jobs"))
        .bearer_auth(LEADER_TOKEN)
        .header("content-type", MediaType::AggregationJobInitReq.as_str())
        .body(requests[0].clone());
    assert_eq!(again.send().await.unwrap().status(), StatusCode::CREATED);
    assert!(store.response(task_id, digest(&requests[0])).await.unwrap().is_some());
    assert_eq!(pair.helper.metric("sotto_reports_aggregated_total").await, 3.0);
    pair.stop().await;
}

const INVALID: &str = "urn:ietf:params:ppm:dap:error:invalidMessage";

#[tokio::test]
async fn a_first_request_that_is_refused_is_abandoned() {
    let (mut pair, _proxy) = start(BatchMode::TimeInterval, &[Fate::Refuse(INVALID)]).await;
    pair.upload_all([0]).await;
    let leader = &pair.leader;
    let abandoned = r#"sotto_aggregation_jobs_total{outcome="abandoned"}"#;
    eventually("the job is abandoned", || async { leader.metric(abandoned).await == 1.0 }).await;
    let counters = pair.leader_store.counters(*pair.task.id()).await.unwrap();
    assert_eq!(counters.rejections.total(), 1);
    // The next reports are not affected.
    pair.upload_all([0, 1, 2, 3, 3]).await;
    let everything = pair.everything();
    assert_eq!(pair.collect(&everything).await.result, histogram(&[1, 1, 1, 2]));
    pair.stop().await;
}

#[tokio::test]
async fn a_refusal_after_a_lost_answer_stops_the_job_and_keeps_it() {
    let fates = [Fate::LoseAnswer, Fate::Refuse(INVALID)];
    let (mut pair, _proxy) = start(BatchMode::TimeInterval, &fates).await;
    pair.upload_all([0]).await;
    let leader = &pair.leader;
    let stopped = r#"sotto_aggregation_jobs_total{outcome="stopped"}"#;
    eventually("the job is stopped", || async { leader.metric(stopped).await == 1.0 }).await;
    let (status, ready) = leader.readyz().await;
    assert_eq!(status, StatusCode::OK, "uploads are still accepted");
    assert_eq!(ready["status"], "degraded");
    assert_eq!(ready["reasons"][0]["name"], "jobs_stopped");
    assert_eq!(pair.leader_store.load().await.unwrap().jobs, 1);
    let abandoned = r#"sotto_aggregation_jobs_total{outcome="abandoned"}"#;
    assert_eq!(leader.metric(abandoned).await, 0.0);
    pair.stop().await;
}

#[tokio::test]
async fn a_helper_that_is_away_is_waited_for() {
    let (mut pair, proxy) = start(BatchMode::TimeInterval, &[]).await;
    let address = proxy.helper.lock().unwrap().take();
    pair.upload_all([0, 1, 2, 3, 3]).await;
    let leader = &pair.leader;
    eventually("the leader says so", || async {
        leader.readyz().await.1["reasons"][0]["name"] == "helper_unreachable"
    })
    .await;
    let (status, ready) = leader.readyz().await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(ready["status"], "degraded");
    assert!(ready["reasons"][0]["detail"].as_str().unwrap().contains("server_error"));
    let errors = r#"sotto_helper_request_errors_total{reason="server_error"}"#;
    eventually("it is asked again", || async { leader.metric(errors).await >= 3.0 }).await;
    *proxy.helper.lock().unwrap() = address;
    let everything = pair.everything();
    assert_eq!(pair.collect(&everything).await.result, histogram(&[1, 1, 1, 2]));
    assert_eq!(pair.leader.readyz().await.1["status"], "ready");
    pair.stop().await;
}

#[tokio::test]
async fn a_helper_that_restarts_is_found_again() {
    let store = Arc::new(MemoryStore::new());
    let mut setup = Setup::new(BatchMode::TimeInterval);
    setup.helper_store = Arc::clone(&store) as _;
    let mut pair = setup.start().await;
    pair.upload_all([0, 1]).await;
    let address: SocketAddr = pair.helper.url.trim_start_matches("http://").parse().unwrap();
    let unused = Server::none();
    std::mem::replace(&mut pair.helper, unused).stopped().await;
    pair.upload_all([2, 3, 3]).await;
    let leader = &pair.leader;
    eventually("the leader notices", || async {
        leader.readyz().await.1["reasons"][0]["name"] == "helper_unreachable"
    })
    .await;

    let mut config = HelperConfig::new(address, vec![keypair(2)]);
    config.server.insecure_plain_tasks = true;
    config.server.tasks.push(served(&pair.task, Role::Helper, &pair.collector));
    let helper = Helper::bind(config, store).await.unwrap();
    pair.helper = Server::run(helper);
    let everything = pair.everything();
    assert_eq!(pair.collect(&everything).await.result, histogram(&[1, 1, 1, 2]));
    pair.stop().await;
}

/// Two collections of one task are as many as a leader has in flight at one helper.
#[tokio::test]
async fn collections_that_hang_delay_no_other_task() {
    let (mut pair, proxy) = start(BatchMode::TimeInterval, &[]).await;
    let now = pair.now().as_units();
    for time in [now - 1, now - 2].map(Time::new) {
        for index in [0, 1, 2, 3, 3] {
            let report = pair.report_at(index, time);
            assert_eq!(pair.upload(report).await.status(), StatusCode::OK);
        }
    }
    eventually("the reports are counted", || async {
        pair.leader.metric("sotto_reports_aggregated_total").await == 10.0
    })
    .await;
    proxy.fates.lock().unwrap().extend([Fate::Hang, Fate::Hang]);
    for start in [now - 1, now - 2].map(Time::new) {
        let (status, _) = pair.ask(&Query::TimeInterval(Interval::bucket(start).unwrap())).await;
        assert_eq!(status, StatusCode::CREATED);
    }
    eventually("the helper is asked", || async { proxy.fates_left() < 2 }).await;

    // The same helper under another URL is another helper.
    let ours = pair.task.configuration();
    let configuration = TaskConfiguration::new(TaskParameters {
        task_info: b"another task".to_vec(),
        leader_aggregator_endpoint: ours.leader_aggregator_endpoint().clone(),
        helper_aggregator_endpoint: Url::new(format!("{}/", pair.helper.url)).unwrap(),
        time_precision: ours.time_precision(),
        min_batch_size: 5,
        batch_mode: BatchMode::TimeInterval,
        vdaf_type: ours.vdaf_type(),
        vdaf_configuration: ours.vdaf_configuration().to_vec(),
        extensions: Vec::new(),
    });
    let other = sotto_protocol::Task::new(TaskId::new([8; 32]), configuration.unwrap()).unwrap();
    pair.leader_tasks.add(served(&other, Role::Leader, &pair.collector)).unwrap();
    pair.helper_tasks.add(served(&other, Role::Helper, &pair.collector)).unwrap();
    pair.task = other;
    pair.upload_all([0, 1, 2, 3, 3]).await;
    let everything = pair.everything();
    // A helper that hangs is given up after 30 seconds.
    let collected = tokio::time::timeout(Duration::from_secs(20), pair.collect(&everything)).await;
    assert_eq!(collected.unwrap().result, histogram(&[1, 1, 1, 2]));
    pair.stop().await;
}

#[tokio::test]
async fn a_leader_that_ends_gives_its_leases_back() {
    let (mut pair, proxy) = start(BatchMode::TimeInterval, &[Fate::Hang]).await;
    pair.upload_all([0, 1, 2]).await;
    eventually("the helper is asked", || async { proxy.fates_left() == 0 }).await;
    let store = Arc::clone(&pair.leader_store);
    assert!(store.lease_job(Duration::from_secs(60), Turn::default()).await.unwrap().is_none());
    pair.stop().await;
    let job = store.lease_job(Duration::from_secs(60), Turn::default()).await.unwrap().unwrap();
    // It may have been sent: whoever takes it over must send the same bytes.
    assert!(job.request_digest.is_some());
}

#[tokio::test]
async fn a_wrong_token_is_trouble_of_one_task() {
    let mut pair = Setup::new(BatchMode::TimeInterval).start().await;
    // A second task whose leader sends a token that the helper does not know.
    let other = sotto_protocol::Task::new(
        sotto_wire::TaskId::new([8; 32]),
        pair.task.configuration().clone(),
    )
    .unwrap();
    let task = aggregator_task(&other, Role::Leader, &pair.collector);
    let wrong = ServedTask::leader(task, token("stale"), token("collector")).unwrap();
    pair.leader_tasks.add(wrong).unwrap();
    pair.helper_tasks.add(served(&other, Role::Helper, &pair.collector)).unwrap();
    let task = std::mem::replace(&mut pair.task, other);
    pair.upload_all([0, 0, 0]).await;
    pair.task = task;
    let leader = &pair.leader;
    eventually("the leader says so", || async {
        leader.readyz().await.1["reasons"][0]["name"] == "helper_refuses"
    })
    .await;
    let (_, ready) = leader.readyz().await;
    assert!(ready["reasons"][0]["detail"].as_str().unwrap().contains("unauthorized"), "{ready}");
    // The first task continues.
    pair.upload_all([0, 1, 2, 3, 3]).await;
    let everything = pair.everything();
    assert_eq!(pair.collect(&everything).await.result, histogram(&[1, 1, 1, 2]));
    tokio::time::sleep(Duration::from_millis(100)).await;
    // Nothing of the other task was lost.
    assert_eq!(pair.leader_store.load().await.unwrap().jobs, 1);
    pair.stop().await;
}
