//! No address of a device in any byte that leader, helper, log or collector receive, in any file,
//! in any log output.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::{fs, thread};

use sotto_protocol::oblivious::relay_url;
use sotto_tests::pair;
use sotto_tests::phone::{Phone, Source, trust};
use sotto_tests::pipe::Pipe;
use sotto_tests::world::World;

/// Their last two bytes occur in no text, so text never contains the four bytes by chance.
const DEVICES: [Ipv4Addr; 3] = [
    Ipv4Addr::new(127, 77, 201, 233),
    Ipv4Addr::new(127, 77, 190, 177),
    Ipv4Addr::new(127, 77, 229, 146),
];

/// The highest acceptable probability that the search finds four bytes that are not an address. See
/// [`Search::false_alarm_rate`].
const MAX_FALSE_ALARM_RATE: f64 = 1e-3;

/// The number of requests that one source may send: more than a device sends here.
const MAX_REQUESTS: usize = 60;

/// Looks for addresses.
#[derive(Default)]
struct Search {
    /// The number of bytes among which four could be an address by chance.
    random_bytes: usize,
    searched_bytes: usize,
    /// What was found where.
    found: Vec<String>,
}

impl Search {
    fn search(&mut self, name: &str, bytes: &[u8]) {
        self.searched_bytes += bytes.len();
        // No byte of an address is zero, and text has none of them.
        if std::str::from_utf8(bytes).is_err() {
            self.random_bytes += bytes.iter().filter(|byte| **byte != 0).count();
        }
        for device in DEVICES {
            for form in forms(device) {
                if bytes.windows(form.len()).any(|window| window == form) {
                    self.found.push(format!("{device} as {form:?} in {name}"));
                }
            }
        }
    }

    /// Every file below a folder.
    fn search_files(&mut self, folder: &Path) -> usize {
        let mut count = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                count += self.search_files(&path);
            } else if let Ok(bytes) = fs::read(&path) {
                // Files may disappear: a store is merged, a list is replaced.
                self.search(&path.display().to_string(), &bytes);
                count += 1;
            }
        }
        count
    }

    /// The probability that random bytes are mistaken for one of the addresses, in one of two byte
    /// orders. Text never is.
    fn false_alarm_rate(&self) -> f64 {
        (2 * DEVICES.len() * self.random_bytes) as f64 / 2f64.powi(32)
    }
}

/// How an address may be written. The dotted form is also part of `::ffff:127.77.1.2`.
fn forms(address: Ipv4Addr) -> [Vec<u8>; 5] {
    let [a, b, c, d] = address.octets();
    let mapped = format!("{a:02x}{b:02x}:{c:02x}{d:02x}");
    let shouted = mapped.to_uppercase();
    [address.to_string().into(), mapped.into(), shouted.into(), vec![a, b, c, d], vec![d, c, b, a]]
}

/// Pipes in front of the leader (for relay and collector), in front of the helper (for the leader),
/// and in front of the log's gateway.
struct Pipes(BTreeMap<&'static str, Pipe>);

fn recorded_world() -> (World, Pipes) {
    let mut pipes = BTreeMap::new();
    let world = World::arranged(|world| {
        let mut pipe = |name, address| -> anyhow::Result<String> {
            let pipe = Pipe::before(address)?;
            let url = pipe.url();
            pipes.insert(name, pipe);
            Ok(url)
        };
        world.pair.leader.url = pipe("leader", world.pair.leader.address())?;
        world.pair.helper.url = pipe("helper", world.pair.helper.address())?;
        let log = pipe("log", world.log.address())?;
        world.oblivious.urls.insert("keeper", log);
        world.oblivious.relay = format!(
            "spool_dir = \"spool\"\n[sources]\nmax = {MAX_REQUESTS}\nwindow_s = 86400\n\
             [pool]\nmin = 2\nwait_ms = 20\n"
        );
        fs::create_dir(world.path("spool"))?;
        world.pair.leader.log_level = "trace";
        world.pair.helper.log_level = "trace";
        world.relay.log_level = "trace";
        world.log.log_level = "trace";
        world.witnesses.iter_mut().for_each(|witness| witness.log_level = "trace");
        Ok(())
    });
    (world.unwrap(), Pipes(pipes))
}

/// Each device reads the log, decides and answers, all at the same time.
fn answer(world: &World) -> Vec<Arc<Source>> {
    let trust = trust(world).unwrap();
    let sources = DEVICES.map(|address| Arc::new(Source::new(address.into())));
    thread::scope(|scope| {
        for (seed, source) in sources.iter().enumerate() {
            let (trust, source) = (&trust, Arc::<Source>::clone(source));
            scope.spawn(move || {
                let mut phone = Phone::new(world, trust, source, seed as u64).unwrap();
                phone.answer(seed as i64 * 20).unwrap();
            });
        }
    });
    sources.into()
}

/// The relay saw each device at its own address: it refuses one that sends too much, but not the
/// others.
fn check_that_the_relay_sees_them(world: &World, sources: &[Arc<Source>]) {
    let url = relay_url(&world.relay.url(), &"leader.example".parse().unwrap());
    let ask = |source: &Source| source.exchange(&url, "POST", &[], b"").unwrap().status;
    let statuses: Vec<u16> = (0..=MAX_REQUESTS).map(|_| ask(&sources[0])).collect();
    // Requests of the wrong type, until there are too many.
    assert_eq!((statuses[0], statuses[MAX_REQUESTS]), (415, 429));
    assert_eq!(ask(&sources[1]), 415);
}

#[test]
fn no_address_reaches_anybody_but_the_relay() {
    let (mut world, pipes) = recorded_world();
    world.start_with_keys().unwrap();
    world.publish_recipe("commute", DEVICES.len() as u64).unwrap();
    let sources = answer(&world);
    check_that_the_relay_sees_them(&world, &sources);
    let collected = world.collect("commute").unwrap();
    assert_eq!(collected["count"], DEVICES.len());

    let mut search = Search::default();
    for (name, pipe) in &pipes.0 {
        let records = pipe.recorded();
        assert!(records.iter().any(|record| !record.is_empty()), "{name} received nothing");
        records.iter().for_each(|record| search.search(name, record));
    }
    let leader: Vec<u8> = pipes.0["leader"].recorded().concat();
    let contains = |text: &str| leader.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(contains("POST /gateway HTTP/1.1\r\n") && contains("/collection_jobs/"));
    let wire_bytes = search.searched_bytes;
    for aggregator in [&world.pair.leader, &world.pair.helper] {
        let metrics = pair::get(aggregator.admin_address(), "/metrics").unwrap();
        search.search("metrics", &metrics.body);
    }
    search.search("the result", collected.to_string().as_bytes());
    // Configurations, stores, the public files of the log, log output.
    let files = search.search_files(world.pair.folder());
    let relay_log = fs::read_to_string(world.path("relay.log")).unwrap();
    assert!(relay_log.contains("\"level\":\"TRACE\""), "{relay_log}");
    assert!(fs::read_dir(world.path("spool")).unwrap().next().is_none());

    assert!(search.found.is_empty(), "{:#?}", search.found);
    let rate = search.false_alarm_rate();
    println!(
        "{wire_bytes} bytes on the wire, {files} files, {} bytes in all; false alarm rate {rate:.1e}",
        search.searched_bytes
    );
    assert!(rate < MAX_FALSE_ALARM_RATE, "{rate}");
    check_that_the_search_finds(&pipes, &sources);
}

/// Control: what was sent to the relay is full of addresses, and without a relay, so is what the
/// leader receives.
fn check_that_the_search_finds(pipes: &Pipes, sources: &[Arc<Source>]) {
    for (source, device) in sources.iter().zip(DEVICES) {
        let mut control = Search::default();
        source.sent().iter().for_each(|request| control.search("the relay", request));
        assert!(control.found.iter().all(|found| found.starts_with(&device.to_string())));
        assert_eq!(control.found.len(), source.sent().len());
    }
    let leader = &pipes.0["leader"];
    sources[0].exchange(&format!("{}gateway", leader.url()), "POST", &[], b"").unwrap();
    let mut control = Search::default();
    leader.recorded().iter().for_each(|record| control.search("the leader", record));
    assert_eq!(control.found.len(), 1, "{:?}", control.found);
    for form in DEVICES.map(forms).iter().flatten() {
        let mut control = Search::default();
        control.search("a test", &[b"before", form.as_slice(), b"after"].concat());
        assert_eq!(control.found.len(), 1, "{form:?}");
    }
}
