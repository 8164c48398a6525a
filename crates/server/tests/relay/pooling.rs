//! Requests wait for each other.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use sotto_protocol::relay::PoolRule;
use sotto_server::{Relay, RelayGateway, SourceRule};
use tokio::io::AsyncWriteExt;

use crate::background::eventually;
use crate::relay::gateway::Gateway;
use crate::relay::harness::{AT_ONCE, Server, answer, config, noise, pool_of};

#[tokio::test]
async fn nothing_leaves_before_the_pool_is_full() {
    let gateway = Gateway::start().await;
    let relay = Server::start(config(&gateway, pool_of(5))).await;
    let mut sent = Vec::new();
    let mut streams = Vec::new();
    for index in 0..5 {
        assert!(gateway.recorded().is_empty());
        sent.push(noise(index, 4096));
        streams.push(relay.begin(&sent[index as usize]).await);
        if index < 4 {
            relay.holds(index + 1).await;
        }
    }
    for stream in &mut streams {
        assert_eq!(answer(stream).await.status, 200);
    }
    let mut arrived = gateway.bodies();
    arrived.sort();
    sent.sort();
    assert!(arrived == sent);
    assert_eq!(relay.metric(r#"sotto_relay_pools_total{reason="full"}"#).await, 1);
    assert_eq!(relay.metric(r#"sotto_relay_exchanges_total{outcome="answered"}"#).await, 5);
    assert_eq!(relay.metric("sotto_relay_held_requests").await, 0);
    relay.stopped().await;
}

#[tokio::test]
async fn a_pool_that_does_not_fill_leaves_after_its_wait() {
    let gateway = Gateway::start().await;
    let wait = Duration::from_millis(400);
    let rule = PoolRule { min: 100, wait_ms: 400 };
    let relay = Server::start(config(&gateway, rule)).await;
    for round in 1..=2 {
        let start = Instant::now();
        let (one, other) = tokio::join!(relay.post(b"one"), relay.post(b"other"));
        assert_eq!((one.status, other.status), (200, 200));
        let recorded = gateway.recorded();
        assert_eq!(recorded.len(), 2 * round);
        for request in &recorded[2 * (round - 1)..] {
            assert!(request.at - start >= wait, "{:?}", request.at - start);
        }
    }
    relay.stopped().await;
}

/// Requests of another size or for another gateway do not mix.
#[tokio::test]
async fn sizes_and_gateways_have_pools_of_their_own() {
    let gateway = Gateway::start().await;
    let other = Gateway::start().await;
    let mut settings = config(&gateway, pool_of(2));
    let operator = "log.example".parse().unwrap();
    settings.gateways.push(RelayGateway { operator, url: other.url(), pool: Some(pool_of(3)) });
    let relay = Server::start(settings).await;
    let mut small = relay.begin(&noise(1, 4096)).await;
    let mut large = relay.begin(&noise(2, 16 * 1024)).await;
    // A request that fills no size class does not mix with those that fill one.
    let mut odd = relay.begin(&noise(3, 4095)).await;
    let mut elsewhere = relay.connect().await;
    let bytes = String::from_utf8(crate::relay::harness::request(b"x")).unwrap();
    let bytes = bytes.replace("leader.example", "log.example");
    elsewhere.write_all(bytes.as_bytes()).await.unwrap();
    relay.holds(4).await;
    assert!(gateway.recorded().is_empty() && other.recorded().is_empty());
    for (len, waiting) in [(4096, &mut small), (16 * 1024, &mut large), (100_000, &mut odd)] {
        let before = gateway.recorded().len();
        assert_eq!(relay.post(&noise(4, len)).await.status, 200);
        assert_eq!(answer(waiting).await.status, 200);
        assert_eq!(gateway.recorded().len(), before + 2);
    }
    relay.holds(1).await;
    assert!(other.recorded().is_empty());
    relay.stopped().await;
}

/// Many requests of one sender do not hide those of others: the sender knows which ones are its
/// own.
#[tokio::test]
async fn company_is_counted_by_source() {
    let gateway = Gateway::start().await;
    let mut settings = config(&gateway, pool_of(16));
    settings.source_limit = Some(SourceRule::default());
    let relay = Server::start(settings).await;
    let source = |last| Ipv4Addr::new(127, 3, 3, last);
    let body = noise(1, 4096);
    let mut streams = vec![relay.begin_from(source(1), &body).await];
    for _ in 0..15 {
        streams.push(relay.begin_from(source(2), &body).await);
    }
    relay.holds(16).await;
    for last in 3..=15 {
        streams.push(relay.begin_from(source(last), &body).await);
    }
    relay.holds(29).await;
    assert!(gateway.recorded().is_empty());
    streams.push(relay.begin_from(source(16), &body).await);
    for stream in &mut streams {
        assert_eq!(answer(stream).await.status, 200);
    }
    assert_eq!(gateway.recorded().len(), 30);
    assert_eq!(relay.metric(r#"sotto_relay_pools_total{reason="full"}"#).await, 1);
    relay.stopped().await;
}

/// A device that disconnects does not take its request with it: the others would hide among fewer
/// requests than promised, and the gateway would see when the device left.
#[tokio::test]
async fn a_device_that_goes_away_leaves_its_request() {
    let gateway = Gateway::start().await;
    let relay = Server::start(config(&gateway, pool_of(3))).await;
    let (one, other) = (relay.begin(b"gone").await, relay.begin(b"gone too").await);
    relay.holds(2).await;
    drop((one, other));
    assert_eq!(relay.post(b"here").await.status, 200);
    gateway.has(3).await;
    relay.stopped().await;
}

#[tokio::test]
async fn draining_sends_on_what_waits_and_takes_no_more() {
    let gateway = Gateway::start().await;
    let mut relay = Server::start(config(&gateway, pool_of(100))).await;
    let mut small = relay.begin(b"held").await;
    let mut large = relay.begin(&noise(1, 200_000)).await;
    // These are still arriving when the shutdown begins. Each of them would be forwarded alone.
    let bytes = crate::relay::harness::request(b"late");
    let mut late = [relay.connect().await, relay.connect().await];
    for stream in &mut late {
        stream.write_all(&bytes[..bytes.len() - 1]).await.unwrap();
    }
    relay.holds(2).await;
    assert!(gateway.recorded().is_empty());
    relay.begin_stop();
    eventually("the relay drains", || async {
        relay.admin_get("readyz").await.1.contains("draining")
    })
    .await;
    for stream in [&mut small, &mut large] {
        assert_eq!(answer(stream).await.status, 200);
    }
    for stream in &mut late {
        stream.write_all(&bytes[bytes.len() - 1..]).await.unwrap();
        let refused = answer(stream).await;
        refused.is_problem(503);
        assert_eq!(refused.field("retry-after"), Some("1"));
    }
    assert_eq!(gateway.recorded().len(), 2);
    relay.stopped().await;
}

#[tokio::test]
async fn dropping_the_relay_ends_it_on_the_spot() {
    let gateway = Gateway::start().await;
    gateway.answer_with(crate::relay::gateway::Reply::Stall(Vec::new()));
    let relay = Relay::bind(config(&gateway, AT_ONCE)).await.unwrap();
    let addr = relay.addr();
    let running = tokio::spawn(relay.run(std::future::pending()));
    let mut stream = tokio::net::TcpStream::connect(addr).await.unwrap();
    let bytes = crate::relay::harness::request(b"request");
    stream.write_all(&bytes).await.unwrap();
    gateway.has(1).await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    assert!(crate::relay::harness::rest(&mut stream).await.is_empty());
}
