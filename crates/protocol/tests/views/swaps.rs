//! What each party sees, byte for byte, and that none of it depends on who a device is.
//!
//! A whole collection in memory and in virtual time: devices read the log, decide and upload, all
//! through relay and gateways; leader and helper aggregate; the collector collects. Every byte that
//! a party receives is recorded. All randomness and all timing belong to a *slot* (a device's data
//! and its coins); an identity (address, name) plays a slot. Swapping two identities must leave
//! everything unchanged except the relay's view.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use rand_chacha::ChaCha20Rng;
use sotto_protocol::Moment;
use sotto_protocol::admission::Watch;
use sotto_protocol::client::is_cover;
use sotto_protocol::device::{DeviceStore, Host, pass};
use sotto_protocol::expression::Value;
use sotto_protocol::gateway::{GatewayKeyring, ReplayWindow, consume_request};
use sotto_protocol::log::{Fetch, FetchError};
use sotto_protocol::oblivious::{InnerRequest, produce_request, relay_url};
use sotto_protocol::recipe::{Assessment, recipe_vdaf};
use sotto_protocol::relay::{Pool, PoolRule, SourceLimit};
use sotto_testing::keys::{keypair_from, rng};
use sotto_testing::recipe::NOW;
use sotto_testing::world::{Plan, World};
use sotto_wire::bhttp::{Request, Response};
use sotto_wire::recipe::Query;
use sotto_wire::size_class::SizeClass;
use sotto_wire::taskprov;
use sotto_wire::{KeySet, MediaType};

use crate::views::aggregation::Aggregators;

const LOG: &str = "log.example";
const LEADER: &str = "leader.example";

/// Slots, and identities to play them.
const DEVICES: usize = 8;

/// Who a device is, to whoever can see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    address: IpAddr,
}

fn identities() -> Vec<Identity> {
    let address = |i: usize| IpAddr::V4(Ipv4Addr::new(198, 51, 100, 10 + i as u8));
    (0..DEVICES).map(|i| Identity { address: address(i) }).collect()
}

/// Everything that each party received, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Views {
    relay: Vec<(IpAddr, String, Vec<u8>)>,
    /// What came back through the relay.
    relay_back: Vec<Vec<u8>>,
    log_gateway: Vec<Vec<u8>>,
    log: Vec<Vec<u8>>,
    leader_gateway: Vec<Vec<u8>>,
    leader: Vec<Vec<u8>>,
    helper: Vec<Vec<u8>>,
    collector: Vec<Vec<u8>>,
}

impl Views {
    /// What everybody except the relay saw.
    fn without_relay(&self) -> Self {
        Self { relay: Vec::new(), relay_back: Vec::new(), ..self.clone() }
    }
}

/// A request on its way through the relay.
struct Held {
    gateway: &'static str,
    body: Vec<u8>,
    answer: Rc<RefCell<Option<Vec<u8>>>>,
}

struct Gateway {
    keys: GatewayKeyring,
    window: ReplayWindow,
    rng: ChaCha20Rng,
}

impl Gateway {
    fn new(seed: u64) -> Self {
        Self {
            keys: GatewayKeyring::new(&[keypair_from(1, seed)]).unwrap(),
            window: ReplayWindow::new(1_800, 10_000, [7; 16]),
            rng: rng(1_000 + seed),
        }
    }
}

/// The relay and everything behind it.
struct Network {
    files: sotto_testing::log::Files,
    now_ms: u64,
    pools: BTreeMap<(&'static str, SizeClass), Pool<Held>>,
    sources: SourceLimit,
    relay_rng: ChaCha20Rng,
    log: Gateway,
    leader: Gateway,
    uploads: Vec<Vec<u8>>,
    views: Views,
}

impl Network {
    fn new(world: &World) -> Self {
        Self {
            files: world.log.files.clone(),
            now_ms: NOW * 1_000,
            pools: BTreeMap::new(),
            sources: SourceLimit::new(1_000, 60_000, 1_000),
            relay_rng: rng(3),
            log: Gateway::new(LOG_KEY),
            leader: Gateway::new(LEADER_KEY),
            uploads: Vec::new(),
            views: Views::default(),
        }
    }

    /// A request arrives at the relay.
    fn send(
        &mut self,
        from: Identity,
        gateway: &'static str,
        body: Vec<u8>,
    ) -> Rc<RefCell<Option<Vec<u8>>>> {
        let url = relay_url("https://relay.example/", &gateway.parse().unwrap());
        self.views.relay.push((from.address, url, body.clone()));
        let source = self.sources.admit(from.address, self.now_ms, &mut self.relay_rng);
        assert!(source.is_some());
        let class = SizeClass::of_exact(body.len()).expect("a body of a size class");
        let answer = Rc::default();
        let held = Held { gateway, body, answer: Rc::clone(&answer) };
        let rule = PoolRule { min: 3, wait_ms: 10_000 };
        self.pools.entry((gateway, class)).or_insert_with(|| Pool::new(rule)).push(
            held,
            source,
            self.now_ms,
        );
        self.emit();
        answer
    }

    /// Time passes until every pool is empty.
    fn drain(&mut self) {
        while let Some(due) = self.pools.values().filter_map(Pool::due_at).min() {
            self.now_ms = self.now_ms.max(due);
            self.emit();
        }
    }

    fn emit(&mut self) {
        let mut out = Vec::new();
        for pool in self.pools.values_mut() {
            out.extend(pool.take(self.now_ms, &mut self.relay_rng));
        }
        for held in out {
            let answer = self.receive(&held);
            self.views.relay_back.push(answer.clone());
            *held.answer.borrow_mut() = Some(answer);
        }
    }

    /// A request arrives at a gateway, which hands it over in process.
    fn receive(&mut self, held: &Held) -> Vec<u8> {
        let now = Moment(self.now_ms / 1_000);
        let (gateway, seen) = match held.gateway {
            LOG => (&mut self.log, &mut self.views.log_gateway),
            _ => (&mut self.leader, &mut self.views.leader_gateway),
        };
        seen.push(held.body.clone());
        let opened = consume_request(&gateway.keys, &held.body).unwrap();
        let request = opened.decode().unwrap();
        gateway.window.admit(&opened, &request, now).unwrap();
        let mut shown = Vec::new();
        request.encode(&mut shown);
        let (status, content) = match held.gateway {
            LOG => {
                self.views.log.push(shown);
                let path = request.path.trim_start_matches('/');
                let file = self.files.get(path).cloned();
                (if file.is_some() { 200 } else { 404 }, file.unwrap_or_default())
            }
            _ => {
                self.views.leader.push(shown);
                assert!(is_upload(&request));
                self.uploads.push(request.content.to_vec());
                (200, Vec::new())
            }
        };
        let response = Response {
            informational: Vec::new(),
            status,
            fields: Vec::new(),
            content: content.into(),
            trailers: Vec::new(),
        };
        let (_, responder) = opened.into_parts();
        responder.respond(&response, &mut gateway.rng).unwrap()
    }
}

fn is_upload(request: &Request<'_>) -> bool {
    request.method == "POST" && request.path.ends_with("/reports")
}

const LOG_KEY: u64 = 51;
const LEADER_KEY: u64 = 52;

/// The log, as a device reads it.
struct Oblivious {
    network: Rc<RefCell<Network>>,
    identity: Identity,
    rng: ChaCha20Rng,
}

impl Fetch for Oblivious {
    fn fetch(&mut self, path: &str, _limit: usize) -> Result<Option<Vec<u8>>, FetchError> {
        let url = format!("https://{LOG}/{path}");
        let request = InnerRequest { method: "GET", url: &url, fields: &[], content: &[] };
        let mut network = self.network.borrow_mut();
        let now = Moment(network.now_ms / 1_000);
        let (body, awaited) =
            produce_request(&request, keypair_from(1, LOG_KEY).config(), now, &mut self.rng)
                .unwrap();
        let answer = network.send(self.identity, LOG, body);
        network.drain();
        let answer = answer.borrow_mut().take().expect("an answer");
        let response = awaited.consume_response(&answer).unwrap();
        Ok((response.status == 200).then_some(response.content))
    }
}

/// A world with few devices, and gateway keys in the log.
fn world() -> (World, Assessment) {
    let mut plan = Plan::new();
    plan.trust.floors.dishonest_devices = 1;
    plan.trust.floors.min_population = 2;
    (plan.trust.budget.epsilon, plan.trust.budget.lifetime_epsilon) = (100.0, 100.0);
    plan.recipe.aggregation.min_batch = 2;
    plan.recipe.who.population = DEVICES as u64;
    // Large enough for a different size class than reads of the log.
    plan.recipe.query =
        Query::Histogram { buckets: 200, labels: None, mapping: "region".to_owned(), fallback: 0 };
    plan.recipe.aggregation.vdaf = recipe_vdaf(&plan.recipe).unwrap();
    plan.reclaim();
    plan.leader_set.gateway_configs =
        Some(vec![KeySet::config_text(keypair_from(1, LEADER_KEY).config())]);
    let assessment = Assessment::new(plan.recipe.clone()).unwrap();
    (plan.build(), assessment)
}

/// Runs a whole collection. `players[slot]` plays the slot. A leaky device puts its address into
/// its requests.
fn run(players: &[Identity], leaky: bool) -> (Views, Vec<Vec<u8>>) {
    let (world, assessment) = world();
    let network = Rc::new(RefCell::new(Network::new(&world)));
    let mut reports = Vec::new();
    let mut answers = Vec::new();
    for (slot, identity) in players.iter().enumerate() {
        let rng = |stream: u64| rng(100 * slot as u64 + stream);
        let log = Oblivious { network: Rc::clone(&network), identity: *identity, rng: rng(1) };
        let mut watch = Watch::new(log);
        watch.refresh(&world.trust, world.now).unwrap();
        let attributes = [("region".to_owned(), Value::Int(slot as i64 % 4))].into();
        let host = Host { conditions_met: true, attributes: &attributes, learner: None };
        let mut device = world.device();
        pass(&mut device, &mut watch, &world.trust, &host, world.now, &mut rng(2)).unwrap();
        let pending = device.state().pending().map(|(_, pending)| pending.clone()).next();
        let pending = pending.expect("everybody sends: a report or cover");
        let url = format!("https://{LEADER}/tasks/{}/reports", assessment.task().id());
        let announced = taskprov::header_value(assessment.task().encoded_configuration());
        let address = identity.address.to_string();
        let mut fields =
            vec![("content-type", MediaType::UploadReq.as_str()), (taskprov::HEADER, &announced)];
        if leaky {
            fields.push(("x-forwarded-for", &address));
        }
        let request =
            InnerRequest { method: "POST", url: &url, fields: &fields, content: &pending.report };
        let mut network = network.borrow_mut();
        let now = Moment(network.now_ms / 1_000);
        let (body, awaited) =
            produce_request(&request, keypair_from(1, LEADER_KEY).config(), now, &mut rng(3))
                .unwrap();
        answers.push((network.send(*identity, LEADER, body), awaited));
        // The next device comes a little later.
        network.now_ms += 700;
        if !is_cover(&pending.report) {
            reports.push(pending.report);
        }
    }
    network.borrow_mut().drain();
    for (answer, awaited) in answers {
        let answer = answer.borrow_mut().take().expect("an answer");
        assert_eq!(awaited.consume_response(&answer).unwrap().status, 200);
    }
    let network = Rc::into_inner(network).unwrap().into_inner();
    let mut views = network.views;
    let aggregators = Aggregators::new(assessment.task());
    let run = aggregators.collect(&network.uploads, world.now);
    assert_eq!(run.report_count, reports.len() as u64);
    (views.helper, views.collector) = (run.helper, run.collector);
    (views, reports)
}

#[test]
fn swapping_two_devices_changes_nothing_but_the_relays_view() {
    let honest = identities();
    let (before, reports) = run(&honest, false);
    assert!(reports.len() >= 3, "too few take part to mix anything");
    assert!(before.helper.len() >= 2 && before.collector.len() == 1);
    assert_eq!(run(&honest, false).0, before, "a run can be repeated");
    for i in 0..DEVICES {
        for j in 0..i {
            let mut swapped = honest.clone();
            swapped.swap(i, j);
            let (after, _) = run(&swapped, false);
            assert!(after.without_relay() == before.without_relay(), "{i} and {j}");
            assert_ne!(after.relay, before.relay, "the relay sees addresses");
        }
    }
}

/// Shows that the test above can fail.
#[test]
fn a_device_that_tells_its_address_is_noticed() {
    let honest = identities();
    let (before, reports) = run(&honest, true);
    assert!(!reports.is_empty());
    let mut rotated = honest;
    rotated.rotate_left(1);
    let (after, _) = run(&rotated, true);
    assert_ne!(after.without_relay(), before.without_relay());
}

#[test]
fn the_relay_sees_addresses_sizes_and_nothing_else() {
    let (views, reports) = run(&identities(), false);
    let (_, assessment) = world();
    let mut clear: HashSet<[u8; 16]> = HashSet::new();
    // What must not be seen, in pieces of 16 bytes: ids in all spellings, reports, the task, files
    // of the log.
    let (recipe, task) = (assessment.id(), *assessment.task().id());
    let mut secrets: Vec<Vec<u8>> = vec![
        recipe.as_bytes().to_vec(),
        recipe.to_string().into_bytes(),
        task.as_bytes().to_vec(),
        task.to_string().into_bytes(),
        assessment.task().encoded_configuration().to_vec(),
        b"https://leader.example/tasks/".to_vec(),
        b"tile/entries/000".to_vec(),
        b"dap-taskprov".repeat(2),
        b"application/ppm-dap".to_vec(),
        vec![0; 16],
    ];
    secrets.extend(reports.iter().cloned());
    for secret in &secrets {
        clear.extend(secret.windows(16).map(|window| <[u8; 16]>::try_from(window).unwrap()));
    }
    let sent = views.relay.iter().map(|(_, _, body)| body);
    let mut sizes = HashSet::new();
    let mut bodies = 0;
    for body in sent.chain(&views.relay_back) {
        sizes.insert(SizeClass::of_exact(body.len()).expect("a size class"));
        let found = body.windows(16).find(|window| clear.contains(*window));
        assert_eq!(found, None);
        bodies += 1;
    }
    assert!(bodies > 50 && sizes.len() >= 2, "{bodies} {sizes:?}");
    // Only the destination: one of two operators.
    for (_, url, _) in &views.relay {
        assert!(
            url == "https://relay.example/log.example"
                || url == "https://relay.example/leader.example"
        );
    }
    // The same search finds what is in the clear: at the leader, which tells reports from cover.
    assert_eq!(views.leader.len(), DEVICES);
    let is_report = |opened: &&Vec<u8>| {
        reports.iter().any(|report| opened.windows(report.len()).any(|window| window == report))
    };
    assert_eq!(views.leader.iter().filter(is_report).count(), reports.len());
    assert!(reports.len() < DEVICES);
}

#[test]
fn no_address_reaches_anybody_behind_the_relay() {
    let (views, _) = run(&identities(), false);
    let bytes: Vec<&Vec<u8>> = (views.log_gateway.iter())
        .chain(&views.leader_gateway)
        .chain(&views.log)
        .chain(&views.leader)
        .chain(&views.helper)
        .chain(&views.collector)
        .collect();
    for identity in identities() {
        let IpAddr::V4(address) = identity.address else { panic!("IPv4") };
        let text = identity.address.to_string();
        let holds = |view: &[u8], part: &[u8]| view.windows(part.len()).any(|there| there == part);
        assert!(!bytes.iter().any(|view| holds(view, text.as_bytes())));
        // With fixed seeds there are no false alarms: the bytes are the same in every run.
        assert!(!bytes.iter().any(|view| holds(view, &address.octets())));
    }
}
