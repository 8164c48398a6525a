//! Requests that are refused before an issuer sees them.

use sotto_wire::token::header;

use crate::attester::harness::{AttesterAndIssuer, Device};

#[tokio::test]
async fn what_is_not_a_request_is_refused() {
    let world = AttesterAndIssuer::new().await;
    let mut device = Device::new("one");
    let good = device.request(1);
    let status =
        async |request: &crate::attester::harness::Request| world.server.ask(request).await.status;

    let mut other = good.clone();
    other.media_type = "application/json";
    assert_eq!(status(&other).await, 415);
    let mut other = good.clone();
    other.issuer = "nobody.example".into();
    assert_eq!(status(&other).await, 400);
    let mut other = good.clone();
    other.issuer = "issuer.example&issuer=issuer.example".into();
    assert_eq!(status(&other).await, 400);
    let mut other = good.clone();
    other.body = vec![0; 2049];
    assert_eq!(status(&other).await, 413);
    for missing in 0..4 {
        let mut other = good.clone();
        other.headers.remove(missing);
        assert_eq!(status(&other).await, 400);
        let mut twice = good.clone();
        twice.headers.push(good.headers[missing].clone());
        assert_eq!(status(&twice).await, 400);
        let mut garbled = good.clone();
        garbled.headers[missing].1 = "AAAA".into();
        assert_eq!(status(&garbled).await, 400);
    }
    for name in [header::CLIENT, header::ORIGIN_ALIAS, header::REQUEST_BLIND] {
        for len in [0, 31, 33] {
            assert_eq!(status(&good.clone().with(name, &vec![1; len])).await, 400);
        }
    }
    assert_eq!(world.server.refused("malformed").await, 4 * 3 + 9);
    assert_eq!(world.server.refused("unknown_issuer").await, 2);
    assert_eq!(world.issuer.requests(), 0);
    assert_eq!(status(&good).await, 200);
}

#[tokio::test]
async fn what_the_checks_refuse_does_not_reach_the_issuer() {
    let world = AttesterAndIssuer::new().await;
    let mut device = Device::new("one");
    let good = device.request(1);
    let mut flipped = good.clone();
    flipped.body[200] ^= 1;
    let mut small = [0; 32];
    small[0] = 1;
    for (request, reason) in [
        (flipped, "signature"),
        (good.clone().with(header::REQUEST_BLIND, &[7; 32]), "blind"),
        (good.clone().with(header::CLIENT, &small), "client_key"),
        (good.clone().with(header::CLIENT, &[0xff; 32]), "client_key"),
    ] {
        let before = world.server.refused(reason).await;
        assert_eq!(world.server.ask(&request).await.status, 400);
        assert_eq!(world.server.refused(reason).await, before + 1, "{reason}");
    }
    assert_eq!(world.issuer.requests(), 0);
    world.server.ask(&good).await.token();
}

#[tokio::test]
async fn other_resources_and_methods_are_none() {
    let world = AttesterAndIssuer::new().await;
    let client = crate::background::client(None);
    let base = format!("http://{}", world.server.addr);
    let get = client.get(format!("{base}/token-request?issuer=issuer.example"));
    assert_eq!(get.send().await.unwrap().status(), 405);
    assert_eq!(client.get(format!("{base}/")).send().await.unwrap().status(), 404);
    assert_eq!(client.get(format!("{base}/metrics")).send().await.unwrap().status(), 404);
}
