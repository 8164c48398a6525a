//! Hostile clients at the relay and at the leader's gateway: each gets a clear answer, memory stays
//! bounded, and honest devices are still served.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sotto_client::{HttpOptions, HttpTransport};
use sotto_crypto::HpkeKeypair;
use sotto_protocol::Moment;
use sotto_protocol::device::Pending;
use sotto_protocol::oblivious::{Awaited, InnerRequest, produce_request};
use sotto_protocol::trust::Trust;
use sotto_tests::http::head;
use sotto_tests::phone::{Phone, now, trust};
use sotto_tests::world::World;
use sotto_wire::ohttp::{DATE_PROBLEM, KEY_PROBLEM, REQUEST_MEDIA_TYPE, RESPONSE_MEDIA_TYPE};
use sotto_wire::size_class::SizeClass;
use sotto_wire::{HpkeConfig, HpkeConfigId};

use super::{Door, FIRST_KEY, PATIENCE, problem, public_half, seal_upload};

const MIB: usize = 1024 * 1024;
const BLANK: &str = "about:blank";

/// The number of slow connections, of each kind and at each server.
const SLOW: usize = 100;

/// The number of connections that send the longest body, at each server: more than either has
/// memory for.
const FLOOD: usize = 48;

/// The memory that the relay may use for requests, as configured here.
const RELAY_MEMORY: usize = 8 * MIB;
/// The memory that the leader's gateway may use for requests, which is half of the leader's.
const GATEWAY_MEMORY: usize = 160 * MIB;
/// What each connection may buffer.
const CONNECTION_BUFFER: usize = 64 * 1024;
/// For the allocator, and for all that honest devices need.
const SLACK: usize = 64 * MIB;

/// Short timeouts, so that the test does not wait for long.
fn world() -> World {
    const LIMITS: &str = "[limits]\nheader_timeout_s = 2\nbody_timeout_s = 3\n";
    let mut world = World::arranged(|world| {
        let limits = format!("{LIMITS}max_memory_bytes = {RELAY_MEMORY}\n");
        world.oblivious.relay.push_str(&limits);
        world.pair.leader.configure(LIMITS)
    })
    .unwrap();
    world.start_with_keys().unwrap();
    world.publish_recipe("commute", 2).unwrap();
    world
}

/// Honest devices.
struct Honest<'a> {
    world: &'a World,
    trust: Arc<Trust>,
    count: AtomicU64,
}

impl<'a> Honest<'a> {
    fn new(world: &'a World) -> Self {
        Self { world, trust: trust(world).unwrap(), count: AtomicU64::new(0) }
    }

    fn phone(&self) -> Phone {
        let seed = self.count.fetch_add(1, Ordering::SeqCst);
        let transport = Arc::new(HttpTransport::new(HttpOptions::default()).unwrap());
        Phone::new(self.world, &self.trust, transport, seed).unwrap()
    }

    /// A device that is not affected: every exchange succeeds at once.
    fn unharmed(&self) {
        self.phone().answer(10).unwrap();
    }

    /// A device that is told to retry later, and does: in a later pass, a few times at most.
    fn patient(&self) {
        let mut phone = self.phone();
        let mut pause = Duration::from_millis(250);
        let deadline = Instant::now() + PATIENCE;
        while !phone.pass(10).is_ok_and(|done| done.insecure_delivery.accepted == 1) {
            assert!(Instant::now() < deadline, "an honest device is not served");
            thread::sleep(pause);
            pause *= 2;
        }
    }

    /// An answer that was not sent.
    fn unsent(&self) -> Pending {
        let mut phone = self.phone();
        phone.pass_cut_off(20).unwrap();
        phone.pending().remove(0)
    }
}

/// Bodies that cannot be opened, with the types of the answers.
fn unopenable(world: &World, pending: &Pending, key: &HpkeConfig) -> Vec<(Vec<u8>, &'static str)> {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut sealed_to = |id: u8| {
        let pair = HpkeKeypair::generate_hybrid(HpkeConfigId::new(id), &mut rng);
        seal_upload(world, pending, pair.config(), now(), 2).0
    };
    let (wrong_key, unknown_key) = (sealed_to(FIRST_KEY), sealed_to(FIRST_KEY + 9));
    let sealed = seal_upload(world, pending, key, now(), 3).0;
    let mut other_suite = sealed.clone();
    other_suite[6] = 3;
    let mut garbage = sealed.clone();
    rng.fill_bytes(&mut garbage[7..]);
    let mut noise = vec![0; 70_000];
    rng.fill_bytes(&mut noise);
    vec![
        (wrong_key, BLANK),
        (unknown_key, KEY_PROBLEM),
        (other_suite, KEY_PROBLEM),
        (garbage, BLANK),
        (noise, KEY_PROBLEM),
        (sealed[..sealed.len() - 1].to_vec(), BLANK),
        (sealed[..54].to_vec(), BLANK),
        (sealed[..6].to_vec(), BLANK),
        (Vec::new(), BLANK),
    ]
}

fn refuse_what_does_not_open(world: &World, honest: &Honest<'_>, key: &HpkeConfig) {
    let bodies = unopenable(world, &honest.unsent(), key);
    for door in Door::ALL {
        for (body, expected) in &bodies {
            let answer = door.post(world, body);
            let seen = (answer.status, problem(&answer));
            assert_eq!(seen, (400, (*expected).to_owned()), "{door:?}, {} bytes", body.len());
        }
        let typed = |method, path, media_type, length| {
            let head = head(method, path, &[("content-type", media_type)], length);
            let answer = door.exchange(world, &head, b"");
            assert_eq!(problem(&answer), BLANK);
            answer.status
        };
        assert_eq!(typed("POST", door.path(), "application/json", 0), 415);
        assert_eq!(typed("POST", door.path(), REQUEST_MEDIA_TYPE, 16 * MIB + 1), 413);
        assert_eq!(typed("POST", "/nobody.example", REQUEST_MEDIA_TYPE, 0), 404);
        assert_eq!(typed("DELETE", door.path(), REQUEST_MEDIA_TYPE, 0), 405);
        // A body without a declared length, and one byte too long.
        let mut stream = connect(world, door);
        let path = door.path();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {REQUEST_MEDIA_TYPE}\r\n\
             transfer-encoding: chunked\r\n\r\n{:x}\r\n",
            16 * MIB + 1
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&vec![7; 16 * MIB + 1]).unwrap();
        assert_eq!(status(stream), Some(413), "{door:?}");
        // A request that is not HTTP.
        let mut stream = connect(world, door);
        stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 garbage\r\n\r\n").unwrap();
        assert_eq!(status(stream), Some(400), "{door:?}");
        honest.unharmed();
    }
}

/// Requests that can be opened but are refused inside. From outside, they all look like an accepted
/// one.
fn refuse_inside(world: &World, honest: &Honest<'_>, key: &HpkeConfig) {
    let (pending, time) = (honest.unsent(), now());
    let leader = &world.pair.leader.url;
    let mut outside = Vec::new();
    let mut exchange = |(sealed, awaited): (Vec<u8>, Awaited)| {
        let answer = Door::Relay.post(world, &sealed);
        let named: Vec<String> = answer.headers.iter().map(|(name, _)| name.clone()).collect();
        let media_type = answer.header("content-type").unwrap().to_owned();
        outside.push((answer.status, media_type, answer.body.len(), named));
        awaited.consume_response(&answer.body).unwrap()
    };
    let upload = |time| seal_upload(world, &pending, key, time, 4);
    assert_eq!(exchange(upload(time)).status, 200);
    // The same bytes again.
    let replayed = exchange(upload(time));
    assert_eq!(replayed.status, 400);
    assert!(String::from_utf8(replayed.content).unwrap().contains("received before"));
    let early = exchange(upload(Moment(time.0 - 86_400)));
    assert_eq!(early.status, 400);
    assert!(String::from_utf8(early.content).unwrap().contains(DATE_PROBLEM));
    let asked = |method, url: &str, seed| {
        let request = InnerRequest { method, url, fields: &[], content: b"" };
        produce_request(&request, key, time, &mut ChaCha20Rng::seed_from_u64(seed)).unwrap()
    };
    assert_eq!(exchange(asked("GET", "http://log.example/checkpoint", 5)).status, 421);
    assert_eq!(exchange(asked("GET", &format!("{leader}hpke_config"), 6)).status, 404);
    assert_eq!(exchange(asked("GET", &format!("{leader}metrics"), 7)).status, 404);
    let smallest = SizeClass::holding(1).unwrap().bytes();
    assert_eq!(
        (outside[0].0, outside[0].1.as_str(), outside[0].2),
        (200, RESPONSE_MEDIA_TYPE, smallest)
    );
    assert!(outside.iter().all(|seen| *seen == outside[0]), "{outside:?}");
    honest.unharmed();
}

/// Many connections that send a byte of a head or a body now and then.
fn outlast_slow_clients(world: &World, honest: &Honest<'_>) {
    let mut slow = Vec::new();
    for door in Door::ALL {
        let head = door.head(4096);
        // Within the path: what follows must not make the head invalid, which would be answered.
        for part in [&head[..12], &head[..]] {
            let is_body = part.len() == head.len();
            slow.extend((0..SLOW).map(|_| {
                let mut stream = connect(world, door);
                stream.write_all(part).unwrap();
                (door, is_body, stream)
            }));
        }
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                for (_, _, stream) in &slow {
                    // Connections that timed out are closed.
                    let _ = (&mut &*stream).write(b"x");
                }
                thread::sleep(Duration::from_millis(100));
            }
        });
        (0..10).for_each(|_| honest.unharmed());
        done.store(true, Ordering::SeqCst);
    });
    for (door, is_body, stream) in slow {
        // Without a request there is nothing to answer.
        let expected = is_body.then_some(408);
        assert_eq!(status(stream), expected, "{door:?}");
    }
}

/// The longest bodies, all at once, and none of them complete.
fn outlast_large_bodies(world: &World, honest: &Honest<'_>) {
    let flood = |door: Door| {
        let mut stream = connect(world, door);
        let _ = stream.write_all(&door.head(16 * MIB));
        let piece = vec![7; MIB];
        // The last byte never comes.
        let refused = (0..16).any(|i| stream.write_all(&piece[usize::from(i == 15)..]).is_err());
        (refused, status(stream))
    };
    thread::scope(|scope| {
        let doors = Door::ALL.into_iter().flat_map(|door| [door; FLOOD]);
        let floods: Vec<_> = doors.map(|door| (door, scope.spawn(move || flood(door)))).collect();
        (0..5).for_each(|_| honest.patient());
        for (door, flood) in floods {
            let (refused, status) = flood.join().unwrap();
            // A client that does not stop sending may miss the answer.
            let is_clear = matches!(status, Some(408 | 429)) || (refused && status.is_none());
            assert!(is_clear, "{door:?}: {refused} {status:?}");
        }
    });
    honest.unharmed();
}

fn connect(world: &World, door: Door) -> TcpStream {
    let stream = TcpStream::connect(door.address(world)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The status of the answer, if there is one before the connection ends.
fn status(mut stream: TcpStream) -> Option<u16> {
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut piece) {
        answer.extend_from_slice(&piece[..read]);
        // Problem documents are short, so one read returns all of it.
        if answer.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            break;
        }
    }
    std::str::from_utf8(answer.get(9..12)?).ok()?.parse().ok()
}

#[test]
fn hostile_clients_are_refused_and_harm_nobody() {
    let world = world();
    let key = public_half(&world, "leader-gateway.toml");
    let honest = Honest::new(&world);
    honest.unharmed();
    let memory = || {
        let processes = [world.relay.process(), world.pair.leader.process()];
        processes.map(|process| process.unwrap().peak_memory().unwrap() as usize)
    };
    let before = memory();
    refuse_what_does_not_open(&world, &honest, &key);
    refuse_inside(&world, &honest, &key);
    outlast_slow_clients(&world, &honest);
    outlast_large_bodies(&world, &honest);

    let after = memory();
    let connections = (2 * SLOW + FLOOD + 1) * CONNECTION_BUFFER;
    // A buffer that grew by doubling leaves smaller ones behind, which the allocator keeps:
    // together as large as the buffer.
    let bounds = [RELAY_MEMORY, GATEWAY_MEMORY].map(|budget| 2 * budget + connections + SLACK);
    let grown = [after[0] - before[0], after[1] - before[1]];
    println!(
        "relay and leader grew by {:?} MiB, bounds {:?} MiB, offered to each {} MiB",
        grown.map(|bytes| bytes / MIB),
        bounds.map(|bytes| bytes / MIB),
        FLOOD * 16
    );
    assert!(bounds.iter().all(|bound| *bound < FLOOD * 16 * MIB));
    assert!(grown[0] < bounds[0] && grown[1] < bounds[1]);
    // One answer was not sent at all.
    let reports = honest.count.into_inner() - 1;
    assert_eq!(world.collect("commute").unwrap()["count"], reports);
}
