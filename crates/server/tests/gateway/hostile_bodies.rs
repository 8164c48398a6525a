//! Hostile bodies, while others are served.

use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use reqwest::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::background::PATIENCE;
use crate::gateway::device::{Channel, SMALLEST, reports_url, setup, upload};

/// A request whose body is announced but not sent, or only in part.
async fn begin(channel: &Channel, announced: usize, beginning: &[u8]) -> TcpStream {
    let address = channel.url.trim_start_matches("http://").split('/').next().unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /gateway HTTP/1.1\r\nhost: x\r\ncontent-type: message/ohttp-req\r\ncontent-length: {announced}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(beginning).await.unwrap();
    stream
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn slow_bodies_are_given_up() {
    let mut setup = setup();
    setup.leader.server.http.body_timeout = Duration::from_millis(500);
    let mut pair = setup.start().await;
    let (url, channel) = (reports_url(pair.task.id()), Channel::to_leader(&pair));
    let report = pair.report(1);
    let (body, _) = channel.seal(&upload(&url, &report));
    let mut slow = Vec::new();
    for len in (0..32).map(|number| number * 100) {
        slow.push(begin(&channel, body.len(), &body[..len]).await);
    }
    for _ in 0..10 {
        let report = pair.report(1);
        assert_eq!(channel.ask(&upload(&url, &report)).await.status, 200);
    }
    for mut stream in slow {
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(answer.contains("application/problem+json") && answer.contains("about:blank"));
    }
    pair.stop().await;
}

/// Whatever arrives is refused, and the next upload is accepted.
#[tokio::test]
async fn garbage_is_refused() {
    let mut pair = setup().start().await;
    let (url, channel) = (reports_url(pair.task.id()), Channel::to_leader(&pair));
    let mut rng = ChaCha20Rng::seed_from_u64(41);
    for round in 0..100 {
        let report = pair.report(1);
        let (good, awaited) = channel.seal(&upload(&url, &report));
        let mut bad = good.clone();
        match round % 4 {
            // One bit of an honest request, its header included.
            0 => {
                let place = rng.next_u64() as usize % bad.len();
                bad[place] ^= 1 << (rng.next_u32() % 8);
            }
            // A truncated request.
            1 => bad.truncate(rng.next_u64() as usize % bad.len()),
            // Noise after a correct header.
            2 => rng.fill_bytes(&mut bad[7..]),
            // Noise.
            _ => {
                bad.truncate(1 + rng.next_u64() as usize % 8192);
                rng.fill_bytes(&mut bad);
            }
        }
        let outer = channel.post(bad).await;
        assert_eq!(outer.status, StatusCode::BAD_REQUEST);
        outer.problem();
        // The request that was garbled on the way was not remembered.
        let outer = channel.post(good).await;
        assert_eq!(crate::gateway::device::open(outer, awaited).status, 200);
    }
    assert_eq!(pair.leader.metric("sotto_reports_accepted_total").await, 100.0);
    pair.stop().await;
}

/// Bodies take memory as they arrive. What does not fit is refused, and nothing is lost.
#[tokio::test]
async fn memory_is_bounded_and_given_back() {
    let mut setup = setup();
    // Half of it is for jobs.
    setup.leader.server.http.max_memory = 192 * 1024;
    let mut pair = setup.start().await;
    let (url, channel) = (reports_url(pair.task.id()), Channel::to_leader(&pair));
    // Each announces 16 MiB.
    let mut slow = Vec::new();
    for _ in 0..16 {
        slow.push(begin(&channel, 16 * 1024 * 1024, &[1; 100]).await);
    }
    for _ in 0..50 {
        let too_much = channel.post(vec![1; 256 * 1024]).await;
        assert_eq!(too_much.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(too_much.retry_after);
        // Fits as it arrives, but not together with its opened form.
        let too_much = channel.post(vec![1; 64 * 1024]).await;
        assert_eq!(too_much.status, StatusCode::TOO_MANY_REQUESTS);
        let report = pair.report(1);
        let (body, awaited) = channel.seal(&upload(&url, &report));
        let outer = channel.post(body).await;
        assert_eq!(outer.body.len(), SMALLEST);
        assert_eq!(crate::gateway::device::open(outer, awaited).status, 200);
    }
    drop(slow);
    assert_eq!(pair.leader.metric("sotto_reports_accepted_total").await, 50.0);
    pair.stop().await;
}

/// An answer that nobody reads holds its memory for as long as a peer may be slow, and no longer.
#[tokio::test]
async fn peers_that_leave_give_their_memory_back() {
    let mut setup = setup();
    setup.leader.server.http.max_memory = 128 * 1024;
    let mut pair = setup.start().await;
    let (url, channel) = (reports_url(pair.task.id()), Channel::to_leader(&pair));
    for _ in 0..40 {
        let report = pair.report(1);
        let (body, _) = channel.seal(&upload(&url, &report));
        // The client disconnects before the answer.
        drop(begin(&channel, body.len(), &body).await);
    }
    crate::background::eventually("an upload is taken", || async {
        let (body, awaited) = channel.seal(&upload(&url, &[]));
        let outer = channel.post(body).await;
        outer.status == StatusCode::OK && awaited.consume_response(&outer.body).is_ok()
    })
    .await;
    pair.stop().await;
}
