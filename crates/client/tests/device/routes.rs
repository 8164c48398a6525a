//! A device behind relays: its answers on their way through rotations and failures, and how it reads the log.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_client::{
    Delivery, HttpLog, HttpResponse, RetryPolicy, RouteError, Routes, StateFile, Transport,
    TransportError, deliver,
};
use sotto_protocol::admission::Watch;
use sotto_protocol::device::{DeviceState, DeviceStore, MemoryState, pass};
use sotto_protocol::gateway::OuterRefusal;
use sotto_wire::recipe::Probability;
use sotto_wire::{EntryId, taskprov};

use crate::behind_relay::{BehindRelay, Inner, answer, clock, random, refused};
use crate::files::{Leader, begin, sealing_key};
use crate::world::{
    Batch, DAY, LOG_OPERATOR, NOW, Plan, World, at, gateway_key, key, key_set_entry, leader_set,
    log_set,
};

/// A recipe that every device answers.
fn plan() -> Plan {
    let mut plan = Plan::new();
    plan.trust.floors.max_rate = Probability::ONE;
    plan.recipe.sampling.rate = Probability::ONE;
    plan.reclaim();
    plan
}

/// The same, and then the leader's keys with this number.
fn rotated(seq: u64) -> World {
    let mut plan = plan();
    plan.later.push(leader_keys(seq, NOW - 2 * DAY, Some));
    plan.build()
}

/// A key set of the leader, logged a day before it begins, with what `gateway` makes of its gateway's keys.
fn leader_keys(
    seq: u64,
    not_before: u64,
    gateway: fn(Vec<String>) -> Option<Vec<String>>,
) -> Batch {
    let mut set = leader_set(&key("leader.example"), seq, not_before);
    set.gateway_configs = set.gateway_configs.and_then(gateway);
    let entries = vec![key_set_entry(&set, &key("leader.example"))];
    Batch { entries, times: at(not_before - DAY) }
}

/// A device that has answered and not sent.
fn answered(world: &World) -> (MemoryState, Vec<u8>) {
    let mut store = world.device();
    world.walk(&mut store, 1).unwrap();
    let report = reports(store.state()).remove(0);
    (store, report)
}

fn reports(state: &DeviceState) -> Vec<Vec<u8>> {
    state.pending().map(|(_, pending)| pending.report.clone()).collect()
}

fn leader(keys: &[u8]) -> Arc<BehindRelay> {
    let keys: Vec<_> = keys.iter().map(|number| gateway_key(*number)).collect();
    BehindRelay::new(&keys, |_: &Inner| answer(200, &[], b""))
}

fn routes(inner: Arc<dyn Transport>) -> Routes {
    Routes::new(inner, clock(NOW), random())
}

/// What was waited for.
type Slept = Arc<Mutex<Vec<Duration>>>;

fn patience() -> (RetryPolicy, Slept) {
    let slept = Slept::default();
    let log = Arc::clone(&slept);
    let policy = RetryPolicy::default().with_sleep(move |pause| log.lock().unwrap().push(pause));
    (policy, slept)
}

/// Sends what is stored by the ways that this world gives.
fn send(world: &World, store: &mut MemoryState, inner: &Arc<BehindRelay>) -> Delivery {
    let routes = routes(Arc::<BehindRelay>::clone(inner));
    let ways = routes.to_leaders(store.state(), &world.watch().unwrap(), &world.trust);
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    deliver(store, &mut |id| ways.get(id).cloned(), &patience().0, &mut rng).unwrap()
}

#[test]
fn an_answer_reaches_the_leader_through_its_gateway() {
    let world = plan().build();
    let (mut store, report) = answered(&world);
    let configuration = store.state().pending().next().unwrap().1.task_configuration.clone();
    let relay = leader(&[5]);
    assert_eq!(send(&world, &mut store, &relay), Delivery { accepted: 1, ..Default::default() });
    assert_eq!(reports(store.state()).len(), 0);
    let [outer] = &relay.outer()[..] else { panic!("one exchange") };
    assert_eq!(outer.url, "https://relay.example/leader.example");
    assert!(!outer.body.windows(16).any(|window| window == &report[..16]), "no report id");
    let [inner] = &relay.inner()[..] else { panic!("one request") };
    assert_eq!(inner.content, report);
    let task = taskprov::task_id(&configuration);
    assert_eq!(inner.url, format!("https://leader.example/tasks/{task}/reports"));
    let names: Vec<&str> = inner.fields.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["date", "dap-taskprov", "content-type"]);
}

#[test]
fn a_retry_has_the_same_report_under_another_seal() {
    let world = plan().build();
    let (mut store, report) = answered(&world);
    let relay = leader(&[5]);
    relay.interfere(Err(TransportError::Timeout));
    relay.interfere(Ok(answer(429, &[("retry-after", "30")], b"")));
    relay.interfere(Ok(answer(503, &[], b"")));
    let (retry, slept) = patience();
    let ways = routes(Arc::<BehindRelay>::clone(&relay)).to_leaders(
        store.state(),
        &world.watch().unwrap(),
        &world.trust,
    );
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let done = deliver(&mut store, &mut |id| ways.get(id).cloned(), &retry, &mut rng).unwrap();
    assert_eq!(done, Delivery { accepted: 1, ..Default::default() });
    let slept = slept.lock().unwrap();
    assert_eq!(slept.len(), 3);
    assert!(slept[1] >= Duration::from_secs(30), "the relay's word counts: {slept:?}");
    let outer = relay.outer();
    assert_eq!(outer.len(), 4);
    for (number, one) in outer.iter().enumerate() {
        assert_eq!(one.body.len(), outer[0].body.len());
        let keys = |other: &crate::behind_relay::Outer| other.body[7..39].to_vec();
        assert!(outer[..number].iter().all(|other| keys(other) != keys(one)), "a fresh key");
    }
    // Those that did not arrive, opened: what the relay dropped is the same request.
    for one in &outer {
        let again = leader(&[5]);
        let request = sotto_client::HttpRequest {
            method: one.method,
            url: one.url.clone(),
            headers: Vec::new(),
            body: &one.body,
            response_limit: one.response_limit,
        };
        again.send(&request).unwrap();
        assert_eq!(again.inner()[0].content, report);
    }
}

#[test]
fn after_a_rotation_the_same_report_waits_for_the_newest_logged_key() {
    let world = plan().build();
    let (mut store, report) = answered(&world);
    let waiting = Delivery { waiting: 1, ..Default::default() };
    // The gateway has forgotten the key that the device knows from the log.
    let relay = leader(&[6]);
    for attempt in 1..=3 {
        assert_eq!(send(&world, &mut store, &relay), waiting);
        assert_eq!(relay.outer().len(), attempt, "no second attempt with this key, nor another");
        assert_eq!(reports(store.state()), std::slice::from_ref(&report));
        // A pass in between makes no second report.
        world.walk(&mut store, 7 + attempt as u64).unwrap();
        assert_eq!(reports(store.state()), std::slice::from_ref(&report));
    }
    // A key that the log does not hold helps nobody. Then the log has it.
    let newer = rotated(6);
    assert_eq!(send(&newer, &mut store, &relay), waiting, "not before the device took the view");
    assert_eq!(relay.outer().len(), 3);
    newer.walk(&mut store, 20).unwrap();
    let accepted = Delivery { accepted: 1, ..Default::default() };
    assert_eq!(send(&newer, &mut store, &relay), accepted);
    let contents: Vec<Vec<u8>> = relay.inner().into_iter().map(|inner| inner.content).collect();
    assert_eq!(contents, [report], "one report, the one that was made");
    assert_eq!(reports(store.state()).len(), 0);
}

#[test]
fn a_relay_that_lies_about_keys_gains_no_more_than_by_dropping() {
    let world = plan().build();
    let (mut store, report) = answered(&world);
    let relay = leader(&[5]);
    relay.interfere(Ok(refused(OuterRefusal::UnknownKey)));
    assert_eq!(send(&world, &mut store, &relay).waiting, 1);
    assert_eq!(send(&world, &mut store, &relay).accepted, 1);
    assert_eq!(relay.inner()[0].content, report);
}

#[test]
fn without_a_way_an_answer_waits() {
    let world = plan().build();
    let (mut store, report) = answered(&world);
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let (retry, _) = patience();
    let done = deliver(&mut store, &mut |_| None, &retry, &mut rng).unwrap();
    assert_eq!(done, Delivery { waiting: 1, ..Default::default() });
    assert_eq!(reports(store.state()), [report]);
    let relay = leader(&[5]);
    let routes = routes(Arc::<BehindRelay>::clone(&relay));
    // The log has not been read.
    let unread = Watch::new(world.log.files.clone());
    assert!(routes.to_leaders(store.state(), &unread, &world.trust).is_empty());
    // The leader's newest set has no gateway key.
    let mut plan = plan();
    plan.later.push(leader_keys(6, NOW - 2 * DAY, |_| None));
    let bare = plan.build();
    bare.walk(&mut store, 9).unwrap();
    assert_eq!(send(&bare, &mut store, &relay).waiting, 1);
    assert_eq!(relay.outer().len(), 0);
    // Later it has one again.
    plan.later.push(leader_keys(7, NOW - DAY, Some));
    let again = plan.build();
    again.walk(&mut store, 10).unwrap();
    relay.rotate(&[gateway_key(7)]);
    assert_eq!(send(&again, &mut store, &relay).accepted, 1);
}

#[test]
fn only_relays_of_others_carry_an_answer() {
    let mut plan = plan();
    let relay = plan.trust.relays[0].clone();
    for operator in ["leader.example", "helper.example"] {
        let url = format!("https://relay.{operator}/");
        let operator = operator.to_owned();
        plan.trust.relays.push(sotto_protocol::trust::PinnedRelay { operator, url });
    }
    let world = plan.build();
    for _ in 0..20 {
        let (mut store, _) = answered(&world);
        let behind = leader(&[5]);
        assert_eq!(send(&world, &mut store, &behind).accepted, 1);
        assert!(behind.outer()[0].url.starts_with(&relay.url));
    }
}

#[test]
fn a_device_that_its_owner_exposes_goes_directly() {
    let mut plan = plan();
    plan.trust.insecure_direct = true;
    let world = plan.build();
    let (mut store, report) = answered(&world);
    let exposed = Leader::new(0);
    let routes = routes(Arc::<Leader>::clone(&exposed));
    // Whatever the log says: the stored bytes name the leader.
    let unread = Watch::new(world.log.files.clone());
    let ways = routes.to_leaders(store.state(), &unread, &world.trust);
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let mut route = |id: &EntryId| ways.get(id).cloned();
    let done = deliver(&mut store, &mut route, &RetryPolicy::never(), &mut rng).unwrap();
    assert_eq!(done.accepted, 1);
    assert_eq!(exposed.bodies(), [report]);
    let log = routes.to_log(store.state(), &world.trust).unwrap();
    let seen = HttpLog::new("https://log.example", log.transport());
    let mut watch = Watch::new(seen);
    watch.refresh(&world.trust, world.now).expect_err("this transport is no log");
    assert_eq!(exposed.bodies().len(), 2, "but it was asked, directly");
}

/// The log's files behind its gateway.
fn public(world: &World, keys: &[u8]) -> Arc<BehindRelay> {
    let (files, keys) = (world.log.files.clone(), keys.iter().map(|number| gateway_key(*number)));
    BehindRelay::new(&keys.collect::<Vec<_>>(), move |inner: &Inner| {
        let path = inner.url.strip_prefix("https://log.example/");
        let file = path.and_then(|path| files.get(path));
        file.map_or_else(|| answer(404, &[], b""), |file| answer(200, &[], file))
    })
}

#[test]
fn the_log_is_read_through_its_gateway_first_by_the_pinned_key_then_by_the_logged_one() {
    let mut plan = plan();
    let set = key_set_entry(&log_set(1, NOW - 2 * DAY), &key(LOG_OPERATOR));
    plan.later.push(Batch { entries: vec![set], times: at(NOW - 3 * DAY) });
    let world = plan.build();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    begin(&world, &path);
    let relay = public(&world, &[0, 1]);
    let keys = |relay: &BehindRelay| {
        let mut keys: Vec<u8> = relay.outer().iter().map(|outer| outer.body[0]).collect();
        keys.dedup();
        keys
    };
    let read = |relay: &Arc<BehindRelay>, passes: usize| {
        let mut store = StateFile::open(&path, &sealing_key()).unwrap();
        let routes = routes(Arc::<BehindRelay>::clone(relay));
        let way = routes.to_log(store.state(), &world.trust).unwrap();
        let mut watch = Watch::new(HttpLog::new("https://log.example", way.transport()));
        let mut rng = ChaCha20Rng::seed_from_u64(4);
        for _ in 0..passes {
            way.renew(store.state(), &world.trust);
            watch.refresh(&world.trust, world.now)?;
            let host = world.host();
            pass(&mut store, &mut watch, &world.trust, &host, world.now, &mut rng).unwrap();
        }
        Ok::<_, sotto_protocol::admission::WatchError>(())
    };
    read(&relay, 2).unwrap();
    assert_eq!(keys(&relay), [0, 1]);
    let outer = relay.outer();
    assert!(outer.iter().all(|outer| outer.url == "https://relay.example/gateway.example"));
    assert!(outer.iter().all(|outer| outer.body.len() == 4_096), "all reads look the same");
    assert!(relay.inner().iter().all(|inner| inner.method == "GET" && inner.fields.len() == 1));
    // Another process begins with the logged key, also once the gateway has forgotten the pinned one.
    let later = public(&world, &[1]);
    read(&later, 1).unwrap();
    assert_eq!(keys(&later), [1]);
    // A device that was away while the logged key changed can still read the log by the pinned one.
    let missed = public(&world, &[0, 9]);
    read(&missed, 1).unwrap();
    assert_eq!(keys(&missed), [1, 0]);
    // A gateway that has neither is a log that cannot be read.
    assert!(read(&public(&world, &[9]), 1).is_err());
}

#[test]
fn a_device_without_a_gateway_of_the_log_does_not_ask_the_log_itself() {
    let mut plan = plan();
    plan.trust.log_gateway = None;
    let world = plan.build();
    let relay = leader(&[5]);
    let routes = routes(Arc::<BehindRelay>::clone(&relay));
    let refused = routes.to_log(&DeviceState::default(), &world.trust);
    assert_eq!(refused.unwrap_err(), RouteError::NoLogGateway);
}

#[test]
fn a_status_inside_is_the_leaders_verdict() {
    let world = plan().build();
    for (status, expected) in [(403, (0, 1)), (200, (1, 0))] {
        let (mut store, _) = answered(&world);
        let relay = BehindRelay::new(&[gateway_key(5)], move |_: &Inner| -> HttpResponse {
            answer(status, &[], b"")
        });
        let Delivery { accepted, waiting, .. } = send(&world, &mut store, &relay);
        assert_eq!((accepted, waiting), expected);
    }
}
