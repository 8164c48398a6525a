//! What fails before a request has been opened: plain answers, which the relay can read.

use reqwest::{Method, StatusCode};
use sotto_wire::ohttp::KEY_PROBLEM;

use crate::gateway::device::{Channel, GATEWAY_KEY, Outer, reports_url, setup, upload};
use crate::server::harness::keypair;

const BLANK: &str = "about:blank";

fn expect(outer: &Outer, status: u16, kind: &str) {
    assert_eq!(outer.status.as_u16(), status, "{}", String::from_utf8_lossy(&outer.body));
    assert_eq!(outer.problem().0, kind);
}

#[tokio::test]
async fn each_has_its_status_and_type() {
    let mut pair = setup().start().await;
    let (url, channel) = (reports_url(pair.task.id()), Channel::to_leader(&pair));
    let report = pair.report(1);
    let (body, _) = channel.seal(&upload(&url, &report));

    for media_type in ["application/octet-stream", "message/bhttp", "message/ohttp-req2", "x"] {
        expect(&channel.post_as(media_type, body.clone()).await, 415, BLANK);
    }
    // An unknown key id; other algorithms under a known one.
    for (place, value) in [(0, GATEWAY_KEY + 1), (2, 0x10), (4, 0x02), (6, 0x03)] {
        let mut other = body.clone();
        other[place] = value;
        expect(&channel.post(other).await, 400, KEY_PROBLEM);
    }
    // Truncated: within the header, after it, within the encapsulated key, within the tag.
    for len in [0, 1, 6, 7, 8, 38, 39, 54, 55, body.len() - 1] {
        expect(&channel.post(body[..len].to_vec()).await, 400, BLANK);
    }
    // Sealed to another key with the same id.
    let mut stranger = Channel::to_leader(&pair);
    let mut rng = <rand_chacha::ChaCha20Rng as rand_core::SeedableRng>::seed_from_u64(999);
    let other = sotto_crypto::HpkeKeypair::generate(keypair(GATEWAY_KEY).config().id(), &mut rng);
    stranger.key = other.config().clone();
    let (sealed, _) = stranger.seal(&upload(&url, &report));
    expect(&channel.post(sealed).await, 400, BLANK);
    // The largest upload of this leader fits into 16 MiB.
    let long = vec![0; 16 * 1024 * 1024 + 1];
    expect(&channel.post(long).await, 413, BLANK);

    for (method, status) in [(Method::PUT, 405), (Method::DELETE, 405), (Method::GET, 200)] {
        let response = channel.http.request(method, &channel.url).send().await.unwrap();
        assert_eq!(response.status().as_u16(), status);
    }
    // None of these was remembered: the request itself is still new.
    let accepted = channel.post_as("Message/OHTTP-req; x=y", body).await;
    assert_eq!(accepted.status, StatusCode::OK);
    for (outcome, count) in [("unread", 5.0), ("unknown_key", 4.0), ("unopened", 11.0)] {
        let name = format!("sotto_gateway_requests_total{{outcome=\"{outcome}\"}}");
        assert_eq!(pair.leader.metric(&name).await, count, "{outcome}");
    }
    pair.stop().await;
}
