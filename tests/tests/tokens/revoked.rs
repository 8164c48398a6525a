//! Devices with certificates: revoked ones get no tokens, and a new certificate makes no new
//! device.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use sotto_tests::phone::Phone;

use crate::tokens::certificates::{Badge, Manufacturer, TABLE};
use crate::tokens::rogue::Rogue;
use crate::tokens::{PATIENCE, Scene, answer, assert_sent, refused};

const LIST: &str = "manufacturer.crl";

fn scene(manufacturer: &Manufacturer, revoked: &[u64]) -> Scene {
    Scene::arranged(|world| {
        fs::write(world.path("manufacturer.pem"), &manufacturer.pem)?;
        fs::write(world.path(LIST), manufacturer.crl(revoked))?;
        for chain in &mut world.tokens.as_mut().unwrap().chains {
            chain.attestation = format!("[x509]\ncrls = [\"{LIST}\"]\nrequire_crl = true\n{TABLE}");
        }
        Ok(())
    })
}

fn phone(scene: &mut Scene, badge: &Badge) -> Phone {
    scene.bare_phone().attested(badge.attestor())
}

/// Replaces the list, and waits until both attesters have read it.
fn revoke(scene: &Scene, manufacturer: &Manufacturer, revoked: &[u64]) {
    fs::write(scene.world.path("new.crl"), manufacturer.crl(revoked)).unwrap();
    fs::rename(scene.world.path("new.crl"), scene.world.path(LIST)).unwrap();
    let deadline = Instant::now() + PATIENCE;
    for attester in scene.attesters() {
        let file = format!("{}.log", attester.name());
        let log = || fs::read_to_string(scene.world.path(&file)).unwrap();
        while !log().contains("the revocation lists were reloaded") {
            assert!(Instant::now() < deadline, "{}", log());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_revoked_device_gets_no_tokens() {
    let manufacturer = Manufacturer::new();
    let mut scene = scene(&manufacturer, &[66]);
    scene.publish("commute", 3);
    let badges = [11, 12, 13, 66].map(|n| manufacturer.badge(&format!("device {n}"), n));
    let [first, second, doomed, revoked] = &badges;

    let mut refusal = phone(&mut scene, revoked);
    let done = refusal.pass(5).unwrap();
    let round = done.tokens.unwrap();
    assert_eq!((round.asked, round.refused, round.granted), (2, 2, 0));
    assert!(done.considered.is_empty());
    let admitted = scene.admitted("commute");
    let mut raw = Rogue::attested(revoked.attestor(), 1);
    assert_eq!(raw.statuses(&scene.world, &admitted), [403; 2]);
    assert_eq!(refused(scene.attesters(), "attestation_revoked"), 4.0);
    // A name instead of a certificate is not accepted here.
    assert_eq!(Rogue::new("somebody", 2).statuses(&scene.world, &admitted), [403; 2]);

    let mut devices = [first, second, doomed].map(|badge| phone(&mut scene, badge));
    for (device, minutes) in devices.iter_mut().zip([5, 20]) {
        answer(device, minutes);
    }
    let [_, _, doomed] = &mut devices;
    assert_eq!(doomed.pass_busy().unwrap().tokens.unwrap().granted, 2);

    // A renewed certificate is the same device, which keeps its tokens and its key.
    let renewed = manufacturer.badge("device 11", 111);
    assert_eq!(Rogue::attested(renewed.attestor(), 3).statuses(&scene.world, &admitted), [400; 2]);
    assert_eq!(refused(scene.attesters(), "other_key"), 2.0);

    // From the next recipe on it is refused. The tokens that it already has stay valid: nobody
    // could tell which they are.
    revoke(&scene, &manufacturer, &[66, 13]);
    scene.publish("sleep", 2);
    let [.., doomed] = &mut devices;
    let done = doomed.pass(50).unwrap();
    let round = done.tokens.as_ref().unwrap();
    assert_eq!((round.asked, round.refused, round.granted), (2, 2, 0));
    assert_sent(&done);
    for (device, minutes) in devices.iter_mut().zip([5, 20]) {
        answer(device, minutes);
    }
    scene.collect("commute", [1, 1, 1]);
    scene.collect("sleep", [1, 1, 0]);
}
