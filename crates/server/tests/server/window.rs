//! Leader-selected batches and the longest time that a recipe lets one cover.

use reqwest::{Method, StatusCode};
use sotto_server::ServedTask;
use sotto_wire::{BatchMode, Query, Role, Time};

use crate::server::backlog::{end_leader, leader_config, start_leader};
use crate::server::harness::{
    COLLECTOR_TOKEN, LEADER_TOKEN, PRECISION, Setup, aggregator_task, histogram, token,
};

/// A late report waits for others of its own window, and none is lost.
#[tokio::test]
async fn a_late_report_does_not_hold_up_a_batch() {
    let mut pair = Setup::new(BatchMode::LeaderSelected).start().await;
    end_leader(&mut pair, 0).await;
    let mut task = aggregator_task(&pair.task, Role::Leader, &pair.collector);
    task.max_window_s = Some(PRECISION);
    let served = ServedTask::leader(task, token(LEADER_TOKEN), token(COLLECTOR_TOKEN)).unwrap();
    let mut config = leader_config();
    config.server.tasks.push(served);
    start_leader(&mut pair, config).await;

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
