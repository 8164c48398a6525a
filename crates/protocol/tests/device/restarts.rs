//! Crashes before and after every durable step, over a state in memory.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use sotto_protocol::admission::Watch;
use sotto_protocol::client::is_cover;
use sotto_protocol::device::{Change, DeviceState, DeviceStore, MemoryState, StateError};
use sotto_testing::crash::{Campaign, Crash, Sent, Witnessed, assert_sound, campaign, world};
use sotto_testing::log::Files;
use sotto_testing::world::World;
use sotto_wire::EntryId;

/// A state that survives its process.
struct Kept {
    disk: Rc<RefCell<MemoryState>>,
    local: MemoryState,
}

impl DeviceStore for Kept {
    fn state(&self) -> &DeviceState {
        self.local.state()
    }

    fn commit(&mut self, change: Change) -> Result<(), StateError> {
        self.disk.borrow_mut().commit(change.clone())?;
        self.local.commit(change)
    }
}

fn run(
    world: &World,
    watch: &mut Watch<Files>,
    seed: u64,
    crash: &Crash,
) -> (DeviceState, Witnessed, Sent) {
    let disk = Rc::new(RefCell::new(world.device()));
    let mut sent = Sent::new();
    let mut open = || -> Box<dyn DeviceStore> {
        let local = disk.borrow().clone();
        Box::new(Kept { disk: Rc::clone(&disk), local })
    };
    let mut send = |store: &mut dyn DeviceStore, round: usize| {
        let pending: Vec<(EntryId, Vec<u8>)> =
            store.state().pending().map(|(id, pending)| (id, pending.report.clone())).collect();
        for (recipe, bytes) in pending {
            sent.entry(recipe).or_default().insert(bytes);
            // The leader's answer is lost in the first rounds.
            if round >= 2 {
                store.commit(Change::Delivered { recipe })?;
            }
        }
        Ok(())
    };
    let steps = Campaign { watch, open: &mut open, send: &mut send };
    let (end, seen) = campaign(world, seed, crash, steps);
    assert_eq!(&end, disk.borrow().state());
    (end, seen, sent)
}

#[test]
fn no_crash_makes_a_device_toss_twice_answer_otherwise_or_forget_a_charge() {
    let world = world();
    let mut watch = world.watch().unwrap();
    let (calm, ..) = run(&world, &mut watch, 0, &Crash::Never);
    assert_eq!(calm.audit().len(), 3);
    let mut answers = BTreeSet::new();
    for seed in 0..6 {
        let (end, seen, sent) = run(&world, &mut watch, seed, &Crash::Never);
        assert_sound(&end, &calm, &seen, &sent);
        let is_answer = |bytes: &&Vec<u8>| !is_cover(bytes);
        answers.insert(sent.values().flatten().filter(is_answer).count());
        let mut silenced = 0;
        for number in 0..seen.commits {
            for crash in [Crash::Before(number), Crash::After(number)] {
                let (end, after, sent_after) = run(&world, &mut watch, seed, &crash);
                assert_sound(&end, &calm, &after, &sent_after);
                silenced += usize::from(after.made.len() > sent_after.len());
            }
        }
        // Only a crash just before an answer is stored silences that answer.
        assert_eq!(silenced, sent.len(), "seed {seed}");
    }
    assert!(answers.len() > 1, "the seeds must toss differently: {answers:?}");
}
