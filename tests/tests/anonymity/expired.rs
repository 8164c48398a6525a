//! A report waits while the key of the leader's gateway is removed.

use std::fs;
use std::sync::Arc;

use serde_json::json;
use sotto_client::Delivery;
use sotto_tests::phone::{Phone, Source, now, trust};
use sotto_wire::ohttp::KEY_PROBLEM;

use super::{
    ACCEPTED, Door, FIRST_KEY, add_gateway_key, key_file, problem, public_half,
    publish_gateway_key, rotating_world, seal_upload, wait_for_key,
};

const NEXT_KEY: u8 = FIRST_KEY + 1;

#[test]
fn a_report_outlives_its_gateway_key() {
    let world = rotating_world();
    world.publish_recipe("commute", 2).unwrap();
    let trust = trust(&world).unwrap();
    let source = Arc::new(Source::new([127, 77, 1, 2].into()));
    let mut phone = Phone::new(&world, &trust, Arc::<Source>::clone(&source), 1).unwrap();
    assert_eq!(phone.pass_cut_off(10).unwrap().considered.len(), 1);
    let pending = phone.pending();
    assert_eq!(pending.len(), 1);

    let expired = public_half(&world, &key_file(FIRST_KEY));
    add_gateway_key(&world, NEXT_KEY);
    wait_for_key(&world, NEXT_KEY, true);
    fs::remove_file(world.path(&key_file(FIRST_KEY))).unwrap();
    wait_for_key(&world, FIRST_KEY, false);

    // The gateway's answer, which the relay forwards.
    for (seed, door) in Door::ALL.into_iter().enumerate() {
        let (sealed, _) = seal_upload(&world, &pending[0], &expired, now(), seed as u64);
        let answer = door.post(&world, &sealed);
        assert_eq!((answer.status, problem(&answer).as_str()), (400, KEY_PROBLEM), "{door:?}");
    }
    // A pass tries once, accepts the refusal, and keeps the report unchanged.
    let waiting = Delivery { waiting: 1, ..Delivery::default() };
    let uploads = || {
        let to_leader = |sent: &Vec<u8>| sent.starts_with(b"POST /leader.example ");
        source.sent().iter().filter(|sent| to_leader(sent)).count()
    };
    let before = uploads();
    let done = phone.pass(50).unwrap();
    assert!(done.considered.is_empty());
    assert_eq!(done.insecure_delivery, waiting);
    assert_eq!(uploads(), before + 1);
    assert_eq!(phone.pending()[0].report, pending[0].report);
    assert_eq!(world.pair.leader.metric(ACCEPTED).unwrap(), 0.0);

    // Once the device has read the new key in the log, the same report is sent with it.
    publish_gateway_key(&world, NEXT_KEY);
    let done = phone.pass(50).unwrap();
    assert!(done.considered.is_empty());
    let accepted = Delivery { accepted: 1, ..Delivery::default() };
    assert_eq!(done.insecure_delivery, accepted);
    assert!(phone.pending().is_empty());
    assert_eq!(phone.pass(50).unwrap().insecure_delivery, Delivery::default());
    assert_eq!(world.pair.leader.metric(ACCEPTED).unwrap(), 1.0);

    // The bytes that arrived are those that waited: sent once more, they are not counted again.
    let next = public_half(&world, &key_file(NEXT_KEY));
    let (sealed, awaited) = seal_upload(&world, &pending[0], &next, now(), 7);
    let answer = Door::Relay.post(&world, &sealed);
    assert_eq!(awaited.consume_response(&answer.body).unwrap().status, 200);
    phone.replaced().answer(20).unwrap();
    let collected = world.collect("commute").unwrap();
    assert_eq!(collected["count"], 2);
    assert_eq!(collected["result"], json!([1, 1, 0]));
}
