//! Nothing that could identify a device or give somebody access reaches log output or metrics.

use reqwest::StatusCode;
use sotto_wire::BatchMode;

use crate::background::eventually;
use crate::captured::{Captured, spellings};
use crate::server::harness::{COLLECTOR_TOKEN, LEADER_TOKEN, histogram};
use crate::server::helper_failures::{Fate, start};

#[tokio::test]
async fn logs_and_metrics_keep_quiet() {
    let Some(captured) = Captured::alone(
        "server::secrecy::logs_and_metrics_keep_quiet",
        "debug,sotto_server=trace,sotto_store=trace",
    ) else {
        return;
    };

    // Some failures, so that there is something to log.
    let (mut pair, _proxy) =
        start(BatchMode::TimeInterval, &[Fate::BadGateway, Fate::LoseAnswer]).await;
    let mut ids = Vec::new();
    for index in [0, 1, 2, 3, 3] {
        let report = pair.report(index);
        ids.push(report[..16].to_vec());
        assert_eq!(pair.upload(report).await.status(), StatusCode::OK);
    }
    // A report whose leader share is damaged, one that does not decode, a wrong token.
    let mut damaged = pair.report(0);
    let last = damaged.len() - 200;
    damaged[last] ^= 1;
    ids.push(damaged[..16].to_vec());
    pair.upload(damaged.clone()).await;
    damaged.truncate(300);
    pair.upload(damaged).await;
    let url = pair.leader_resource("collection_jobs");
    pair.http.post(url).bearer_auth("wrong-token-of-a-stranger").send().await.unwrap();
    let everything = pair.everything();
    assert_eq!(pair.collect(&everything).await.result, histogram(&[1, 1, 1, 2]));
    let (leader, helper) = (&pair.leader, &pair.helper);
    eventually("the damaged report is dropped", || async {
        let (_, text) = leader.admin_get("metrics").await;
        text.lines()
            .any(|line| line.starts_with("sotto_reports_dropped_total") && line.ends_with(" 1"))
    })
    .await;
    let metrics = [leader.admin_get("metrics").await.1, helper.admin_get("metrics").await.1];
    let task_id = pair.task.id().to_string();
    let ports: Vec<_> = [&leader.url, &helper.url]
        .map(|url| url.trim_start_matches("http://").trim_end_matches('/').to_owned())
        .into();
    pair.stop().await;

    let log = captured.text();
    assert!(log.contains("sotto_server"), "nothing was captured: the test would prove nothing");
    let metrics = metrics.concat();
    for text in [&log, &metrics] {
        for secret in [LEADER_TOKEN, COLLECTOR_TOKEN, "wrong-token-of-a-stranger"] {
            assert!(!text.contains(secret), "a token in {text}");
        }
        for id in &ids {
            for shown in spellings(id) {
                assert!(!text.contains(&shown), "a report id in {text}");
            }
        }
    }
    assert!(!metrics.contains(&task_id), "a task in a label");
    let ours = log.lines().filter(|line| line.contains("sotto_"));
    for line in ours {
        assert!(!ports.iter().any(|address| line.contains(address.as_str())), "{line}");
    }
}
