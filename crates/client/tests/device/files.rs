//! The crash campaign over [`StateFile`], and whole passes that deliver.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use sotto_client::{
    HttpRequest, HttpResponse, Log, Participant, ParticipantError, SealingKey, StateFile,
    Transport, TransportError,
};
use sotto_protocol::admission::Watch;
use sotto_protocol::device::{DeviceState, DeviceStore, StateError};
use sotto_protocol::trust::Trust;
use sotto_testing::crash::{Campaign, Crash, Sent, Witnessed, assert_sound, campaign, world};
use sotto_testing::log::Files;
use sotto_testing::recipe::{DAY, NOW, trust_file};
use sotto_testing::world::{World, seen};
use sotto_wire::recipe::Probability;

use crate::device::behind_relay::host;

/// A leader that accepts every report and records it; its first answers are lost on the way.
pub(crate) struct Leader {
    lose: usize,
    sent: Mutex<Vec<(String, Vec<u8>)>>,
}

impl Leader {
    pub(crate) fn new(lose: usize) -> Arc<Self> {
        Arc::new(Self { lose, sent: Mutex::default() })
    }

    /// What arrived.
    pub(crate) fn bodies(&self) -> Vec<Vec<u8>> {
        self.sent.lock().unwrap().iter().map(|(_, body)| body.clone()).collect()
    }

    /// What arrived for each task.
    fn by_task(&self) -> BTreeMap<String, BTreeSet<Vec<u8>>> {
        let mut tasks = BTreeMap::<_, BTreeSet<_>>::new();
        for (url, body) in self.sent.lock().unwrap().iter() {
            tasks.entry(url.clone()).or_default().insert(body.clone());
        }
        tasks
    }
}

impl Transport for Leader {
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
        let mut sent = self.sent.lock().unwrap();
        sent.push((request.url.clone(), request.body.to_vec()));
        match sent.len() <= self.lose {
            true => Err(TransportError::Timeout),
            false => Ok(HttpResponse { status: 200, headers: Vec::new(), body: Vec::new() }),
        }
    }
}

/// The key that seals the states of these tests.
pub(crate) fn sealing_key() -> SealingKey {
    SealingKey::new([7; 32])
}

/// A device that has known the log since an earlier period.
pub(crate) fn begin(world: &World, path: &Path) {
    let checkpoint = sotto_wire::Checkpoint::parse(world.log.checkpoints[0].text()).unwrap();
    let mut store = StateFile::open(path, &sealing_key()).unwrap();
    store.commit(seen(checkpoint, NOW - 41 * DAY)).unwrap();
}

/// The trust of a device that its owner exposes: it sends directly to the leader.
fn exposed() -> Arc<Trust> {
    let mut file = trust_file();
    (file.insecure_direct, file.floors.max_rate) = (true, Probability::ONE);
    Arc::new(file.try_into().unwrap())
}

struct Run {
    end: DeviceState,
    seen: Witnessed,
    /// By recipe: what was stored, which is what was sent.
    sent: Sent,
    tasks: usize,
}

fn run(
    world: &World,
    watch: &mut Watch<Files>,
    (seed, lose): (u64, usize),
    crash: impl Fn(PathBuf) -> Crash,
) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    begin(world, &path);
    let leader = Leader::new(lose);
    let transport: Arc<dyn Transport> = Arc::clone(&leader) as Arc<dyn Transport>;
    let (trust, mut sent) = (exposed(), Sent::new());
    let mut log = Some(Log::from_files(world.log.files.clone()).shared_for(u64::MAX));
    let mut open =
        || -> Box<dyn DeviceStore> { Box::new(StateFile::open(&path, &sealing_key()).unwrap()) };
    let mut send = |store: &mut dyn DeviceStore, _: usize| {
        for (id, pending) in store.state().pending() {
            sent.entry(id).or_default().insert(pending.report.clone());
        }
        let mut host = host(world, Arc::clone(&transport));
        // It only delivers: the campaign makes the decisions.
        host.conditions = Box::new(|| Ok(false));
        let mut device = Participant::new(host, Arc::clone(&trust), store, log.take().unwrap());
        let passed = device.pass();
        log = Some(device.into_parts().2);
        match passed {
            Ok(_) => Ok(()),
            Err(ParticipantError::State(error)) => Err(error),
            Err(other) => panic!("{other}"),
        }
    };
    let crash = crash(path.clone());
    let steps = Campaign { watch, open: &mut open, send: &mut send };
    let (end, seen) = campaign(world, seed, &crash, steps);
    // What a new process would read.
    assert_eq!(&end, StateFile::open(&path, &sealing_key()).unwrap().state());
    let by_task = leader.by_task();
    assert!(by_task.values().all(|bodies| bodies.len() == 1), "the leader sees one report");
    let bodies: BTreeSet<&Vec<u8>> = by_task.values().flatten().collect();
    let kept: BTreeSet<&Vec<u8>> = sent.values().flatten().collect();
    assert_eq!(bodies, kept, "what is sent is what was kept");
    Run { end, seen, sent, tasks: by_task.len() }
}

#[test]
fn no_crash_makes_a_device_with_a_file_toss_twice_answer_otherwise_or_forget_a_charge() {
    let world = world();
    let mut watch = world.watch().unwrap();
    let calm = run(&world, &mut watch, (0, 0), |_| Crash::Never).end;
    let mut crashes = 0;
    for (seed, lose) in [(0, 0), (1, 1), (2, 3), (3, 2)] {
        let whole = run(&world, &mut watch, (seed, lose), |_| Crash::Never);
        assert_sound(&whole.end, &calm, &whole.seen, &whole.sent);
        let mut silenced = 0;
        for number in 0..whole.seen.commits {
            let mut kinds: Vec<Box<dyn Fn(PathBuf) -> Crash>> = vec![
                Box::new(move |_| Crash::Before(number)),
                Box::new(move |_| Crash::After(number)),
            ];
            for part in [0, 37, 100] {
                kinds.push(Box::new(move |path| Crash::Torn(number, path, part)));
            }
            for (kind, crash) in kinds.iter().enumerate() {
                let after = run(&world, &mut watch, (seed, lose), crash);
                assert_sound(&after.end, &calm, &after.seen, &after.sent);
                assert!(after.tasks <= 3);
                silenced += usize::from(kind == 0 && after.seen.made.len() > after.sent.len());
                crashes += 1;
            }
        }
        assert_eq!(silenced, whole.sent.len(), "only an answer that was not kept is lost");
    }
    assert!(crashes > 100);
}

#[test]
fn a_failed_write_ends_the_process_s_decisions() {
    let world = world();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    begin(&world, &path);
    let mut store = StateFile::open(&path, &sealing_key()).unwrap();
    let before = store.state().clone();
    // A folder where the new file would go.
    std::fs::create_dir(folder.path().join("state.new")).unwrap();
    assert!(world.walk(&mut store, 1).is_err());
    std::fs::remove_dir(folder.path().join("state.new")).unwrap();
    assert!(world.walk(&mut store, 1).is_err(), "what is on disk is not known any more");
    assert_eq!(store.state(), &before);
    drop(store);
    let mut store = StateFile::open(&path, &sealing_key()).unwrap();
    assert_eq!(store.state(), &before);
    world.walk(&mut store, 1).unwrap();
}

#[test]
fn one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let first = StateFile::open(&path, &sealing_key()).unwrap();
    assert!(matches!(StateFile::open(&path, &sealing_key()), Err(StateError::Locked)));
    drop(first);
    StateFile::open(&path, &sealing_key()).unwrap();
}
