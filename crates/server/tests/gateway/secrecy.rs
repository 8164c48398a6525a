//! Nothing about a request reaches log output or metrics, at any level.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::captured::{Captured, spellings};
use crate::gateway::device::{Channel, reports_url, setup, upload};

#[tokio::test]
async fn logs_and_metrics_keep_quiet() {
    let Some(captured) = Captured::alone("gateway::secrecy::logs_and_metrics_keep_quiet", "trace")
    else {
        return;
    };
    let mut pair = setup().start().await;
    let channel = Channel::to_leader(&pair);
    let leader = channel.url.trim_start_matches("http://").split('/').next().unwrap().to_owned();
    // Words that occur only in these requests.
    let urls = [
        reports_url(pair.task.id()),
        format!("{}?query-of-a-device", reports_url(pair.task.id())),
        "https://authority-of-a-device.example/".to_owned(),
        "https://leader.example/path-of-a-device".to_owned(),
    ];
    let (mut addresses, mut ids, mut sealed) = (Vec::new(), Vec::new(), Vec::new());
    for url in &urls {
        let report = pair.report(1);
        ids.push(report[..16].to_vec());
        let (body, _) = channel.seal(&upload(url, &report));
        sealed.push(body[7..23].to_vec());
        // Unchanged, replayed, and damaged.
        let mut damaged = body.clone();
        damaged[100] ^= 1;
        for body in [&body, &body, &damaged] {
            let mut stream = TcpStream::connect(&leader).await.unwrap();
            addresses.push(stream.local_addr().unwrap().to_string());
            let head = format!(
                "POST /gateway HTTP/1.1\r\nhost: x\r\nconnection: close\r\nuser-agent: agent-of-a-device\r\ncontent-type: message/ohttp-req\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(body).await.unwrap();
            stream.read_to_end(&mut Vec::new()).await.unwrap();
        }
    }
    let (_, metrics) = pair.leader.admin_get("metrics").await;
    // The one for another authority is not remembered.
    for (outcome, count) in [("replayed", 3), ("misdirected", 2)] {
        let line = format!("sotto_gateway_requests_total{{outcome=\"{outcome}\"}} {count}");
        assert!(metrics.contains(&line), "{metrics}");
    }
    let task_id = pair.task.id().to_string();
    pair.stop().await;

    let log = captured.text();
    assert!(log.contains("TRACE"), "nothing was captured: the test would prove nothing");
    let words = ["-of-a-device", "leader.example", task_id.as_str()];
    for text in [&log, &metrics] {
        let words = words.iter().map(|word| (*word).to_owned());
        for word in words.chain(addresses.iter().cloned()) {
            assert!(!text.contains(&word), "{word} is in {text}");
        }
        for bytes in ids.iter().chain(&sealed) {
            for shown in spellings(bytes) {
                assert!(!text.contains(&shown), "bytes of a request are in {text}");
            }
        }
    }
}
