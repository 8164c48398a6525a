//! Tokens that are granted, sent again and withheld.

use sotto_wire::Encode;
use sotto_wire::token::evidence::{AttestationEvidence, InsecureName};
use sotto_wire::token::{WITHHELD_PROBLEM, header};

use crate::attester::harness::{AttesterAndIssuer, Device, Server, config};
use crate::background::eventually;

#[tokio::test]
async fn a_device_gets_one_token_for_each_origin() {
    let world = AttesterAndIssuer::new().await;
    let mut device = Device::new("one");
    let first = device.request(1);
    let token = world.server.ask(&first).await.token().to_vec();
    assert_eq!(token.len(), 288);
    // The same bytes get the same answer, and the issuer is not asked again.
    assert_eq!(world.server.ask(&first).await.token(), token);
    assert_eq!(world.issuer.requests(), 1);
    let second = world.server.ask(&device.request(1)).await;
    assert_eq!(second.status, 429);
    assert_eq!(second.detail(), "The token for this origin was granted before.");
    assert_eq!(second.problem(), WITHHELD_PROBLEM);
    // That was decided without asking the issuer.
    assert_eq!(world.issuer.requests(), 1);
    assert_ne!(world.server.ask(&device.request(2)).await.token(), token);
    let metrics = world.server.admin_get("metrics").await.1;
    for line in [
        "sotto_attester_granted_total 2",
        "sotto_attester_repeated_total 1",
        "sotto_attester_batched_total 2",
        "sotto_attester_refused_total{reason=\"withheld\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    assert_eq!(world.server.readyz().await.1["status"], "ready");
    world.server.stopped().await;
}

#[tokio::test]
async fn devices_do_not_share_tokens() {
    let world = AttesterAndIssuer::new().await;
    for name in ["one", "two"] {
        assert_eq!(world.server.ask(&Device::new(name).request(1)).await.token().len(), 288);
    }
    // Another device's client key under the thief's own name: the alias is the other's, but
    // counting is by device.
    let mut thief = Device::new("one");
    thief.name = "three".to_owned();
    assert_eq!(world.server.ask(&thief.request(2)).await.status, 200);
}

#[tokio::test]
async fn one_origin_has_one_alias() {
    let world = AttesterAndIssuer::new().await;
    let mut device = Device::new("one");
    world.server.ask(&device.request(1)).await.token();
    let renamed = world.server.ask(&device.request_for(1, [9; 32], 1)).await;
    assert_eq!((renamed.status, renamed.problem().as_str()), (400, "about:blank"));
    assert_eq!(world.server.refused("other_alias").await, 1);
    let merged = world.server.ask(&device.request_for(2, [1; 32], 1)).await;
    assert_eq!((merged.status, merged.problem().as_str()), (429, WITHHELD_PROBLEM));
    assert_eq!(world.issuer.requests(), 2);
    world.server.ask(&device.request(2)).await.token();
}

#[tokio::test]
async fn a_changed_client_key_is_refused_before_the_issuer_is_asked() {
    let world = AttesterAndIssuer::new().await;
    world.server.ask(&Device::new("one").request(1)).await.token();
    let mut changed = Device::new("another seed");
    changed.name = "one".to_owned();
    let answer = world.server.ask(&changed.request(1)).await;
    assert_eq!((answer.status, answer.detail().as_str()), (400, "The token request is refused."));
    assert_eq!(world.server.refused("other_key").await, 1);
    assert_eq!(world.issuer.requests(), 1);
}

#[tokio::test]
async fn a_restart_keeps_what_was_granted() {
    let world = AttesterAndIssuer::new().await;
    let mut device = Device::new("one");
    let first = device.request(1);
    let token = world.server.ask(&first).await.token().to_vec();
    world.server.crashed().await;
    let server = Server::start(config(&world.issuer), &world.folder).await;
    assert_eq!(server.ask(&first).await.token(), token);
    assert_eq!(server.ask(&device.request(1)).await.status, 429);
    assert_eq!(world.issuer.requests(), 1);
}

#[tokio::test]
async fn requests_that_come_while_a_batch_is_away_go_together() {
    let world = AttesterAndIssuer::with(|config| config.batches_in_flight = 1).await;
    let mut devices: Vec<_> = (0..60).map(|one| Device::new(&format!("device {one}"))).collect();
    world.issuer.answers.forget_permits(1 << 20);
    let mut asked = tokio::task::JoinSet::new();
    let mut arrived = Vec::new();
    for device in &mut devices {
        let (request, addr) = (device.request(1), world.server.addr);
        arrived.push(request.body.clone());
        asked.spawn(async move { request.send(addr).await.token().to_vec() });
        eventually("the first batch", || async { world.issuer.requests() >= 1 }).await;
        // Sent one after the other, so that the order of arrival is known.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(world.issuer.requests(), 1);
    world.issuer.answers.add_permits(1 << 10);
    let mut tokens = asked.join_all().await;
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 60, "everybody has a different token");
    let batches = world.issuer.script().batches.clone();
    let sizes: Vec<_> = batches.iter().map(Vec::len).collect();
    assert_eq!(sizes[0], 1);
    assert!(sizes.len() <= 4, "{sizes:?}");
    // The issuer cannot see the order of arrival.
    let place = |body| arrived.iter().position(|other| other == body).unwrap();
    assert!(!batches[1].iter().map(place).is_sorted());
}

#[tokio::test]
async fn the_same_request_twice_at_once_is_worked_on_once() {
    let world = AttesterAndIssuer::new().await;
    let request = Device::new("one").request(1);
    world.issuer.answers.forget_permits(1 << 20);
    let (first, addr) = (request.clone(), world.server.addr);
    let first = tokio::spawn(async move { first.send(addr).await.token().to_vec() });
    eventually("the issuer has the request", || async { world.issuer.requests() == 1 }).await;
    let second = world.server.ask(&request).await;
    assert_eq!((second.status, second.retry_after.as_deref()), (503, Some("1")));
    // It is not even told that its key is gone: the first copy may be granted.
    world.issuer.script().keys = vec![crate::attester::issuer::encapsulation_key(2)];
    assert_eq!(world.server.ask(&request).await.status, 503);
    assert_eq!(world.server.refused("in_flight").await, 2);
    // The same bytes from another device are not affected.
    let stranger = InsecureName::new(b"two".to_vec()).unwrap();
    let stranger = AttestationEvidence::Insecure(stranger).to_bytes();
    let stranger = request.clone().with(header::ATTESTATION, &stranger);
    let stranger = tokio::spawn(async move { stranger.send(addr).await.status });
    eventually("the issuer has the other", || async { world.issuer.requests() == 2 }).await;
    world.issuer.answers.add_permits(1 << 10);
    let token = first.await.unwrap();
    assert_eq!(stranger.await.unwrap(), 200);
    assert_eq!(world.server.ask(&request).await.token(), token);
    assert_eq!(world.issuer.requests(), 2);
}

#[tokio::test]
async fn one_device_occupies_few_places() {
    let world = AttesterAndIssuer::with(|config| config.batches_in_flight = 16).await;
    world.issuer.answers.forget_permits(1 << 20);
    let mut device = Device::new("one");
    let mut asked = tokio::task::JoinSet::new();
    for origin in 1..=8 {
        let (request, addr) = (device.request(origin), world.server.addr);
        asked.spawn(async move { request.send(addr).await.status });
    }
    eventually("all are at the issuer", || async { world.issuer.requests() == 8 }).await;
    let ninth = device.request(9);
    let busy = world.server.ask(&ninth).await;
    assert_eq!((busy.status, busy.retry_after.as_deref()), (503, Some("1")));
    assert_eq!(world.server.refused("device_busy").await, 1);
    // Others are served, and so is this device afterwards.
    let (other, addr) = (Device::new("two").request(1), world.server.addr);
    let other = tokio::spawn(async move { other.send(addr).await.status });
    eventually("the other is at the issuer", || async { world.issuer.requests() == 9 }).await;
    world.issuer.answers.add_permits(1 << 10);
    assert_eq!(asked.join_all().await, [200; 8]);
    assert_eq!(other.await.unwrap(), 200);
    world.server.ask(&ninth).await.token();
}
