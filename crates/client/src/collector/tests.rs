//! The collector against a scripted leader.

use std::sync::Mutex;

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_crypto::{Secret, hpke};
use sotto_vdaf::AggregateResult;
use sotto_wire::labels::aggregate_share_info;
use sotto_wire::{
    AggregateShareAad, BatchMode, CollectionJobResp, Encode, HpkeConfigId, Interval, Role, Time,
    taskprov,
};

use super::*;
use crate::script::{Script, Sent, empty, impatient, message, problem, task, with_header};
use crate::transport::TransportError;

const JOBS: &str =
    "https://leader.example/api/tasks/q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s/collection_jobs";
const PATIENCE: Duration = Duration::from_secs(3600);
const TOO_SMALL: &str = "urn:ietf:params:ppm:dap:error:invalidBatchSize";

fn rng() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(5)
}

fn key() -> HpkeKeypair {
    HpkeKeypair::generate(HpkeConfigId::new(9), &mut ChaCha20Rng::seed_from_u64(4))
}

fn interval() -> Interval {
    Interval::new(Time::new(10), sotto_wire::Duration::new(5)).unwrap()
}

fn query() -> Query {
    Query::TimeInterval(interval())
}

fn collector(script: &Arc<Script>, batch_mode: BatchMode) -> Collector {
    let auth = AuthToken::Bearer(Secret::new("open sesame".to_owned()));
    let (retry, _) = impatient();
    Collector::new(task(batch_mode), key(), auth, script.clone()).with_retry(retry)
}

/// The finished job for `request`: 30 of 40 reports counted one.
fn finished(batch_mode: BatchMode, request: &[u8]) -> HttpResponse {
    let task = task(batch_mode);
    let aad = AggregateShareAad {
        task_id: *task.id(),
        task_configuration: task.encoded_configuration(),
        collection_job_req: request,
    }
    .to_bytes();
    let seal = |role, share: u64| {
        let info = aggregate_share_info(role);
        hpke::seal(key().config(), &info, &aad, &share.to_le_bytes(), &mut rng()).unwrap()
    };
    let resp = CollectionJobResp {
        report_count: 40,
        interval: Interval::new(Time::new(11), sotto_wire::Duration::new(2)).unwrap(),
        leader_encrypted_agg_share: seal(Role::Leader, 17),
        helper_encrypted_agg_share: seal(Role::Helper, 13),
    };
    message(MediaType::CollectionJobResp, resp.to_bytes())
}

fn created(location: &str) -> HttpResponse {
    with_header(empty(201), "Location", location)
}

/// A leader that is done after `pending` polls.
fn leader(pending: usize) -> Arc<Script> {
    let request = Mutex::new(Vec::new());
    Script::new(move |sent, number| {
        Ok(match sent.method {
            Method::Post => {
                *request.lock().unwrap() = sent.body.clone();
                created("/elsewhere/collection_jobs/job-1")
            }
            Method::Get if number <= pending => with_header(empty(200), "retry-after", "2"),
            Method::Get => finished(BatchMode::TimeInterval, &request.lock().unwrap()),
            Method::Delete => empty(204),
        })
    })
}

#[test]
fn a_batch_is_collected_and_finished() {
    let script = leader(3);
    let (retry, slept) = impatient();
    let collector = collector(&script, BatchMode::TimeInterval).with_retry(retry);
    let mut seen = Vec::new();
    let collected =
        collector.collect(&query(), PATIENCE, &mut |step| seen.push(step), &mut rng()).unwrap();
    assert_eq!(collected.collection.report_count, 40);
    assert_eq!(collected.collection.result, AggregateResult::Scalar(30));
    assert_eq!(collected.collection.interval.start(), Time::new(11));
    assert_eq!(collected.job.id(), "job-1");
    assert_eq!(seen.first(), Some(&Progress::Created));
    assert_eq!(seen.last(), Some(&Progress::Done));
    // The first pause is our default: the answer to the creation did not say how long to wait.
    assert_eq!(*slept.lock().unwrap(), [1, 2, 2, 2].map(Duration::from_secs));

    collector.finish(&collected.job, &mut rng()).unwrap();
    let sent = script.sent();
    assert_eq!((sent[0].method, sent[0].url.as_str()), (Method::Post, JOBS));
    assert_eq!(sent[0].header("content-type"), Some(MediaType::CollectionJobReq.as_str()));
    let last = sent.last().unwrap();
    assert_eq!((last.method, &last.url), (Method::Delete, &format!("{JOBS}/job-1")));
    for request in &sent {
        assert_eq!(request.header("authorization"), Some("Bearer open sesame"));
        assert!(request.url.starts_with(JOBS), "nowhere but to the leader");
    }
}

#[test]
fn the_answer_may_come_at_once() {
    let script = Script::new(|sent, _| {
        Ok(with_header(finished(BatchMode::LeaderSelected, &sent.body), "location", "x/job-2"))
    });
    let collector = collector(&script, BatchMode::LeaderSelected);
    let collected =
        collector.collect(&Query::LeaderSelected, PATIENCE, &mut |_| {}, &mut rng()).unwrap();
    assert_eq!(collected.collection.result, AggregateResult::Scalar(30));
    assert_eq!(script.sent().len(), 1);
}

#[test]
fn only_the_id_is_taken_from_a_location() {
    for (location, id) in [
        ("https://evil.example/tasks/x/collection_jobs/aB3-_", Some("aB3-_")),
        ("/tasks/x/collection_jobs/abc?step=0", Some("abc")),
        ("collection_jobs/abc#part", Some("abc")),
        ("abc", Some("abc")),
        ("/tasks/x/collection_jobs/", None),
        ("/tasks/x/collection_jobs/..", None),
        ("/tasks/x/collection_jobs/a%2Fb", None),
        ("/tasks/x/collection_jobs/a\\b", None),
        ("", None),
        ("?a", None),
    ] {
        assert_eq!(job_id(location).ok().as_deref(), id, "{location}");
    }
    assert!(job_id(&"a".repeat(257)).is_err());
    let script = Script::new(|_, _| Ok(empty(201)));
    let error =
        collector(&script, BatchMode::TimeInterval).start(&query(), &mut rng()).unwrap_err();
    assert!(error.to_string().contains("no location"), "{error}");
}

#[test]
fn a_leader_that_is_away_or_short_of_reports_is_asked_again() {
    let script = Script::new(|sent, number| match (sent.method, number) {
        (Method::Post, 0..=5) => Err(TransportError::Unreachable("refused".into())),
        (Method::Post, 6) => Ok(problem(400, TOO_SMALL, "3 of 1000")),
        (Method::Post, _) => Ok(created("job-1")),
        (Method::Get, 8..=14) => Ok(empty(500)),
        (Method::Get, 15) => Ok(problem(400, TOO_SMALL, "")),
        (Method::Get, 17) => {
            let request = produce_collection_job_req(&task(BatchMode::TimeInterval), &query());
            Ok(finished(BatchMode::TimeInterval, &request.unwrap()))
        }
        other => panic!("{other:?}"),
    });
    let collector = collector(&script, BatchMode::TimeInterval);
    let collected = collector.collect(&query(), PATIENCE, &mut |_| {}, &mut rng()).unwrap();
    assert_eq!(collected.collection.result, AggregateResult::Scalar(30));
    let posts: Vec<Sent> =
        script.sent().into_iter().filter(|sent| sent.method == Method::Post).collect();
    assert!(posts.iter().all(|sent| sent.body == posts[0].body), "creation repeats the same bytes");
    assert_eq!(script.sent()[16].method, Method::Post, "a job that failed is made anew");
}

#[test]
fn a_batch_that_is_not_ready_in_time_leaves_the_job() {
    let script = leader(usize::MAX);
    let collector = collector(&script, BatchMode::TimeInterval);
    let error = collector.collect(&query(), Duration::ZERO, &mut |_| {}, &mut rng()).unwrap_err();
    assert!(matches!(error, CollectError::NotReady { reason: None, .. }), "{error}");
    assert!(script.sent().iter().all(|sent| sent.method != Method::Delete));

    let away = Script::new(|_, _| Err(TransportError::Timeout));
    let collector = self::collector(&away, BatchMode::TimeInterval);
    let error = collector.collect(&query(), Duration::ZERO, &mut |_| {}, &mut rng()).unwrap_err();
    assert!(matches!(
        error,
        CollectError::NotReady {
            reason: Some(ExchangeError::Transport(TransportError::Timeout)),
            ..
        }
    ));
}

#[test]
fn a_refusal_ends_it() {
    let urn = "urn:ietf:params:ppm:dap:error:batchOverlap";
    let script = Script::new(move |_, _| Ok(problem(400, urn, "already collected")));
    let collector = collector(&script, BatchMode::TimeInterval);
    let error = collector.collect(&query(), PATIENCE, &mut |_| {}, &mut rng()).unwrap_err();
    assert!(error.to_string().contains("batchOverlap: already collected"), "{error}");
    assert_eq!(script.sent().len(), 1);
}

#[test]
fn another_request_does_not_open_the_result() {
    // As if the leader answered with the batch of another query.
    let script = Script::new(|_, _| {
        let other = Interval::new(Time::new(9), sotto_wire::Duration::new(6)).unwrap();
        let other = Query::TimeInterval(other);
        let request = produce_collection_job_req(&task(BatchMode::TimeInterval), &other).unwrap();
        Ok(with_header(finished(BatchMode::TimeInterval, &request), "location", "job-1"))
    });
    let collector = collector(&script, BatchMode::TimeInterval);
    let error = collector.start(&query(), &mut rng()).unwrap_err();
    assert!(matches!(error, CollectError::Collection(CollectorError::Hpke { .. })), "{error}");
}

#[test]
fn a_kept_job_can_be_polled_and_finished() {
    let script = Script::new(|sent, _| {
        assert_eq!(sent.url, format!("{JOBS}/kept"));
        let request = produce_collection_job_req(&task(BatchMode::TimeInterval), &query()).unwrap();
        Ok(match sent.method {
            Method::Get => finished(BatchMode::TimeInterval, &request),
            _ => empty(404),
        })
    });
    let collector = collector(&script, BatchMode::TimeInterval);
    let job = collector.job("kept", &query()).unwrap();
    assert!(matches!(collector.poll(&job, &mut rng()).unwrap(), Poll::Ready(_)));
    collector.finish(&job, &mut rng()).unwrap();
    assert!(collector.job("../other", &Query::LeaderSelected).is_err());
}

#[test]
fn a_failed_finish_is_an_error() {
    let script = Script::new(|_, _| Ok(empty(403)));
    let collector = collector(&script, BatchMode::TimeInterval);
    let job = collector.job("kept", &query()).unwrap();
    assert!(collector.finish(&job, &mut rng()).is_err());
}

#[test]
fn a_query_of_the_other_mode_is_not_sent() {
    let script = Script::new(|_, _| panic!("nothing to send"));
    let collector = collector(&script, BatchMode::LeaderSelected);
    let error = collector.start(&query(), &mut rng()).unwrap_err();
    assert!(matches!(error, CollectError::Collection(CollectorError::BatchMode)));
}

#[test]
fn the_other_token_and_taskprov_headers() {
    let script = leader(0);
    let auth = AuthToken::DapAuth(Secret::new("sesame".to_owned()));
    assert_eq!(format!("{auth:?}"), "DapAuth(Secret([redacted]))");
    let collector = Collector::new(task(BatchMode::TimeInterval), key(), auth, script.clone());
    let collector = collector.with_taskprov();
    collector.start(&query(), &mut rng()).unwrap();
    let sent = &script.sent()[0];
    assert_eq!(sent.header("dap-auth-token"), Some("sesame"));
    assert_eq!(sent.header("authorization"), None);
    let announced = taskprov::parse_header(sent.header(taskprov::HEADER).unwrap()).unwrap();
    assert_eq!(announced, collector.task().encoded_configuration());
}

#[test]
fn a_cancellation_spares_results() {
    for (status, expected) in [
        (204, Cancelled::Yes),
        (404, Cancelled::Yes),
        (409, Cancelled::UnderWay),
        (412, Cancelled::Finished),
    ] {
        let script = Script::new(move |_, _| Ok(empty(status)));
        let collector = collector(&script, BatchMode::TimeInterval);
        assert_eq!(collector.cancel("job-1", &mut rng()).unwrap(), expected);
        let sent = script.sent().remove(0);
        assert_eq!((sent.method, sent.url.as_str()), (Method::Delete, &*format!("{JOBS}/job-1")));
        assert_eq!(sent.header("if-none-match"), Some("*"));
    }
    let script = Script::new(|_, _| Ok(empty(403)));
    let collector = collector(&script, BatchMode::TimeInterval);
    assert!(collector.cancel("job-1", &mut rng()).is_err());
}

#[test]
fn a_wait_that_was_given_up_names_its_job() {
    let script = Script::new(|sent, _| match sent.method {
        Method::Post => Ok(created("/collection_jobs/job-1")),
        _ => Err(TransportError::GaveUp),
    });
    let collector = collector(&script, BatchMode::TimeInterval);
    let error = collector.collect(&query(), PATIENCE, &mut |_| {}, &mut rng()).unwrap_err();
    let CollectError::NotReady { job: Some(job), reason: None } = error else { panic!("{error}") };
    assert_eq!(job.id(), "job-1");
    assert_eq!(script.sent().len(), 2, "nothing is retried");
}

#[test]
fn jobs_are_listed() {
    let body = br#"{"jobs":[{"id":"a","interval":{"start":7,"duration":5},"state":"pending"}]}"#;
    let script =
        Script::new(|_, _| Ok(HttpResponse { status: 200, headers: vec![], body: body.to_vec() }));
    let jobs = collector(&script, BatchMode::TimeInterval).jobs(&mut rng()).unwrap();
    assert_eq!((jobs.len(), jobs[0].id.as_str()), (1, "a"));
    assert_eq!(script.sent()[0].url, JOBS);
    let script = Script::new(|_, _| Ok(empty(200)));
    assert!(collector(&script, BatchMode::TimeInterval).jobs(&mut rng()).is_err());
}
