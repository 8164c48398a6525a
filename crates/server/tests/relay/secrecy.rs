//! Nothing about a device appears in what the relay logs, counts, tells its operator or sends to a
//! gateway.

use std::net::Ipv4Addr;
use std::time::Duration;

use sotto_server::SourceRule;
use tokio::io::AsyncWriteExt;

use crate::captured::Captured;
use crate::relay::gateway::{Gateway, Reply};
use crate::relay::harness::{Server, answer, config, noise, pool_of};

/// A word in the head of a device's request. Unlike a port, it cannot be printed by chance.
const MARK: &str = "qzmarkqz";

fn marked_request(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /leader.example?{MARK} HTTP/1.1\r\nhost: {MARK}.example\r\nuser-agent: {MARK}\r\n\
         cookie: {MARK}\r\nx-{MARK}: 1\r\nconnection: close\r\n\
         content-type: message/ohttp-req; {MARK}=1\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

#[tokio::test]
async fn the_relay_keeps_quiet() {
    // Everything, from every crate.
    let Some(captured) = Captured::alone("relay::secrecy::the_relay_keeps_quiet", "trace") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start().await;
    let mut settings = config(&gateway, pool_of(8));
    settings.spool_dir = folder.path().to_owned();
    settings.source_limit = Some(SourceRule { max: 2, window: Duration::from_secs(600) });
    settings.gateway_timeout = Duration::from_millis(500);
    let relay = Server::start(settings).await;
    let sources: Vec<_> =
        (0..8).map(|index| Ipv4Addr::new(127, 71 + index, 131, 97 + index)).collect();
    let mut texts = Vec::new();
    // Once in memory and once on disk; once with a good gateway and once with a stuck one.
    for len in [6_000, 100_000] {
        let mut streams = Vec::new();
        for (index, source) in sources.iter().enumerate() {
            let mut stream = relay.connect_from(*source).await;
            stream.write_all(&marked_request(&noise(index as u64, len))).await.unwrap();
            streams.push(stream);
        }
        for stream in &mut streams {
            let answer = answer(stream).await;
            assert!(matches!(answer.status, 200 | 504), "{answer:?}");
            texts.push(answer.head);
            texts.push(String::from_utf8_lossy(&answer.body).into_owned());
        }
        gateway.answer_with(Reply::Stall(Vec::new()));
    }
    // Refusals: too many, a wrong path, a wrong method, a broken body, not HTTP at all.
    let marked = String::from_utf8(marked_request(b"body")).unwrap();
    for (bytes, status) in [
        (marked.clone(), Some(429)),
        (marked.replace("/leader", "/other"), Some(404)),
        (marked.replace("POST", "GET"), Some(405)),
        (marked.replace("content-length: 4", "content-length: qzmarkqz"), None),
        (format!("{MARK}\r\n\r\n"), None),
    ] {
        let mut stream = relay.connect_from(sources[0]).await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
        let answer = answer(&mut stream).await;
        assert_eq!(answer.status, status.unwrap_or(400), "{answer:?}");
        texts.push(answer.head);
        texts.push(String::from_utf8_lossy(&answer.body).into_owned());
    }
    texts.push(relay.admin_get("metrics").await.1);
    texts.push(relay.admin_get("readyz").await.1);
    relay.stopped().await;
    let recorded = gateway.recorded();
    assert_eq!(recorded.len(), 16);
    texts.extend(recorded.into_iter().map(|request| request.head));

    let log = captured.text();
    for known in ["sotto_server::relay", "a gateway does not answer", "TRACE", "hyper_util"] {
        assert!(log.contains(known), "{known} was not captured: the test would prove nothing");
    }
    texts.push(log);
    for text in &texts {
        assert!(!text.contains(MARK), "something of a head in {text}");
        for source in &sources {
            for shown in spellings(*source) {
                assert!(!text.contains(&shown), "{source} as {shown} in {text}");
            }
        }
    }
}

/// The ways in which an address is usually printed.
fn spellings(address: Ipv4Addr) -> [String; 5] {
    let bytes = address.octets();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let number = u32::from(address).to_string();
    [address.to_string(), hex.to_uppercase(), hex, number, format!("{bytes:?}")]
}
