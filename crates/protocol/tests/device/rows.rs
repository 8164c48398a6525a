//! The worlds of the table: each differs in one thing from a world that is answered.

pub(crate) mod parties;
mod proofs;
mod recipes;
mod series;
mod tokens;

use sotto_protocol::device::MemoryState;
use sotto_testing::keys::{hpke, key};
use sotto_testing::log::{Batch, at};
use sotto_testing::recipe::{
    DAY, HOUR, NOW, key_set_entry, leader_set, recipe, recipe_entry, reclaim,
};
use sotto_testing::world::{Plan, World};
use sotto_wire::recipe::{KeySet, Recipe};

use crate::device::checks::Row;

pub(crate) fn all() -> Vec<Row> {
    let mut rows = proofs::rows();
    rows.extend(recipes::rows());
    rows.extend(parties::rows());
    rows.extend(tokens::rows());
    rows.extend(series::rows());
    rows
}

/// Worlds close to those of the table that a device does answer, to show where the line is.
pub(crate) fn good() -> Vec<(&'static str, Plan)> {
    let mut plans = Vec::new();
    let mut add = |words, change: &dyn Fn(&mut Plan)| {
        let mut plan = Plan::new();
        change(&mut plan);
        plans.push((words, plan));
    };
    add("nothing is wrong", &|_| {});
    add("in the log for exactly long enough", &|plan| plan.recipe_times = at(NOW - HOUR - DAY));
    add("one witness back-dates, two are honest", &|plan| plan.recipe_times[0] = Some(5));
    add("one witness future-dates, two are honest", &|plan| plan.view[0] = Some(NOW + 90 * DAY));
    add("one witness is stale, two are honest", &|plan| plan.view[0] = Some(NOW - 90 * DAY));
    add("two witnesses of three", &|plan| plan.view[0] = None);
    add("a checkpoint that is just not stale", &|plan| {
        plan.recipe_times = at(NOW - 20 * DAY);
        plan.view = at(NOW - 7 * DAY);
    });
    add("a checkpoint ahead of the clock by what clocks are off", &|plan| {
        plan.view = at(NOW + 300);
    });
    add("the smallest batch", &|plan| {
        plan.recipe.aggregation.min_batch = 1_000;
        plan.reclaim();
    });
    add("the smallest population", &|plan| plan.recipe.who.population = 10_000);
    add("a claim above what the parameters imply", &|plan| {
        plan.recipe.who.population *= 100;
        raise_claim(&mut plan.recipe);
    });
    add("a certified audience", &|plan| plan.target());
    add("the smallest certified audience, whatever the author's estimate", &|plan| {
        // One window: 5,000 of the 10,000 devices are within the rate rule.
        plan.recipe.when.max_window_s = plan.recipe.when.closes - plan.recipe.when.opens;
        plan.result.population = 10_000;
        plan.target();
        plan.recipe.who.population = 1;
    });
    add("a second relay of a third operator", &|plan| {
        let mut second = plan.trust.relays[0].clone();
        second.operator = "leader.example".to_owned();
        plan.trust.relays.insert(0, second);
    });
    add("a relay with a key of its own", &|plan| {
        plan.trust.relays[0].key = Some(key("relay.example").verifier().to_string());
    });
    add("the helper runs the gateway of the log", &|plan| {
        plan.trust.log_gateway.as_mut().unwrap().operator = "helper.example".to_owned();
    });
    add("the leader runs the gateway of the log, which is read directly", &|plan| {
        plan.trust.log_gateway.as_mut().unwrap().operator = "leader.example".to_owned();
        plan.trust.insecure_direct = true;
    });
    add("aggregators at other URLs, which their operators signed", &|plan| {
        for (aggregator, set) in [
            (&mut plan.recipe.parties.leader, &mut plan.leader_set),
            (&mut plan.recipe.parties.helper, &mut plan.helper_set),
        ] {
            aggregator.url += "dap";
            set.url = Some(aggregator.url.clone());
        }
    });
    add("a leader without a gateway, where reports go to it directly", &|plan| {
        plan.leader_set.gateway_configs = None;
        plan.trust.insecure_direct = true;
    });
    add("a gateway key of an unknown suite beside one that can be used", &|plan| {
        let configs = plan.leader_set.gateway_configs.get_or_insert_default();
        configs.insert(0, parties::unknown_suite());
    });
    add("X25519 keys before hybrid ones", &|plan| {
        plan.leader_set.hpke_configs.insert(0, parties::x25519());
        plan.helper_set.hpke_configs.insert(0, parties::x25519());
        plan.leader_set.gateway_configs.as_mut().unwrap().insert(0, parties::x25519());
    });
    add("X25519 keys alone, where the owner allows it", &|plan| {
        plan.leader_set.hpke_configs = vec![parties::x25519()];
        plan.helper_set.hpke_configs = vec![parties::x25519()];
        plan.leader_set.gateway_configs = Some(vec![parties::x25519()]);
        plan.trust.require_post_quantum = false;
    });
    add("a helper with a gateway, which nobody needs", &|plan| {
        plan.helper_set.gateway_configs = Some(vec![hpke(1)]);
    });
    add("exact values, where the owner allows it", &|plan| {
        recipes::exact(&mut plan.recipe);
        plan.trust.insecure_exact = true;
    });
    add("a newer key set after the spacing", &|plan| newer_keys(plan, |set| set.seq = 6));
    plans
}

fn raise_claim(recipe: &mut Recipe) {
    if let sotto_wire::recipe::Privacy::Claim { epsilon_micro, .. } = &mut recipe.privacy {
        *epsilon_micro += 1;
    }
}

/// A second recipe after the first, which is then the one in question.
fn second(plan: &mut Plan, name: &str, change: fn(&mut Recipe)) {
    let mut other = recipe(name);
    change(&mut other);
    reclaim(&mut other);
    plan.later.push(Batch { entries: vec![recipe_entry(&other)], times: at(NOW - 2 * DAY) });
    plan.places.recipe = 5 + plan.later.len() as u64;
}

/// A newer key set of the leader, and a second recipe whose offer brings it.
fn newer_keys(plan: &mut Plan, change: fn(&mut KeySet)) {
    let mut set = leader_set(&key("leader.example"), 6, NOW - 2 * DAY);
    change(&mut set);
    let entries = vec![key_set_entry(&set, &key("leader.example"))];
    plan.later.push(Batch { entries, times: at(NOW - 3 * DAY) });
    plan.places.leader = 6;
    second(plan, "another", |_| {});
}

/// A device that has considered the plain recipe, by the same trust.
fn veteran(world: &World) -> MemoryState {
    let plain = World { trust: world.trust.clone(), ..Plan::new().build() };
    let mut store = plain.device();
    plain.decide(&mut store, &plain.offer()).unwrap();
    store
}
