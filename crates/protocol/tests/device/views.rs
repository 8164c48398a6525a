//! Several views of the log: forks, repeats, and what a watch keeps when reading the log fails.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use sotto_protocol::Moment;
use sotto_protocol::admission::{Assessments, Check, View, Watch, WatchError};
use sotto_protocol::device::{DeviceStore, MemoryState, PassError, advance, consider, follow};
use sotto_protocol::log::{Fetch, FetchError};
use sotto_protocol::trust::Trust;
use sotto_testing::keys::rng;
use sotto_testing::log::{Batch, Files, at};
use sotto_testing::recipe::{DAY, HOUR, NOW, recipe, recipe_entry, reclaim, trust_file};
use sotto_testing::world::{Plan, World, seen};
use sotto_wire::{Checkpoint, Note};

/// Files that change while they are being read.
struct Shared(Rc<RefCell<Files>>);

impl Fetch for Shared {
    fn fetch(&mut self, path: &str, limit: usize) -> Result<Option<Vec<u8>>, FetchError> {
        self.0.borrow_mut().fetch(path, limit)
    }
}

/// Files, and every path that was asked for.
struct Recorded {
    files: Files,
    paths: Rc<RefCell<Vec<String>>>,
}

impl Fetch for Recorded {
    fn fetch(&mut self, path: &str, limit: usize) -> Result<Option<Vec<u8>>, FetchError> {
        self.paths.borrow_mut().push(path.to_owned());
        self.files.fetch(path, limit)
    }
}

fn branch(name: &str) -> World {
    let mut plan = Plan::new();
    plan.recipe.name = name.to_owned();
    plan.build()
}

#[test]
fn a_fork_that_corrupt_witnesses_sign_is_seen_by_whoever_meets_both_branches() {
    let (left, right) = (branch("left"), branch("right"));
    let size = |world: &World| world.log.view.text().lines().nth(1).map(str::to_owned);
    assert_eq!(size(&left), size(&right));
    for (first, world) in [(&left, &right), (&right, &left)] {
        let device = &mut first.device();
        first.walk(device, 1).unwrap();
        let before = device.state().clone();
        match world.walk(device, 1) {
            Err(PassError::Silence(silence)) => assert_eq!(silence.check, Check::Consistency),
            other => panic!("{other:?}"),
        }
        assert_eq!(device.state(), &before);
    }
}

#[test]
fn a_view_that_was_not_compared_with_the_stored_one_is_refused() {
    let (world, other) = (Plan::new().build(), branch("other"));
    let view = View::open(&world.log.view.to_bytes(), &world.trust).unwrap();
    let admitted = Assessments::default().admit(&world.offer(), &view, &world.trust).unwrap();
    let admitted = Arc::new(admitted);
    let mut elsewhere = other.device();
    other.walk(&mut elsewhere, 1).unwrap();
    for store in [world.device(), MemoryState::default(), elsewhere] {
        let (state, trust, host) = (store.state(), &world.trust, world.host());
        let refused = consider(state, &admitted, &view, trust, &host, world.now, &mut rng(1));
        assert_eq!(refused.unwrap_err().check, Check::Consistency);
    }
}

#[test]
fn the_witnessed_time_never_goes_back() {
    let mut plan = Plan::new();
    let world = plan.build();
    let mut store = world.device();
    world.walk(&mut store, 1).unwrap();
    assert_eq!(store.state().time(), NOW - HOUR);
    plan.view = [Some(NOW - 3 * HOUR); 3];
    let older = plan.build();
    let view = View::open(&older.log.view.to_bytes(), &older.trust).unwrap();
    let seen = advance(store.state(), &view, &[], &older.trust, older.now).unwrap();
    assert_eq!(seen, None);
    older.walk(&mut store, 1).unwrap();
    assert_eq!(store.state().time(), NOW - HOUR);
}

/// The log must not learn from what a device reads, after a restart, how far it had read before. Three
/// tiles are full, and a proof from each older tree needs other hashes.
#[test]
fn what_a_device_reads_says_nothing_about_what_it_saw_before() {
    let mut plan = Plan::new();
    let entries = |batch: u32| (0..100).map(|i| format!("{batch} {i}").into_bytes()).collect();
    let batch = |number| Batch { entries: entries(number), times: at(NOW - 2 * HOUR) };
    plan.later = (0..9).map(batch).collect();
    let world = plan.build();
    let read = |known: Option<&Note>| {
        let mut store = MemoryState::default();
        if let Some(known) = known {
            let checkpoint = Checkpoint::parse(known.text()).unwrap();
            store.commit(seen(checkpoint, NOW - 41 * DAY)).unwrap();
        }
        let paths = Rc::<RefCell<Vec<String>>>::default();
        let files = Recorded { files: world.log.files.clone(), paths: Rc::clone(&paths) };
        let mut watch = Watch::new(files);
        watch.refresh(&world.trust, world.now).unwrap();
        follow(&mut store, &mut watch, &world.trust, world.now).unwrap();
        paths.take()
    };
    let first = read(None);
    assert!(first.contains(&"tile/entries/002".to_owned()), "{first:?}");
    for known in &world.log.checkpoints {
        assert_eq!(read(Some(known)), first, "{}", known.text());
    }
}

#[test]
fn a_watch_keeps_its_view_when_the_log_fails_it() {
    let mut plan = Plan::new();
    let world = plan.build();
    let files = Rc::new(RefCell::new(world.log.files.clone()));
    let mut watch = Watch::new(Shared(Rc::clone(&files)));
    watch.refresh(&world.trust, world.now).unwrap();
    let view = watch.view().cloned();
    assert!(view.is_some());
    // Grown, but the entries are not there.
    let mut other = recipe("more");
    reclaim(&mut other);
    plan.later.push(Batch { entries: vec![recipe_entry(&other)], times: at(NOW - 2 * HOUR) });
    let grown = plan.build();
    let mut torn = grown.log.files.clone();
    torn.retain(|path, _| !path.starts_with("tile/entries"));
    *files.borrow_mut() = torn;
    assert!(matches!(watch.refresh(&world.trust, world.now), Err(WatchError::Reader(_))));
    assert_eq!(watch.view().cloned(), view, "what was seen before stays in force");
    // Another log of the same size: still compared with what was seen.
    *files.borrow_mut() = branch("other").log.files;
    match watch.refresh(&world.trust, world.now) {
        Err(WatchError::Refused(silence)) => assert_eq!(silence.check, Check::Consistency),
        other => panic!("{other:?}"),
    }
    *files.borrow_mut() = grown.log.files;
    watch.refresh(&world.trust, world.now).unwrap();
    assert_eq!(watch.recipes().len(), 2);
}

#[test]
fn a_pass_without_a_view_does_nothing() {
    let world = Plan::new().build();
    let mut watch = Watch::new(world.log.files.clone());
    let mut store = world.device();
    let mut rng = rand_chacha::rand_core::SeedableRng::seed_from_u64(1);
    let rng: &mut rand_chacha::ChaCha20Rng = &mut rng;
    let done = sotto_protocol::device::pass(
        &mut store,
        &mut watch,
        &world.trust,
        &world.host(),
        Moment(NOW),
        rng,
    );
    assert!(matches!(done, Err(PassError::NoView)));
    assert_eq!(store.state(), world.device().state());
}

#[test]
fn trust_is_weakened_only_by_settings_that_say_so() {
    let mut file = trust_file();
    file.min_log_age_s = 0;
    assert!(Trust::try_from(file.clone()).is_err());
    file.insecure_no_min_age = true;
    assert_eq!(Trust::try_from(file).unwrap().settings().min_log_age_s, 0);
    let mut file = trust_file();
    file.policy = file.policy.replace("quorum enough", "quorum none");
    assert!(Trust::try_from(file).is_err(), "no witness proves no time");
}
