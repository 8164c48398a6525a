//! Gateways that are down, slow or broken, and invalid settings.

use std::time::Duration;

use sotto_protocol::relay::PoolRule;
use sotto_server::{BindError, Relay, RelayConfig};
use sotto_wire::size_class::SizeClass;

use crate::background::eventually;
use crate::relay::gateway::{Gateway, Reply};
use crate::relay::harness::{AT_ONCE, Server, answer, config, noise, pool_of};

#[tokio::test]
async fn a_gateway_that_is_away_and_comes_back() {
    let gateway = Gateway::start().await;
    let relay = Server::start(config(&gateway, AT_ONCE)).await;
    // A connection is kept, and later found to be closed.
    assert_eq!(relay.post(b"request").await.status, 200);
    let addr = gateway.stop().await;
    for _ in 0..2 {
        relay.post(b"request").await.is_problem(502);
    }
    let (status, ready) = relay.admin_get("readyz").await;
    assert_eq!(status, 200, "{ready}");
    assert!(ready.contains("gateway_unreachable") && ready.contains("leader.example"), "{ready}");
    let gateway = Gateway::listen(addr, None).await;
    assert_eq!(relay.post(b"request").await.status, 200);
    assert!(relay.admin_get("readyz").await.1.contains("\"ready\""));
    assert_eq!(gateway.recorded().len(), 1);
    assert_eq!(relay.metric(r#"sotto_relay_exchanges_total{outcome="unreachable"}"#).await, 2);
    relay.stopped().await;
}

/// A request that may have arrived is not sent again.
#[tokio::test]
async fn a_gateway_that_does_not_answer() {
    let gateway = Gateway::start().await;
    let mut settings = config(&gateway, AT_ONCE);
    settings.gateway_timeout = Duration::from_millis(400);
    let relay = Server::start(settings).await;
    gateway.answer_with(Reply::Stall(Vec::new()));
    relay.post(b"1").await.is_problem(504);
    gateway.answer_with(Reply::Close);
    relay.post(b"2").await.is_problem(502);
    gateway.answer_with(Reply::Bytes(b"HTTP/1.1 banana\r\n\r\n".to_vec()));
    relay.post(b"3").await.is_problem(502);
    gateway.answer_with(Reply::Bytes(b"HTTP/1.1 101 x\r\nupgrade: x\r\n\r\n".to_vec()));
    relay.post(b"4").await.is_problem(502);
    assert_eq!(gateway.bodies(), [b"1", b"2", b"3", b"4"]);
    assert_eq!(relay.metric(r#"sotto_relay_exchanges_total{outcome="late"}"#).await, 1);
    relay.stopped().await;
}

/// A device gets a complete answer or none.
#[tokio::test]
async fn an_answer_that_does_not_end() {
    let gateway = Gateway::start().await;
    let mut settings = config(&gateway, AT_ONCE);
    settings.gateway_timeout = Duration::from_millis(400);
    let relay = Server::start(settings).await;
    let head = |len: usize| format!("HTTP/1.1 200 OK\r\ncontent-length: {len}\r\n\r\n");
    let begun = |len, arrived| [head(len).into_bytes(), noise(1, arrived)].concat();
    let too_long = SizeClass::MAX_RESPONSE.bytes() + 1;
    let replies = [
        Reply::Stall(begun(10, 5)),
        Reply::Stall(begun(1_000_000, 500_000)),
        Reply::Trickle(begun(1_000, 5)),
        Reply::Trickle(begun(1_000_000, 100_000)),
        Reply::Stall(begun(too_long, 0)),
    ];
    for (reply, count) in replies.into_iter().zip(1..) {
        gateway.answer_with(reply);
        relay.post(b"request").await.is_problem(502);
        let broken = r#"sotto_relay_exchanges_total{outcome="broken"}"#;
        assert_eq!(relay.metric(broken).await, count);
        assert!(relay.admin_get("readyz").await.1.contains("gateway_unreachable"));
    }
    gateway.answer_with(Reply::ok(b"answer"));
    assert_eq!(relay.post(b"request").await.status, 200);
    assert!(relay.admin_get("readyz").await.1.contains("\"ready\""));
    relay.stopped().await;
}

/// Requests for a gateway that is stuck do not hold up those for another.
#[tokio::test]
async fn a_stuck_gateway_holds_up_no_other() {
    let (stuck, other) = (Gateway::start().await, Gateway::start().await);
    stuck.answer_with(Reply::Stall(Vec::new()));
    let mut settings = config(&other, AT_ONCE);
    let mut second = settings.gateways[0].clone();
    (second.operator, second.url) = ("stuck.example".parse().unwrap(), stuck.url());
    settings.gateways.push(second);
    settings.http.drain_deadline = Duration::from_millis(200);
    let relay = Server::start(settings).await;
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let request = String::from_utf8(crate::relay::harness::request(b"x")).unwrap();
        let request = request.replace("leader.example", "stuck.example");
        let mut stream = relay.connect().await;
        tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
        waiting.push(stream);
    }
    stuck.has(20).await;
    assert_eq!(relay.post(b"request").await.status, 200);
    // The drain has a deadline.
    relay.stopped().await;
}

/// A wrong URL in the configuration is visible to the relay's operator, not only to devices.
#[tokio::test]
async fn what_is_no_gateway_is_told_the_operator() {
    let gateway = Gateway::start().await;
    let relay = Server::start(config(&gateway, AT_ONCE)).await;
    for head in ["404 Not Found", "405 Method Not Allowed", "200 OK\r\ncontent-type: text/html"] {
        let reply = format!("HTTP/1.1 {head}\r\ncontent-length: 2\r\n\r\nno");
        gateway.answer_with(Reply::Bytes(reply.into_bytes()));
        assert_eq!(relay.post(b"1").await.body, b"no");
        assert!(relay.admin_get("readyz").await.1.contains("gateway_unreachable"), "{head}");
        gateway.answer_with(Reply::ok(b"sealed"));
        assert_eq!(relay.post(b"1").await.status, 200);
        assert!(relay.admin_get("readyz").await.1.contains("\"ready\""), "{head}");
    }
    assert_eq!(relay.metric("sotto_relay_exchanges_total{outcome=\"foreign\"}").await, 3);
    relay.stopped().await;
}

#[tokio::test]
async fn a_pool_of_trouble_is_answered_whole() {
    let gateway = Gateway::start().await;
    let relay = Server::start(config(&gateway, pool_of(3))).await;
    gateway.stop().await;
    let mut first = relay.begin(b"1").await;
    let mut second = relay.begin(b"2").await;
    relay.holds(2).await;
    relay.post(b"3").await.is_problem(502);
    answer(&mut first).await.is_problem(502);
    answer(&mut second).await.is_problem(502);
    eventually("nothing is held", || async {
        relay.metric("sotto_relay_held_requests").await == 0
    })
    .await;
    relay.stopped().await;
}

#[tokio::test]
async fn settings_that_cannot_be() {
    let gateway = Gateway::start().await;
    let refused = async |change: &dyn Fn(&mut RelayConfig), words: &str| {
        let mut settings = config(&gateway, AT_ONCE);
        change(&mut settings);
        let error = Relay::bind(settings).await.unwrap_err();
        assert!(matches!(error, BindError::Config(_)), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    refused(&|settings| settings.gateways.clear(), "at least one gateway").await;
    let twice = |settings: &mut RelayConfig| settings.gateways.push(settings.gateways[0].clone());
    refused(&twice, "leader.example: it is listed twice").await;
    let plain = |settings: &mut RelayConfig| {
        settings.gateways[0].url = "http://leader.example/gateway".into();
    };
    refused(&plain, "--insecure-http").await;
    let wait = |settings: &mut RelayConfig| {
        settings.pool = PoolRule { min: 2, wait_ms: PoolRule::MAX_WAIT_MS + 1 };
    };
    refused(&wait, "but at most 60000 is allowed").await;
    let folder = |settings: &mut RelayConfig| settings.spool_dir = "/nowhere/at/all".into();
    refused(&folder, "/nowhere/at/all").await;
    let everywhere =
        RelayConfig::new("0.0.0.0:0".parse().unwrap(), config(&gateway, AT_ONCE).gateways);
    assert!(matches!(Relay::bind(everywhere).await, Err(BindError::PlainHttp { .. })));
}
