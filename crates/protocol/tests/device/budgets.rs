//! What could renew a device's budget too early.

use sotto_protocol::admission::Check;
use sotto_protocol::device::{DeviceStore, MemoryState};
use sotto_protocol::trust::Trust;
use sotto_testing::log::{Batch, at};
use sotto_testing::recipe::{DAY, HOUR, NOW, PERIOD, recipe, recipe_entry, reclaim};
use sotto_testing::world::Plan;

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
