//! A device behind relays: delivering its answers through rotations and failures, and how it reads
//! the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use sotto_client::{
    Delivery, HttpResponse, Log, Participant, ParticipantError, RouteError, StateFile, Transport,
    TransportError,
};
use sotto_protocol::device::{DeviceState, DeviceStore, MAX_SENDS, MemoryState};
use sotto_protocol::gateway::OuterRefusal;
use sotto_testing::keys::{gateway_key, key};
use sotto_testing::log::{Batch, at};
use sotto_testing::recipe::{DAY, LOG_OPERATOR, NOW, key_set_entry, log_set};
use sotto_testing::world::{Plan, World};
use sotto_wire::recipe::Probability;
use sotto_wire::taskprov;

use crate::device::behind_relay::{BehindRelay, Inner, answer, host, refused};
use crate::device::files::{Leader, begin, sealing_key};

/// A recipe that every device answers.
fn plan() -> Plan {
    let mut plan = Plan::new();
    plan.trust.floors.max_rate = Probability::ONE;
    plan.recipe.sampling.rate = Probability::ONE;
    plan.reclaim();
    plan
}

/// A device that has answered but not sent.
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

/// A pass over the log of this world. Stored answers go to the leader; nothing else uses the relay.
fn send(world: &World, store: &mut MemoryState, inner: &Arc<BehindRelay>) -> Delivery {
    let host = host(world, Arc::<BehindRelay>::clone(inner));
    let log = Log::from_files(world.log.files.clone());
    let mut device = Participant::new(host, Arc::new(world.trust.clone()), store, log);
    device.pass().unwrap().insecure_delivery
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
fn the_same_report_goes_under_another_seal_each_time() {
    let world = plan().build();
    let (mut store, report) = answered(&world);
    let relay = leader(&[5]);
    relay.interfere(Err(TransportError::Timeout));
    relay.interfere(Ok(answer(429, &[("retry-after", "30")], b"")));
    let host = host(&world, Arc::<BehindRelay>::clone(&relay));
    let (trust, log) = (Arc::new(world.trust.clone()), Log::from_files(world.log.files.clone()));
    let mut device = Participant::new(host, trust, &mut store, log);
    for (pass, expected) in [(1, (0, 1)), (2, (0, 1)), (3, (1, 0))] {
        let Delivery { accepted, waiting, .. } = device.pass().unwrap().insecure_delivery;
        assert_eq!((accepted, waiting), expected);
        assert_eq!(relay.outer().len(), pass, "one send in a pass");
    }
    let outer = relay.outer();
    for (number, one) in outer.iter().enumerate() {
        assert_eq!(one.body.len(), outer[0].body.len());
        let keys = |other: &crate::device::behind_relay::Outer| other.body[7..39].to_vec();
        assert!(outer[..number].iter().all(|other| keys(other) != keys(one)), "a fresh key");
    }
    // The requests that did not arrive, opened: the relay dropped the same request each time.
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

/// Whatever comes back, the report is sent a fixed number of times, once in a pass, and then never
/// again: a leader, a gateway or a relay cannot make a device show when it is active.
#[test]
fn nobody_can_make_a_device_send_again_and_again() {
    type Interfere = fn(&BehindRelay);
    let nothing: Interfere = |_| {};
    let lie: Interfere = |relay| relay.interfere(Ok(refused(OuterRefusal::UnknownKey)));
    let drop: Interfere = |relay| relay.interfere(Err(TransportError::Timeout));
    let busy: Interfere = |relay| relay.interfere(Ok(answer(503, &[], b"")));
    for (status, interfere) in
        [(500, nothing), (429, nothing), (404, nothing), (200, lie), (200, drop), (200, busy)]
    {
        let world = plan().build();
        let (mut store, report) = answered(&world);
        let relay = BehindRelay::new(&[gateway_key(5)], move |_: &Inner| answer(status, &[], b""));
        for pass in 1..=MAX_SENDS {
            assert_eq!(reports(store.state()), std::slice::from_ref(&report), "{status} {pass}");
            interfere(&relay);
            let done = send(&world, &mut store, &relay);
            assert_eq!(relay.outer().len() as u32, pass);
            let over = pass == MAX_SENDS;
            assert_eq!((done.waiting, done.refused), (usize::from(!over), usize::from(over)));
            // A pass in between makes no second report.
            world.walk(&mut store, 7 + u64::from(pass)).unwrap();
        }
        send(&world, &mut store, &relay);
        assert_eq!(reports(store.state()).len(), 0);
        assert_eq!(relay.outer().len() as u32, MAX_SENDS);
    }
}

/// A device without a network: only what was sent counts.
#[test]
fn an_answer_waits_for_a_network() {
    let world = plan().build();
    let (mut store, report) = answered(&world);
    let relay = leader(&[5]);
    for _ in 0..2 * MAX_SENDS {
        relay.interfere(Err(TransportError::NoConnection("no such host".to_owned())));
        assert_eq!(send(&world, &mut store, &relay).waiting, 1);
    }
    assert_eq!(send(&world, &mut store, &relay).accepted, 1);
    assert_eq!(relay.inner()[0].content, report);
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
fn an_answer_needs_nothing_from_the_log() {
    let world = plan().build();
    let (mut store, report) = answered(&world);
    let relay = leader(&[5]);
    let unread = Log::from_files(BTreeMap::new());
    let host = host(&world, Arc::<BehindRelay>::clone(&relay));
    let trust = Arc::new(world.trust.clone());
    let failed = Participant::new(host, trust, &mut store, unread).pass();
    assert!(matches!(failed, Err(ParticipantError::Log(_))));
    assert_eq!(relay.inner()[0].content, report);
    assert_eq!(reports(store.state()).len(), 0);
}

#[test]
fn an_answer_waits_until_the_log_shows_a_way_through_the_owners_new_relay() {
    let mut plan = plan();
    let (mut store, report) = answered(&plan.build());
    let relay = leader(&[5]);
    // The owner trusts another relay by now, which was not one of those when it was decided.
    plan.trust.relays[0].url = "https://other.example/".to_owned();
    let world = plan.build();
    let trust = Arc::new(world.trust.clone());
    for _ in 0..=MAX_SENDS {
        let host = host(&world, Arc::<BehindRelay>::clone(&relay));
        let unread = Log::from_files(BTreeMap::new());
        Participant::new(host, Arc::clone(&trust), &mut store, unread).pass().unwrap_err();
        assert_eq!(relay.outer().len(), 0);
    }
    assert_eq!(reports(store.state()), [report]);
    assert_eq!(send(&world, &mut store, &relay).accepted, 1);
    assert_eq!(relay.outer()[0].url, "https://other.example/leader.example");
}

#[test]
fn only_relays_of_others_carry_an_answer() {
    let mut plan = plan();
    let relay = plan.trust.relays[0].clone();
    for operator in ["leader.example", "helper.example"] {
        let url = format!("https://relay.{operator}/");
        let operator = operator.to_owned();
        plan.trust.relays.push(sotto_protocol::trust::PinnedServer { operator, key: None, url });
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
    let host = host(&world, Arc::<Leader>::clone(&exposed));
    let log = Log::at("https://log.example", &host, &world.trust).unwrap();
    let trust = Arc::new(world.trust.clone());
    let failed = Participant::new(host, trust, &mut store, log).pass();
    assert!(matches!(failed, Err(ParticipantError::Log(_))), "this transport is no log");
    // Whatever the log says: the stored bytes name the leader.
    assert_eq!(reports(store.state()).len(), 0);
    let bodies = exposed.bodies();
    assert_eq!(bodies.len(), 2, "the log was asked, directly");
    assert_eq!(bodies[1], report);
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
        let store = StateFile::open(&path, &sealing_key()).unwrap();
        let mut host = host(&world, Arc::<BehindRelay>::clone(relay));
        // It answers nothing, so the relay only carries reads of the log.
        host.conditions = Box::new(|| Ok(false));
        let log = Log::at("https://log.example", &host, &world.trust).unwrap();
        let mut device = Participant::new(host, Arc::new(world.trust.clone()), store, log);
        for _ in 0..passes {
            device.pass()?;
        }
        Ok::<_, ParticipantError>(())
    };
    read(&relay, 2).unwrap();
    assert_eq!(keys(&relay), [0, 1]);
    let outer = relay.outer();
    assert!(outer.iter().all(|outer| outer.url == "https://relay.example/gateway.example"));
    assert!(outer.iter().all(|outer| outer.body.len() == 4_096), "all reads look the same");
    assert!(relay.inner().iter().all(|inner| inner.method == "GET" && inner.fields.len() == 1));
    // Another process starts with the logged key, even after the gateway has forgotten the pinned
    // one.
    let later = public(&world, &[1]);
    read(&later, 1).unwrap();
    assert_eq!(keys(&later), [1]);
    // A device that was offline while the logged key changed can still read the log with the pinned
    // one.
    let missed = public(&world, &[0, 9]);
    read(&missed, 1).unwrap();
    assert_eq!(keys(&missed), [1, 0]);
    // If the gateway has neither, the log cannot be read.
    assert!(read(&public(&world, &[9]), 1).is_err());
}

#[test]
fn a_device_without_a_gateway_of_the_log_does_not_ask_the_log_itself() {
    let mut plan = plan();
    plan.trust.log_gateway = None;
    let world = plan.build();
    let relay = leader(&[5]);
    let host = host(&world, Arc::<BehindRelay>::clone(&relay));
    let refused = Log::at("https://log.example", &host, &world.trust);
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
