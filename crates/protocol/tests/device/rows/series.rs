//! Series: rounds that differ from their header, or whose header is not proved.

use sotto_protocol::admission::Check;
use sotto_testing::keys::key_of;
use sotto_testing::log::{at, entry};
use sotto_testing::recipe::{HOUR, recipe_entry};
use sotto_testing::world::Plan;
use sotto_wire::EntryKind;
use sotto_wire::recipe::{Participation, Privacy, Probability, Recipe};

use crate::device::checks::{Row, Walk};
use crate::device::series::{FIRST, LATELY, model, training};

pub(super) fn rows() -> Vec<Row> {
    let row = |check, words, change: &dyn Fn(&mut Plan)| {
        Row::new(check, words, |plan| {
            plan.in_series(3, Participation::EachRound {});
            change(plan);
        })
    };
    let changed = |plan: &mut Plan, change: &dyn Fn(&mut Recipe)| {
        let mut round = plan.recipe.with_round(FIRST).unwrap();
        change(&mut round);
        plan.publish(recipe_entry(&round), LATELY);
    };
    vec![
        row(Check::Round, "a round with a smaller batch than its header", &|plan| {
            changed(plan, &|round| round.aggregation.min_batch -= 1);
        }),
        row(Check::Round, "a round with a smaller rate", &|plan| {
            changed(plan, &|round| round.sampling.rate = Probability::new(1, 3).unwrap());
        }),
        row(Check::Round, "a round with a larger claim", &|plan| {
            changed(plan, &|round| {
                if let Privacy::Claim { epsilon_micro, .. } = &mut round.privacy {
                    *epsilon_micro += 1;
                }
            });
        }),
        row(Check::Round, "a round of more rounds than its header has", &|plan| {
            changed(plan, &|round| {
                let Some(series) = &mut round.series else { panic!("it has one") };
                series.rounds = 4;
                let Privacy::Claim { rounds, .. } = &mut round.privacy else { panic!("a claim") };
                *rounds = 4;
            });
        }),
        row(Check::Round, "a round with another name", &|plan| {
            changed(plan, &|round| round.name = "another-name".to_owned());
        }),
        row(Check::Round, "a round that is offered without a header", &|plan| {
            changed(plan, &|_| {});
            plan.places.header = None;
        })
        .walk(Walk::Offered),
        row(Check::Canonical, "a round beyond the last one", &|plan| {
            changed(plan, &|round| {
                round.series.as_mut().unwrap().round.as_mut().unwrap().index = 3;
            });
        })
        .walk(Walk::Unlisted),
        row(Check::AuthorSignature, "a round that somebody else signed", &|plan| {
            let round = plan.recipe.with_round(FIRST).unwrap();
            let mallory = key_of("mallory", "author.example");
            plan.publish(entry(EntryKind::Recipe, &round.to_json(), &[&mallory]), LATELY);
        })
        .walk(Walk::Unlisted),
        row(Check::AuthorSignature, "a header that somebody else signed", &|plan| {
            plan.recipe_signer = key_of("mallory", "author.example");
            plan.round(FIRST, LATELY);
        })
        .walk(Walk::Offered),
        row(Check::MinimumAge, "a header that is too young", &|plan| {
            plan.recipe_times = at(LATELY - HOUR);
            plan.round(FIRST, LATELY);
        }),
        row(Check::Inclusion, "a round that the log does not hold", &|plan| {
            plan.round(FIRST, LATELY);
        })
        .offer(|_, offer| offer.recipe.inclusion.clear()),
        row(Check::Model, "a round whose model is not at hand", &|plan| {
            *plan = training();
            plan.round(model(0, b"a model"), LATELY);
        }),
        row(Check::Claim, "a claim that holds for one round alone", &|plan| {
            let of_all = plan.recipe_epsilon();
            let mut one = Plan::new();
            one.in_series(1, Participation::EachRound {});
            assert!(one.recipe_epsilon() < of_all);
            plan.recipe.privacy = one.recipe.privacy;
            if let Privacy::Claim { rounds, .. } = &mut plan.recipe.privacy {
                *rounds = 3;
            }
            plan.round(FIRST, LATELY);
        }),
        row(Check::Ledger, "a series of which a round alone could be paid", &|plan| {
            plan.trust.budget.epsilon = plan.recipe_epsilon() * 0.9;
            plan.round(FIRST, LATELY);
        }),
    ]
}
