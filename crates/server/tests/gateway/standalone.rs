//! The standalone gateway, in front of a leader and a log that have none.

use std::time::Duration;

use sotto_protocol::oblivious::InnerRequest;
use sotto_server::{BindError, Gateway, GatewayConfig, GatewayServerConfig, GatewayTarget};
use sotto_wire::{BatchMode, MediaType, Note};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::background::LOOPBACK;
use crate::gateway::device::{
    Channel, GATEWAY_KEY, LEADER, SMALLEST, gateway_config, open, problem, read, reports_url,
    upload,
};
use crate::log::harness::WitnessedLog;
use crate::server::harness::{COLLECTOR_TOKEN, Server, Setup, histogram, keypair};

pub(crate) fn target(origin: &str, url: &str) -> GatewayTarget {
    GatewayTarget { origin: origin.into(), url: url.trim_end_matches('/').into() }
}

async fn start(targets: Vec<GatewayTarget>) -> (Server, Channel) {
    start_with(gateway_config(), targets).await
}

pub(crate) async fn start_with(
    gateway: GatewayConfig,
    targets: Vec<GatewayTarget>,
) -> (Server, Channel) {
    let mut config = GatewayServerConfig::new(LOOPBACK, gateway, targets);
    config.http.admin_listen = Some(LOOPBACK);
    config.timeout = Duration::from_millis(500);
    let gateway = Gateway::bind(config).await.unwrap();
    let url = format!("http://{}", gateway.addr());
    let channel = Channel::new(format!("{url}/gateway"), &keypair(GATEWAY_KEY));
    (Server::at(url, gateway), channel)
}

#[tokio::test]
async fn to_a_leader_and_a_log() {
    let mut pair = Setup::new(BatchMode::TimeInterval).start().await;
    let mut world = WitnessedLog::new(21).await;
    let entry = world.entry();
    world.publish(&entry).await;
    let targets =
        vec![target(LEADER, &pair.leader.url), target("https://log.example", &world.url(""))];
    let (gateway, channel) = start(targets).await;
    let url = reports_url(pair.task.id());
    for index in [0, 1, 2, 3, 3] {
        let report = pair.report(index);
        let response = channel.ask(&upload(&url, &report)).await;
        assert_eq!((response.status, response.content.len()), (200, 0));
        let response = channel.ask(&read("https://log.example/checkpoint")).await;
        assert_eq!(response.status, 200);
        assert!(Note::parse(&response.content).is_ok());
    }
    let everything = pair.everything();
    assert_eq!(pair.collect(&everything).await.result, histogram(&[1, 1, 1, 2]));

    // Credentials do not pass, nor do methods that nobody needs.
    let bearer = format!("Bearer {COLLECTOR_TOKEN}");
    let fields = [
        ("content-type", MediaType::CollectionJobReq.as_str()),
        ("authorization", bearer.as_str()),
    ];
    let url = format!("{LEADER}/tasks/{}/collection_jobs", pair.task.id());
    let content = pair.collection_request(&everything);
    let request = InnerRequest { method: "POST", url: &url, fields: &fields, content: &content };
    assert_eq!(channel.ask(&request).await.status, 401);
    let request = InnerRequest { method: "DELETE", ..request };
    assert_eq!(channel.ask(&request).await.status, 405);
    gateway.stopped().await;
    world.stop().await;
    pair.stop().await;
}

/// All are inside, in the smallest class.
#[tokio::test]
async fn targets_that_are_unknown_or_away() {
    // Nobody listens there any more.
    let gone = TcpListener::bind(LOOPBACK).await.unwrap().local_addr().unwrap();
    // Accepts connections and never answers.
    let silent = TcpListener::bind(LOOPBACK).await.unwrap();
    let (gateway, channel) = start(vec![
        target("https://gone.example", &format!("http://{gone}")),
        target("https://silent.example", &format!("http://{}", silent.local_addr().unwrap())),
    ])
    .await;
    for (url, status) in [
        ("https://gone.example/checkpoint", 502),
        ("https://silent.example/checkpoint", 504),
        ("https://other.example/checkpoint", 421),
        ("http://gone.example/checkpoint", 421),
        ("https://gone.example:8443/checkpoint", 421),
    ] {
        let (body, awaited) = channel.seal(&read(url));
        let outer = channel.post(body).await;
        assert_eq!(outer.body.len(), SMALLEST);
        let response = open(outer, awaited);
        assert_eq!(response.status, status, "{url}");
        assert_eq!(problem(&response.content, status).0, "about:blank");
    }
    let count = |outcome| format!("sotto_gateway_requests_total{{outcome=\"{outcome}\"}}");
    assert_eq!(gateway.metric(&count("unanswered")).await, 2.0);
    assert_eq!(gateway.metric(&count("misdirected")).await, 3.0);
    let outside = channel.http.get(format!("{}/checkpoint", gateway.url)).send().await.unwrap();
    assert_eq!(outside.status().as_u16(), 404);
    gateway.stopped().await;
}

/// A target that gives each connection one of these answers. Returns the requests that it got.
async fn stub(answers: &'static [&'static str]) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"end") {
                assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            asked.push(String::from_utf8(request).unwrap());
        }
        asked
    });
    (url, asked)
}

#[tokio::test]
async fn few_fields_pass() {
    let (url, asked) = stub(&[
        "HTTP/1.1 418 I'm a teapot\r\ncontent-type: text/x\r\nretry-after: 7\r\nset-cookie: a=b\r\n\
         location: /x\r\nserver: stub\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 100\r\n\r\ntoo short",
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 99999999999\r\n\r\nx",
        "no HTTP at all\r\n\r\n",
    ])
    .await;
    let (gateway, channel) = start(vec![target("https://stub.example", &url)]).await;
    let request = InnerRequest {
        method: "POST",
        url: "https://stub.example/a/b?c=d",
        fields: &[
            ("content-type", "text/y"),
            ("dap-taskprov", ":AAAA:"),
            ("accept", "text/x"),
            ("cookie", "a=b"),
            ("authorization", "Bearer x"),
            ("dap-auth-token", "x"),
            ("forwarded", "for=192.0.2.1"),
            ("x-forwarded-for", "192.0.2.1"),
            ("user-agent", "x"),
        ],
        content: b"end",
    };
    let response = channel.ask(&request).await;
    assert_eq!((response.status, response.content.as_slice()), (418, &b"hi"[..]));
    let mut fields = response.fields;
    fields.sort();
    let expected = [("content-type", "text/x"), ("retry-after", "7")];
    assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    for _ in 0..3 {
        let response = channel.ask(&request).await;
        assert_eq!(response.status, 502);
    }
    for asked in asked.await.unwrap() {
        let (head, _) = asked.split_once("\r\n\r\n").unwrap();
        let mut lines = head.lines();
        assert_eq!(lines.next(), Some("POST /a/b?c=d HTTP/1.1"));
        // The host that the request names, not the address of the server.
        assert!(head.lines().any(|line| line == "host: stub.example"), "{head}");
        let mut names: Vec<_> = lines.map(|line| line.split(':').next().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "content-length", "content-type", "dap-taskprov", "host"]);
    }
    gateway.stopped().await;
}

#[tokio::test]
async fn what_cannot_be_is_refused_at_the_start() {
    let bind = |targets: Vec<GatewayTarget>, gateway: GatewayConfig| {
        Gateway::bind(GatewayServerConfig::new(LOOPBACK, gateway, targets))
    };
    let fine = || vec![target("https://leader.example", "http://127.0.0.1:1")];
    assert!(bind(fine(), gateway_config()).await.is_ok());
    let with_origin = GatewayConfig { origin: Some(LEADER.into()), ..gateway_config() };
    for (targets, gateway) in [
        (vec![], gateway_config()),
        (fine(), with_origin),
        (vec![target("https://leader.example/x", "http://127.0.0.1:1")], gateway_config()),
        (vec![target("https://leader.example", "http://127.0.0.1:1/path")], gateway_config()),
        // In the clear, to another machine.
        (vec![target("https://leader.example", "http://leader.example")], gateway_config()),
        (vec![target("https://leader.example", "leader.example")], gateway_config()),
    ] {
        let refused = bind(targets, gateway).await.unwrap_err();
        assert!(matches!(refused, BindError::Config(_)), "{refused}");
    }
}
