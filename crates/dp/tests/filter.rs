//! The ledger's filter: adaptive, never above its budget, and not to be fooled by a damaged state.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use serde_json::{Value, json};
use sotto_dp::closed::rdp_to_epsilon;
use sotto_dp::filter::{Affordable, Budget, Charge, DELTA_UNIT, Filter, ORDERS, RDP_UNIT, Refused};
use sotto_dp::rdp::{epsilon, of_event};
use sotto_dp::{Adjacency, Error, Event, Shape};

const BUDGET: Budget = Budget { epsilon: 2.0, delta: 1e-6, adjacency: Adjacency::AddRemove };

fn recipe(rate: f64, sigma: f64, times: u64) -> Event {
    let gaussian = Box::new(Event::Gaussian { sigma, sensitivity: 1.0 });
    Event::Repeated { times, of: Box::new(Event::PoissonSampled { rate, of: gaussian }) }
}

fn charge(event: &Event) -> Charge {
    Charge::of_event(event, Adjacency::AddRemove, Shape::Vector).unwrap()
}

fn ledger() -> Filter {
    Filter::new(BUDGET, 7).unwrap()
}

/// Recipes of all kinds, each cheap.
fn mixed_recipes(count: usize, seed: u64) -> Vec<Event> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut unit = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    (0..count)
        .map(|i| match i % 4 {
            0 => recipe(0.001 + 0.05 * unit(), 2.0 + 10.0 * unit(), 1 + (20.0 * unit()) as u64),
            1 => Event::PureDp { epsilon: 0.02 * unit() },
            2 => Event::ApproximateDp { epsilon: 0.02 * unit(), delta: 1e-9 * unit() },
            _ => Event::Gaussian { sigma: 40.0 + 50.0 * unit(), sensitivity: 1.0 },
        })
        .collect()
}

#[test]
fn the_order_of_charges_does_not_matter() {
    let charges: Vec<Charge> = mixed_recipes(40, 1).iter().map(charge).collect();
    let mut forwards = ledger();
    let mut backwards = ledger();
    for one in &charges {
        forwards.charge(7, one).unwrap();
    }
    for one in charges.iter().rev() {
        backwards.charge(7, one).unwrap();
    }
    assert_eq!(forwards, backwards);
    assert!(forwards.epsilon_spent(1e-6).unwrap() > 0.1);
}

#[test]
fn what_is_admitted_is_within_the_budget() {
    for seed in 0..5 {
        let mut filter = ledger();
        let mut admitted = Vec::new();
        let mut refused = 0;
        for event in mixed_recipes(3000, seed) {
            let one = charge(&event);
            let verdict = filter.may_afford(7, &one);
            let before = filter.clone();
            match filter.charge(7, &one) {
                Ok(()) => {
                    let Ok(Affordable { spent, left }) = verdict else { panic!("{verdict:?}") };
                    assert!(
                        spent <= BUDGET.epsilon && (spent + left - BUDGET.epsilon).abs() < 1e-12
                    );
                    assert_eq!(filter.epsilon_spent(BUDGET.delta).unwrap(), spent);
                    admitted.push(event);
                }
                Err(why) => {
                    assert_eq!(verdict, Err(why));
                    assert_eq!(filter, before, "all or nothing");
                    refused += 1;
                }
            }
            if refused > 20 {
                break;
            }
        }
        assert!(refused > 20 && admitted.len() > 50, "{} {refused}", admitted.len());
        // Computed directly: sums of doubles, the union over the finite orders written out. Order
        // 14 is favoured.
        let all = Event::Composed { of: admitted };
        let rest = 0.05 * BUDGET.delta / (ORDERS.len() - 2) as f64;
        let mut best = f64::INFINITY;
        for order in ORDERS {
            let loss = of_event(&all, Adjacency::AddRemove, Shape::Vector, order).unwrap();
            assert!(loss.delta <= 0.5 * BUDGET.delta);
            let there = if order == f64::INFINITY {
                loss.rdp
            } else {
                let part = if order == 14.0 { 0.45 * BUDGET.delta } else { rest };
                rdp_to_epsilon(order, loss.rdp, part).unwrap()
            };
            best = best.min(there);
        }
        assert!(best <= BUDGET.epsilon, "{best}");
        assert!(best > 0.95 * BUDGET.epsilon, "the filter stops far too early: {best}");
        // And the accountant for events fixed in advance, which is tighter.
        let fixed = epsilon(&all, Adjacency::AddRemove, Shape::Vector, BUDGET.delta).unwrap();
        assert!(
            fixed.epsilon <= BUDGET.epsilon && fixed.epsilon > 0.6 * BUDGET.epsilon,
            "{fixed:?}"
        );
    }
}

#[test]
fn units_never_make_a_charge_cheaper() {
    for event in mixed_recipes(40, 3) {
        let one = charge(&event);
        for (order, units) in ORDERS.into_iter().zip(one.rdp()) {
            let loss = of_event(&event, Adjacency::AddRemove, Shape::Vector, order).unwrap();
            assert!(units >= loss.rdp && (units == f64::INFINITY || units <= loss.rdp + RDP_UNIT));
            assert!(one.delta() >= loss.delta && one.delta() <= loss.delta + DELTA_UNIT);
        }
    }
}

#[test]
fn black_boxes_add_up_as_claimed() {
    let mut filter = ledger();
    let one = Charge::black_box(0.5, 1e-7, Adjacency::AddRemove).unwrap();
    for _ in 0..4 {
        filter.charge(7, &one).unwrap();
    }
    // Four times (0.5, 1e-7): epsilon 2 is used up exactly; delta has 1e-7 of its half left.
    let refused = filter.charge(7, &Charge::black_box(0.001, 0.0, Adjacency::AddRemove).unwrap());
    assert!(matches!(refused, Err(Refused::Epsilon { .. })), "{refused:?}");
    let refused = filter.charge(7, &Charge::black_box(0.0, 1.1e-7, Adjacency::AddRemove).unwrap());
    assert!(matches!(refused, Err(Refused::Delta { .. })), "{refused:?}");
    assert!((filter.delta_spent() - 4e-7).abs() < 1e-15);
    assert_eq!(filter.epsilon_spent(7e-7).unwrap(), f64::INFINITY);
    // Something without any bound is never affordable.
    let naked = charge(&Event::PureDp { epsilon: 1e300 });
    assert!(ledger().may_afford(7, &naked).is_err());
    let certain = Charge::black_box(0.0, 1.0, Adjacency::AddRemove).unwrap();
    assert!(matches!(ledger().may_afford(7, &certain), Err(Refused::Delta { .. })));
}

#[test]
fn periods_reset_and_never_return() {
    let mut filter = ledger();
    let half = Charge::black_box(1.2, 0.0, Adjacency::AddRemove).unwrap();
    filter.charge(7, &half).unwrap();
    assert!(matches!(filter.charge(7, &half), Err(Refused::Epsilon { .. })));
    let past = filter.charge(6, &half);
    assert_eq!(past, Err(Refused::Past { asked: 6, current: 7 }));
    assert!(filter.may_afford(9, &half).is_ok());
    assert_eq!(filter.period(), 7);
    filter.charge(9, &half).unwrap();
    assert_eq!(filter.period(), 9);
    assert!(filter.charge(9, &half).is_err() && filter.charge(8, &half).is_err());
    // Refused in a new period: nothing happens, not even the new period.
    let huge = Charge::black_box(3.0, 0.0, Adjacency::AddRemove).unwrap();
    let before = filter.clone();
    assert!(filter.charge(10, &huge).is_err());
    assert_eq!(filter, before);
}

#[test]
fn other_neighbours_and_bad_budgets_are_refused() {
    let replace = Charge::black_box(0.1, 0.0, Adjacency::Replace).unwrap();
    assert!(matches!(ledger().charge(7, &replace), Err(Refused::Adjacency { .. })));
    for (epsilon, delta) in [
        (0.0, 1e-6),
        (-1.0, 1e-6),
        (f64::NAN, 1e-6),
        (f64::INFINITY, 1e-6),
        (1.0, 0.0),
        (1.0, 1.0),
        (1.0, f64::NAN),
    ] {
        let budget = Budget { epsilon, delta, adjacency: Adjacency::AddRemove };
        assert!(matches!(Filter::new(budget, 0), Err(Error::OutOfRange { .. })));
    }
    assert_eq!(ledger().epsilon_spent(1e-6).unwrap(), 0.0);
    assert!(ledger().epsilon_spent(0.0).is_err());
}

#[test]
fn sums_that_are_too_large_stay_unaffordable() {
    let budget = Budget { epsilon: 1e300, delta: 0.5, adjacency: Adjacency::AddRemove };
    let mut filter = Filter::new(budget, 0).unwrap();
    let large = charge(&Event::PureDp { epsilon: 9e5 });
    filter.charge(0, &large).unwrap();
    assert!(filter.charge(0, &large).is_err(), "a saturated sum stands for infinity");
}

fn used() -> Filter {
    let mut filter = ledger();
    for event in mixed_recipes(9, 5) {
        filter.charge(7, &charge(&event)).unwrap();
    }
    filter
}

#[test]
fn the_state_survives_a_round_trip() {
    let filter = used();
    let text = serde_json::to_string(&filter).unwrap();
    let back: Filter = serde_json::from_str(&text).unwrap();
    assert_eq!(back, filter);
    let one = charge(&recipe(0.02, 5.1, 100));
    let text = serde_json::to_string(&one).unwrap();
    assert_eq!(serde_json::from_str::<Charge>(&text).unwrap(), one);
}

#[test]
fn damaged_states_are_not_read() {
    let good = serde_json::to_value(used()).unwrap();
    let damage = |change: &dyn Fn(&mut Value)| {
        let mut value = good.clone();
        change(&mut value);
        assert_ne!(value, good);
        serde_json::from_value::<Filter>(value).is_err()
    };
    assert!(damage(&|v| v["version"] = json!(2)));
    assert!(damage(&|v| v["rdp"].as_array_mut().unwrap().truncate(31)));
    assert!(damage(&|v| v["rdp"].as_array_mut().unwrap().push(json!(0))));
    assert!(damage(&|v| v["rdp"] = json!([])));
    assert!(damage(&|v| v["surprise"] = json!(1)));
    for field in ["version", "budget", "period", "rdp", "delta", "checksum"] {
        assert!(damage(&|v| {
            v.as_object_mut().unwrap().remove(field);
        }));
    }
    for bad in [json!(-1), json!(0.5), json!(null), json!("NaN"), json!(1e30), json!(0)] {
        assert!(damage(&|v| v["rdp"][3] = bad.clone()), "{bad}");
        assert!(damage(&|v| v["delta"] = bad.clone()), "{bad}");
        assert!(damage(&|v| v["period"] = bad.clone()), "{bad}");
        assert!(damage(&|v| v["budget"]["epsilon"] = bad.clone()), "{bad}");
        assert!(damage(&|v| v["budget"]["delta"] = bad.clone()), "{bad}");
    }
    assert!(damage(&|v| v["budget"]["epsilon"] = json!(20.0)));
    assert!(damage(&|v| v["budget"]["epsilon"] = json!("20")));
    assert!(damage(&|v| v["budget"]["delta"] = json!("inf")));
    assert!(damage(&|v| v["budget"]["adjacency"] = json!("replace")));
}

#[test]
fn a_single_changed_character_is_noticed() {
    let text = serde_json::to_string(&used()).unwrap();
    let mut read = 0;
    for i in 0..text.len() {
        for new in [b'0', b'1', b'9', b'-', b'.', b'e', b',', b' ', b'"'] {
            let mut bytes = text.clone().into_bytes();
            if std::mem::replace(&mut bytes[i], new) == new {
                continue;
            }
            if let Ok(filter) = serde_json::from_slice::<Filter>(&bytes) {
                // Only spellings of the same state.
                assert_eq!(filter, used());
                read += 1;
            }
        }
    }
    assert!(read < 20, "{read}");
}

#[test]
fn every_budget_is_read_as_it_was_written() {
    for i in 1..2_000u32 {
        let epsilon = f64::from(i) * 0.000_731_9 + 1.0 / f64::from(i);
        let budget =
            Budget { epsilon, delta: 1e-6 / f64::from(3 * i), adjacency: Adjacency::AddRemove };
        let filter = Filter::new(budget, 7).unwrap();
        let text = serde_json::to_string(&filter).unwrap();
        let read: Filter = serde_json::from_str(&text).unwrap();
        assert_eq!(read.budget().epsilon.to_bits(), epsilon.to_bits());
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}
