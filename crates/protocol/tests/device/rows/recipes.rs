//! What the recipe asks, claims and costs.

use sotto_protocol::admission::Check;
use sotto_protocol::expression::Value;
use sotto_protocol::recipe::recipe_vdaf;
use sotto_testing::keys::{key, key_of};
use sotto_testing::log::at;
use sotto_testing::recipe::{DAY, HOUR, NOW, result};
use sotto_testing::world::Plan;
use sotto_wire::EntryId;
use sotto_wire::recipe::{
    Adjacency, AttributeType, Privacy, Probability, Query, Randomizer, Recipe, RecipeVdaf,
};

use super::{second, veteran};
use crate::device::checks::Row;

pub(super) fn rows() -> Vec<Row> {
    let mut rows = derivation();
    rows.extend(floors());
    rows.extend(audiences());
    rows.extend(results());
    rows.extend(claims());
    rows
}

/// Exact values, and no claim.
pub(super) fn exact(recipe: &mut Recipe) {
    recipe.randomizer = Randomizer::None;
    recipe.privacy = Privacy::InsecureUnbounded;
}

fn derivation() -> Vec<Row> {
    let mapping = |plan: &mut Plan, source: &str| {
        if let Query::Histogram { mapping, .. } = &mut plan.recipe.query {
            *mapping = source.to_owned();
        }
    };
    let row = |words, change: &dyn Fn(&mut Plan)| Row::new(Check::Derivation, words, change);
    vec![
        row("a chunk length that makes verification dear", &|plan| {
            plan.recipe.aggregation.vdaf =
                RecipeVdaf::Prio3Histogram { length: 4, chunk_length: 1 };
            assert_ne!(plan.recipe.aggregation.vdaf, recipe_vdaf(&plan.recipe).unwrap());
        }),
        row("the VDAF of another query", &|plan| {
            plan.recipe.aggregation.vdaf = RecipeVdaf::Prio3Count;
        }),
        row("an attribute that is not declared", &|plan| mapping(plan, "country")),
        row("a call", &|plan| mapping(plan, "size(tier)")),
        row("a mapping of the wrong type", &|plan| mapping(plan, "region == 1")),
    ]
}

fn floors() -> Vec<Row> {
    let row = |words, change: &dyn Fn(&mut Recipe)| {
        Row::new(Check::Floors, words, |plan| {
            change(&mut plan.recipe);
            if !matches!(plan.recipe.privacy, Privacy::InsecureUnbounded) {
                plan.reclaim();
            }
        })
    };
    vec![
        row("B below the floor", &|recipe| recipe.aggregation.min_batch = 999),
        row("q above the cap", &|recipe| {
            recipe.sampling.rate = Probability::new(500_001, 1_000_000).unwrap();
        }),
        row("a small population", &|recipe| recipe.who.population = 9_999),
        row("a unit of time that tells when a report was made", &|recipe| {
            recipe.when.window_s = 300;
        }),
        row("no claim", &exact),
    ]
}

/// Predicates that could single out a device.
fn audiences() -> Vec<Row> {
    let row = |words, change: &dyn Fn(&mut Plan)| Row::new(Check::Targeting, words, change);
    vec![
        row("an attribute outside of the allowed set", &|plan| {
            plan.result = result("region == 2", 50_000);
            plan.result.attributes = [("region".parse().unwrap(), AttributeType::Int)].into();
            plan.target();
        }),
        row("a predicate that gives no truth value", &|plan| {
            plan.result = result("tier", 50_000);
            plan.target();
        }),
        row("a predicate that does not compile", &|plan| {
            plan.result = result("tier ==", 50_000);
            plan.target();
        }),
        row("a device outside of the audience", &|plan| {
            plan.target();
            plan.attributes.insert("tier".to_owned(), Value::String("silver".to_owned()));
        }),
        row("a device without the attribute", &|plan| {
            plan.target();
            plan.attributes.remove("tier");
        }),
        row("a device whose attribute has another type", &|plan| {
            plan.target();
            plan.attributes.insert("tier".to_owned(), Value::Int(1));
        }),
    ]
}

/// Results that certify nothing.
fn results() -> Vec<Row> {
    let row = |words, change: &dyn Fn(&mut Plan)| {
        Row::new(Check::Targeting, words, |plan| {
            change(plan);
            plan.target();
        })
    };
    vec![
        row("a certified population of one", &|plan| plan.result.population = 1),
        row("a certified population just below the floor", &|plan| {
            plan.result.population = 9_999;
        }),
        row("a minimum batch above twice what the audience sends", &|plan| {
            plan.result.population = 10_000;
            plan.recipe.aggregation.min_batch = 10_001;
            plan.reclaim();
        }),
        row("a result that was measured long ago", &|plan| {
            plan.result.measured_at = NOW - HOUR - 90 * DAY - 1;
        }),
        row("a result that was logged before it was measured", &|plan| {
            plan.result.measured_at = NOW - 35 * DAY + 301;
        }),
        row("no result is offered", &|_| {}).offer(|_, offer| offer.certified = None),
        Row::new(Check::Targeting, "a result that the log does not hold", |plan| {
            plan.target();
            if let Some(targeting) = &mut plan.recipe.who.targeting {
                targeting.certified = EntryId::of(b"nothing");
            }
        }),
        Row::new(Check::Targeting, "a result for another predicate", |plan| {
            plan.target();
            if let Some(targeting) = &mut plan.recipe.who.targeting {
                targeting.predicate = "tier in ['gold', 'platinum']".to_owned();
            }
        }),
        row("a result for an attribute of another type", &|plan| {
            plan.result.attributes = [("tier".parse().unwrap(), AttributeType::Int)].into();
        }),
        row("a result that leaves open what the attribute is", &|plan| {
            plan.result.attributes.clear();
        }),
        row("a result that one operator signed", &|plan| {
            plan.result_signers.pop();
        }),
        row("a result that one operator signed twice", &|plan| {
            plan.result_signers = vec![key("leader.example"), key("leader.example")];
        }),
        row("a result with a foreign signature", &|plan| {
            plan.result_signers[1] = key_of("mallory", "helper.example");
        }),
        row("a result of an operator who is not pinned", &|plan| {
            plan.result.helper = sotto_testing::keys::signer(&key("mallory"));
            plan.result_signers[1] = key("mallory");
        }),
        row("a result that is too young", &|plan| plan.result_times = at(NOW - 2 * HOUR)),
        row("a result whose place is not proved", &|_| {}).offer(|_, offer| {
            if let Some(certified) = &mut offer.certified {
                certified.inclusion.pop();
            }
        }),
        row("another result than the recipe names", &|_| {}).offer(|_, offer| {
            offer.certified = Some(offer.leader_keys.clone());
        }),
    ]
}

/// The claim of a plan, changed.
fn claim(plan: &mut Plan, change: impl FnOnce(u64) -> u64) {
    if let Privacy::Claim { epsilon_micro, .. } = &mut plan.recipe.privacy {
        *epsilon_micro = change(*epsilon_micro);
    }
}

fn claims() -> Vec<Row> {
    let row = |words, change: &dyn Fn(&mut Plan)| Row::new(Check::Claim, words, change);
    let spent = |words, change: &dyn Fn(&mut Plan)| Row::new(Check::Ledger, words, change);
    let capped = |words, change: &dyn Fn(&mut Plan)| Row::new(Check::Lifetime, words, change);
    vec![
        row("a claim one percent below", &|plan| claim(plan, |implied| implied * 99 / 100)),
        row("a claim one millionth below", &|plan| claim(plan, |implied| implied - 1)),
        row("a population overstated a hundredfold, to claim less", &|plan| {
            let before = plan.recipe.privacy;
            plan.recipe.who.population *= 100;
            plan.reclaim();
            assert_eq!(plan.recipe.privacy, before, "the population changes nothing");
            claim(plan, |implied| implied * 99 / 100);
        }),
        row("a claim for neighbours that it does not hold for", &|plan| {
            if let Privacy::Claim { adjacency, .. } = &mut plan.recipe.privacy {
                *adjacency = Adjacency::AddRemove;
            }
        }),
        row("a claim for exact values", &|plan| {
            plan.recipe.randomizer = Randomizer::None;
            claim(plan, |_| 9_000_000_000_000_000);
            if let Privacy::Claim { adjacency, .. } = &mut plan.recipe.privacy {
                *adjacency = Adjacency::AddRemove;
            }
        }),
        spent("one recipe costs more than the budget", &|plan| plan.trust.budget.epsilon = 0.04),
        spent("the deltas alone are too much", &|plan| plan.trust.budget.delta = 1e-8),
        spent("too much is spent already", &|plan| {
            plan.trust.budget.epsilon = 0.08;
            second(plan, "another", |_| {});
        })
        .device(veteran),
        capped("one recipe costs more than the cap on a life", &|plan| {
            plan.trust.budget.lifetime_epsilon = 0.04;
        }),
        capped("the deltas alone are too much for a life", &|plan| {
            plan.trust.budget.lifetime_delta = 1e-8;
        }),
        capped("too much is spent in this life already", &|plan| {
            plan.trust.budget.lifetime_epsilon = 0.08;
            second(plan, "another", |_| {});
        })
        .device(veteran),
    ]
}
