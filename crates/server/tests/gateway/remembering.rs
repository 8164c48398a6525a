//! What a gateway remembers, and what it does when it cannot remember any more.

use sotto_protocol::oblivious::InnerRequest;
use sotto_server::{GatewayConfig, GatewayLimits};
use tokio::net::TcpListener;

use crate::background::LOOPBACK;
use crate::gateway::device::{
    Channel, LEADER, gateway_config, open, problem, read, reports_url, setup, upload,
};
use crate::gateway::standalone::{start_with, target};
use crate::server::harness::{Server, histogram};

async fn outcomes<const N: usize>(server: &Server, names: [&str; N]) -> [f64; N] {
    let mut counts = [0.0; N];
    for (count, name) in counts.iter_mut().zip(names) {
        let metric = format!("sotto_gateway_requests_total{{outcome=\"{name}\"}}");
        *count = server.metric(&metric).await;
    }
    counts
}

/// Anybody can fill the memory. Uploads are still accepted, and a replay is still counted only
/// once.
#[tokio::test]
async fn a_full_memory_keeps_no_upload_out() {
    let mut setup = setup();
    setup.leader.server.gateway.as_mut().unwrap().limits.max_remembered = 2;
    let mut pair = setup.start().await;
    let (url, channel) = (reports_url(pair.task.id()), Channel::to_leader(&pair));
    let mut bodies = Vec::new();
    for index in [0, 1, 2, 3, 3] {
        let report = pair.report(index);
        let (body, awaited) = channel.seal(&upload(&url, &report));
        assert_eq!(open(channel.post(body.clone()).await, awaited).status, 200);
        bodies.push(body);
    }
    let names = ["answered", "unremembered", "replayed", "full"];
    assert_eq!(outcomes(&pair.leader, names).await, [2.0, 3.0, 0.0, 0.0]);
    // What was remembered still is, and the window of dates has not changed.
    for body in bodies {
        channel.post(body).await;
    }
    assert_eq!(outcomes(&pair.leader, names).await, [2.0, 6.0, 2.0, 0.0]);
    let old = sotto_protocol::Moment(crate::server::harness::moment().0 - 3600);
    let report = pair.report(0);
    let (body, awaited) = channel.seal_at(&upload(&url, &report), old);
    assert_eq!(open(channel.post(body).await, awaited).status, 400);
    let everything = pair.everything();
    assert_eq!(pair.collect(&everything).await.result, histogram(&[1, 1, 1, 2]));
    pair.stop().await;
}

#[tokio::test]
async fn what_cannot_be_delivered_is_not_remembered() {
    let mut setup = setup();
    setup.leader.server.gateway.as_mut().unwrap().limits.max_remembered = 1;
    let mut pair = setup.start().await;
    let (url, channel) = (reports_url(pair.task.id()), Channel::to_leader(&pair));
    let elsewhere = url.replace("leader", "log");
    let twice = [("accept", "a/b"), ("accept", "c/d")];
    for (url, fields, status) in [(&elsewhere, &twice[..1], 421), (&url, &twice, 400)] {
        let request = InnerRequest { method: "POST", url, fields, content: b"" };
        let (body, _) = channel.seal(&request);
        channel.post(body.clone()).await;
        channel.post(body).await;
        assert_eq!(channel.ask(&request).await.status, status);
    }
    let names = ["misdirected", "malformed", "replayed", "answered", "unremembered"];
    assert_eq!(outcomes(&pair.leader, names).await, [3.0, 3.0, 0.0, 0.0, 0.0]);
    // So there is room for one.
    for _ in 0..2 {
        let report = pair.report(1);
        assert_eq!(channel.ask(&upload(&url, &report)).await.status, 200);
    }
    assert_eq!(outcomes(&pair.leader, names).await, [3.0, 3.0, 0.0, 1.0, 1.0]);
    pair.stop().await;
}

/// The effect of a replay on a server over HTTP is not known.
#[tokio::test]
async fn a_gateway_of_its_own_takes_only_what_it_can_remember() {
    // Nobody listens there any more.
    let gone = TcpListener::bind(LOOPBACK).await.unwrap().local_addr().unwrap();
    let limits = GatewayLimits { max_remembered: 2, ..GatewayLimits::default() };
    let config = GatewayConfig { limits, ..gateway_config() };
    let targets = vec![target(LEADER, &format!("http://{gone}"))];
    let (gateway, channel) = start_with(config, targets).await;
    let url = format!("{LEADER}/checkpoint");
    for (url, status) in [
        ("https://other.example/", 421),
        ("https://other.example/", 421),
        (&url, 502),
        ("https://other.example/", 421),
        (&url, 502),
        (&url, 503),
        (&url, 503),
    ] {
        let response = channel.ask(&read(url)).await;
        assert_eq!(response.status, status, "{url}");
        assert_eq!(problem(&response.content, status).0, "about:blank");
        let told = response.fields.iter().any(|(name, _)| name == "retry-after");
        assert_eq!(told, status == 503);
    }
    let names = ["misdirected", "unanswered", "full", "unremembered"];
    assert_eq!(outcomes(&gateway, names).await, [3.0, 2.0, 2.0, 0.0]);
    gateway.stopped().await;
}
