//! The keys of the gateways: the log's, with which a device starts before it has read anything, and
//! the leader's for an answer.

use sotto_protocol::Moment;
use sotto_protocol::device::{
    Change, DeviceState, DeviceStore, MemoryState, SeenGateway, SeenKeySet, log_gateway_keys,
};
use sotto_protocol::trust::{Trust, TrustFile};
use sotto_testing::keys::{gateway_key, hpke, key, key_of, signer};
use sotto_testing::log::{Batch, at};
use sotto_testing::recipe::{
    DAY, HOUR, LOG_OPERATOR, NOW, key_set_entry, leader_set, log_set, trust_file,
};
use sotto_testing::world::{Plan, World, seen};
use sotto_wire::recipe::KeySet;
use sotto_wire::{Checkpoint, EntryId, HpkeConfig};

use crate::device::rows::parties::unknown_suite;

/// The pinned key.
const PINNED: u8 = 0;

fn config(number: u8) -> HpkeConfig {
    gateway_key(number).config().clone()
}

fn log(set: &KeySet, times: u64) -> Batch {
    Batch { entries: vec![key_set_entry(set, &key(LOG_OPERATOR))], times: at(times) }
}

/// A world in which the log holds these sets of its gateway's operator, each logged a day before it
/// begins.
fn world(sets: &[KeySet]) -> World {
    let mut plan = Plan::new();
    plan.later = sets.iter().map(|set| log(set, set.not_before.min(NOW - DAY) - DAY)).collect();
    plan.build()
}

/// The key after a walk through a world, now.
fn after(world: &World, store: &mut MemoryState) -> HpkeConfig {
    let done = world.walk(store, 1).unwrap();
    assert!(done.considered.len() + done.silent.len() == 1, "the rest goes on");
    log_gateway_keys(store.state(), &world.trust, world.now)[0].clone()
}

#[test]
fn a_device_begins_with_the_pinned_key_and_goes_on_with_the_logged_one() {
    let world = world(&[log_set(1, NOW - 2 * DAY)]);
    let mut store = world.device();
    let (trust, now) = (&world.trust, world.now);
    assert_eq!(log_gateway_keys(store.state(), trust, now), [config(PINNED)]);
    assert_eq!(log_gateway_keys(&DeviceState::default(), trust, now), [config(PINNED)]);
    assert_eq!(after(&world, &mut store), config(1));
    let state = store.state().clone();
    world.walk(&mut store, 2).unwrap();
    assert_eq!(store.state(), &state, "it is remembered once");
    // Another process.
    let text = serde_json::to_string(&state).unwrap();
    let read: DeviceState = serde_json::from_str(&text).unwrap();
    assert_eq!(log_gateway_keys(&read, trust, now), [config(1), config(PINNED)]);
    assert_eq!(read, state);
}

#[test]
fn a_logged_key_that_is_over_gives_way_to_the_pinned_one() {
    let set = KeySet { not_after: NOW + HOUR, ..log_set(1, NOW - 2 * DAY) };
    let world = world(&[set]);
    let mut store = world.device();
    assert_eq!(after(&world, &mut store), config(1));
    let at = |store: &MemoryState, now| {
        log_gateway_keys(store.state(), &world.trust, Moment(now))[0].clone()
    };
    assert_eq!(at(&store, NOW + HOUR - 1), config(1));
    assert_eq!(at(&store, NOW + HOUR), config(PINNED));
    // Setting the clock back does not bring it back.
    let checkpoint = Checkpoint::parse(world.log.view.text()).unwrap();
    store.commit(seen(checkpoint, NOW + HOUR)).unwrap();
    assert_eq!(at(&store, NOW), config(PINNED));
}

#[test]
fn the_newest_set_in_force_counts_by_the_rules_of_all_key_sets() {
    let first = log_set(1, NOW - 9 * DAY);
    let mut store = world(std::slice::from_ref(&first)).device();
    let last = |second: KeySet, mut store: MemoryState| {
        after(&world(&[first.clone(), second]), &mut store)
    };
    assert_eq!(last(log_set(2, NOW - 2 * DAY), store.clone()), config(2));
    assert_eq!(last(log_set(2, NOW + 1), store.clone()), config(1), "not yet");
    assert_eq!(last(log_set(2, NOW - 8 * DAY - 1), store.clone()), config(1), "too soon");
    assert_eq!(last(log_set(0, NOW - 2 * DAY), store.clone()), config(1), "a lower number");
    // From what the device itself remembers, whatever the log shows now.
    let operator = signer(&key(LOG_OPERATOR));
    let remembered = Change::LogGateway {
        set: SeenKeySet { seq: 7, id: EntryId::of(b"seven"), not_before: NOW - DAY },
        gateway: SeenGateway { operator, not_after: NOW + DAY, config: config(99) },
    };
    store.commit(remembered).unwrap();
    assert_eq!(last(log_set(2, NOW - 2 * DAY), store.clone()), config(99), "older");
    assert_eq!(last(log_set(7, NOW - 2 * DAY), store.clone()), config(99), "two of one number");
    assert_eq!(last(log_set(8, NOW - 2 * DAY), store.clone()), config(99), "too soon after it");
}

#[test]
fn what_cannot_be_used_changes_nothing_and_hinders_nothing() {
    let bad = |words: &str, batch: Batch| {
        let mut plan = Plan::new();
        plan.later.push(batch);
        let world = plan.build();
        let mut store = world.device();
        assert_eq!(after(&world, &mut store), config(PINNED), "{words}");
        assert!(store.state().is_considered(&plan.focus()), "{words}");
    };
    let set = log_set(1, NOW - 2 * DAY);
    bad("too young", log(&set, NOW - 2 * HOUR));
    bad("over", log(&KeySet { not_after: NOW - DAY, ..set.clone() }, NOW - 3 * DAY));
    let none = KeySet { hpke_configs: vec![hpke(1)], gateway_configs: None, ..set.clone() };
    bad("no gateway key", log(&none, NOW - 3 * DAY));
    let unknown = KeySet { gateway_configs: Some(vec![unknown_suite()]), ..set.clone() };
    bad("an unknown suite", log(&unknown, NOW - 3 * DAY));
    let mallory = key_of("mallory", LOG_OPERATOR);
    let entries = vec![key_set_entry(&set, &mallory)];
    bad("a foreign signature", Batch { entries, times: at(NOW - 3 * DAY) });
    let theirs = KeySet { operator: signer(&mallory), ..set };
    let entries = vec![key_set_entry(&theirs, &mallory)];
    bad("somebody with the operator's name", Batch { entries, times: at(NOW - 3 * DAY) });
}

#[test]
fn a_remembered_key_goes_with_the_operator_who_signed_it() {
    let world = world(&[log_set(1, NOW - 2 * DAY)]);
    let mut store = world.device();
    world.walk(&mut store, 1).unwrap();
    let key_by = |change: &dyn Fn(&mut TrustFile)| {
        let mut file = trust_file();
        change(&mut file);
        let trust = Trust::try_from(file).unwrap();
        log_gateway_keys(store.state(), &trust, world.now).first().cloned()
    };
    assert_eq!(key_by(&|_| {}), Some(config(1)));
    assert_eq!(
        key_by(&|file| file.log_gateway.as_mut().unwrap().operator = "other.example".to_owned()),
        Some(config(PINNED))
    );
    let renewed = key_of("a new key", LOG_OPERATOR).verifier().to_string();
    assert_eq!(key_by(&|file| file.operators[3].key = renewed.clone()), Some(config(PINNED)));
    assert_eq!(key_by(&|file| file.log_gateway = None), None);
}

#[test]
fn without_a_pinned_gateway_nothing_is_remembered() {
    let mut plan = Plan::new();
    plan.later.push(log(&log_set(1, NOW - 2 * DAY), NOW - 3 * DAY));
    plan.trust.log_gateway = None;
    let world = plan.build();
    let mut store = world.device();
    world.walk(&mut store, 1).unwrap();
    let pinned = Trust::try_from(trust_file()).unwrap();
    assert_eq!(log_gateway_keys(store.state(), &pinned, world.now), [config(PINNED)]);
}

/// Sending needs nothing from the log: the way of an answer is stored, and renewed when it is read.
#[test]
fn an_answer_is_wrapped_with_the_newest_key_that_was_read() {
    let mut plan = Plan::new();
    let world = plan.build();
    let mut store = world.device();
    world.walk(&mut store, 1).unwrap();
    let route = |store: &MemoryState| {
        let (_, pending) = store.state().pending().next().expect("a report or cover");
        pending.route.clone().expect("through a relay")
    };
    let decided = route(&store);
    assert_eq!(decided.key, config(5));
    assert_eq!(decided.gateway.as_str(), "leader.example");
    assert_eq!(decided.relays, ["https://relay.example/"]);
    let set = leader_set(&key("leader.example"), 6, NOW - 2 * DAY);
    let entries = vec![key_set_entry(&set, &key("leader.example"))];
    plan.later.push(Batch { entries, times: at(NOW - 3 * DAY) });
    let rotated = plan.build();
    rotated.walk(&mut store, 2).unwrap();
    assert_eq!(route(&store).key, config(6));
}
