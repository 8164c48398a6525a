//! What relay and gateways provide, shown between real processes over real sockets: only the relay
//! sees a device's address, keys change while devices send, and hostile clients are refused without
//! harm to others.
#![cfg(target_os = "linux")] // every 127.x.y.z is an address of the machine, and /proc tells of memory

mod addresses;
mod cover;
mod expired;
mod hostile;
mod rotation;
mod standalone;
mod suites;
mod swaps;

use std::net::SocketAddr;
use std::time::{Duration, Instant};
use std::{fs, thread};

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use serde_json::Value;
use sotto_protocol::Moment;
use sotto_protocol::device::Pending;
use sotto_protocol::oblivious::{Awaited, InnerRequest, produce_request};
use sotto_tests::http::{Connection, Response, head};
use sotto_tests::pair;
use sotto_tests::world::World;
use sotto_wire::ohttp::{REQUEST_MEDIA_TYPE, decode_key_list};
use sotto_wire::{HpkeConfig, HpkeConfigId, KeySet, MediaType, taskprov};

/// Longer than anything here takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const ACCEPTED: &str = "sotto_reports_accepted_total";

/// The id of the leader's first gateway key.
const FIRST_KEY: u8 = 21;

/// A world whose leader has a folder of gateway keys, with [`FIRST_KEY`] in it.
fn rotating_world() -> World {
    let mut world = World::arranged(|world| {
        world.oblivious.tables.insert("leader", "[gateway]\nkeys = [\"gateway-keys\"]\n".into());
        Ok(())
    })
    .unwrap();
    fs::create_dir(world.path("gateway-keys")).unwrap();
    fs::copy(world.path("leader-gateway.toml"), world.path(&key_file(FIRST_KEY))).unwrap();
    world.start_with_keys().unwrap();
    world
}

fn key_file(id: u8) -> String {
    format!("gateway-keys/{id}.toml")
}

/// Gives the leader's gateway another key. The gateway notices a little later.
fn add_gateway_key(world: &World, id: u8) {
    let (id, file) = (id.to_string(), key_file(id));
    world.run_json(&["keys", "new", "--id", &id, "--out", &file]).unwrap();
}

/// Publishes a key set of the leader with this gateway key.
fn publish_gateway_key(world: &World, id: u8) {
    world.publish_key_set("leader", &["leader-hpke-1.toml"], &[&key_file(id)]).unwrap();
}

/// The public half of a key file.
fn public_half(world: &World, file: &str) -> HpkeConfig {
    let shown: Value = world.run_json(&["keys", "show", file]).unwrap();
    KeySet::parse_config("hpke_config", shown["hpke_config"].as_str().unwrap()).unwrap()
}

/// The ids of the keys that the leader's gateway has now.
fn gateway_ids(world: &World) -> Vec<HpkeConfigId> {
    let response = pair::get(world.pair.leader.address(), "/gateway").unwrap();
    assert_eq!(response.header("content-type"), Some("application/ohttp-keys"));
    decode_key_list(&response.body).unwrap().iter().map(|config| config.id()).collect()
}

/// Waits until the leader's gateway has, or no longer has, the key with this id.
fn wait_for_key(world: &World, id: u8, is_there: bool) {
    let deadline = Instant::now() + PATIENCE;
    while gateway_ids(world).contains(&HpkeConfigId::new(id)) != is_there {
        assert!(Instant::now() < deadline, "{}", world.pair.leader.log_text());
        thread::sleep(Duration::from_millis(20));
    }
}

/// An upload of this answer, sealed by hand. The same seed at the same time gives the same bytes.
fn seal_upload(
    world: &World,
    pending: &Pending,
    key: &HpkeConfig,
    now: Moment,
    seed: u64,
) -> (Vec<u8>, Awaited) {
    let configuration = &pending.task_configuration;
    let task = taskprov::task_id(configuration);
    let request = InnerRequest {
        method: "POST",
        url: &format!("{}tasks/{task}/reports", world.pair.leader.url),
        fields: &[
            ("content-type", MediaType::UploadReq.as_str()),
            (taskprov::HEADER, &taskprov::header_value(configuration)),
        ],
        content: &pending.report,
    };
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    produce_request(&request, key, now, &mut rng).unwrap()
}

/// Where sealed requests go.
#[derive(Clone, Copy, Debug)]
enum Door {
    Relay,
    Gateway,
}

impl Door {
    const ALL: [Self; 2] = [Self::Relay, Self::Gateway];

    fn address(self, world: &World) -> SocketAddr {
        match self {
            Self::Relay => world.relay.address(),
            Self::Gateway => world.pair.leader.address(),
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Relay => "/leader.example",
            Self::Gateway => "/gateway",
        }
    }

    /// The head of a request with a body of this length.
    fn head(self, length: usize) -> Vec<u8> {
        head("POST", self.path(), &[("content-type", REQUEST_MEDIA_TYPE)], length)
    }

    fn exchange(self, world: &World, head: &[u8], body: &[u8]) -> Response {
        Connection::open(self.address(world)).unwrap().exchange(head, body).unwrap()
    }

    fn post(self, world: &World, body: &[u8]) -> Response {
        self.exchange(world, &self.head(body.len()), body)
    }
}

/// The type of a problem document.
fn problem(response: &Response) -> String {
    assert_eq!(response.header("content-type"), Some("application/problem+json"), "{response:?}");
    let document: Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(document["status"], response.status);
    document["type"].as_str().unwrap().to_owned()
}
