//! A witness that claims to have seen another tree: the log stops for good only if the witness
//! shows what the log signed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use reqwest::StatusCode;
use sotto_crypto::merkle::leaf_hash;
use sotto_wire::{Checkpoint, Note};
use tokio::task::JoinHandle;

use crate::background::eventually;
use crate::log::harness::{ORIGIN, WitnessPlace, WitnessedLog, key, policy, problem};

/// What a witness shows to monitors.
#[derive(Clone)]
enum Show {
    Status(u16),
    Body(Vec<u8>),
    /// No answer at all.
    Silence,
}

/// What a witness claims without having seen anything.
#[derive(Clone)]
struct Script {
    status: u16,
    body: &'static str,
    show: Show,
}

/// A witness that follows a script.
struct Liar {
    script: Arc<Mutex<Script>>,
    running: JoinHandle<()>,
}

const LARGER: &str = "1000000\n";

impl Liar {
    /// Replaces a witness that was stopped.
    async fn start(place: &mut WitnessPlace, script: Script) -> Self {
        place.stop().await;
        let script = Arc::new(Mutex::new(script));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&script));
        let listener = tokio::net::TcpListener::bind(place.addr).await.unwrap();
        let running = tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        Self { script, running }
    }

    fn says(&self, script: Script) {
        *self.script.lock().unwrap() = script;
    }

    async fn stop(self) {
        self.running.abort();
        let _ = self.running.await;
    }
}

async fn answer(State(script): State<Arc<Mutex<Script>>>, method: Method) -> Response {
    let script = script.lock().unwrap().clone();
    if method == Method::POST {
        return (axum::http::StatusCode::from_u16(script.status).unwrap(), script.body)
            .into_response();
    }
    match script.show {
        Show::Status(status) => axum::http::StatusCode::from_u16(status).unwrap().into_response(),
        Show::Body(bytes) => bytes.into_response(),
        Show::Silence => std::future::pending().await,
    }
}

/// A checkpoint of a tree that does not exist, signed by this signer.
fn invented(size: u64, signer: &str) -> Vec<u8> {
    let text = Checkpoint::new(ORIGIN, size, leaf_hash(b"invented")).to_text();
    Note::new(text.clone()).unwrap().with_signature(key(signer).sign(&text)).to_bytes()
}

/// A world whose log has two entries. Also returns the second entry.
async fn world_of_two(seed: u64) -> (WitnessedLog, Vec<u8>) {
    let mut world = WitnessedLog::new(seed).await;
    let (first, second) = (world.entry(), world.entry());
    world.publish(&first).await;
    world.publish(&second).await;
    (world, second)
}

/// Waits until the log says that the third witness disputes its tree.
async fn disputed(world: &WitnessedLog, words: &str) {
    eventually(&format!("the dispute is told: {words}"), || async {
        let (status, document) = world.log().readyz().await;
        let reason = &document["reasons"][0];
        let detail = reason["detail"].as_str().unwrap_or_default();
        status == StatusCode::OK
            && reason["name"] == "log_disputed"
            && detail.starts_with("w2: it says that ")
            && detail.contains(words)
    })
    .await;
}

async fn refuses_for_now(world: &mut WitnessedLog) {
    let entry = world.entry();
    let response = world.submit(&entry).await;
    assert!(response.headers().contains_key("retry-after"));
    let (status, detail) = problem(response).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(detail.contains("another tree") && detail.contains("w2: "), "{detail}");
    assert!(!is_halted(world));
}

fn is_halted(world: &WitnessedLog) -> bool {
    world.log_folder().join("state/halted").exists()
}

fn quick(world: &WitnessedLog) -> sotto_server::LogConfig {
    let mut config = world.config();
    config.witness_timeout = Duration::from_millis(500);
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_without_our_signature_halts_nothing_for_good() {
    let (mut world, entry) = world_of_two(61).await;
    let published = world.publish(&entry).await;
    world.stop_log().await;
    let ours = published.checkpoint.to_bytes();
    let claims = [
        (409, LARGER, "size 1000000"),
        (422, "no\n", "does not extend"),
        (409, "2\n", "of size 2"),
    ];
    let shows = [
        (Show::Status(404), "status 404"),
        (Show::Status(500), "status 500"),
        (Show::Body(b"garbage".to_vec()), "its checkpoint"),
        (Show::Body(invented(1_000_000, "other.example")), "its checkpoint"),
        (Show::Body(invented(1_000_000, "w2.example")), "its checkpoint"),
        (Show::Body(vec![b'a'; 1 << 20]), "its checkpoint"),
        (Show::Silence, "timeout"),
    ];
    // Disputed from the first request on: otherwise the next one comes much later.
    let script = Script { status: 409, body: LARGER, show: Show::Status(404) };
    let liar = Liar::start(&mut world.witnesses[2], script).await;
    for (status, body, claim) in claims {
        let config = quick(&world);
        world.start_log_with(config).await;
        for (show, words) in &shows {
            liar.says(Script { status, body, show: show.clone() });
            disputed(&world, claim).await;
            disputed(&world, words).await;
            refuses_for_now(&mut world).await;
        }
        // What is public stays public, with the cosignatures of the others.
        assert_eq!(world.publish(&entry).await, published);
        world.stop_log().await;
    }
    // It shows one of our trees and claims to have seen a larger one.
    liar.says(Script { status: 409, body: LARGER, show: Show::Body(ours) });
    let config = quick(&world);
    world.start_log_with(config).await;
    disputed(&world, "size 1000000").await;
    refuses_for_now(&mut world).await;

    // Honest again, without a restart.
    liar.stop().await;
    world.witnesses[2].start().await;
    let next = world.entry();
    assert_eq!(world.publish_eventually(&next).await.index, 2);
    let (_, document) = world.log().readyz().await;
    assert_eq!(document["status"], "ready", "{document}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_witness_that_disputes_later_stops_the_next_entry_until_it_is_removed() {
    let mut world = WitnessedLog::new(62).await;
    let first = world.entry();
    world.publish(&first).await;
    let script = Script { status: 409, body: LARGER, show: Show::Status(404) };
    let liar = Liar::start(&mut world.witnesses[2], script).await;
    // Two cosign, and nobody waits for the third.
    let second = world.entry();
    world.publish(&second).await;
    disputed(&world, "size 1000000").await;
    refuses_for_now(&mut world).await;
    // Silence does not withdraw the claim.
    liar.says(Script { status: 500, body: "", show: Show::Status(404) });
    eventually("it was asked again", || async {
        let (_, document) = world.log().readyz().await;
        document["reasons"][1]["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains("status 500"))
    })
    .await;
    refuses_for_now(&mut world).await;

    world.stop_log().await;
    liar.says(Script { status: 409, body: LARGER, show: Show::Status(404) });
    world.policy = policy(&world.witnesses[..2]);
    world.start_log().await;
    let third = world.entry();
    assert_eq!(world.publish_eventually(&third).await.index, 2);
    liar.stop().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_of_the_log_that_its_folder_does_not_know_halts_for_good() {
    for (seed, status, body, size) in [
        (63, 409, LARGER, 7),
        (64, 409, "2\n", 2),
        (65, 422, "no\n", 1),
        (66, 422, "no\n", 9),
        (67, 409, LARGER, 1),
    ] {
        let (mut world, _) = world_of_two(seed).await;
        world.stop_log().await;
        let show = Show::Body(invented(size, ORIGIN));
        let liar = Liar::start(&mut world.witnesses[2], Script { status, body, show }).await;
        world.start_log().await;
        world.halted().await;
        world.stop_log().await;
        assert!(is_halted(&world), "{status} {size}");
        liar.stop().await;
        world.start_log().await;
        world.halted().await;
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_history_halts_at_the_witness_of_the_first() {
    let mut world = WitnessedLog::new(68).await;
    let first = world.entry();
    world.publish(&first).await;
    eventually("the third witness has seen it", || async {
        world.log().readyz().await.1["status"] == "ready"
    })
    .await;
    world.stop_log().await;
    // Everything except that witness starts over, and another history grows larger.
    std::fs::remove_dir_all(world.log_folder()).unwrap();
    for number in 0..2 {
        let place = &mut world.witnesses[number];
        place.stop().await;
        std::fs::remove_dir_all(&place.folder).unwrap();
        place.start().await;
    }
    let whole = std::mem::replace(&mut world.policy, policy(&world.witnesses[..2]));
    world.start_log().await;
    for _ in 0..2 {
        let entry = world.entry();
        world.publish_eventually(&entry).await;
    }
    world.stop_log().await;
    world.policy = whole;
    world.start_log().await;
    world.halted().await;
    assert!(
        world.log().readyz().await.1["reasons"][0]["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains("another tree of size 1"))
    );
    world.stop().await;
}
