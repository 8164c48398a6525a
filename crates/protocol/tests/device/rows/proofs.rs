//! Bytes, signatures, the log and its witnesses.

use sotto_protocol::admission::Check;
use sotto_protocol::device::{DeviceStore, MemoryState};
use sotto_testing::keys::{key, key_of, signer, witness};
use sotto_testing::log::{ORIGIN, at, entry, signed};
use sotto_testing::recipe::{DAY, HOUR, NOW, PERIOD, recipe, recipe_entry};
use sotto_testing::world::{Plan, World, seen};
use sotto_wire::{Checkpoint, EntryKind, TreeHash};

use super::{second, veteran};
use crate::device::checks::{Row, Walk};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = bytes();
    rows.extend(inclusion());
    rows.extend(witnesses());
    rows.extend(time());
    rows.extend(consistency());
    rows
}

fn bytes() -> Vec<Row> {
    let other_bytes = |plan: &mut Plan, from: &str, to: &str| {
        let json = String::from_utf8(plan.recipe.to_json()).unwrap();
        assert!(json.contains(from));
        let json = json.replacen(from, to, 1);
        let author = key("author.example");
        plan.recipe_bytes = Some(entry(EntryKind::Recipe, json.as_bytes(), &[&author]));
    };
    let canonical = Check::Canonical;
    vec![
        Row::new(canonical, "a space too many", |plan| other_bytes(plan, ":", ": "))
            .walk(Walk::Unlisted),
        Row::new(canonical, "an unknown field", |plan| other_bytes(plan, "{", "{\"a\":1,"))
            .walk(Walk::Unlisted),
        Row::new(canonical, "one operator is leader and helper", |plan| {
            plan.recipe.parties.helper.operator = plan.recipe.parties.leader.operator.clone();
        })
        .walk(Walk::Unlisted),
        Row::new(canonical, "an entry of another kind", |plan| plan.places.recipe = 2)
            .walk(Walk::Offered),
        Row::new(Check::AuthorSignature, "somebody else signed", |plan| {
            plan.recipe_signer = key_of("mallory", "author.example");
        })
        .walk(Walk::Unlisted),
        Row::new(Check::AuthorSignature, "somebody else signed under his own name", |plan| {
            plan.recipe_signer = key("mallory");
        })
        .walk(Walk::Unlisted),
        Row::new(Check::AuthorSignature, "an author who is not on the list", |plan| {
            plan.recipe.author = signer(&key("mallory"));
            plan.recipe_signer = key("mallory");
        })
        .walk(Walk::Unlisted),
    ]
}

fn inclusion() -> Vec<Row> {
    let row = |words| Row::new(Check::Inclusion, words, |_| {});
    vec![
        row("a hash of the proof is wrong")
            .offer(|_, offer| offer.recipe.inclusion[0] = TreeHash([1; 32])),
        row("a hash of the first proof is wrong")
            .offer(|_, offer| offer.recipe.first.hashes[0] = TreeHash([1; 32])),
        row("another place in the log").offer(|_, offer| {
            offer.recipe.index = 3;
            offer.recipe.first.index = 3;
        }),
        row("the first proof is of another place").offer(|_, offer| offer.recipe.first.index = 3),
        row("a recipe that the log does not hold")
            .offer(|_, offer| offer.recipe.entry = recipe_entry(&recipe_named("not-there"))),
        row("the checkpoint that is said to be the first does not cover it").offer(
            |world, offer| {
                offer.recipe.first = world.evidence(2).first;
                offer.recipe.first.index = 4;
            },
        ),
        Row::new(Check::Inclusion, "a recipe for another log", |plan| {
            plan.recipe.parties.log = "log.elsewhere.example".to_owned();
        }),
    ]
}

fn witnesses() -> Vec<Row> {
    let forged = |plan: &mut Plan| plan.log_key = key_of("mallory", ORIGIN);
    let quorum = Check::WitnessQuorum;
    vec![
        Row::new(Check::LogKey, "the log's key is not the pinned one", forged),
        Row::new(Check::LogKey, "the view is of an unknown log", |_| {}).world(|world| {
            let text = world.log.view.text().replacen(ORIGIN, "log.elsewhere.example", 1);
            let view = signed(&text, at(NOW - HOUR), &key("log.elsewhere.example"));
            publish(world, view);
        }),
        Row::new(Check::LogKey, "the first checkpoint is not the log's", |_| {}).offer(
            |_, offer| {
                let text = offer.recipe.first.checkpoint.text().to_owned();
                let forger = key_of("mallory", ORIGIN);
                offer.recipe.first.checkpoint = signed(&text, at(NOW - 3 * DAY), &forger);
            },
        ),
        Row::new(quorum, "one witness of three", |plan| plan.view = [Some(NOW - HOUR), None, None]),
        Row::new(quorum, "one witness twice", |_| {}).world(|world| {
            let text = world.log.view.text().to_owned();
            let once = signed(&text, [Some(NOW - HOUR), None, None], &key(ORIGIN));
            publish(world, once.with_signature(witness(0).cosign(&text, NOW - HOUR - 1)));
        }),
        Row::new(quorum, "strangers as witnesses", |_| {}).world(|world| {
            let text = world.log.view.text().to_owned();
            let note = signed(&text, [Some(NOW - HOUR), None, None], &key(ORIGIN));
            let stranger = key("witness-7.example").cosign(&text, NOW - HOUR);
            let impostor = key_of("mallory", "witness-1.example").cosign(&text, NOW - HOUR);
            publish(world, note.with_signature(stranger).with_signature(impostor));
        }),
        Row::new(quorum, "a cosignature of another checkpoint", |_| {}).world(|world| {
            let old = world.log.checkpoints[1].signatures()[1..].to_vec();
            let text = world.log.view.text().to_owned();
            let note = signed(&text, [None; 3], &key(ORIGIN));
            publish(world, old.into_iter().fold(note, sotto_wire::Note::with_signature));
        }),
        Row::new(quorum, "the first checkpoint has one witness", |plan| {
            plan.recipe_times = [Some(NOW - 3 * DAY), None, None];
        }),
        Row::new(quorum, "the other branch of a fork: honest witnesses cosign one", |plan| {
            plan.recipe.name = "only-for-you".to_owned();
            plan.view = [None, None, Some(NOW - HOUR)];
        }),
    ]
}

fn publish(world: &mut World, view: sotto_wire::Note) {
    world.log.files.insert("checkpoint".to_owned(), view.to_bytes());
    world.log.view = view;
}

fn time() -> Vec<Row> {
    let fresh = Check::Freshness;
    vec![
        Row::new(fresh, "a stale checkpoint", |plan| {
            plan.recipe_times = at(NOW - 20 * DAY);
            plan.view = at(NOW - 7 * DAY - 1);
        }),
        Row::new(fresh, "stale, but one witness says otherwise", |plan| {
            plan.recipe_times = at(NOW - 20 * DAY);
            plan.view = [Some(NOW), Some(NOW - 8 * DAY), Some(NOW - 8 * DAY)];
        }),
        Row::new(fresh, "a checkpoint from the future", |plan| plan.view = at(NOW + 301)),
        Row::new(Check::MinimumAge, "a second too young", |plan| {
            plan.recipe_times = at(NOW - HOUR - DAY + 1);
        }),
        Row::new(Check::MinimumAge, "young, but one witness back-dates it", |plan| {
            plan.recipe_times = [Some(5), Some(NOW - 2 * HOUR), Some(NOW - 2 * HOUR)];
        }),
        Row::new(Check::MinimumAge, "young, but one witness dates the view ahead", |plan| {
            plan.recipe_times = at(NOW - 2 * HOUR);
            plan.view[1] = Some(NOW + 30 * DAY);
        }),
        Row::new(Check::Open, "not open yet", |plan| plan.recipe.when.opens = NOW + HOUR),
        Row::new(Check::Open, "over", |plan| plan.recipe.when.closes = NOW),
        Row::new(Check::Open, "over by the witnesses' clock alone", |plan| {
            plan.trust.floors.min_window_s = 60;
            plan.recipe.when.window_s = 60;
            plan.recipe.when.closes = NOW + 120;
            plan.view = at(NOW + 200);
        })
        .walk(Walk::Unlisted),
        Row::new(Check::FreshState, "a device without any history", |_| {})
            .device(|_| MemoryState::default()),
        Row::new(Check::FreshState, "a device that began in this period", |_| {})
            .device(|world| began(world, NOW - NOW % PERIOD)),
        Row::new(
            Check::FreshState,
            "a device whose first full period began after the recipe opened",
            |plan| {
                plan.recipe.when.opens = NOW / PERIOD * PERIOD - DAY;
                plan.recipe.when.opens -= plan.recipe.when.opens % DAY;
            },
        )
        .device(|world| began(world, NOW - NOW % PERIOD - 1)),
        Row::new(Check::Once, "considered before", |_| {}).device(veteran),
        Row::new(Check::Conditions, "the host is busy", |plan| plan.conditions_met = false),
    ]
}

fn began(world: &World, time: u64) -> MemoryState {
    let checkpoint = Checkpoint::parse(world.log.checkpoints[0].text()).unwrap();
    let mut store = MemoryState::default();
    store.commit(seen(checkpoint, time)).unwrap();
    store
}

fn consistency() -> Vec<Row> {
    let row = |words| Row::new(Check::Consistency, words, |_| {});
    vec![
        row("the log was longer before").device(|_| saw(|plan| second(plan, "more", |_| {}))),
        row("two logs of one size, both cosigned")
            .device(|_| saw(|plan| plan.recipe.name = "only-for-you".to_owned())),
        Row::new(Check::Consistency, "it grew from another log", |plan| {
            second(plan, "more", |_| {});
        })
        .device(|_| saw(|plan| plan.recipe.name = "only-for-you".to_owned())),
        Row::new(Check::NameReuse, "the author used the name for another recipe", |plan| {
            second(plan, "which-region", |other| other.purpose = "Something else.".to_owned());
        })
        .device(veteran),
    ]
}

/// A device that has seen another log, under the same keys.
fn saw(change: impl FnOnce(&mut Plan)) -> MemoryState {
    let mut plan = Plan::new();
    change(&mut plan);
    let world = plan.build();
    let mut store = world.device();
    world.decide(&mut store, &world.offer()).unwrap();
    store
}

fn recipe_named(name: &str) -> sotto_wire::recipe::Recipe {
    let mut other = recipe(name);
    sotto_testing::recipe::reclaim(&mut other);
    other
}
