//! A device that crashes before, during or after a durable step. The campaign runs over memory in
//! the tests of `sotto-protocol`, and over real files in those of `sotto-client`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use sotto_protocol::admission::Watch;
use sotto_protocol::device::{Change, DeviceState, DeviceStore, PassError, StateError, pass};
use sotto_wire::EntryId;
use sotto_wire::recipe::Probability;

use super::keys::{key, rng};
use super::log::{Batch, Files, at};
use super::recipe::{
    DAY, LOG_OPERATOR, NOW, key_set_entry, log_set, recipe, recipe_entry, reclaim,
};
use super::world::{Plan, World};

/// Where a device dies.
#[derive(Clone, Debug)]
pub enum Crash {
    Never,
    /// Before the commit with this number wrote anything.
    Before(usize),
    /// After it was durable, before the device was told.
    After(usize),
    /// While the file was being written: this percentage of the new one lies next to the old one.
    Torn(usize, PathBuf, usize),
}

/// What a campaign records beyond the device's own state.
#[derive(Default)]
pub struct Witnessed {
    pub commits: usize,
    /// How often a report was made for a recipe.
    pub made: BTreeMap<EntryId, usize>,
}

/// A store that dies once.
struct Crashing<'a> {
    inner: Box<dyn DeviceStore>,
    crash: &'a Crash,
    seen: &'a RefCell<Witnessed>,
}

impl DeviceStore for Crashing<'_> {
    fn state(&self) -> &DeviceState {
        self.inner.state()
    }

    fn commit(&mut self, change: Change) -> Result<(), StateError> {
        let number = {
            let mut seen = self.seen.borrow_mut();
            if let Change::Answered { recipe, .. } = &change {
                *seen.made.entry(*recipe).or_default() += 1;
            }
            seen.commits += 1;
            seen.commits - 1
        };
        let died = || Err(StateError::Io(std::io::Error::other("crash")));
        match self.crash {
            Crash::Before(at) if *at == number => died(),
            Crash::After(at) if *at == number => {
                self.inner.commit(change)?;
                died()
            }
            Crash::Torn(at, path, part) if *at == number => {
                let old = std::fs::read(path).ok();
                self.inner.commit(change)?;
                let new = std::fs::read(path)?;
                let mut beside = path.clone().into_os_string();
                beside.push(".new");
                std::fs::write(beside, &new[..new.len() * part / 100])?;
                match old {
                    Some(old) => std::fs::write(path, old)?,
                    None => std::fs::remove_file(path)?,
                }
                died()
            }
            _ => self.inner.commit(change),
        }
    }
}

/// Three recipes: every device answers one of them, and tosses a coin for the others. Also a newer
/// key of the log's gateway.
pub fn world() -> World {
    let mut plan = Plan::new();
    plan.trust.floors.max_rate = Probability::ONE;
    for (name, rate) in [("always", Probability::ONE), ("again", plan.recipe.sampling.rate)] {
        let mut other = recipe(name);
        other.sampling.rate = rate;
        reclaim(&mut other);
        plan.later.push(Batch { entries: vec![recipe_entry(&other)], times: at(NOW - 2 * DAY) });
    }
    let set = key_set_entry(&log_set(1, NOW - 2 * DAY), &key(LOG_OPERATOR));
    plan.later.push(Batch { entries: vec![set], times: at(NOW - 3 * DAY) });
    plan.build()
}

/// The reports that were sent, by recipe.
pub type Sent = BTreeMap<EntryId, BTreeSet<Vec<u8>>>;

/// What a device reads, how it starts, and how it handles its answers in each round.
pub struct Campaign<'a> {
    pub watch: &'a mut Watch<Files>,
    pub open: &'a mut dyn FnMut() -> Box<dyn DeviceStore>,
    #[allow(clippy::type_complexity)]
    pub send: &'a mut dyn FnMut(&mut dyn DeviceStore, usize) -> Result<(), StateError>,
}

/// A device that dies at `crash`, restarts and continues. Returns its final state.
pub fn campaign(
    world: &World,
    seed: u64,
    crash: &Crash,
    Campaign { watch, open, send }: Campaign<'_>,
) -> (DeviceState, Witnessed) {
    let seen = RefCell::new(Witnessed::default());
    let mut deaths = 0;
    let mut state = DeviceState::default();
    let mut round = 0;
    while round < 5 {
        let mut store = Crashing { inner: open(), crash, seen: &seen };
        // A different seed each time: a second toss would give different bytes.
        let mut rng = rng(seed + 1_000 * (round as u64 + deaths));
        let passed = pass(&mut store, watch, &world.trust, &world.host(), world.now, &mut rng);
        let done = match passed {
            Ok(_) => send(&mut store, round),
            Err(PassError::State(error)) => Err(error),
            Err(other) => panic!("{other}"),
        };
        match done {
            Ok(()) => round += 1,
            Err(StateError::Io(_)) => deaths += 1,
            Err(other) => panic!("{other}"),
        }
        state = store.state().clone();
    }
    assert!(deaths <= 1);
    (state, seen.into_inner())
}

/// What must hold in every case.
pub fn assert_sound(end: &DeviceState, calm: &DeviceState, seen: &Witnessed, sent: &Sent) {
    assert_eq!(end.ledger(), calm.ledger(), "no charge is forgotten, none is made twice");
    assert_eq!(end, calm, "nothing tells who answered, nor who crashed");
    assert!(seen.made.values().all(|made| *made == 1), "the coin is tossed once");
    assert!(sent.values().all(|bytes| bytes.len() == 1), "the same bytes or none");
    assert!(sent.keys().all(|recipe| seen.made.contains_key(recipe)));
}
