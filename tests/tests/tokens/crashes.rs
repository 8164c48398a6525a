//! Whichever process dies, and whenever: in the end every device has exactly one pair of tokens.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use sotto_client::{
    HttpRequest, HttpResponse, InsecureName, SealingKey, StateFile, Transport, TransportError,
};
use sotto_protocol::device::{Change, DeviceState, DeviceStore, StateError};
use sotto_tests::phone::{Phone, Source};
use sotto_tests::pipe::{Cut, Pipe};

use crate::tokens::{PATIENCE, Scene, assert_sent};

/// The pipes between device and attesters, and between attesters and issuers: of both chains.
type Ways = [Arc<Way>; 2];

/// The same way in both chains.
type Way = [Pipe; 2];

fn cut_all(way: &Way, cut: Cut) {
    way.iter().for_each(|pipe| pipe.cut(cut));
}

fn scene() -> (Scene, Ways) {
    let mut ways = None;
    let scene = Scene::arranged(|world| {
        let tokens = world.tokens.as_mut().unwrap();
        let (mut to_attesters, mut to_issuers) = (Vec::new(), Vec::new());
        for chain in &mut tokens.chains {
            let to_attester = Pipe::before(chain.attester.address())?;
            let to_issuer = Pipe::before(chain.issuer.address())?;
            chain.attester_url = to_attester.url();
            chain.issuer_url = to_issuer.url();
            to_attesters.push(to_attester);
            to_issuers.push(to_issuer);
        }
        let way = |pipes: Vec<Pipe>| Arc::new(Way::try_from(pipes).unwrap());
        ways = Some([way(to_attesters), way(to_issuers)]);
        Ok(())
    });
    (scene, ways.unwrap())
}

/// A transport that cuts a pipe when the device sends the token request with this number.
#[derive(Debug)]
struct Stumbling {
    source: Source,
    sent: AtomicUsize,
    at: usize,
    way: Arc<Way>,
    cut: Cut,
}

impl Transport for Stumbling {
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
        let is_ask = request.url.contains("/token-request");
        if is_ask && self.sent.fetch_add(1, Ordering::SeqCst) == self.at {
            cut_all(&self.way, self.cut);
        }
        self.source.send(request)
    }
}

/// The processes to kill, in both chains.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Attester,
    Issuer,
    Both,
}

impl Victim {
    const ALL: [Self; 3] = [Self::Attester, Self::Issuer, Self::Both];

    fn kill(self, scene: &mut Scene) {
        for chain in &mut scene.services().chains {
            if matches!(self, Self::Attester | Self::Both) {
                chain.attester.kill().unwrap();
            }
            if matches!(self, Self::Issuer | Self::Both) {
                chain.issuer.kill().unwrap();
            }
        }
    }

    fn revive(self, scene: &mut Scene) {
        for chain in &mut scene.services().chains {
            if matches!(self, Self::Issuer | Self::Both) {
                chain.issuer.start().unwrap();
            }
            if matches!(self, Self::Attester | Self::Both) {
                chain.attester.start().unwrap();
            }
        }
    }
}

/// Runs passes until the device has its tokens; in the last one it answers. Returns the number of
/// tokens received.
fn answer_on(phone: &mut Phone, minutes: i64) -> usize {
    let (mut granted, deadline) = (0, Instant::now() + PATIENCE);
    loop {
        let done = phone.pass(minutes).unwrap();
        let round = done.tokens.as_ref().unwrap();
        assert_eq!(round.withheld, 0, "{round:?}");
        granted += round.granted;
        if round.waiting == 0 {
            assert_sent(&done);
            return granted;
        }
        assert!(Instant::now() < deadline, "{round:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Checks that each attester has counted exactly one token for every device.
fn check_pairs(scene: &Scene, devices: usize) {
    for attester in scene.attesters() {
        let file = format!("{}-data/attester.sqlite", attester.name());
        let file = scene.world.path(&file);
        let db = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let mut counts = db.prepare("SELECT COUNT(*) FROM grants GROUP BY device").unwrap();
        let counts: Vec<i64> =
            counts.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(counts, vec![1; devices], "{}", attester.name());
    }
}

#[test]
fn attester_and_issuer_die_between_any_two_steps() {
    let (mut scene, ways) = scene();
    scene.publish("commute", 10);
    let (mut devices, mut counts) = (0, [0; 3]);
    // The pipe that is cut decides how far the request, or its answer, gets; then the processes
    // die.
    for (place, way) in ways.iter().enumerate() {
        for cut in [Cut::Requests, Cut::Answers] {
            for at in [0, 1] {
                let victim = Victim::ALL[devices % 3];
                let source = Source::new(IpAddr::V4(Ipv4Addr::LOCALHOST));
                let way = Arc::clone(way);
                let stumbling =
                    Stumbling { source, sent: 0.into(), at, way: Arc::clone(&way), cut };
                let seed = 5_000 + devices as u64;
                let phone =
                    Phone::new(&scene.world, &scene.trust, Arc::new(stumbling), seed).unwrap();
                let name = InsecureName::new(format!("device {devices}")).unwrap();
                let mut phone = phone.attested(name);
                let minutes = devices as i64 % 3 * 30;
                let round = phone.pass(minutes).unwrap().tokens.unwrap();
                assert_eq!((round.granted, round.waiting), (at, 2 - at), "{place} {cut:?}");
                victim.kill(&mut scene);
                cut_all(&way, Cut::Nothing);
                victim.revive(&mut scene);
                let came = answer_on(&mut phone, minutes);
                assert_eq!(came, 2 - at, "{place} {cut:?} {victim:?}");
                counts[devices % 3] += 1;
                devices += 1;
            }
        }
    }
    // Killed before the first byte.
    for victim in Victim::ALL {
        let mut phone = scene.phone(&format!("device {devices}"));
        let minutes = devices as i64 % 3 * 30;
        victim.kill(&mut scene);
        assert_eq!(phone.pass(minutes).unwrap().tokens.unwrap().granted, 0, "{victim:?}");
        victim.revive(&mut scene);
        assert_eq!(answer_on(&mut phone, minutes), 2);
        counts[devices % 3] += 1;
        devices += 1;
    }
    check_pairs(&scene, devices);
    scene.collect("commute", counts);
}

/// A device's state that fails at one of its commits: before it is durable, or after.
struct Mortal {
    file: StateFile,
    left: usize,
    is_durable: bool,
}

impl DeviceStore for Mortal {
    fn state(&self) -> &DeviceState {
        self.file.state()
    }

    fn commit(&mut self, change: Change) -> Result<(), StateError> {
        if self.left > 0 {
            self.left -= 1;
            return self.file.commit(change);
        }
        if self.is_durable {
            self.file.commit(change)?;
        }
        Err(StateError::Io(std::io::Error::other("the device died")))
    }
}

/// Opens a state. A process that another test is just starting holds its lock for a moment: until
/// exec, a child has all open files of its parent.
fn open(path: &Path) -> StateFile {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match StateFile::open(path, &SealingKey::new([5; 32])) {
            Err(StateError::Locked) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(5));
            }
            opened => return opened.unwrap(),
        }
    }
}

fn uploads(scene: &Scene) -> f64 {
    scene.world.pair.leader.metric("sotto_reports_accepted_total").unwrap()
}

#[test]
fn a_device_dies_with_each_of_its_commits() {
    let mut scene = Scene::new();
    scene.publish("commute", 8);
    let (mut devices, mut silent, mut counts) = (0, 0, [0; 3]);
    'commits: for left in 0.. {
        for is_durable in [false, true] {
            let (name, before) = (format!("device {devices}"), uploads(&scene));
            let state: PathBuf = scene.world.path(&format!("{name}.state"));
            let minutes = devices as i64 % 3 * 30;
            let mortal = Mortal { file: open(&state), left, is_durable };
            let mut phone = scene.phone(&name).remembering(mortal);
            let died = phone.pass(minutes).is_err();
            drop(phone);
            // The device restarts from what is on disk.
            let mut phone = scene.phone(&name).remembering(open(&state));
            phone.pass(minutes).unwrap();
            assert!(phone.pending().is_empty());
            devices += 1;
            // The same bytes may be accepted twice. The result shows that they count once.
            match uploads(&scene) - before {
                0.0 => silent += 1,
                _ => counts[minutes as usize / 30] += 1,
            }
            if !died {
                break 'commits;
            }
        }
    }
    // A device that dies between paying and tossing the coin stays silent, because a second toss
    // would raise the rate. No other device stays silent.
    assert_eq!(silent, 2);
    assert!(devices > 16, "{devices}");
    check_pairs(&scene, devices);
    scene.collect("commute", counts);
}
