//! What could renew a device's budget too early.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::json;
use sotto_dp::Adjacency;
use sotto_dp::filter::{Budget, Charge, Filter};
use sotto_protocol::Moment;
use sotto_protocol::admission::{Check, Silence};
use sotto_protocol::device::{DeviceState, DeviceStore, MemoryState};
use sotto_protocol::trust::Trust;
use sotto_testing::log::{Batch, at};
use sotto_testing::recipe::{DAY, HOUR, NOW, PERIOD, recipe, recipe_at, recipe_entry, reclaim};
use sotto_testing::world::Plan;
use sotto_wire::EntryId;

const LIFE: Budget = Budget { epsilon: 10.0, delta: 1e-5, adjacency: Adjacency::Replace };

/// A reset device is shown a checkpoint from before its period, which is public and still fresh
/// enough.
#[test]
fn an_old_checkpoint_does_not_give_a_new_device_a_past() {
    let mut plan = Plan::new();
    // Three days into a period.
    plan.now = NOW / PERIOD * PERIOD + 3 * DAY;
    plan.recipe.when.opens = NOW / PERIOD * PERIOD;
    plan.recipe.when.closes = plan.recipe.when.opens + 10 * DAY;
    plan.recipe_times = at(plan.now - 10 * DAY);
    plan.view = at(plan.now - 4 * DAY);
    let old = plan.build();
    plan.view = at(plan.now - HOUR);
    let new = plan.build();
    let mut store = MemoryState::default();
    for world in [&old, &new, &new] {
        let done = world.walk(&mut store, 1).unwrap();
        assert!(done.considered.is_empty());
        let (_, silence) = done.silent.iter().find(|(id, _)| *id == plan.focus()).unwrap();
        assert_eq!(silence.check, Check::FreshState, "{silence}");
    }
}

/// The recipes are expensive: each takes more than half of the budget.
#[test]
fn another_length_of_periods_is_no_new_budget() {
    let mut plan = Plan::new();
    plan.recipe.aggregation.min_batch = 1_000;
    plan.reclaim();
    let mut second = recipe("second");
    second.aggregation.min_batch = 1_000;
    reclaim(&mut second);
    let epsilon = plan.recipe_epsilon();
    plan.trust.budget.epsilon = 1.5 * epsilon;
    let first = plan.build();
    plan.later.push(Batch { entries: vec![recipe_entry(&second)], times: at(NOW - 3 * DAY) });
    for period_s in [PERIOD, PERIOD / 2, PERIOD / 4, 2 * PERIOD, DAY, HOUR] {
        let mut world = plan.build();
        let mut store = first.device();
        assert_eq!(first.walk(&mut store, 1).unwrap().considered.len(), 1, "one can be paid for");
        let mut file = plan.trust.clone();
        file.budget.period_s = period_s;
        world.trust = Trust::try_from(file).unwrap();
        let done = world.walk(&mut store, 2).unwrap();
        assert!(done.considered.is_empty(), "period of {period_s} s");
        let refused = |check| done.silent.iter().any(|(_, silence)| silence.check == check);
        assert!(refused(Check::Ledger), "period of {period_s} s: {:?}", done.silent);
        let ledger = store.state().ledger().unwrap();
        assert!(ledger.epsilon_spent(1e-6).unwrap() > 0.9 * epsilon);
    }
}

/// A device walks through five periods. In each it considers one recipe, whose price is most of the
/// period's budget, until its life is spent.
#[test]
fn a_new_period_renews_the_budget_and_not_the_life() {
    let mut plan = Plan::new();
    plan.recipe.aggregation.min_batch = 1_000;
    plan.reclaim();
    let epsilon = plan.recipe_epsilon();
    plan.trust.budget.epsilon = 1.5 * epsilon;
    plan.trust.budget.lifetime_epsilon = 3.5 * epsilon;
    let mut store = plan.build().device();
    for period in 0..5 {
        let now = NOW + period * PERIOD;
        if period > 0 {
            let mut next = recipe_at(&format!("period-{period}"), now);
            next.aggregation.min_batch = 1_000;
            reclaim(&mut next);
            plan.later.push(Batch { entries: vec![recipe_entry(&next)], times: at(now - 3 * DAY) });
        }
        plan.view = at(now - HOUR);
        let mut world = plan.build();
        world.now = Moment(now);
        let done = world.walk(&mut store, 1).unwrap();
        let paid = period.min(2) + 1;
        assert_eq!(done.considered.len(), usize::from(period < 3), "{period}: {:?}", done.silent);
        if period >= 3 {
            let refused = |(_, silence): &(_, Silence)| silence.check == Check::Lifetime;
            assert!(done.silent.iter().any(refused), "{period}: {:?}", done.silent);
        }
        let spent = store.state().ledger().unwrap().epsilon_spent(1e-6).unwrap();
        assert!((spent - epsilon).abs() < 1e-5, "{period}: {spent}");
        let lifetime = store.state().lifetime().unwrap().unwrap();
        let spent = lifetime.epsilon_spent(1e-5).unwrap();
        assert!((spent - paid as f64 * epsilon).abs() < 1e-5, "{period}: {spent}");
        assert_eq!(lifetime.budget().epsilon, 3.5 * epsilon);
    }
    assert_eq!(store.state().audit().len(), 3);
    // A larger cap counts at once, and what was spent stays spent.
    plan.trust.budget.lifetime_epsilon = 10.0;
    let now = NOW + 4 * PERIOD;
    let mut late = recipe_at("late", now);
    reclaim(&mut late);
    plan.later.push(Batch { entries: vec![recipe_entry(&late)], times: at(now - 2 * DAY) });
    let mut world = plan.build();
    world.now = Moment(now);
    assert_eq!(world.walk(&mut store, 1).unwrap().considered, [late.id()]);
    let lifetime = store.state().lifetime().unwrap().unwrap();
    assert!(lifetime.epsilon_spent(1e-5).unwrap() > 3.0 * epsilon);
}

/// The states of version 2 have no odometer. What is rebuilt is never below what was spent.
#[test]
fn the_odometer_of_an_older_state_is_rebuilt_from_above() {
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    for (periods, most) in [(1, 20), (6, 20), (30, 1), (9, 400), (1, 1_200)] {
        let budget = Budget { epsilon: 2.0, delta: 1e-6, adjacency: Adjacency::Replace };
        let mut filter = Filter::new(budget, 0).unwrap();
        let mut truth = Filter::new(LIFE, 0).unwrap();
        let mut audit = Vec::new();
        for period in 0..periods {
            for _ in 0..most {
                let micro = u64::from(rng.next_u32() % (3_000_000 / most) + 1);
                let delta = f64::from(rng.next_u32() % 1_000) * 1e-12;
                let charge = Charge::black_box(micro as f64 / 1e6, delta, Adjacency::Replace);
                let charge = charge.unwrap();
                if filter.charge(period, &charge).is_ok() {
                    truth.add(&charge);
                    audit.push(json!({ "at": 1, "recipe": EntryId::new([7; 32]), "name": "a",
                                       "purpose": "b", "epsilon_micro": micro }));
                }
            }
        }
        let lost = audit.len().saturating_sub(1_000);
        let mut state = serde_json::to_value(MemoryState::default().state()).unwrap();
        state["ledger"] = json!({ "ends": 5, "filter": filter });
        state["audit"] = audit.split_off(lost).into();
        let state: DeviceState = serde_json::from_value(state).unwrap();
        assert!(!state.has_lifetime());
        let rebuilt = state.lifetime().unwrap().unwrap();
        assert!(rebuilt.delta_spent() >= truth.delta_spent() - 1e-15);
        for delta in [1e-2, 1e-3, 1e-4] {
            let [reading, least] = [&rebuilt, &truth].map(|it| it.epsilon_spent(delta).unwrap());
            // Stored sums are rounded up with every charge.
            assert!(reading >= least - 1e-9, "{periods} {most}: {reading} {least}");
            // And not far above, if the history is complete.
            let loose = if lost > 0 { f64::INFINITY } else { 1.001 };
            assert!(reading <= loose * least, "{periods} {most}: {reading} {least}");
        }
        assert_eq!(rebuilt.budget().epsilon, 10.0, "the default cap");
        let counted = state.clone().with_lifetime().unwrap();
        assert!(counted.has_lifetime());
        assert_eq!(counted.lifetime(), Some(Ok(rebuilt)));
    }
}
