//! Uploads through the leader's gateway.

use sotto_server::{BindError, GatewayConfig, GatewayLimits, Helper, Leader};
use sotto_store::MemoryStore;
use sotto_wire::{BatchMode, MediaType, Time};

use crate::gateway::device::{
    Channel, GATEWAY_KEY, LEADER, SMALLEST, encoded, field, gateway_config, reports_url, setup,
    upload,
};
use crate::server::harness::{Setup, histogram, keypair};

#[tokio::test]
async fn reports_end_in_a_batch() {
    let mut pair = setup().start().await;
    let url = reports_url(pair.task.id());
    let mut channel = Channel::to_leader(&pair);
    for index in [0, 1, 2, 3, 3] {
        let report = pair.report(index);
        let response = channel.ask(&upload(&url, &report)).await;
        assert_eq!((response.status, response.content.as_slice()), (200, &b""[..]));
        // Also at the well-known URL of a gateway.
        channel.url = format!("{}.well-known/ohttp-gateway", pair.leader.url);
    }
    let everything = pair.everything();
    assert_eq!(pair.collect(&everything).await.result, histogram(&[1, 1, 1, 2]));
    let answered = r#"sotto_gateway_requests_total{outcome="answered"}"#;
    assert_eq!(pair.leader.metric(answered).await, 5.0);
    pair.stop().await;
}

/// The leader's answers pass with their media type, in the smallest class.
#[tokio::test]
async fn refused_reports_are_told() {
    let mut pair = setup().start().await;
    let (url, channel) = (reports_url(pair.task.id()), Channel::to_leader(&pair));
    let report = pair.report(1);
    assert_eq!(channel.ask(&upload(&url, &report)).await.status, 200);
    // An unknown task.
    let unknown = reports_url(&sotto_wire::TaskId::new([1; 32]));
    let response = channel.ask(&upload(&unknown, &report)).await;
    assert_eq!(response.status, 404);
    assert_eq!(field(&response, "content-type"), Some("application/problem+json"));
    assert!(String::from_utf8(response.content).unwrap().contains("unrecognizedTask"));
    // A report from tomorrow: the answer names its id.
    let tomorrow = Time::new(pair.now().as_units() + 24);
    let early = pair.report_at(1, tomorrow);
    let response = channel.ask(&upload(&url, &early)).await;
    assert_eq!(response.status, 200);
    assert_eq!(field(&response, "content-type"), Some(MediaType::UploadErrors.as_str()));
    assert_eq!(response.content[..16], early[..16]);
    pair.stop().await;
}

/// The public path of the leader applies to the gateway and to the requests inside.
#[tokio::test]
async fn below_a_path() {
    let mut config = setup();
    config.leader.server.http.base_path = "/dap".into();
    let mut pair = config.start().await;
    let channel = Channel::to_leader(&pair);
    assert!(channel.url.ends_with("/dap/gateway"));
    let report = pair.report(1);
    let url = format!("{LEADER}/dap/tasks/{}/reports", pair.task.id());
    assert_eq!(channel.ask(&upload(&url, &report)).await.status, 200);
    let url = reports_url(pair.task.id());
    assert_eq!(channel.ask(&upload(&url, &report)).await.status, 404);
    pair.stop().await;
}

/// Requests of other clients need not be padded; answers always are.
#[tokio::test]
async fn without_padding() {
    let mut pair = setup().start().await;
    let channel = Channel::to_leader(&pair);
    let report = pair.report(1);
    let path = format!("/tasks/{}/reports", pair.task.id());
    let date = sotto_protocol::http_date::rounded_date(crate::server::harness::moment());
    let field = |name, value| sotto_wire::bhttp::Field { name, value };
    let request = sotto_wire::bhttp::Request {
        method: "POST",
        scheme: "https",
        // The same origin in another spelling.
        authority: "Leader.Example:443",
        path: &path,
        fields: vec![
            field("content-type", MediaType::UploadReq.as_str().as_bytes()),
            field("date", date.as_bytes()),
            field("cookie", b"none of the leader's business"),
        ],
        content: report.as_slice().into(),
        trailers: Vec::new(),
    };
    let answer = channel.ask_raw(&encoded(&request)).await;
    assert_eq!((answer.outer_len, answer.status), (SMALLEST, 200));
    pair.stop().await;
}

#[tokio::test]
async fn what_cannot_be_is_refused_at_the_start() {
    let leader = |gateway: GatewayConfig| async {
        let mut setup = Setup::new(BatchMode::TimeInterval);
        setup.leader.server.gateway = Some(gateway);
        Leader::bind(setup.leader, std::sync::Arc::new(MemoryStore::new())).await
    };
    assert!(leader(gateway_config()).await.is_ok());
    let window = std::time::Duration::from_secs(1199);
    let limits = GatewayLimits { window, ..GatewayLimits::default() };
    let error = leader(GatewayConfig { limits, ..gateway_config() }).await.unwrap_err();
    assert!(matches!(&error, BindError::Config(text) if text.contains("1200")), "{error}");
    let origin = Some("https://leader.example/path".to_owned());
    let error = leader(GatewayConfig { origin, ..gateway_config() }).await.unwrap_err();
    assert!(matches!(error, BindError::Config(_)), "{error}");
    // Devices never talk to a helper.
    let mut setup = Setup::new(BatchMode::TimeInterval);
    setup.helper.server.gateway = Some(gateway_config());
    let helper = Helper::bind(setup.helper, std::sync::Arc::new(MemoryStore::new())).await;
    assert!(matches!(helper.unwrap_err(), BindError::Config(_)));

    let keys = sotto_server::GatewayKeys::new(vec![keypair(GATEWAY_KEY)]).unwrap();
    assert!(keys.replace(vec![]).is_err());
    assert!(keys.replace(vec![keypair(1), keypair(1)]).is_err());
    assert_eq!(keys.configs(), [keypair(GATEWAY_KEY).config().clone()]);
}
