//! One address that opens connections and says nothing shuts no server: others are answered, and
//! peers are, whoever else connects.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use sotto_tests::http::{Connection, head};
use sotto_tests::pair::Pair;
use sotto_tests::service::Service;
use sotto_tests::world::World;

/// More connections than a server has by default (`limits.max_connections`).
const IDLE: usize = 4_200;
/// For most servers: a twentieth of the defaults, so that the test is fast on a busy machine.
const LIMITS: &str = "\n[limits]\nmax_connections = 204\nmax_connections_per_source = 51\n\
                      header_timeout_s = 600\n";
/// Idle connections are not given up during the test.
const PATIENT: &str = "limits = { header_timeout_s = 600 }";
const FEWER_IDLE: usize = IDLE / 20;
const PATIENCE: Duration = Duration::from_secs(10);

fn loopback(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

/// Connections of one source. Those that the server closed are held as well.
fn idle(source: IpAddr, server: SocketAddr, count: usize) -> Vec<Connection> {
    let connect = |number| {
        Connection::open_from(source, server)
            .unwrap_or_else(|error| panic!("connection {number} from {source}: {error}"))
    };
    (0..count).map(connect).collect()
}

/// The status of the answer to a request from another source.
fn ask(source: IpAddr, server: SocketAddr, path: &str) -> std::io::Result<u16> {
    let mut connection = Connection::open_from(source, server)?;
    Ok(connection.exchange(&head("GET", path, &[], 0), &[])?.status)
}

#[test]
fn idle_connections_of_one_address_shut_no_server() {
    let mut gateway = None;
    let mut world = World::arranged(|world| {
        world.oblivious.relay = "[pool]\nmin = 2\nwait_ms = 5\n".into();
        gateway = Some(Service::new(world.pair.folder(), "gateway", "gateway")?);
        world.add_tokens()
    })
    .unwrap();
    let mut gateway = gateway.unwrap();
    let leader = &world.pair.leader.url;
    let config =
        format!("keys = [\"leader-gateway.toml\"]\n[[targets]]\norigin = \"{leader}\"\n{LIMITS}");
    gateway.write_config(&config).unwrap();
    gateway.start().unwrap();
    world.pair.leader.configure(PATIENT).unwrap();
    world.pair.helper.configure(LIMITS).unwrap();
    for name in ["log", "attester-a", "issuer-a", "alpha", "relay"] {
        let mut file = OpenOptions::new().append(true).open(world.path(&format!("{name}.toml")));
        file.as_mut().unwrap().write_all(LIMITS.as_bytes()).unwrap();
    }
    world.start().unwrap();
    let tokens = world.tokens.as_ref().unwrap();
    for (role, address, path, status) in [
        ("leader", world.pair.leader.address(), "/hpke_config", 200),
        ("helper", world.pair.helper.address(), "/hpke_config", 200),
        ("log", world.log.address(), "/nothing", 404),
        ("attester", tokens.chains[0].attester.address(), "/nothing", 404),
        ("issuer", tokens.chains[0].issuer.address(), "/nothing", 404),
        ("witness", world.witnesses[0].address(), "/nothing", 404),
        ("relay", world.relay.address(), "/a/b", 404),
        ("gateway", gateway.address(), "/nothing", 404),
    ] {
        let held = idle(loopback(2), address, if role == "leader" { IDLE } else { FEWER_IDLE });
        let start = Instant::now();
        let answer = ask(loopback(3), address, path);
        let took = start.elapsed();
        println!("{role}: {} connections held, answered after {took:?}", held.len());
        assert_eq!(answer.unwrap_or_else(|error| panic!("{role}: {error}")), status, "{role}");
        assert!(took < PATIENCE, "{role}: {took:?}");
    }
}

/// Twenty addresses stay below the limit of each, and fill the server together.
#[test]
fn peers_have_places_that_strangers_cannot_fill() {
    let mut pair = Pair::new().unwrap();
    let limits = "max_connections = 100\nmax_connections_per_source = 10\nheader_timeout_s = 600";
    let peers = "peer_addresses = [\"127.0.0.9\"]\nmax_peer_connections = 5";
    pair.helper.configure(&format!("[limits]\n{limits}\n{peers}")).unwrap();
    pair.helper.start().unwrap();
    let address = pair.helper.address();
    let _strangers: Vec<_> = (20..40).map(|last| idle(loopback(last), address, 10)).collect();
    assert!(ask(loopback(50), address, "/hpke_config").is_err(), "there is no place for strangers");
    for _ in 0..20 {
        assert_eq!(ask(loopback(9), address, "/hpke_config").unwrap(), 200);
    }
    // Their places are limited too. The server may take a moment to notice that a connection is
    // closed and its place free, so some of the first idle ones may be refused instead.
    let mut peers = Vec::new();
    while ask(loopback(9), address, "/hpke_config").is_ok() {
        peers.extend(idle(loopback(9), address, 1));
        assert!(peers.len() < 30, "nothing limits the places of peers");
    }
    let refused = pair.helper.metric("sotto_connections_refused_total").unwrap();
    assert!(refused >= 102.0, "{refused}");
}
