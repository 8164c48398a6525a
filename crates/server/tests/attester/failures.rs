//! Issuers that are down or lie, an attester that is killed between two steps, and overload.

use std::time::Duration;

use crate::attester::harness::{AttesterAndIssuer, Device, Server, config};
use crate::attester::issuer::Mood;
use crate::background::eventually;

#[tokio::test]
async fn an_issuer_in_trouble_burns_no_token() {
    let world = AttesterAndIssuer::new().await;
    let mut device = Device::new("one");
    let request = device.request(1);
    for mood in [Mood::Down, Mood::Foreign, Mood::Short, Mood::Refuses(503), Mood::Refuses(429)] {
        world.issuer.script().mood = mood;
        let answer = world.server.ask(&request).await;
        assert_eq!(answer.status, 503, "{mood:?}");
        assert_eq!(answer.retry_after.as_deref(), Some("1"));
        assert_eq!(answer.detail(), "No token can be given now.");
    }
    world.issuer.script().mood = Mood::Down;
    world.server.ask(&request).await;
    let health = world.server.readyz().await.1;
    assert_eq!(health["reasons"][0]["name"], "issuer_unreachable");
    assert_eq!(health["reasons"][0]["detail"], "issuer.example: server_error");
    world.issuer.script().mood = Mood::Honest;
    world.server.ask(&request).await.token();
    assert_eq!(world.server.readyz().await.1["status"], "ready");
}

#[tokio::test]
async fn an_issuer_that_lies_grants_nothing() {
    let world = AttesterAndIssuer::new().await;
    let mut device = Device::new("one");
    for (mood, status, reason) in [
        (Mood::SmallOrder, 400, "index_key"),
        (Mood::LimitTwo, 400, "issuer_limit"),
        (Mood::Long, 400, "issuer_response"),
        (Mood::Refuses(401), 401, "issuer_key"),
        (Mood::Refuses(400), 400, "issuer_refused"),
    ] {
        world.issuer.script().mood = mood;
        let answer = world.server.ask(&device.request(1)).await;
        assert_eq!(answer.status, status, "{mood:?}");
        // The device does not learn what the issuer did.
        if status == 400 {
            assert_eq!(answer.detail(), "The token request is refused.");
        }
        assert_eq!(world.server.refused(reason).await, 1);
    }
    assert_eq!(world.server.metric("sotto_attester_granted_total").await, 0);
    world.issuer.script().mood = Mood::Honest;
    world.server.ask(&device.request(1)).await.token();
}

#[tokio::test]
async fn an_attester_that_ends_after_the_issuers_answer_burns_no_token() {
    let world = AttesterAndIssuer::new().await;
    let mut device = Device::new("one");
    let request = device.request(1);
    world.issuer.answers.forget_permits(1 << 20);
    let (copy, addr) = (request.clone(), world.server.addr);
    let asked = tokio::spawn(async move { copy.send(addr).await });
    eventually("the issuer has the request", || async { world.issuer.requests() == 1 }).await;
    // The issuer signs, but nobody receives the answer.
    world.server.crashed().await;
    world.issuer.answers.add_permits(1 << 10);
    assert!(asked.await.is_err());
    let server = Server::start(config(&world.issuer), &world.folder).await;
    let token = server.ask(&request).await.token().to_vec();
    assert_eq!(server.ask(&request).await.token(), token);
    assert_eq!(server.ask(&device.request(1)).await.status, 429);
}

#[tokio::test]
async fn a_device_that_goes_away_finds_its_token() {
    let world = AttesterAndIssuer::new().await;
    let request = Device::new("one").request(1);
    world.issuer.answers.forget_permits(1 << 20);
    let (copy, addr) = (request.clone(), world.server.addr);
    let asked = tokio::spawn(async move { copy.send(addr).await });
    eventually("the issuer has the request", || async { world.issuer.requests() == 1 }).await;
    asked.abort();
    assert!(asked.await.is_err());
    world.issuer.answers.add_permits(1 << 10);
    let granted = || async { world.server.metric("sotto_attester_granted_total").await == 1 };
    eventually("the token is recorded", granted).await;
    world.server.ask(&request).await.token();
    assert_eq!(world.issuer.requests(), 1);
}

#[tokio::test]
async fn a_shutdown_finishes_what_is_in_flight() {
    let mut world = AttesterAndIssuer::new().await;
    let request = Device::new("one").request(1);
    world.issuer.answers.forget_permits(1 << 20);
    let addr = world.server.addr;
    let asked = tokio::spawn(async move { request.send(addr).await.token().to_vec() });
    eventually("the issuer has the request", || async { world.issuer.requests() == 1 }).await;
    world.server.begin_stop();
    tokio::time::sleep(Duration::from_millis(100)).await;
    world.issuer.answers.add_permits(1 << 10);
    assert_eq!(asked.await.unwrap().len(), 288);
    world.server.stopped().await;
}

#[tokio::test]
async fn more_than_fits_is_told_to_come_again() {
    let world = AttesterAndIssuer::with(|config| config.max_waiting = 2).await;
    world.issuer.answers.forget_permits(1 << 20);
    let mut asked = tokio::task::JoinSet::new();
    for name in ["one", "two"] {
        let (request, addr) = (Device::new(name).request(1), world.server.addr);
        asked.spawn(async move { request.send(addr).await.status });
    }
    eventually("both are at the issuer", || async { world.issuer.requests() == 2 }).await;
    let third = Device::new("three").request(1);
    let answer = world.server.ask(&third).await;
    assert_eq!((answer.status, answer.retry_after.as_deref()), (503, Some("1")));
    assert_eq!(world.server.refused("busy").await, 1);
    world.issuer.answers.add_permits(1 << 10);
    assert_eq!(asked.join_all().await, [200, 200]);
    world.server.ask(&third).await.token();
}
