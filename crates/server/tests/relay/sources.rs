//! How many requests a source may send.

use std::net::Ipv4Addr;
use std::time::Duration;

use sotto_server::SourceRule;

use crate::gateway::Gateway;
use crate::harness::{AT_ONCE, Server, config, eventually};

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
    relay.stop().await;
}

/// A request counts before it is read: else one source could hold all places with slow bodies.
#[tokio::test]
async fn requests_count_from_their_head_on() {
    let gateway = Gateway::start().await;
    let mut settings = config(&gateway, AT_ONCE);
    settings.source_limit = Some(SourceRule { max: 1, window: Duration::from_secs(600) });
    let relay = Server::start(settings).await;
    let source = Ipv4Addr::new(127, 9, 9, 9);
    let mut slow = relay.connect_from(source).await;
    let head = crate::harness::head(100).replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
    tokio::io::AsyncWriteExt::write_all(&mut slow, head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    tokio::io::AsyncReadExt::read_exact(&mut slow, &mut go_on).await.unwrap();
    relay.post_from(source, b"request").await.is_problem(429);
    assert!(gateway.recorded().is_empty());
    relay.stop().await;
}
