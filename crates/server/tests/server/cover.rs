//! Cover is answered like a report, survives a crash like a report, and is counted nowhere.

use reqwest::{Response, StatusCode};
use sotto_protocol::client::produce_cover;
use sotto_wire::BatchMode;

use crate::background::eventually;
use crate::server::backlog::{end_leader, leader_config, start_leader};
use crate::server::harness::{Pair, Setup, histogram, served};

fn cover(pair: &Pair) -> Vec<u8> {
    let (leader, helper) = (&pair.leader_keys.configs()[0], &pair.helper_keys.configs()[0]);
    produce_cover(&pair.task, leader, helper, None).unwrap()
}

/// All that an answer holds, apart from its date.
async fn content(answer: Response) -> (StatusCode, Vec<(String, Vec<u8>)>, Vec<u8>) {
    let status = answer.status();
    let fields = answer.headers().iter().filter(|(name, _)| *name != "date");
    let fields =
        fields.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    (status, fields, answer.bytes().await.unwrap().to_vec())
}

async fn nothing_is_stored(pair: &Pair) {
    eventually("the backlog is processed", || async {
        pair.leader_store.load().await.unwrap().segment_bytes == 0
    })
    .await;
}

#[tokio::test]
async fn cover_is_answered_like_a_report_and_counted_nowhere() {
    for setup in
        [Setup::new(BatchMode::TimeInterval), Setup::new(BatchMode::TimeInterval).on_disk()]
    {
        let mut pair = setup.start().await;
        let report = pair.report(0);
        assert_eq!(cover(&pair).len(), report.len());
        let to_report = content(pair.upload(report).await).await;
        assert_eq!(content(pair.upload(cover(&pair)).await).await, to_report);
        for _ in 0..20 {
            assert_eq!(content(pair.upload(cover(&pair)).await).await, to_report);
        }
        // Cover alone: nothing waits for a report to come.
        nothing_is_stored(&pair).await;
        pair.upload_all([1, 2, 3, 3]).await;
        let collection = pair.collect(&pair.everything()).await;
        assert_eq!(collection.result, histogram(&[1, 1, 1, 2]));
        assert_eq!(collection.report_count, 5);
        // Into a batch that is closed: the relay must not learn from it who answered.
        assert_eq!(content(pair.upload(cover(&pair)).await).await, to_report);
        assert_eq!(pair.leader.metric("sotto_reports_accepted_total").await, 5.0);
        assert_eq!(pair.leader.metric("sotto_cover_dropped_total").await, 22.0);
        pair.stop().await;
    }
}

#[tokio::test]
async fn cover_of_an_earlier_process_is_dropped() {
    let mut pair = Setup::new(BatchMode::TimeInterval).on_disk().start().await;
    let mut config = leader_config();
    config.aggregation.job_delay = std::time::Duration::from_secs(3_600);
    config.server.tasks.push(served(&pair.task, sotto_wire::Role::Leader, &pair.collector));
    end_leader(&mut pair, 0).await;
    start_leader(&mut pair, config).await;
    for _ in 0..10 {
        assert_eq!(pair.upload(cover(&pair)).await.status(), StatusCode::OK);
    }
    assert_ne!(pair.leader_store.load().await.unwrap().segment_bytes, 0);
    end_leader(&mut pair, 0).await;
    let mut config = leader_config();
    config.server.tasks.push(served(&pair.task, sotto_wire::Role::Leader, &pair.collector));
    start_leader(&mut pair, config).await;
    nothing_is_stored(&pair).await;
    pair.stop().await;
}
