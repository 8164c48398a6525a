//! Answers are read to their end at the gateway's speed, whatever the device does meanwhile.

use std::path::Path;
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::background::eventually;
use crate::relay::gateway::{Gateway, Reply};
use crate::relay::harness::{AT_ONCE, Server, config, noise, rest};

const KIB: usize = 1024;
/// Far more than all sockets on the path hold together.
const LARGE: usize = 64 * KIB * KIB;

/// A relay that can hold one and a half large answers on disk, and little in memory.
async fn relay(gateway: &Gateway, folder: &Path) -> Server {
    let mut settings = config(gateway, AT_ONCE);
    settings.spool_dir = folder.to_owned();
    settings.max_spool_bytes = (LARGE + LARGE / 2) as u64;
    settings.http.max_memory = 1024 * KIB;
    Server::start(settings).await
}

/// Waits until there is room for a large answer. Returns how many had no room so far.
async fn has_room(relay: &Server, gateway: &Gateway) -> usize {
    eventually("there is room", || async { relay.post(b"request").await.body.len() == LARGE })
        .await;
    gateway.broken_answers().await
}

/// Reads only the first bytes of an answer.
async fn begin_to_read(stream: &mut TcpStream) {
    let mut begun = [0; 100];
    stream.read_exact(&mut begun).await.unwrap();
    assert!(begun.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test]
async fn answers_of_every_length_come_back_whole() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start().await;
    let relay = relay(&gateway, folder.path()).await;
    for (len, spooled) in [(0, 0), (1, 0), (64 * KIB, 0), (64 * KIB + 1, 1), (LARGE, 2)] {
        let content = noise(len as u64, len);
        gateway.answer_with(Reply::ok(&content));
        let answer = relay.post(b"request").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.field("content-length"), Some(len.to_string().as_str()));
        assert!(answer.body == content, "{len}");
        assert_eq!(relay.metric("sotto_relay_spooled_total").await, spooled);
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
    }
    relay.stopped().await;
}

/// Otherwise the gateway could tell when the device got the first bytes.
#[tokio::test]
async fn a_device_gets_nothing_before_the_answer_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start().await;
    let relay = relay(&gateway, folder.path()).await;
    let content = noise(1, 1_000_000);
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", content.len());
    let (first, second) = content.split_at(999_999);
    let go_on = Arc::new(Notify::new());
    let begun = [head.as_bytes(), first].concat();
    gateway.answer_with(Reply::InTwo(begun, Arc::clone(&go_on), second.to_vec()));
    let mut stream = relay.begin(b"request").await;
    gateway.has(1).await;
    gateway.answer_with(Reply::ok(b"answer"));
    // Others are served meanwhile.
    assert_eq!(relay.post(b"request").await.status, 200);
    let nothing = stream.try_read(&mut [0; 1]).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
    go_on.notify_one();
    assert!(rest(&mut stream).await.ends_with(&content));
    relay.stopped().await;
}

#[tokio::test]
async fn a_device_that_leaves_or_does_not_read_does_not_show_at_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start().await;
    let relay = relay(&gateway, folder.path()).await;
    let content = noise(1, LARGE);
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LARGE}\r\n\r\n");
    let (first, second) = content.split_at(LARGE / 2);
    let begun = [head.as_bytes(), first].concat();
    // One disconnects while the answer is on its way to the relay.
    let go_on = Arc::new(Notify::new());
    gateway.answer_with(Reply::InTwo(begun, Arc::clone(&go_on), second.to_vec()));
    let gone = relay.begin(b"request").await;
    gateway.has(1).await;
    drop(gone);
    go_on.notify_one();
    assert_eq!(gateway.broken_answers().await, 0);
    // One disconnects in the middle of its answer, which the gateway finished long ago.
    gateway.answer_with(Reply::ok(&content));
    let broken = has_room(&relay, &gateway).await;
    let mut gone = relay.begin(b"request").await;
    begin_to_read(&mut gone).await;
    assert_eq!(gateway.broken_answers().await, broken);
    drop(gone);
    // One does not read: what is held for it is counted, and what does not fit is refused.
    let broken = has_room(&relay, &gateway).await;
    let mut idle = relay.begin(b"request").await;
    begin_to_read(&mut idle).await;
    assert_eq!(gateway.broken_answers().await, broken);
    let refused = relay.post(b"request").await;
    refused.is_problem(503);
    assert_eq!(refused.field("retry-after"), Some("1"));
    // Others are served, in memory and, as far as there is room, on disk.
    for len in [4 * KIB, 16 * KIB * KIB] {
        gateway.answer_with(Reply::ok(&noise(2, len)));
        assert_eq!(relay.post(b"request").await.body.len(), len);
    }
    // It still gets its answer, and all room is released.
    assert!(rest(&mut idle).await.ends_with(&content[LARGE / 2..]));
    gateway.answer_with(Reply::ok(&content));
    has_room(&relay, &gateway).await;
    relay.stopped().await;
}
