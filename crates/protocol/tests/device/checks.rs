//! For each of the device's checks, worlds in which exactly that check fails, and silence as the
//! answer.

use std::collections::BTreeSet;

use sotto_protocol::MAX_CLOCK_SKEW_S;
use sotto_protocol::admission::{Check, Offer, View};
use sotto_protocol::client::is_cover;
use sotto_protocol::device::{DeviceState, DeviceStore, MemoryState, PassError, advance};
use sotto_protocol::expression::Value;
use sotto_protocol::log::Reader;
use sotto_testing::world::{Plan, World};
use sotto_wire::recipe::Probability;

use crate::device::rows;

/// One world that a device refuses.
pub(crate) struct Row {
    pub(crate) check: Check,
    pub(crate) words: &'static str,
    pub(crate) plan: Plan,
    /// Changes what was built.
    pub(crate) world: fn(&mut World),
    /// Changes what the device is offered.
    pub(crate) offer: fn(&World, &mut Offer),
    /// The device that sees it.
    pub(crate) device: fn(&World) -> MemoryState,
    pub(crate) walk: Walk,
}

/// What a device that reads the log itself makes of the same world.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Walk {
    /// The same check fails.
    Same,
    /// It does not get as far as an offer: the catalogue does not list the entry.
    Unlisted,
    /// The lie is in the offer, which an honest reader would make differently.
    Offered,
}

impl Row {
    pub(crate) fn new(check: Check, words: &'static str, change: impl FnOnce(&mut Plan)) -> Self {
        let mut plan = Plan::new();
        change(&mut plan);
        Self {
            check,
            words,
            plan,
            world: |_| {},
            offer: |_, _| {},
            device: World::device,
            walk: Walk::Same,
        }
    }

    pub(crate) fn world(self, world: fn(&mut World)) -> Self {
        Self { world, ..self }
    }

    pub(crate) fn offer(self, offer: fn(&World, &mut Offer)) -> Self {
        Self { offer, walk: Walk::Offered, ..self }
    }

    pub(crate) fn device(self, device: fn(&World) -> MemoryState) -> Self {
        Self { device, ..self }
    }

    pub(crate) fn walk(self, walk: Walk) -> Self {
        Self { walk, ..self }
    }
}

#[test]
fn each_check_fails_alone_and_is_answered_with_silence() {
    let rows = rows::all();
    for row in &rows {
        let mut world = row.plan.build();
        (row.world)(&mut world);
        let mut offer = world.offer();
        (row.offer)(&world, &mut offer);
        let mut store = (row.device)(&world);
        let before = store.state().clone();
        let refused = world.decide(&mut store, &offer);
        let silence = refused.expect_err(row.words);
        assert_eq!(silence.check, row.check, "{}: {silence}", row.words);
        assert_untouched(row, &before, store.state(), &world);
        assert_walk(row, &world);
    }
    let covered: BTreeSet<Check> = rows.iter().map(|row| row.check).collect();
    assert_eq!(covered, BTreeSet::from(Check::ALL), "every check is in the table");
}

/// Sending depends on coins alone: with the same coins, a device sends, or does not, whether or not
/// it is in the audience and can pay. With little cover, so that the coins decide.
#[test]
fn who_sends_does_not_depend_on_audience_or_budget() {
    let mut plan = Plan::new();
    plan.target();
    plan.trust.floors.max_rate = Probability::ONE;
    plan.recipe.sampling.rate = Probability::new(1, 2).unwrap();
    plan.recipe.sampling.cover = Probability::new(1, 4).unwrap();
    (plan.trust.budget.epsilon, plan.trust.budget.lifetime_epsilon) = (50.0, 50.0);
    plan.reclaim();
    let member = plan.build();
    plan.trust.budget.epsilon = 1e-6;
    let poor = plan.build();
    (plan.trust.budget.epsilon, plan.trust.budget.lifetime_epsilon) = (50.0, 1e-6);
    let worn = plan.build();
    plan.attributes.insert("tier".to_owned(), Value::String("silver".to_owned()));
    let outsider = plan.build();
    let sent = |world: &World, seed| {
        let mut store = world.device();
        world.walk(&mut store, seed).unwrap();
        let mut pending = store.state().pending().map(|(_, pending)| is_cover(&pending.report));
        (pending.next(), pending.next())
    };
    let mut kinds = BTreeSet::new();
    for seed in 0..64 {
        let (answer, nothing) = sent(&member, seed);
        kinds.insert(answer);
        for world in [&poor, &worn, &outsider] {
            assert_eq!(sent(world, seed), (answer.map(|_| true), nothing), "{seed}");
        }
    }
    assert_eq!(kinds, BTreeSet::from([None, Some(false), Some(true)]));
}

/// The walk of a real device through the same world is silent too.
fn assert_walk(row: &Row, world: &World) {
    if row.walk == Walk::Offered {
        return;
    }
    let mut store = (row.device)(world);
    let before = store.state().clone();
    let focus = row.plan.focus();
    match world.walk(&mut store, 1) {
        Err(PassError::Silence(silence)) => assert_eq!(silence.check, row.check, "{}", row.words),
        Err(other) => panic!("{}: {other}", row.words),
        Ok(done) => {
            assert!(!done.considered.contains(&focus), "{}", row.words);
            let said = done.silent.iter().find(|(id, _)| *id == focus).map(|(_, silence)| silence);
            let expected = (row.walk == Walk::Same).then_some(row.check);
            assert_eq!(said.map(|silence| silence.check), expected, "{}: {said:?}", row.words);
            if done.considered.is_empty() {
                assert_untouched(row, &before, store.state(), world);
            }
        }
    }
}

/// The device may have seen a newer log, but nothing else changed.
fn assert_untouched(row: &Row, before: &DeviceState, after: &DeviceState, world: &World) {
    let words = row.words;
    // A device that is not in the audience, or cannot pay, sends cover: it answers and pays nothing.
    let added = after.pending().filter(|new| !before.pending().any(|old| old == *new));
    let added: Vec<_> = added.map(|(_, pending)| &pending.report).collect();
    if matches!(row.check, Check::Targeting | Check::Ledger | Check::Lifetime) && !added.is_empty()
    {
        assert!(added.len() == 1 && is_cover(added[0]), "{words}");
        assert_eq!((before.ledger(), before.audit()), (after.ledger(), after.audit()), "{words}");
        assert_eq!(before.lifetime(), after.lifetime(), "{words}");
        return;
    }
    assert_eq!(before.pending().count(), after.pending().count(), "{words}");
    if before == after {
        return;
    }
    let view = View::open(&world.log.view.to_bytes(), &world.trust).unwrap();
    let from = before.log_size(&view.checkpoint().origin).unwrap_or(0);
    let proof = if from == 0 || from == view.checkpoint().size {
        Vec::new()
    } else {
        let mut reader = Reader::new(world.log.files.clone());
        reader.consistency(from, view.checkpoint().size).unwrap()
    };
    let mut advanced = before.clone();
    let seen = advance(before, &view, &proof, &world.trust, world.now).unwrap();
    advanced.apply(seen.unwrap());
    assert_eq!(&advanced, after, "{words}");
}

#[test]
fn the_same_worlds_without_the_fault_are_answered() {
    for plan in rows::good() {
        let world = plan.1.build();
        let mut store = world.device();
        let decided = world.decide(&mut store, &world.offer());
        assert_eq!(decided, Ok(plan.1.focus()), "{}", plan.0);
        let mut store = world.device();
        let done = world.walk(&mut store, 1).unwrap();
        assert!(done.considered.contains(&plan.1.focus()), "{}: {done:?}", plan.0);
        assert!(store.state().is_considered(&plan.1.focus()));
        assert!(store.state().time() <= plan.1.now + MAX_CLOCK_SKEW_S, "{}", plan.0);
    }
}
