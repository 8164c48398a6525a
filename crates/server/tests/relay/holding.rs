//! Held bodies never use more than what was set aside for them: memory, disk, time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use crate::background::eventually;
use crate::relay::gateway::{Gateway, Reply};
use crate::relay::harness::{
    AT_ONCE, OPERATOR, Server, answer, config, head, noise, pool_of, rest,
};

const KIB: usize = 1024;

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

/// How many unnamed files this process has open in a folder.
#[cfg(target_os = "linux")]
fn unnamed_files(folder: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets
        .filter(|path| path.starts_with(folder) && path.to_string_lossy().ends_with("(deleted)"))
        .count()
}

#[tokio::test]
async fn large_bodies_wait_in_files_without_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start().await;
    let mut settings = config(&gateway, pool_of(2));
    settings.spool_dir = folder.path().to_owned();
    let relay = Server::start(settings).await;
    // One that stays in memory, one byte more, several writes, the largest.
    for (spooled, len) in [(0, 64 * KIB), (2, 64 * KIB + 1), (4, 1_000_000), (6, 16 * KIB * KIB)] {
        let sent = [noise(1, len), noise(2, len)];
        let mut first = relay.begin(&sent[0]).await;
        relay.holds(1).await;
        assert!(is_empty(folder.path()), "{len}");
        #[cfg(target_os = "linux")]
        assert_eq!(unnamed_files(folder.path()), usize::from(spooled > 0), "{len}");
        assert_eq!(relay.post(&sent[1]).await.status, 200);
        assert_eq!(answer(&mut first).await.status, 200);
        let arrived = gateway.bodies();
        let [one, other] = &arrived[arrived.len() - 2..] else { panic!() };
        let (one, other) = if *one == sent[0] { (one, other) } else { (other, one) };
        assert!(*one == sent[0] && *other == sent[1], "{len}");
        assert_eq!(relay.metric("sotto_relay_spooled_total").await, spooled);
    }
    #[cfg(target_os = "linux")]
    eventually("the files are gone", || async { unnamed_files(folder.path()) == 0 }).await;
    assert!(is_empty(folder.path()));
    relay.stopped().await;
}

#[tokio::test]
async fn a_full_disk_budget_turns_large_requests_away_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start().await;
    let mut settings = config(&gateway, pool_of(2));
    settings.spool_dir = folder.path().to_owned();
    settings.max_spool_bytes = 300 * KIB as u64;
    let relay = Server::start(settings).await;
    let mut held = relay.begin(&noise(1, 200 * KIB)).await;
    relay.holds(1).await;
    for _ in 0..3 {
        let refused = relay.post(&noise(2, 200 * KIB)).await;
        refused.is_problem(429);
        assert_eq!(refused.field("retry-after"), Some("1"));
    }
    // Others are served, in memory and, as far as there is room, on disk.
    let (one, other) = (noise(3, 4096), noise(4, 4096));
    let (one, other) = tokio::join!(relay.post(&one), relay.post(&other));
    assert_eq!((one.status, other.status), (200, 200));
    assert_eq!(relay.post(&noise(5, 70 * KIB)).await.status, 200);
    assert_eq!(answer(&mut held).await.status, 200);
    // Everything that was taken is released.
    eventually("the disk is free again", || async {
        let large = noise(6, 140 * KIB);
        let (one, other) = tokio::join!(relay.post(&large), relay.post(&large));
        (one.status, other.status) == (200, 200)
    })
    .await;
    relay.stopped().await;
}

/// A gateway holds what it gets in memory: the rest waits on the relay's disk. Small requests do not
/// wait for large ones.
#[tokio::test]
async fn large_requests_go_to_a_gateway_a_few_at_a_time() {
    let gateway = Gateway::start().await;
    let Reply::Bytes(ok) = Reply::ok(b"answer") else { panic!() };
    let answered = Arc::new(Notify::new());
    gateway.answer_with(Reply::InTwo(Vec::new(), Arc::clone(&answered), ok));
    let relay = Server::start(config(&gateway, AT_ONCE)).await;
    let large = vec![7; 16 * KIB * KIB];
    let mut waiting = Vec::new();
    for _ in 0..6 {
        waiting.push(relay.begin(&large).await);
    }
    gateway.has(4).await;
    waiting.push(relay.begin(b"small").await);
    gateway.has(5).await;
    let arrived = gateway.bodies();
    assert_eq!(arrived.iter().filter(|body| body.len() == large.len()).count(), 4);
    assert_eq!(arrived.len(), 5);
    drop(arrived);
    let answering = tokio::spawn(async move {
        loop {
            answered.notify_waiters();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    for stream in &mut waiting {
        assert_eq!(answer(stream).await.status, 200);
    }
    answering.abort();
    assert_eq!(gateway.bodies().len(), 7);
    relay.stopped().await;
}

#[tokio::test]
async fn held_bodies_share_the_memory() {
    let gateway = Gateway::start().await;
    let mut settings = config(&gateway, pool_of(100));
    // Half of it is for answers.
    settings.http.max_memory = 512 * KIB;
    let mut relay = Server::start(settings).await;
    let mut held = Vec::new();
    for count in 1..=4 {
        held.push(relay.begin(&noise(count, 60 * KIB)).await);
        relay.holds(count).await;
    }
    let refused = relay.post(&noise(9, 60 * KIB)).await;
    refused.is_problem(429);
    assert_eq!(refused.field("retry-after"), Some("1"));
    held.push(relay.begin(&noise(9, 4 * KIB)).await);
    relay.holds(5).await;
    relay.begin_stop();
    for stream in &mut held {
        assert_eq!(answer(stream).await.status, 200);
    }
    assert_eq!(gateway.recorded().len(), 5);
    relay.stopped().await;
}

#[tokio::test]
async fn too_long_is_too_long() {
    let gateway = Gateway::start().await;
    let mut settings = config(&gateway, AT_ONCE);
    settings.max_spool_bytes = 17 * 1024 * 1024;
    let relay = Server::start(settings).await;
    let mut stream = relay.connect().await;
    stream.write_all(head(16 * KIB * KIB + 1).as_bytes()).await.unwrap();
    answer(&mut stream).await.is_problem(413);
    // A body without an announced length, which is cut off somewhere beyond the limit.
    let mut stream = relay.connect().await;
    let head = format!(
        "POST /{OPERATOR} HTTP/1.1\r\nhost: x\r\ncontent-type: message/ohttp-req\r\n\
         connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut chunk = b"100000\r\n".to_vec();
    chunk.resize(chunk.len() + 0x10_0000, 7);
    chunk.extend_from_slice(b"\r\n");
    let mut sent = 0;
    while sent < 100 && stream.write_all(&chunk).await.is_ok() {
        sent += 1;
    }
    assert!((16..100).contains(&sent), "{sent}");
    assert!(gateway.recorded().is_empty());
    // It left nothing behind.
    eventually("there is room for the largest", || async {
        relay.post(&noise(1, 16 * KIB * KIB)).await.status == 200
    })
    .await;
    relay.stopped().await;
}

#[tokio::test]
async fn what_breaks_off_goes_nowhere() {
    let gateway = Gateway::start().await;
    let relay = Server::start(config(&gateway, AT_ONCE)).await;
    for (announced, sent) in [(100, 0), (100, 99), (1_000_000, 0), (1_000_000, 500_000)] {
        let mut stream = relay.connect().await;
        stream.write_all(head(announced).as_bytes()).await.unwrap();
        stream.write_all(&noise(1, sent)).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{answer:?}");
    }
    for garbage in [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"[..], b"\0\r\n\r\n"] {
        let mut stream = relay.connect().await;
        stream.write_all(garbage).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
    }
    assert_eq!(relay.post(b"whole").await.status, 200);
    assert_eq!(gateway.bodies(), [b"whole"]);
    relay.stopped().await;
}

#[tokio::test]
async fn dawdlers_are_cut_off_and_hold_nobody_up() {
    let gateway = Gateway::start().await;
    let mut settings = config(&gateway, AT_ONCE);
    settings.http.connections.header_timeout = Duration::from_millis(300);
    settings.http.connections.max_connections = 3;
    settings.http.body_timeout = Duration::from_millis(300);
    settings.http.max_memory = 256 * KIB;
    let relay = Server::start(settings).await;
    // They hold all the connections there are.
    let mut silent = relay.connect().await;
    let mut slow_head = relay.connect().await;
    slow_head.write_all(b"POST /leader.example HTTP/1.1\r\nhost:").await.unwrap();
    let mut slow_body = relay.connect().await;
    slow_body.write_all(head(10_000).as_bytes()).await.unwrap();
    slow_body.write_all(b"x").await.unwrap();
    // This one waits for a connection and gets one.
    assert_eq!(relay.post(b"request").await.status, 200);
    assert!(rest(&mut silent).await.is_empty());
    let refused = rest(&mut slow_head).await;
    assert!(refused.is_empty() || refused.starts_with(b"HTTP/1.1 4"), "{refused:?}");
    answer(&mut slow_body).await.is_problem(408);
    // A large one that trickles into a file.
    let mut slow_file = relay.connect().await;
    slow_file.write_all(head(1_000_000).as_bytes()).await.unwrap();
    slow_file.write_all(&noise(1, 100)).await.unwrap();
    answer(&mut slow_file).await.is_problem(408);
    assert_eq!(gateway.bodies(), [b"request"]);
    relay.stopped().await;
}

/// Each announces the longest request that is allowed, and sends next to nothing.
#[tokio::test]
async fn slow_large_bodies_do_not_shut_out_small_ones() {
    let gateway = Gateway::start().await;
    let mut settings = config(&gateway, AT_ONCE);
    settings.http.max_memory = 256 * KIB;
    settings.max_spool_bytes = 1024 * KIB as u64;
    let relay = Server::start(settings).await;
    let mut slow = Vec::new();
    for _ in 0..32 {
        let mut stream = relay.connect().await;
        let head = head(16 * KIB * KIB).replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut go_on = [0; 25];
        stream.read_exact(&mut go_on).await.unwrap();
        stream.write_all(b"x").await.unwrap();
        slow.push(stream);
    }
    assert_eq!(relay.post(&noise(1, 32 * KIB)).await.status, 200);
    assert_eq!(relay.post(&noise(2, 200 * KIB)).await.status, 200);
    drop(slow);
    relay.stopped().await;
}
