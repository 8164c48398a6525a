//! What issuers publish about themselves.

use sotto_wire::token::{ENCAPSULATION_KEY_PROBLEM, WITHHELD_PROBLEM};

use crate::attester::harness::{AttesterAndIssuer, Device, Server, config};
use crate::attester::issuer::encapsulation_key;
use crate::background::eventually;

#[tokio::test]
async fn an_issuer_with_longer_windows_is_not_worked_with() {
    let issuer = crate::attester::issuer::Issuer::start().await;
    issuer.script().window_s = (1 << 40) + 1;
    let folder = tempfile::tempdir().unwrap();
    let config = crate::attester::harness::config(&issuer);
    let server = crate::attester::harness::Server::start(config, folder.path()).await;
    let refused = || async { server.readyz().await.1["reasons"][0]["name"] == "issuer_refused" };
    eventually("the issuer is refused", refused).await;
    let detail = server.readyz().await.1["reasons"][0]["detail"].to_string();
    assert!(detail.contains("live longer than this attester counts"), "{detail}");
    let answer = server.ask(&Device::new("one").request(1)).await;
    assert_eq!(answer.status, 503);
    assert_eq!(issuer.requests(), 0);
}

#[tokio::test]
async fn an_unknown_key_has_the_directory_read_again_but_not_all_the_time() {
    let world = AttesterAndIssuer::new().await;
    let mut device = Device::new("one");
    world.server.ask(&device.request(1)).await.token();
    for _ in 0..5 {
        let answer = world.server.ask(&device.request_for(2, [2; 32], 2)).await;
        assert_eq!(answer.status, 400);
        assert_eq!(answer.detail(), "The encapsulation key is not one of the issuer's.");
        assert_eq!(answer.problem(), ENCAPSULATION_KEY_PROBLEM);
    }
    assert_eq!(world.issuer.script().directories, 1, "it was read a moment ago");
    assert_eq!(world.server.refused("encapsulation_key").await, 5);
    assert_eq!(world.issuer.requests(), 1);
}

/// A device makes a new request when it is told that the key is gone. It must not be told so about
/// a request that was granted.
#[tokio::test]
async fn of_an_answered_request_nothing_is_said_about_its_key() {
    let world = AttesterAndIssuer::new().await;
    let mut device = Device::new("one");
    let request = device.request(1);
    let token = world.server.ask(&request).await.token().to_vec();
    world.issuer.script().keys = vec![encapsulation_key(2)];
    let server = Server::start(config(&world.issuer), tempfile::tempdir().unwrap().path()).await;
    let gone = || async { server.ask(&request).await.status == 400 };
    eventually("the key is gone", gone).await;
    assert_eq!(server.ask(&request).await.problem(), ENCAPSULATION_KEY_PROBLEM);
    world.server.stopped().await;
    let server = Server::start(config(&world.issuer), &world.folder).await;
    assert_eq!(server.ask(&request).await.token(), token);
    // Nor about a request whose alias has had a token.
    let other = server.ask(&device.request(1)).await;
    assert_eq!((other.status, other.problem().as_str()), (429, WITHHELD_PROBLEM));
}

#[tokio::test]
async fn a_new_key_is_found() {
    let world = AttesterAndIssuer::new().await;
    let mut device = Device::new("one");
    world.server.ask(&device.request(1)).await.token();
    world.issuer.script().keys.push(encapsulation_key(2));
    let request = device.request_for(2, [2; 32], 2);
    assert_eq!(world.server.ask(&request).await.status, 400);
    let found = || async { world.server.ask(&request).await.status == 200 };
    eventually("the new key is known", found).await;
}
