//! Tasks that are over.

use std::sync::Arc;
use std::time::Duration;

use reqwest::StatusCode;
use sotto_protocol::{Bucket, Rejection, ReplayScope};
use sotto_store::Counters;
use sotto_wire::{BatchMode, Duration as Units, Interval, ReportId, Time};

use crate::background::eventually;
use crate::server::harness::{PRECISION, Setup, moment};
use crate::server::requests::problem;

#[tokio::test]
async fn the_data_of_a_task_that_is_over_is_deleted() {
    // While it runs, a report is counted at both aggregators.
    let setup = Setup::new(BatchMode::TimeInterval);
    let (leader_store, helper_store) =
        (Arc::clone(&setup.leader_store), Arc::clone(&setup.helper_store));
    let mut pair = setup.start().await;
    let (task_id, report) = (*pair.task.id(), pair.report(1));
    let spent = (Bucket::Time(pair.now()), ReportId::new(report[..16].try_into().unwrap()));
    assert_eq!(pair.upload(report).await.status(), StatusCode::OK);
    eventually("the report is counted", || async {
        leader_store.counters(task_id).await.unwrap().aggregated == 1
    })
    .await;
    assert_eq!(helper_store.counters(task_id).await.unwrap().aggregated, 1);
    let is_spent = || helper_store.spent_reports(task_id, ReplayScope::Bucket, vec![spent]);
    assert_eq!(is_spent().await.unwrap(), [Some(Rejection::ReportReplayed)]);
    pair.stop().await;

    // The same task, now over.
    let mut setup = Setup::new(BatchMode::TimeInterval);
    let now = moment().0 / PRECISION;
    setup.interval = Some(Interval::new(Time::new(now - 10), Units::new(4)).unwrap());
    for server in [&mut setup.leader.server, &mut setup.helper.server] {
        server.retention_grace = Duration::from_secs(PRECISION);
    }
    setup.leader_store = Arc::clone(&leader_store);
    setup.helper_store = Arc::clone(&helper_store);
    let mut pair = setup.start().await;
    assert_eq!(*pair.task.id(), task_id);
    eventually("everything is gone", || async {
        leader_store.counters(task_id).await.unwrap() == Counters::default()
            && helper_store.counters(task_id).await.unwrap() == Counters::default()
            && is_spent().await.unwrap() == [None]
    })
    .await;
    // A report from its time is no longer accepted: it may have been counted before.
    let late = pair.report_at(1, Time::new(now - 8));
    let response = pair.upload(late).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    let document = problem(response).await;
    assert_eq!(document["type"], "urn:ietf:params:ppm:dap:error:unrecognizedTask");
    pair.stop().await;
}
