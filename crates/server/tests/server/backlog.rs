//! Reports that an earlier process accepted, for tasks that are served or not.

use std::sync::Arc;
use std::time::Duration;

use reqwest::StatusCode;
use sotto_protocol::ReplayScope;
use sotto_protocol::leader::aggregate::{
    FormedBatch, FormedJob, FormedJobs, FormedReport, LeaderOutcome,
};
use sotto_server::{BindError, Leader, LeaderConfig};
use sotto_store::{Counters, LeaderStore, NewReport, Turn};
use sotto_wire::{BatchMode, HpkeConfigId, ReportId, Role};

use crate::background::{LOOPBACK, eventually};
use crate::server::harness::{Pair, Server, Setup, keypair, moment, served};
use crate::server::taskprov::free_address;

const AGGREGATED: &str = "sotto_reports_aggregated_total";

/// Stops the leader and returns reports of the task that it served.
pub(crate) async fn end_leader(pair: &mut Pair, reports: u32) -> Vec<Vec<u8>> {
    let reports = (0..reports).map(|index| pair.report(index % 4)).collect();
    let unused = Server::none();
    std::mem::replace(&mut pair.leader, unused).stopped().await;
    reports
}

async fn accept(pair: &Pair, report: Vec<u8>) {
    let report = NewReport {
        task_id: *pair.task.id(),
        bucket: Some(pair.now()),
        hpke_config_id: HpkeConfigId::new(1),
        report: report.into(),
    };
    assert_eq!(pair.leader_store.accept_reports(vec![report]).await.unwrap(), [Ok(())]);
}

pub(crate) fn leader_config() -> LeaderConfig {
    let mut config = LeaderConfig::new(LOOPBACK, vec![keypair(1)]);
    config.aggregation.job_delay = Duration::from_millis(20);
    config.server.insecure_plain_tasks = true;
    config.server.http.admin_listen = Some(LOOPBACK);
    config
}

/// A leader over the same store, which serves the pair's task only once it is added.
pub(crate) async fn start_leader(pair: &mut Pair, config: LeaderConfig) {
    let leader = Leader::bind(config, Arc::clone(&pair.leader_store)).await.unwrap();
    let url = format!("http://{}/", leader.addr());
    pair.leader_tasks = leader.tasks().unwrap();
    pair.leader = Server::at(url, leader);
}

fn serve_task(pair: &Pair) {
    pair.leader_tasks.add(served(&pair.task, Role::Leader, &pair.collector)).unwrap();
}

/// The helper of one task is away, and its reports pile up.
#[tokio::test]
async fn junk_of_one_task_leaves_room_for_others() {
    let mut setup = Setup::new(BatchMode::TimeInterval);
    setup.leader.aggregation.max_segment_bytes = 64 * 1024;
    let away = free_address();
    setup.helper_url = Box::new(move |_| format!("http://{away}/"));
    let mut pair = setup.start().await;
    let other = sotto_protocol::Task::new(
        sotto_wire::TaskId::new([8; 32]),
        pair.task.configuration().clone(),
    )
    .unwrap();
    pair.leader_tasks.add(served(&other, Role::Leader, &pair.collector)).unwrap();
    // A task may go on until the next measurement, but not for ever.
    let mut status = StatusCode::OK;
    for _ in 0..400 {
        let report = pair.report(1);
        status = pair.upload(report).await.status();
        if status != StatusCode::OK {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    let stored = pair.leader_store.load().await.unwrap().segment_bytes;
    assert!((32 * 1024..64 * 1024).contains(&stored), "{stored}");
    assert_eq!(pair.leader.readyz().await.0, StatusCode::OK, "others are served");
    let full = std::mem::replace(&mut pair.task, other);
    pair.upload_all([0, 1, 2]).await;
    pair.task = full;
    let report = pair.report(1);
    assert_eq!(pair.upload(report).await.status(), StatusCode::TOO_MANY_REQUESTS);
    pair.stop().await;
}

#[cfg(unix)]
#[tokio::test]
async fn uploads_wait_until_the_disk_has_room() {
    for (min_free_disk, expected) in
        [(u64::MAX, StatusCode::SERVICE_UNAVAILABLE), (1, StatusCode::OK)]
    {
        let folder = tempfile::tempdir().unwrap();
        let mut setup = Setup::new(BatchMode::TimeInterval);
        setup.leader.server.http.data_dir = Some(folder.path().to_owned());
        setup.leader.aggregation.min_free_disk = min_free_disk;
        let mut pair = setup.start().await;
        eventually("the disk is measured", || async {
            pair.leader.metric("sotto_disk_free_bytes").await > 0.0
                && pair.leader.readyz().await.0 == expected
        })
        .await;
        let report = pair.report(1);
        let answer = pair.upload(report).await;
        assert_eq!(answer.status(), expected);
        let is_refused = expected != StatusCode::OK;
        assert_eq!(answer.headers().contains_key("retry-after"), is_refused);
        let (_, document) = pair.leader.readyz().await;
        assert_eq!(document.to_string().contains("disk_full"), is_refused, "{document}");
        pair.stop().await;
    }
}

async fn all_are_counted(leader: &Server, reports: f64) {
    eventually("the backlog is processed", || async { leader.metric(AGGREGATED).await == reports })
        .await;
}

/// This is more than one round of forming takes.
#[tokio::test]
async fn the_backlog_of_an_earlier_process_is_worked_off() {
    let mut pair = Setup::new(BatchMode::TimeInterval).on_disk().start().await;
    for report in end_leader(&mut pair, 200).await {
        accept(&pair, report).await;
    }
    let mut config = leader_config();
    config.aggregation.max_job_bytes = 8_000;
    config.server.tasks.push(served(&pair.task, Role::Leader, &pair.collector));
    start_leader(&mut pair, config).await;
    all_are_counted(&pair.leader, 200.0).await;
    pair.stop().await;
}

/// The store returns reports that are to be retried separately, before the others.
#[tokio::test]
async fn a_requeued_report_does_not_hide_the_backlog() {
    let mut pair = Setup::new(BatchMode::TimeInterval).on_disk().start().await;
    let mut reports = end_leader(&mut pair, 6).await.into_iter();
    let first = reports.next().unwrap();
    let report_id = ReportId::new(first[..16].try_into().unwrap());
    accept(&pair, first).await;
    let store = Arc::clone(&pair.leader_store);
    let backlog = store.backlog(10, 100_000, Arc::new(|_| true)).await.unwrap();
    let (record, time) = (0, pair.now());
    let job = FormedJob {
        task_id: *pair.task.id(),
        now: moment(),
        batch: FormedBatch::TimeInterval,
        scope: ReplayScope::Bucket,
        reports: vec![FormedReport { record, report_id, time }],
    };
    let formed = FormedJobs { jobs: vec![job], rejections: vec![] };
    store.fix_jobs(backlog.stretch.unwrap(), formed).await.unwrap();
    let leased = store.lease_job(Duration::from_secs(60), Turn::default()).await.unwrap().unwrap();
    let commit = LeaderOutcome { requeue: vec![0], ..LeaderOutcome::default() };
    store.commit_job(leased.lease, commit).await.unwrap();
    for report in reports {
        accept(&pair, report).await;
    }
    let mut config = leader_config();
    config.server.tasks.push(served(&pair.task, Role::Leader, &pair.collector));
    start_leader(&mut pair, config).await;
    all_are_counted(&pair.leader, 6.0).await;
    pair.stop().await;
}

async fn waits_for_the_task(leader: &Server) {
    eventually("the leader says so", || async {
        leader.readyz().await.1["reasons"][0]["name"] == "unknown_task"
    })
    .await;
}

/// A leader that is started without one of its tasks must not discard that task's reports.
#[tokio::test]
async fn reports_of_a_task_that_is_not_configured_wait_for_it() {
    for on_disk in [false, true] {
        let setup = Setup::new(BatchMode::TimeInterval);
        let mut pair = if on_disk { setup.on_disk() } else { setup }.start().await;
        for report in end_leader(&mut pair, 6).await {
            accept(&pair, report).await;
        }
        start_leader(&mut pair, leader_config()).await;
        waits_for_the_task(&pair.leader).await;
        let (status, ready) = pair.leader.readyz().await;
        assert_eq!(status, StatusCode::OK, "uploads of other tasks are still accepted");
        let detail = ready["reasons"][0]["detail"].as_str().unwrap();
        assert!(detail.contains(&pair.task.id().to_string()), "{detail}");
        assert!(detail.contains("forget_tasks"), "{detail}");
        let counters = pair.leader_store.counters(*pair.task.id()).await.unwrap();
        assert_eq!(counters, Counters::default());

        serve_task(&pair);
        all_are_counted(&pair.leader, 6.0).await;
        let leader = &pair.leader;
        eventually("all is well", || async { leader.readyz().await.1["status"] == "ready" }).await;
        pair.stop().await;
    }
}

#[tokio::test]
async fn reports_of_an_unknown_task_hold_back_nobody() {
    for on_disk in [false, true] {
        let setup = Setup::new(BatchMode::TimeInterval);
        let mut pair = if on_disk { setup.on_disk() } else { setup }.start().await;
        let mut reports = end_leader(&mut pair, 7).await.into_iter();
        for report in reports.by_ref().take(4) {
            accept(&pair, report).await;
        }
        let unknown = sotto_wire::TaskId::new([8; 32]);
        let foreign = NewReport {
            task_id: unknown,
            bucket: None,
            hpke_config_id: HpkeConfigId::new(1),
            report: vec![7; 100].into(),
        };
        pair.leader_store.accept_reports(vec![foreign]).await.unwrap();
        for report in reports {
            accept(&pair, report).await;
        }
        let mut config = leader_config();
        config.server.tasks.push(served(&pair.task, Role::Leader, &pair.collector));
        start_leader(&mut pair, config).await;
        all_are_counted(&pair.leader, 7.0).await;
        waits_for_the_task(&pair.leader).await;
        assert!(pair.leader_store.load().await.unwrap().backlog_bytes > 0, "it was not dropped");

        // Only the operator can have it deleted.
        let unused = Server::none();
        std::mem::replace(&mut pair.leader, unused).stopped().await;
        let mut config = leader_config();
        config.server.tasks.push(served(&pair.task, Role::Leader, &pair.collector));
        config.server.forget_tasks.push(unknown);
        start_leader(&mut pair, config).await;
        let leader = &pair.leader;
        eventually("all is well", || async { leader.readyz().await.1["status"] == "ready" }).await;
        assert_eq!(pair.leader_store.counters(unknown).await.unwrap(), Counters::default());
        assert_eq!(pair.leader_store.load().await.unwrap().backlog_bytes, 0);
        pair.stop().await;
    }
}

#[tokio::test]
async fn a_task_is_served_or_forgotten_not_both() {
    let mut pair = Setup::new(BatchMode::TimeInterval).start().await;
    for report in end_leader(&mut pair, 2).await {
        accept(&pair, report).await;
    }
    let store: Arc<dyn LeaderStore> = Arc::clone(&pair.leader_store);
    let mut config = leader_config();
    config.server.tasks.push(served(&pair.task, Role::Leader, &pair.collector));
    config.server.forget_tasks.push(*pair.task.id());
    let error = Leader::bind(config, Arc::clone(&store)).await.unwrap_err();
    assert!(matches!(error, BindError::ForgetServed(id) if id == *pair.task.id()), "{error}");
    assert!(store.load().await.unwrap().backlog_bytes > 0);
    let mut config = leader_config();
    config.server.forget_tasks.push(*pair.task.id());
    Leader::bind(config, Arc::clone(&store)).await.unwrap();
    assert_eq!(store.load().await.unwrap().backlog_bytes, 0);
}
