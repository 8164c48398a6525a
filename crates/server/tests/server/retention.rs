//! Tasks that are over.

use std::time::Duration;

use reqwest::StatusCode;
use sotto_store::NewReport;
use sotto_wire::{BatchMode, Duration as Units, HpkeConfigId, Interval, Time};

use crate::harness::{PRECISION, Setup, eventually, moment};
use crate::requests::problem;

#[tokio::test]
async fn the_data_of_a_task_that_is_over_is_deleted() {
    let mut setup = Setup::new(BatchMode::TimeInterval);
    let now = moment().0 / PRECISION;
    let ended = Interval::new(Time::new(now - 10), Units::new(4)).unwrap();
    setup.interval = Some(ended);
    setup.leader.server.retention_grace = Duration::from_secs(PRECISION);
    setup.leader.aggregation.job_delay = Duration::from_secs(3600);
    // A report from when the task ran.
    let report = NewReport {
        task_id: sotto_wire::TaskId::new([9; 32]),
        bucket: Some(Time::new(now - 8)),
        hpke_config_id: HpkeConfigId::new(1),
        report: vec![0; 100],
    };
    setup.leader_store.accept_reports(vec![report]).await.unwrap();
    let mut pair = setup.start().await;
    let store = &pair.leader_store;
    eventually("the report is gone", || async { store.load().await.unwrap().backlog_bytes == 0 })
        .await;
    // A report from its time is not taken any more: it may have been counted before.
    let late = pair.report_at(1, Time::new(now - 8));
    let response = pair.upload(late).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    let document = problem(response).await;
    assert_eq!(document["type"], "urn:ietf:params:ppm:dap:error:unrecognizedTask");
    pair.stop().await;
}
