//! Two swaps, over real parts: processes of the binary for every server, and devices with tokens,
//! certificates and different histories that reach them through [`Participant`] and its
//! `RelayTransport`. Every request to every party is recorded, with its time.
//!
//! All randomness, the times of passes, and the data belong to a *slot*. An *identity*, which is an
//! address, a certificate and a history, plays a slot. The devices live through two days of the
//! test's own time; every run starts from the same log, keys and recipe, with fresh attesters and
//! aggregators, so that two runs with the same cast are the same, byte for byte.
//!
//! - **Identities swapped**: everybody receives the same bytes at the same times, and gives answers
//!   of the same lengths. Only the relay and the attesters see other addresses, and the attesters
//!   other attestations.
//! - **Data swapped**, so that other devices answer, with other values, or only send cover: log,
//!   attesters and issuers receive the same bytes at the same times, the relay the same lengths from
//!   the same addresses, the leader the same requests except for the bytes of report or cover.
//!
//! The five leaks of [`Leak`] show that the comparison finds what it should.
//!
//! What is not compared: randomness and real times of servers (job ids, the order in a job). The
//! relay forwards at once here; how it mixes is tested in `sotto-protocol`.

mod careless;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, thread};

use rand_chacha::ChaCha20Rng;
use rand_core::{CryptoRng, SeedableRng};
use serde_json::{Value, json};
use sotto_client::{Delivery, Host, Log, Participant, Random};
use sotto_protocol::Moment;
use sotto_protocol::device::{Change, DeviceState, DeviceStore, StateError};
use sotto_protocol::expression;
use sotto_protocol::gateway::{GatewayKeyring, consume_request};
use sotto_protocol::trust::{Trust, TrustFile};
use sotto_tests::phone::{self, Source};
use sotto_tests::tap::{Arrival, Tap};
use sotto_tests::token_services::Chain;
use sotto_tests::world::World;
use sotto_wire::token::header::ATTESTATION;
use sotto_wire::{AggregationJobInitReq, Decode, Encode};

use self::careless::{Careless, Leak, inner_fields};
use crate::tokens::certificates::{Badge, Manufacturer, TABLE};
use crate::tokens::wire::keypair;

const HOUR: u64 = 3_600;

/// About how long the recipe is open: it has one window, which begins shortly before the test.
const LIFE: u64 = 54 * HOUR;

/// Others only send cover.
const PREDICATE: &str = "minutes < 60";

/// Equally long as text.
const ADDRESSES: [Ipv4Addr; 3] = [
    Ipv4Addr::new(127, 77, 201, 233),
    Ipv4Addr::new(127, 77, 190, 177),
    Ipv4Addr::new(127, 77, 229, 146),
];

/// Who plays each slot, and the data in it.
#[derive(Clone, Copy)]
struct Cast {
    players: [usize; 3],
    minutes: [i64; 3],
}

/// Short, not in the audience, long.
const CAST: Cast = Cast { players: [0, 1, 2], minutes: [5, 90, 50] };

/// Another cast, and what hides the differences that it may make.
#[derive(Clone, Copy)]
struct Swap {
    cast: Cast,
    hide: fn(&Stage, Views, &Cast) -> Views,
}

const IDENTITIES: Swap =
    Swap { cast: Cast { players: [1, 0, 2], ..CAST }, hide: Stage::hide_identities };

/// Another device only sends cover, and both values are answered by others than before.
const DATA: Swap = Swap { cast: Cast { minutes: [90, 50, 5], ..CAST }, hide: Stage::hide_data };

/// Each leak, the swap that shows it, and who notices, among others.
const LEAKS: [(Leak, Swap, &[&str]); 5] = [
    (Leak::Header, IDENTITIES, &["leader"]),
    (Leak::Phase, IDENTITIES, &["attester-a", "issuer-b", "leader", "log", "relay"]),
    (Leak::Size, DATA, &["leader", "relay"]),
    (Leak::Resend, DATA, &["leader", "relay"]),
    // The relay does not, thanks to the padding; it would if a report just filled its size class.
    (Leak::Cover, DATA, &["leader"]),
];

struct Identity {
    address: Ipv4Addr,
    badge: Badge,
    /// The state that the device starts with.
    history: DeviceState,
}

/// A state in memory that does not begin empty.
struct Memory(DeviceState);

impl DeviceStore for Memory {
    fn state(&self) -> &DeviceState {
        &self.0
    }

    fn commit(&mut self, change: Change) -> Result<(), StateError> {
        self.0.apply(change);
        Ok(())
    }
}

/// A device, and when its next pass is.
struct Device {
    participant: Option<Participant<Memory>>,
    address: Ipv4Addr,
    /// The number of its passes in the upper half, and of its generators since the last one.
    drawn: Arc<AtomicU64>,
    next: u64,
}

impl Device {
    /// Waits for the next pass. What is drawn from now on depends only on the number of passes, so
    /// that the times do not depend on how much was sent.
    fn wait(&mut self, leak: Option<Leak>) {
        let passes = self.drawn.load(Ordering::Relaxed) >> 32;
        self.drawn.store((passes + 1) << 32, Ordering::Relaxed);
        let phase = u64::from(u32::from(self.address)) % (2 * HOUR);
        self.next += match leak {
            Some(Leak::Phase) => 2 * HOUR - (self.next - phase) % (2 * HOUR),
            _ => self.participant.as_ref().unwrap().pause().as_secs(),
        };
    }

    fn pass(&mut self) -> Delivery {
        let awake = self.participant.take().unwrap().frozen_at(Moment(self.next));
        self.participant.insert(awake).pass().unwrap().insecure_delivery
    }
}

/// All parties, a tap in front of each, and the devices' identities.
struct Stage {
    world: World,
    taps: BTreeMap<&'static str, Tap>,
    /// The devices' time. Their network has the real time of the beginning.
    clock: Arc<AtomicU64>,
    real: Moment,
    identities: Vec<Identity>,
    opens: u64,
    closes: u64,
}

/// What each party received, in order. The helper's is one arrival per report, sorted, because jobs
/// have random names and orders.
type Views = BTreeMap<&'static str, Vec<Arrival>>;

impl Stage {
    fn new() -> Self {
        let clock = Arc::<AtomicU64>::default();
        let mut taps = BTreeMap::new();
        let manufacturer = Manufacturer::new();
        let world = World::arranged(|world| {
            fs::write(world.path("manufacturer.pem"), &manufacturer.pem)?;
            world.add_tokens()?;
            let mut tap = |name, address| -> anyhow::Result<String> {
                let tap = Tap::before(address, &clock)?;
                let url = tap.url();
                taps.insert(name, tap);
                Ok(url)
            };
            tap("relay", world.relay.address())?;
            world.pair.leader.url = tap("leader", world.pair.leader.address())?;
            world.pair.helper.url = tap("helper", world.pair.helper.address())?;
            let log = tap("log", world.log.address())?;
            world.oblivious.urls.insert("keeper", log);
            world.oblivious.relay = "[sources]\nmax = 0\n[pool]\nmin = 1\nwait_ms = 1\n".into();
            for chain in &mut world.tokens.as_mut().unwrap().chains {
                chain.attestation = TABLE.to_owned();
                chain.attester_url = tap(chain.attester.name(), chain.attester.address())?;
                chain.issuer_url = tap(chain.issuer.name(), chain.issuer.address())?;
            }
            Ok(())
        });
        let mut world = world.unwrap();
        world.start_with_keys().unwrap();
        let real = phone::now();
        // Times are whole numbers of windows since 1970, and the last one begins an hour or so ago.
        // Reports name their window, so the leader takes those of tomorrow today.
        let windows = (real.0 - HOUR) / LIFE;
        let window = (real.0 - HOUR) / windows;
        let (opens, closes) = (windows * window, (windows + 1) * window);
        // It is over before the devices' time begins.
        let hour = real.0 / HOUR * HOUR;
        publish(&world, "earlier", [hour - HOUR, hour + 2 * HOUR], HOUR, &[]);
        let identities = ADDRESSES.iter().enumerate().map(|(number, address)| Identity {
            address: *address,
            badge: manufacturer.badge(&format!("device-081{number}"), number as u64 + 1),
            history: DeviceState::default(),
        });
        let identities = identities.collect();
        let mut stage = Self { world, taps, clock, real, identities, opens, closes };
        stage.identities[0].history = stage.history();
        let audience = certified_audience(&stage.world);
        let who = ["--predicate", PREDICATE, "--certified", &audience];
        publish(&stage.world, "commute", [opens, closes], window, &who);
        stage
    }

    /// The state of a device that answered another recipe: it knows an older tree, an author and
    /// operators, and has spent some of its budget. Its random seed is left to the slot.
    fn history(&self) -> DeviceState {
        self.served(1.0);
        let mut device = self.device(0, &CAST, None, 0);
        device.next = self.real.0;
        assert_eq!(device.pass(), Delivery { accepted: 1, ..Delivery::default() });
        let (_, memory, _) = device.participant.unwrap().into_parts();
        let mut state = serde_json::to_value(memory.0).unwrap();
        assert!(state["ledger"].is_object() && state["audit"].as_array().unwrap().len() == 1);
        (state["client_seed"], state["tokens"]) = (Value::Null, json!({}));
        serde_json::from_value(state).unwrap()
    }

    /// Waits until the aggregators serve this many recipes.
    fn served(&self, recipes: f64) {
        for aggregator in [&self.world.pair.leader, &self.world.pair.helper] {
            self.world.wait_for(aggregator, "sotto_recipes_served", recipes).unwrap();
        }
    }

    /// Gives attesters and aggregators empty stores, and makes the gateways forget what they saw.
    fn reset(&mut self) {
        let World { pair, log, tokens, .. } = &mut self.world;
        let folder = pair.folder().to_path_buf();
        for aggregator in [&mut pair.leader, &mut pair.helper] {
            aggregator.kill().unwrap();
            fs::remove_dir_all(aggregator.data_dir()).unwrap();
        }
        log.kill().unwrap();
        thread::scope(|scope| {
            for Chain { attester, .. } in &mut tokens.as_mut().unwrap().chains {
                attester.kill().unwrap();
                fs::remove_dir_all(folder.join(format!("{}-data", attester.name()))).unwrap();
                scope.spawn(|| attester.start().unwrap());
            }
            log.start().unwrap();
            pair.start().unwrap();
        });
        self.served(2.0);
        self.taps.values().for_each(|tap| drop(tap.take()));
    }

    /// The device in a slot. Its tokens are spread over this time.
    fn device(&self, slot: usize, cast: &Cast, leak: Option<Leak>, spread_s: u64) -> Device {
        let Identity { address, badge, history } = &self.identities[cast.players[slot]];
        let (address, now, minutes) = (*address, self.real, cast.minutes[slot]);
        let trust = trust(&self.world, &self.taps["relay"], spread_s);
        let random = randomness(100 + slot as u64, &Arc::default());
        let (source, keys) = (Source::new(address.into()), self.leader_gateway());
        let transport = Careless { source, leak, address, minutes, keys, now, random };
        let mut host = Host::new(Arc::new(transport));
        let drawn = Arc::default();
        host.random = randomness(slot as u64, &drawn);
        host.clock = Arc::new(move || now);
        host.attestor = Some(Box::new(badge.attestor()));
        let minutes = expression::Value::Int(minutes);
        host.attributes = Box::new(move || Ok([("minutes".to_owned(), minutes.clone())].into()));
        let log = Log::at(&self.world.log.url(), &host, &trust).unwrap();
        let participant = Some(Participant::new(host, trust, Memory(history.clone()), log));
        Device { participant, address, drawn, next: self.opens + 6 * HOUR }
    }

    fn leader_gateway(&self) -> GatewayKeyring {
        GatewayKeyring::new(&[keypair(&self.world, "leader-gateway.toml")]).unwrap()
    }

    /// Two days of all devices, and half a day more for late answers. Returns what everybody saw.
    fn run(&mut self, cast: &Cast, leak: Option<Leak>) -> Views {
        self.reset();
        let device = |slot| self.device(slot, cast, leak, 12 * HOUR);
        let mut devices = [0, 1, 2].map(device);
        devices.iter_mut().for_each(|device| device.wait(leak));
        let (mut accepted, mut cover) = (0, 0);
        while let Some(device) = devices.iter_mut().min_by_key(|device| device.next)
            && device.next < self.closes + 12 * HOUR
        {
            self.clock.store(device.next, Ordering::SeqCst);
            let delivery = device.pass();
            (accepted, cover) = (accepted + delivery.accepted, cover + delivery.cover);
            device.wait(leak);
        }
        assert_eq!((accepted, cover), (2, 1), "{leak:?}");
        let aggregated = "sotto_reports_aggregated_total";
        self.world.wait_for(&self.world.pair.leader, aggregated, 2.0).unwrap();
        let mut views: Views = self.taps.iter().map(|(name, tap)| (*name, tap.take())).collect();
        // Attesters read the keys of their issuers when they start.
        let is_directory = |arrival: &Arrival| arrival.line.starts_with("GET /.well-known/");
        views.values_mut().for_each(|view| view.retain(|arrival| !is_directory(arrival)));
        let is_upload = |arrival: &Arrival| arrival.line.starts_with("POST /gateway ");
        views.get_mut("leader").unwrap().retain(is_upload);
        let mut reports: Vec<_> = views["helper"].iter().flat_map(reports).collect();
        reports.sort_by(|one, other| one.body.cmp(&other.body));
        // A job may be sent again.
        reports.dedup();
        views.insert("helper", reports);
        // If a server fails, devices come again, whoever they are.
        let asked = views.iter().filter(|(name, _)| **name != "helper").flat_map(|(_, view)| view);
        let failed: Vec<_> = asked.filter(|arrival| !arrival.is_served()).collect();
        assert!(failed.is_empty(), "{leak:?}: {failed:?}");
        views
    }

    /// What the collector gets.
    fn collect(&self) -> Value {
        let collected = self.world.collect("commute").unwrap();
        json!([collected["result"], collected["count"]])
    }

    /// Addresses at relay and attesters become the number of the slot; attestations go.
    fn hide_identities(&self, mut views: Views, cast: &Cast) -> Views {
        for name in ["relay", "attester-a", "attester-b"] {
            for arrival in views.get_mut(name).unwrap() {
                let from = arrival.from;
                let is_from = |player: &usize| self.identities[*player].address == from;
                let slot = cast.players.iter().position(is_from).unwrap();
                arrival.from = IpAddr::V4((slot as u32).into());
                for (name, value) in &mut arrival.fields {
                    *value = match name == ATTESTATION {
                        true => String::new(),
                        false => value.replace(&from.to_string(), "address"),
                    };
                }
            }
        }
        views
    }

    /// The leader's requests are opened. Then only the lengths remain of what is sealed at the relay,
    /// of reports and cover at the leader, and of reports at the helper.
    fn hide_data(&self, mut views: Views, _: &Cast) -> Views {
        let keys = self.leader_gateway();
        for arrival in views.get_mut("leader").unwrap() {
            let opened = consume_request(&keys, &arrival.body).unwrap();
            let request = opened.decode().unwrap();
            arrival.fields.extend(inner_fields(&opened));
            arrival.fields.push((request.path.to_owned(), request.content.len().to_string()));
        }
        let hidden = ["relay", "leader", "helper"];
        for (_, view) in views.iter_mut().filter(|(name, _)| hidden.contains(name)) {
            view.iter_mut().for_each(|arrival| arrival.body.fill(0));
        }
        views
    }
}

/// Who sees a difference.
fn noticed(before: &Views, after: &Views) -> Vec<&'static str> {
    before.keys().filter(|name| before[*name] != after[*name]).copied().collect()
}

/// The first difference at each party, to be read by people.
fn differences(before: &Views, after: &Views) -> String {
    let pairs = before.iter().map(|(name, view)| (name, view.iter().zip(&after[name])));
    let first = pairs.map(|(name, mut pairs)| (name, pairs.find(|(one, other)| one != other)));
    format!("{:#?}", first.collect::<Vec<_>>())
}

fn randomness(seed: u64, drawn: &Arc<AtomicU64>) -> Random {
    let drawn = Arc::clone(drawn);
    Arc::new(move || {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        rng.set_stream(drawn.fetch_add(1, Ordering::Relaxed));
        Box::new(rng) as Box<dyn CryptoRng>
    })
}

fn publish(world: &World, name: &str, when: [u64; 2], window: u64, who: &[&str]) {
    let ([opens, closes], window) = (when.map(|time| time.to_string()), format!("{window}s"));
    let mut options = vec!["--opens", &opens, "--closes", &closes, "--window", &window];
    options.extend(["--max-window", &window]);
    options.extend(who);
    world.publish_recipe_when(name, 2, &options, "7d").unwrap();
}

/// Certifies the audience, as both operators. Returns the id of the result.
fn certified_audience(world: &World) -> String {
    let keys = ["leader", "helper"].map(|operator| world.public(operator, "verifier").unwrap());
    let (measured_by, file) = ("00".repeat(32), "audience.result");
    let mut arguments = vec!["recipe", "certify", "--recipe", &measured_by, "--signer"];
    arguments.extend(["leader.key", "--predicate", PREDICATE, "--attribute", "minutes:int"]);
    arguments.extend(["--population", "2", "--leader", &keys[0], "--helper", &keys[1]]);
    arguments.extend(["--out", file]);
    world.run_json(&arguments).unwrap();
    world.run_json(&["recipe", "certify", "--add", file, "--signer", "helper.key"]).unwrap();
    let published = world.run_json(&["recipe", "publish", file, "--log", &world.log.url()]);
    published.unwrap()["entry_id"].as_str().unwrap().to_owned()
}

/// The trust file of the devices: behind the tap, and with tokens spread over this time.
fn trust(world: &World, relay: &Tap, spread_s: u64) -> Arc<Trust> {
    let text = fs::read_to_string(world.path("trust.toml")).unwrap();
    let text = text.replace(&world.relay.url(), &relay.url());
    let text = text.replace("spread_s = 0", &format!("spread_s = {spread_s}"));
    // The log has the real time, and the devices live in the days after it.
    let text = format!("max_checkpoint_age_s = {}\n{text}", 2 * LIFE);
    let file: TrustFile = toml::from_str(&text).unwrap();
    Arc::new(file.try_into().unwrap())
}

/// What the helper is told about each report.
fn reports(arrival: &Arrival) -> Vec<Arrival> {
    let Ok(job) = AggregationJobInitReq::from_bytes(&arrival.body) else { return Vec::new() };
    let report = |body| Arrival {
        at: 0,
        from: arrival.from,
        line: String::new(),
        fields: Vec::new(),
        body,
        answer: None,
    };
    job.verify_inits.iter().map(|init| report(init.to_bytes())).collect()
}

#[test]
fn swaps_change_what_they_may_and_leaks_are_noticed() {
    let mut stage = Stage::new();
    let before = stage.run(&CAST, None);
    let result = stage.collect();
    assert_eq!(result, json!([[1, 0, 1], 2]));
    for name in ["attester-a", "attester-b", "issuer-a", "issuer-b", "leader"] {
        assert_eq!(before[name].len(), 3, "{name}");
    }
    assert!(before["log"].len() > 50 && before["helper"].len() == 2);

    let may_differ: [(Swap, &[&str]); 2] = [
        (IDENTITIES, &["attester-a", "attester-b", "relay"]),
        (DATA, &["helper", "leader", "relay"]),
    ];
    for (swap, parties) in may_differ {
        let after = stage.run(&swap.cast, None);
        assert_eq!(stage.collect(), result);
        assert_eq!(noticed(&before, &after), parties, "{}", differences(&before, &after));
        let before = (swap.hide)(&stage, before.clone(), &CAST);
        let after = (swap.hide)(&stage, after, &swap.cast);
        assert_eq!(noticed(&before, &after), [""; 0], "{}", differences(&before, &after));
    }

    for (leak, swap, parties) in LEAKS {
        let [before, after] = [CAST, swap.cast].map(|cast| {
            let views = stage.run(&cast, Some(leak));
            (swap.hide)(&stage, views, &cast)
        });
        let noticed = noticed(&before, &after);
        println!("{leak:?} is noticed by {noticed:?}");
        assert!(parties.iter().all(|party| noticed.contains(party)), "{leak:?}: {noticed:?}");
    }
}
