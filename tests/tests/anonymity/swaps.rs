//! Two swaps, over real parts: processes of the binary for every server, and devices with tokens,
//! certificates and different histories that reach them through [`Participant`] and
//! `RelayTransport`. Every request to every party is recorded, with its time.
//!
//! All randomness, the data and the time of the first pass belong to a *slot*. An *identity*, which
//! is an address, a certificate and a history, plays a slot. The devices live through two days of
//! the test's own time; a run starts from the same log, keys and recipe, with fresh attesters and
//! aggregators, so that two runs with the same cast are the same, byte for byte.
//!
//! - **Identities swapped**: everybody receives the same bytes at the same times, and answers of the
//!   same length follow. Only the relay and the attesters see other addresses, and the attesters
//!   other attestations.
//! - **Data swapped**, so that other devices answer, with other values, or only send cover: log,
//!   attesters and issuers receive the same bytes at the same times, the relay the same lengths from
//!   the same addresses, the leader the same requests except for what is in the reports.
//!
//! What is not compared: randomness and real times of servers (job ids, the order in a job). The
//! relay passes on what it gets at once here; how it mixes is tested in `sotto-protocol`.
//!
//! Five planted leaks show that the comparison finds what it should.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rand_chacha::ChaCha20Rng;
use rand_core::{CryptoRng, SeedableRng};
use serde_json::{Value, json};
use sotto_client::{
    Delivery, Host, HttpRequest, HttpResponse, Log, Participant, Transport, TransportError,
};
use sotto_protocol::Moment;
use sotto_protocol::client::is_cover;
use sotto_protocol::device::{Change, DeviceState, DeviceStore, StateError};
use sotto_protocol::expression;
use sotto_protocol::gateway::{GatewayKeyring, Opened, consume_request};
use sotto_protocol::oblivious::{InnerRequest, produce_request};
use sotto_protocol::trust::{Trust, TrustFile};
use sotto_tests::phone::{self, Source};
use sotto_tests::tap::{Arrival, Tap};
use sotto_tests::world::World;
use sotto_wire::bhttp::{Field, Response};
use sotto_wire::ohttp::REQUEST_MEDIA_TYPE;
use sotto_wire::token::header::ATTESTATION;
use sotto_wire::{AggregationJobInitReq, Decode, Encode};

use crate::tokens::certificates::{Badge, Manufacturer, TABLE};
use crate::tokens::wire::keypair;

const HOUR: u64 = 3_600;

/// About how long the recipe is open: it has one window, which begins shortly before the test.
const LIFE: u64 = 54 * HOUR;

/// Others only send cover.
const PREDICATE: &str = "minutes < 60";

/// Equally long.
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
const OTHER_IDENTITIES: Cast = Cast { players: [1, 0, 2], ..CAST };
/// Another device only sends cover, and both values are answered by others than before.
const OTHER_DATA: Cast = Cast { minutes: [90, 50, 5], ..CAST };

/// What a careless device does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leak {
    /// Its address is in a header, inside the sealed upload.
    Header,
    /// Its passes come every two hours, at a minute that follows from its address.
    Phase,
    /// The upload has a field whose length depends on the value.
    Size,
    /// A report is sent once more, cover is not.
    Resend,
    /// Cover is one byte longer than a report.
    Cover,
}

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

/// All parties, a tap in front of each, and the devices' identities.
struct Stage {
    world: World,
    taps: BTreeMap<&'static str, Tap>,
    /// The devices' time. Their network has the real time of the beginning.
    clock: Arc<AtomicU64>,
    real: Moment,
    trust: Arc<Trust>,
    identities: Vec<Identity>,
    opens: u64,
    closes: u64,
}

/// What each party received, in order. The helper's is one arrival per report, sorted: jobs have
/// random names and orders. The collector's is the result.
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
        // A whole number of windows since 1970, the last of which begins an hour or so ago. Reports
        // name their window, so the leader takes those of tomorrow today.
        let windows = (real.0 - HOUR) / LIFE;
        let window = (real.0 - HOUR) / windows;
        let opens = windows * window;
        // Until after the first device has answered it, before the devices' time begins.
        let hour = real.0 / HOUR * HOUR;
        publish(&world, "earlier", hour - HOUR, hour + 2 * HOUR, HOUR, &[]);
        let trust = trust(&world, &taps["relay"], 12 * HOUR);
        let badge =
            |number: usize| manufacturer.badge(&format!("device-081{number}"), number as u64 + 1);
        let identities = ADDRESSES.iter().enumerate().map(|(number, address)| Identity {
            address: *address,
            badge: badge(number),
            history: DeviceState::default(),
        });
        let identities = identities.collect();
        let closes = opens + window;
        let mut stage = Self { world, taps, clock, real, trust, identities, opens, closes };
        stage.identities[0].history = stage.history();
        let audience = certified_audience(&stage.world);
        let who = ["--predicate", PREDICATE, "--certified", &audience];
        publish(&stage.world, "commute", opens, closes, window, &who);
        stage
    }

    /// The state of a device that answered another recipe: it knows an older tree, an author, three
    /// operators and a gateway, and has spent some of its budget. Its random seed belongs to a slot.
    fn history(&self) -> DeviceState {
        let trust = trust(&self.world, &self.taps["relay"], 0);
        self.served(1.0);
        let mut device = self.device(0, 0, 5, None, &trust).frozen_at(self.real);
        let done = device.pass().unwrap();
        assert_eq!(done.insecure_delivery, Delivery { accepted: 1, ..Delivery::default() });
        let mut state = serde_json::to_value(device.into_parts().1.0).unwrap();
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
        pair.leader.kill().unwrap();
        pair.helper.kill().unwrap();
        log.kill().unwrap();
        for aggregator in [&pair.leader, &pair.helper] {
            fs::remove_dir_all(aggregator.data_dir()).unwrap();
        }
        let folder = pair.folder().to_path_buf();
        log.start().unwrap();
        for chain in &mut tokens.as_mut().unwrap().chains {
            chain.attester.kill().unwrap();
            fs::remove_dir_all(folder.join(format!("{}-data", chain.attester.name()))).unwrap();
            chain.attester.start().unwrap();
        }
        pair.start().unwrap();
        self.served(2.0);
        self.taps.values().for_each(|tap| drop(tap.take()));
    }

    fn device(
        &self,
        slot: usize,
        player: usize,
        minutes: i64,
        leak: Option<Leak>,
        trust: &Arc<Trust>,
    ) -> Participant<Memory> {
        let Identity { address, badge, history } = &self.identities[player];
        let source = Source::new((*address).into());
        let gateway = keypair(&self.world, "leader-gateway.toml");
        let keys = GatewayKeyring::new(&[gateway]).unwrap();
        let (address, real) = (*address, self.real);
        let random = randomness(100 + slot as u64);
        let careless = Careless { source, leak, address, minutes, keys, real, random };
        let mut host = Host::new(Arc::new(careless));
        host.clock = Arc::new(move || real);
        host.random = randomness(slot as u64);
        host.attestor = Some(Box::new(badge.attestor()));
        let minutes = expression::Value::Int(minutes);
        host.attributes = Box::new(move || Ok([("minutes".to_owned(), minutes.clone())].into()));
        let log = Log::at(&self.world.log.url(), &host, trust).unwrap();
        Participant::new(host, Arc::clone(trust), Memory(history.clone()), log)
    }

    /// Two days of all devices. Returns what everybody saw.
    fn run(&mut self, cast: &Cast, leak: Option<Leak>) -> Views {
        let begun = Instant::now();
        self.reset();
        let reset = begun.elapsed();
        let mut devices: Vec<_> = (0..cast.players.len())
            .map(|slot| {
                let (player, minutes) = (cast.players[slot], cast.minutes[slot]);
                let device = self.device(slot, player, minutes, leak, &self.trust);
                (self.opens + 6 * HOUR, Some(device), self.identities[player].address)
            })
            .collect();
        let (mut accepted, mut cover, mut passes) = (0, 0, 0);
        loop {
            let (next, device, address) =
                devices.iter_mut().min_by_key(|(next, _, _)| *next).unwrap();
            *next += match leak {
                Some(Leak::Phase) => {
                    let phase = u64::from(u32::from(*address)) % (2 * HOUR);
                    2 * HOUR - (*next + 2 * HOUR - phase) % (2 * HOUR)
                }
                _ => device.as_ref().unwrap().pause().as_secs(),
            };
            // Late answers are sent too.
            if *next > self.closes + 12 * HOUR {
                break;
            }
            self.clock.store(*next, Ordering::SeqCst);
            let mut awake = device.take().unwrap().frozen_at(Moment(*next));
            let delivery = awake.pass().unwrap().insecure_delivery;
            (accepted, cover) = (accepted + delivery.accepted, cover + delivery.cover);
            passes += 1;
            *device = Some(awake);
        }
        if leak != Some(Leak::Phase) {
            assert_eq!((accepted, cover), (2, 1), "all three send");
        }
        println!("{leak:?}: {passes} passes, reset {reset:?}, all {:?}", begun.elapsed());
        let aggregated = "sotto_reports_aggregated_total";
        self.world.wait_for(&self.world.pair.leader, aggregated, accepted as f64).unwrap();
        let mut views: Views = self.taps.iter().map(|(name, tap)| (*name, tap.take())).collect();
        let is_upload = |arrival: &Arrival| arrival.line.starts_with("POST /gateway ");
        views.get_mut("leader").unwrap().retain(is_upload);
        let mut reports: Vec<_> = views["helper"].iter().flat_map(reports).collect();
        reports.sort_by(|one, other| one.body.cmp(&other.body));
        views.insert("helper", reports);
        println!("{:?}", views.iter().map(|(name, view)| (name, view.len())).collect::<Vec<_>>());
        views
    }

    fn collect(&self) -> Value {
        let collected = self.world.collect("commute").unwrap();
        json!([collected["result"], collected["report_count"]])
    }

    /// The views without what identities may change: addresses at relay and attesters, which are
    /// replaced by the number of the slot, and attestations.
    fn without_identities(&self, mut views: Views, cast: &Cast) -> Views {
        for name in ["relay", "attester-a", "attester-b"] {
            for arrival in views.get_mut(name).unwrap() {
                let from = arrival.from;
                let is_from = |player: &usize| self.identities[*player].address == from;
                let slot = cast.players.iter().position(is_from).unwrap();
                arrival.from = IpAddr::V4((slot as u32).into());
                for (name, value) in &mut arrival.fields {
                    let attestation = name == ATTESTATION;
                    *value =
                        if attestation { "".into() } else { value.replace(&from.to_string(), "") };
                }
            }
        }
        views
    }

    /// The views without what data may change: sealed bytes at the relay, the bytes of a report or
    /// cover at the leader, what the helper receives. Lengths stay.
    fn without_data(&self, mut views: Views) -> Views {
        let keys = keypair(&self.world, "leader-gateway.toml");
        let keys = GatewayKeyring::new(&[keys]).unwrap();
        for arrival in views.get_mut("leader").unwrap() {
            let opened = consume_request(&keys, &arrival.body).unwrap();
            let request = opened.decode().unwrap();
            arrival.fields.extend(inner_fields(&opened));
            arrival.fields.push((request.path.to_owned(), request.content.len().to_string()));
        }
        for name in ["relay", "leader", "helper"] {
            for arrival in views.get_mut(name).unwrap() {
                arrival.body.fill(0);
            }
        }
        views
    }
}

/// Who sees a difference.
fn noticed(before: &Views, after: &Views) -> Vec<&'static str> {
    before.keys().filter(|name| before[*name] != after[*name]).copied().collect()
}

fn randomness(seed: u64) -> sotto_client::Random {
    let drawn = AtomicU64::new(0);
    Arc::new(move || {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        rng.set_stream(drawn.fetch_add(1, Ordering::Relaxed));
        Box::new(rng) as Box<dyn CryptoRng>
    })
}

fn publish(world: &World, name: &str, opens: u64, closes: u64, window: u64, who: &[&str]) {
    let (opens, closes, window) = (opens.to_string(), closes.to_string(), format!("{window}s"));
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
    world.run_json(&[&arguments[..], &["--out", file]].concat()).unwrap();
    world.run_json(&["recipe", "certify", "--add", file, "--signer", "helper.key"]).unwrap();
    let published = world.run_json(&["recipe", "publish", file, "--log", &world.log.url()]);
    published.unwrap()["id"].as_str().unwrap().to_owned()
}

/// The trust file of the devices: behind the tap, and with tokens spread over this time.
fn trust(world: &World, relay: &Tap, spread_s: u64) -> Arc<Trust> {
    let text = fs::read_to_string(world.path("trust.toml")).unwrap();
    let text = text.replace(&world.relay.url(), &relay.url());
    let text = text.replace("spread_s = 0", &format!("spread_s = {spread_s}"));
    // The log has the real time, and the devices live in the next days.
    let text = format!("max_checkpoint_age_s = {}\n{text}", 2 * LIFE);
    let file: TrustFile = toml::from_str(&text).unwrap();
    Arc::new(file.try_into().unwrap())
}

/// What the helper is told about each report.
fn reports(arrival: &Arrival) -> Vec<Arrival> {
    let Ok(job) = AggregationJobInitReq::from_bytes(&arrival.body) else { return Vec::new() };
    let alone =
        |body| Arrival { at: 0, line: String::new(), body, answer: None, ..arrival.clone() };
    job.verify_inits.iter().map(|init| alone(init.to_bytes())).collect()
}

fn inner_fields(opened: &Opened) -> Vec<(String, String)> {
    let text = |field: &Field<'_>| {
        (field.name.to_owned(), String::from_utf8(field.value.to_vec()).unwrap())
    };
    opened.decode().unwrap().fields.iter().map(text).collect()
}

/// The device's transport. With a leak, it opens what is sealed to the leader and seals something
/// else.
struct Careless {
    source: Source,
    leak: Option<Leak>,
    address: Ipv4Addr,
    minutes: i64,
    keys: GatewayKeyring,
    real: Moment,
    random: sotto_client::Random,
}

impl Transport for Careless {
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
        if self.leak.is_none() || !request.url.ends_with("/leader.example") {
            return self.source.send(request);
        }
        let opened = consume_request(&self.keys, request.body).unwrap();
        let inner = opened.decode().unwrap();
        let (mut fields, mut content) = (inner_fields(&opened), inner.content.to_vec());
        fields.retain(|(name, _)| name != "date");
        let is_cover = is_cover(&content);
        match self.leak {
            Some(Leak::Header) => fields.push(("x-real-ip".into(), self.address.to_string())),
            Some(Leak::Size) => {
                fields.push(("x-minutes".into(), "|".repeat(40 * self.minutes as usize)));
            }
            Some(Leak::Cover) if is_cover => content.push(0),
            _ => {}
        }
        let url = format!("{}://{}{}", inner.scheme, inner.authority, inner.path);
        let fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        let other =
            InnerRequest { method: inner.method, url: &url, fields: &fields, content: &content };
        let key = &self.keys.configs()[0];
        let exchange = || {
            let (body, awaited) =
                produce_request(&other, key, self.real, &mut *(self.random)()).unwrap();
            let limit = request.response_limit;
            let outer = HttpRequest::post(request.url.clone(), REQUEST_MEDIA_TYPE, &body, limit);
            let answer = self.source.send(&outer)?;
            Ok((awaited.consume_response(&answer.body).unwrap(), answer))
        };
        let (response, mut answer) = exchange()?;
        if self.leak == Some(Leak::Resend) && !is_cover {
            exchange()?;
        }
        let field = |(name, value): &'_ (String, String)| (name.clone(), value.clone());
        let fields: Vec<_> = response.fields.iter().map(field).collect();
        let fields = fields.iter().map(|(name, value)| Field { name, value: value.as_bytes() });
        let back = Response {
            informational: Vec::new(),
            status: response.status,
            fields: fields.collect(),
            content: response.content.into(),
            trailers: Vec::new(),
        };
        let (_, responder) = opened.into_parts();
        answer.body = responder.respond(&back, &mut *(self.random)()).unwrap();
        Ok(answer)
    }
}

/// Each leak, the swap that shows it, and who notices, among others.
const LEAKS: [(Leak, Cast, &[&str]); 5] = [
    (Leak::Header, OTHER_IDENTITIES, &["leader"]),
    (Leak::Phase, OTHER_IDENTITIES, &["attester-a", "issuer-b", "leader", "log", "relay"]),
    (Leak::Size, OTHER_DATA, &["leader", "relay"]),
    (Leak::Resend, OTHER_DATA, &["leader", "relay"]),
    // The relay does not, thanks to the padding; it would if a report just filled its size class.
    (Leak::Cover, OTHER_DATA, &["leader"]),
];

#[test]
fn swaps_change_what_they_may_and_leaks_are_noticed() {
    let mut stage = Stage::new();
    let first = stage.run(&CAST, None);
    let result = stage.collect();
    assert_eq!(result, json!([[1, 0, 1], 2]));

    let swapped = stage.run(&OTHER_IDENTITIES, None);
    assert_eq!(stage.collect(), result);
    assert_eq!(noticed(&first, &swapped), ["attester-a", "attester-b", "relay"]);
    let before = stage.without_identities(first.clone(), &CAST);
    let after = stage.without_identities(swapped, &OTHER_IDENTITIES);
    assert_eq!(noticed(&before, &after), [""; 0]);

    let swapped = stage.run(&OTHER_DATA, None);
    assert_eq!(stage.collect(), result);
    assert_eq!(noticed(&first, &swapped), ["helper", "leader", "relay"]);
    let (before, after) = (stage.without_data(first), stage.without_data(swapped));
    assert_eq!(noticed(&before, &after), [""; 0]);

    for (leak, other, expected) in LEAKS {
        let views = [CAST, other].map(|cast| {
            let views = stage.run(&cast, Some(leak));
            match cast.minutes == other.minutes && CAST.minutes == other.minutes {
                true => stage.without_identities(views, &cast),
                false => stage.without_data(views),
            }
        });
        let noticed = noticed(&views[0], &views[1]);
        println!("{leak:?}: {noticed:?}");
        for party in expected {
            assert!(noticed.contains(party), "{leak:?} is noticed by {noticed:?}");
        }
    }
}
