//! A device that wants to count twice.

use sotto_protocol::admission::Admitted;
use sotto_protocol::token::ReportTokens;
use sotto_tests::http::{Connection, head};
use sotto_tests::token_services::TOKEN;
use sotto_wire::Time;
use sotto_wire::token::REQUEST_MEDIA_TYPE;

use crate::tokens::rogue::{ROLES, Rogue, Wish, present, report_tokens};
use crate::tokens::torsion::TorsionedKey;
use crate::tokens::{AGGREGATED, Scene, dropped, refused, until_equal};

/// The second report is refused, whether it has another value or belongs to another batch bucket.
fn spend_again(scene: &Scene, mallory: &mut Rogue, admitted: &Admitted, tokens: &ReportTokens) {
    let time = present(admitted);
    let first = mallory.report(admitted, 0, time, Some(tokens));
    assert_eq!(scene.upload(admitted, &first).body, b"");
    let leader = &scene.world.pair.leader;
    until_equal(AGGREGATED, 1.0, || leader.metric(AGGREGATED).unwrap());
    let earlier = Time::new(time.as_units() - 1);
    for (count, again) in [(2, time), (2, earlier), (0, earlier)].into_iter().enumerate() {
        let (bucket, time) = again;
        let report = mallory.report(admitted, bucket, time, Some(tokens));
        assert_eq!(scene.upload(admitted, &report).status, 200);
        let expected = count as f64 + 1.0;
        until_equal("replayed", expected, || dropped(leader, "report_replayed"));
    }
    // The very same bytes are the same report, even if it is already aggregated.
    assert_eq!(scene.upload(admitted, &first).status, 200);
    assert_eq!(leader.metric(AGGREGATED).unwrap(), 1.0);
}

/// A further token is withheld. A device that lost its state has another key, but is the same
/// device.
fn ask_again(scene: &Scene, mallory: &mut Rogue, admitted: &Admitted) {
    assert_eq!(mallory.statuses(&scene.world, admitted), [429; 2]);
    let mut reset = Rogue::new("mallory", 1_001);
    assert_eq!(reset.statuses(&scene.world, admitted), [400; 2]);
    assert_eq!(refused(scene.attesters(), "withheld"), 2.0);
    assert_eq!(refused(scene.attesters(), "other_key"), 2.0);
}

#[test]
fn a_device_contributes_once() {
    let mut scene = Scene::new();
    scene.publish("commute", 4);
    let admitted = scene.admitted("commute");
    let mut mallory = Rogue::new("mallory", 1_000);
    let nonce = mallory.nonce();
    let asked = ROLES.map(|role| mallory.request(Wish::of(&admitted, role, nonce)));
    let answers = [0, 1].map(|i| mallory.send(&scene.world, &asked[i]));
    assert_eq!([answers[0].status, answers[1].status], [200; 2]);
    let tokens = report_tokens([0, 1].map(|i| asked[i].finish(&answers[i].body)));

    spend_again(&scene, &mut mallory, &admitted, &tokens);
    ask_again(&scene, &mut mallory, &admitted);
    for chain in &mut scene.services().chains {
        chain.attester.kill().unwrap();
        chain.attester.start().unwrap();
    }
    ask_again(&scene, &mut mallory, &admitted);
    for chain in &mut scene.services().chains {
        chain.issuer.kill().unwrap();
        chain.issuer.start().unwrap();
        chain.attester.kill().unwrap();
        chain.attester.start().unwrap();
    }
    ask_again(&scene, &mut mallory, &admitted);
    // The same bytes get the same answer, which contains the same token.
    for (asking, answer) in asked.iter().zip(&answers) {
        assert_eq!(mallory.send(&scene.world, asking).body, answer.body);
    }
    assert_eq!(scene.granted(), 0.0);

    scene.honest(&[5, 20, 50]);
    scene.collect("commute", [2, 1, 1]);
}

/// One origin under two of a device's aliases, and one alias for two origins of one attester.
#[test]
fn an_origin_has_one_alias() {
    let mut scene = Scene::new();
    scene.publish("commute", 3);
    scene.publish("other", 3);
    let (admitted, other) = (scene.admitted("commute"), scene.admitted("other"));
    let mut eve = Rogue::new("eve", 2_000);
    let nonce = eve.nonce();
    let [leader, helper] = ROLES.map(|role| Wish::of(&admitted, role, nonce));
    let other_leader = Wish::of(&other, ROLES[0], nonce);
    let first = eve.token(&scene.world, leader.clone());

    let mut other_alias = eve.request(leader.clone());
    other_alias.client_alias = [7; 32];
    assert_eq!(eve.send(&scene.world, &other_alias).status, 400);
    assert_eq!(refused(scene.attesters(), "other_alias"), 1.0);
    let used = eve.request(leader).client_alias;
    let mut used_alias = eve.request(other_leader.clone());
    used_alias.client_alias = used;
    assert_eq!(eve.send(&scene.world, &used_alias).status, 429);

    // Neither attempt cost the device anything: the first token is good, and the others are still
    // available.
    eve.token(&scene.world, other_leader);
    let second = eve.token(&scene.world, helper);
    assert_eq!(scene.granted(), 3.0);
    let tokens = report_tokens([first, second]);
    let report = eve.report(&admitted, 2, present(&admitted), Some(&tokens));
    assert_eq!(scene.upload(&admitted, &report).body, b"");
    scene.honest(&[5, 20]);
    scene.collect("commute", [1, 1, 1]);
}

#[test]
fn a_key_of_mixed_order_gets_nothing() {
    let mut scene = Scene::new();
    scene.publish("commute", 3);
    let admitted = scene.admitted("commute");
    let mut mallory = Rogue::new("mallory", 3_000);
    let torsioned = TorsionedKey::new(&mut mallory.rng);
    let nonce = mallory.nonce();
    let wish = Wish::of(&admitted, ROLES[0], nonce);
    for _ in 0..8 {
        let asking = torsioned.request(wish.clone(), &mut mallory.rng);
        assert_eq!(mallory.send(&scene.world, &asking).status, 400);
    }
    assert_eq!(refused(scene.attesters(), "client_key"), 8.0);
    // Its own key, and a request key with a component of small order.
    let mut asking = torsioned.request(wish.clone(), &mut mallory.rng);
    asking.client_key = *mallory.secret.public_key().as_bytes();
    assert_eq!(mallory.send(&scene.world, &asking).status, 400);
    assert_eq!(refused(scene.attesters(), "request_key"), 1.0);
    // If an attester let it pass, the issuer would refuse it.
    let bearer = format!("Bearer {TOKEN}");
    let fields = [("content-type", REQUEST_MEDIA_TYPE), ("authorization", bearer.as_str())];
    let head = head("POST", "/token-request", &fields, asking.body.len());
    let mut issuer = Connection::open(scene.issuers()[0].address()).unwrap();
    assert_eq!(issuer.exchange(&head, &asking.body).unwrap().status, 400);
    assert_eq!(refused(scene.issuers(), "request_key"), 1.0);

    // The device was not penalized: with its proper key it counts once.
    let tokens = mallory.tokens(&scene.world, &admitted);
    assert_eq!(scene.granted(), 2.0);
    let report = mallory.report(&admitted, 0, present(&admitted), Some(&tokens));
    assert_eq!(scene.upload(&admitted, &report).body, b"");
    scene.honest(&[20, 50]);
    scene.collect("commute", [1, 1, 1]);
}
