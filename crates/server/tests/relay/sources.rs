//! How many requests a source may send, and how many connections it may have.

use std::net::Ipv4Addr;
use std::time::Duration;

use sotto_server::SourceRule;
use tokio::io::AsyncWriteExt;

use crate::background::{PATIENCE, eventually};
use crate::relay::gateway::Gateway;
use crate::relay::harness::{AT_ONCE, Server, config, request, rest};

#[tokio::test]
async fn a_source_is_limited_for_a_window_and_then_forgotten() {
    let gateway = Gateway::start().await;
    let mut settings = config(&gateway, AT_ONCE);
    let window = Duration::from_secs(3);
    settings.source_limit = Some(SourceRule { max: 2, window });
    let relay = Server::start(settings).await;
    let (one, other) = (Ipv4Addr::new(127, 1, 2, 3), Ipv4Addr::new(127, 1, 2, 4));
    for _ in 0..2 {
        assert_eq!(relay.post_from(one, b"request").await.status, 200);
    }
    let refused = relay.post_from(one, b"request").await;
    refused.is_problem(429);
    assert_eq!(refused.field("retry-after"), Some("3"));
    assert_eq!(relay.post_from(other, b"request").await.status, 200);
    assert_eq!(gateway.recorded().len(), 3);
    assert_eq!(relay.metric("sotto_relay_source_limited_total").await, 1);
    eventually("the source is forgotten", || async {
        relay.post_from(one, b"request").await.status == 200
    })
    .await;
    relay.stopped().await;
}

/// A request is counted before it is read: otherwise one source could occupy everything with slow
/// bodies.
#[tokio::test]
async fn requests_count_from_their_head_on() {
    let gateway = Gateway::start().await;
    let mut settings = config(&gateway, AT_ONCE);
    let window = Duration::from_secs(600);
    settings.source_limit = Some(SourceRule { max: 1, window });
    let relay = Server::start(settings).await;
    let source = Ipv4Addr::new(127, 9, 9, 9);
    let mut slow = relay.connect_from(source).await;
    let head =
        crate::relay::harness::head(100).replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
    tokio::io::AsyncWriteExt::write_all(&mut slow, head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    tokio::io::AsyncReadExt::read_exact(&mut slow, &mut go_on).await.unwrap();
    relay.post_from(source, b"request").await.is_problem(429);
    assert!(gateway.recorded().is_empty());
    relay.stopped().await;
}

/// One address cannot take the connections of others, however idle its own are.
#[tokio::test]
async fn a_source_has_so_many_connections_and_no_more() {
    let gateway = Gateway::start().await;
    let mut settings = config(&gateway, AT_ONCE);
    settings.source_limit = Some(SourceRule::default());
    settings.http.connections.max_per_source = 8;
    // The same number is left for others.
    settings.http.connections.max_connections = 16;
    settings.http.connections.header_timeout = PATIENCE;
    let relay = Server::start(settings).await;
    let (one, other) = (Ipv4Addr::new(127, 4, 4, 4), Ipv4Addr::new(127, 4, 4, 5));
    let mut idle = Vec::new();
    for _ in 0..8 {
        idle.push(relay.connect_from(one).await);
    }
    for _ in 0..50 {
        let mut refused = relay.connect_from(one).await;
        assert!(rest(&mut refused).await.is_empty());
    }
    assert_eq!(relay.metric("sotto_connections_refused_total").await, 50);
    assert_eq!(relay.post_from(other, b"request").await.status, 200);
    // Those that it has still work.
    let mut kept = idle.pop().unwrap();
    kept.write_all(&request(b"request")).await.unwrap();
    assert!(rest(&mut kept).await.starts_with(b"HTTP/1.1 200"));
    // For each that ends, one more is allowed.
    eventually("the source may connect again", || async {
        let mut stream = relay.connect_from(one).await;
        stream.write_all(&request(b"request")).await.is_ok()
            && rest(&mut stream).await.starts_with(b"HTTP/1.1 200")
    })
    .await;
    drop(idle);
    eventually("all of its places are free", || async {
        let mut streams = Vec::new();
        for _ in 0..8 {
            streams.push(relay.connect_from(one).await);
        }
        for stream in &mut streams {
            if stream.write_all(&request(b"request")).await.is_err()
                || !rest(stream).await.starts_with(b"HTTP/1.1 200")
            {
                return false;
            }
        }
        true
    })
    .await;
    relay.stopped().await;
}

#[tokio::test]
async fn without_a_limit_one_address_may_have_all_connections() {
    let gateway = Gateway::start().await;
    let settings = config(&gateway, AT_ONCE);
    let limit = settings.http.connections.max_per_source;
    let relay = Server::start(settings).await;
    let mut idle = Vec::new();
    for _ in 0..=limit {
        idle.push(relay.connect().await);
    }
    assert_eq!(relay.post(b"request").await.status, 200);
    assert_eq!(relay.metric("sotto_connections_refused_total").await, 0);
    drop(idle);
    relay.stopped().await;
}
