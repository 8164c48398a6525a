//! Files of the log through its gateway.

use reqwest::StatusCode;
use sotto_protocol::oblivious::InnerRequest;
use sotto_server::GatewayConfig;
use sotto_wire::Note;

use crate::gateway::device::{
    Channel, GATEWAY_KEY, SMALLEST, field, gateway_config, open, problem, read,
};
use crate::log::harness::WitnessedLog;
use crate::server::harness::keypair;

const LOG: &str = "https://log.example";

async fn world(seed: u64, max_memory: Option<usize>) -> (WitnessedLog, Channel) {
    let mut world = WitnessedLog::new(seed).await;
    world.stop_log().await;
    let mut config = world.config();
    config.gateway = Some(GatewayConfig { origin: Some(LOG.into()), ..gateway_config() });
    config.http.max_memory = max_memory.unwrap_or(config.http.max_memory);
    world.start_log_with(config).await;
    let channel = Channel::new(world.url("gateway"), &keypair(GATEWAY_KEY));
    (world, channel)
}

#[tokio::test]
async fn files_come_as_they_are() {
    let (mut world, channel) = world(11, None).await;
    for _ in 0..6 {
        let entry = world.entry();
        world.publish(&entry).await;
    }
    let mut largest = 0;
    for path in ["checkpoint", "tile/0/000.p/6", "tile/entries/000.p/6", "first/000"] {
        let direct = world.http.get(world.url(path)).send().await.unwrap();
        assert_eq!(direct.status(), StatusCode::OK, "{path}");
        let direct = direct.bytes().await.unwrap();
        let url = format!("{LOG}/{path}");
        let (body, awaited) = channel.seal(&read(&url));
        // All requests for files have the same length, whatever they ask for.
        assert_eq!(body.len(), SMALLEST);
        let outer = channel.post(body).await;
        largest = largest.max(outer.body.len());
        let response = open(outer, awaited);
        assert_eq!((response.status, response.content), (200, direct.to_vec()), "{path}");
        assert_eq!(response.fields.len(), 1, "{:?}", response.fields);
    }
    assert!(largest > SMALLEST);
    // Only the head of a file.
    let url = format!("{LOG}/checkpoint");
    let head = InnerRequest { method: "HEAD", ..read(&url) };
    let response = channel.ask(&head).await;
    assert_eq!((response.status, response.content.len()), (200, 0));
    world.stop().await;
}

#[tokio::test]
async fn nothing_else_is_within_reach() {
    let (mut world, channel) = world(12, None).await;
    let entry = world.entry();
    for (method, path, status) in [
        ("POST", "add", 404),
        ("POST", "checkpoint", 405),
        ("GET", "gateway", 404),
        ("GET", "tile/0/000", 404),
        ("GET", "tile/0/../../state/pending", 404),
        ("GET", "../state/pending", 404),
        ("GET", "", 404),
    ] {
        let url = format!("{LOG}/{path}");
        let request = InnerRequest { method, url: &url, fields: &[], content: &entry };
        let (body, awaited) = channel.seal(&request);
        let outer = channel.post(body).await;
        assert_eq!(outer.body.len(), SMALLEST);
        let response = open(outer, awaited);
        assert_eq!(response.status, status, "{method} {path}");
        assert_eq!(problem(&response.content, status).0, "about:blank");
    }
    let response = channel.ask(&read("https://leader.example/checkpoint")).await;
    assert_eq!(response.status, 421);
    // Nothing was submitted.
    assert_eq!(channel.ask(&read("https://log.example/tile/entries/000.p/1")).await.status, 404);
    // Nobody needs a long request to read a file.
    let long = vec![0; 64 * 1024 + 1];
    assert_eq!(channel.post(long).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    world.stop().await;
}

/// An answer for which there is no memory is refused inside, and others are still served.
#[tokio::test]
async fn answers_share_the_memory() {
    let (mut world, channel) = world(13, Some(64 * 1024)).await;
    for _ in 0..10 {
        let entry = world.entry();
        world.publish(&entry).await;
    }
    let bundle = format!("{LOG}/tile/entries/000.p/10");
    let size = world.http.get(world.url("tile/entries/000.p/10")).send().await.unwrap();
    // It fits by itself, but not together with its padded and its sealed form.
    let size = size.bytes().await.unwrap().len();
    assert!((16 * 1024..48 * 1024).contains(&size), "{size}");
    for _ in 0..3 {
        let (body, awaited) = channel.seal(&read(&bundle));
        let outer = channel.post(body).await;
        assert_eq!(outer.body.len(), SMALLEST);
        let response = open(outer, awaited);
        assert_eq!(response.status, 429);
        assert!(field(&response, "retry-after").is_some());
        let url = format!("{LOG}/checkpoint");
        let response = channel.ask(&read(&url)).await;
        assert!(Note::parse(&response.content).is_ok());
    }
    world.stop().await;
}
