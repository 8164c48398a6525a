//! Receipts of releases: `sotto log list` and `sotto log monitor`.

use serde_json::{Value, json};
use sotto_crypto::note::NoteKey;
use sotto_protocol::receipt::audit::PATIENCE_S;
use sotto_protocol::recipe::windows::GRACE_S;
use sotto_testing::log::valid_entry;
use sotto_testing::recipe::recipe_at;
use sotto_wire::{Entry, EntryKind, KeySet, PublicKey, Receipt, Recipe, Role};

use crate::log::entries::{DAY, claiming, hpke, key, key_of, key_set, now, recipe_entry, signer};
use crate::log::folder::{Folder, Run, forge_with};

/// A recipe of six days that has closed; a release may cover one day. It asks for 5,000 reports.
fn closed() -> Recipe {
    let mut recipe = claiming(recipe_at("commute", now() - 10 * DAY), 1.0);
    recipe.parties.collector_hpke_config = KeySet::config_text(&hpke(99));
    recipe
}

/// What an operator says about the first day.
fn receipt(recipe: &Recipe, role: Role, seq: u64) -> Receipt {
    let operator = key(&format!("{}.example", role.as_str()));
    Receipt {
        version: 1,
        recipe: recipe.id(),
        operator: signer(&operator),
        role,
        seq,
        start: recipe.when.opens,
        end: recipe.when.opens + DAY,
        count: 8_192,
        batch: None,
    }
}

fn signed(receipt: &Receipt, key: &NoteKey) -> Entry {
    valid_entry(EntryKind::Receipt, &receipt.to_json(), &[key])
}

/// The receipt, signed by the pinned key of its operator.
fn entry(receipt: &Receipt) -> Entry {
    signed(receipt, &key(receipt.operator.name.as_str()))
}

fn monitor(world: &Folder, more: &[&str]) -> Run {
    let files = ["--trust", "trust.toml", "--state", "monitor.json", "--log", "log"];
    world.run(&[&["log", "monitor", "--once", "--no-served-keys"], &files[..], more].concat())
}

/// Shows a log with these entries, cosigned at this time, and returns the events of the new ones.
fn events_at(world: &Folder, entries: &[Entry], time: u64, code: i32) -> Vec<Value> {
    // Whether the checkpoint is old is not the point here.
    world.trust(|file| file.max_checkpoint_age_s = 30 * DAY);
    forge_with(&world.path("log"), entries, 2, time);
    let report = monitor(world, &["--json"]).json(code);
    report["events"].as_array().unwrap().clone()
}

/// The same now, in a new world: kind, whether it is an alert, and who is blamed and cleared.
fn judged(entries: &[Entry], code: i32) -> Vec<Value> {
    let events = events_at(&Folder::new(), entries, now(), code);
    let about_receipts = events.iter().filter(|event| event["kind"] != "recipe");
    let fields = ["kind", "alert", "against", "blamed_operators", "cleared_operators"];
    about_receipts.map(|event| fields.map(|field| event[field].clone()).into()).collect()
}

fn news() -> Value {
    json!(["receipt", false, null, null, null])
}

#[test]
fn releases_are_told_in_words_and_in_json() {
    let (world, recipe) = (Folder::new(), closed());
    let (leader, helper) = (receipt(&recipe, Role::Leader, 1), receipt(&recipe, Role::Helper, 1));
    let entries = [recipe_entry(&recipe), entry(&leader), entry(&helper)];
    let events = events_at(&world, &entries, now(), 0);
    let id = recipe.id().to_string();
    for (event, (index, role)) in events[1..].iter().zip([(1, "leader"), (2, "helper")]) {
        let name = format!("{role}.example");
        let expected = [
            ("kind", json!("receipt")),
            ("alert", json!(false)),
            ("index", json!(index)),
            ("operator", json!(name)),
            ("author", json!(name)),
            ("role", json!(role)),
            ("recipe_id", json!(id)),
            ("seq", json!(1)),
            ("start_s", json!(leader.start)),
            ("end_s", json!(leader.end)),
            ("count", json!(8_192)),
        ];
        for (field, value) in expected {
            assert_eq!(event[field], value, "{field} of {event}");
        }
        assert!(event["start"].as_str().unwrap().ends_with("T00:00:00Z"), "{event}");
        assert_eq!(event.get("batch_id"), None);
        let words = event["words"].as_str().unwrap();
        assert!(words.starts_with(&format!("{index}: receipt 1 of {name} for commute: 20")));
        assert!(words.ends_with("T00:00:00Z, 8192 to 16383 reports"), "{words}");
    }
    assert_eq!(events.len(), 3);

    let list = ["log", "list", "--log", "log", "--trust", "trust.toml", "--kind", "receipt"];
    let said = world.run(&list).says(0);
    assert!(said.contains(&format!("receipt  {}  by leader.example", &id[..12])), "{said}");
    assert_eq!(said.matches("8192 to 16383 reports").count(), 2, "{said}");
    assert!(said.lines().all(|line| line.len() <= 80), "{said}");
    let search = ["--author", "helper", "--name", &id[..20], "--json"];
    let found = world.run(&[&list[..], &search].concat()).json(0);
    let [line] = &found["entries"].as_array().unwrap()[..] else { panic!("{found}") };
    assert_eq!((&line["index"], &line["count"]), (&json!(2), &json!(8_192)));
    assert_eq!((&line["operator"], &line["recipe_id"]), (&json!("helper.example"), &json!(id)));
    assert_eq!(line["end_s"], leader.end);
}

#[test]
fn a_release_that_breaks_a_rule_speaks_against_its_operator_alone() {
    let recipe = closed();
    let good = receipt(&recipe, Role::Helper, 1);
    let accused =
        |kind: &str| json!([kind, true, "operator", ["helper.example"], ["leader.example"]]);
    let log = |receipts: &[Receipt]| -> Vec<Entry> {
        std::iter::once(recipe_entry(&recipe)).chain(receipts.iter().map(entry)).collect()
    };
    assert_eq!(judged(&log(std::slice::from_ref(&good)), 0), [news()]);
    for bad in [
        Receipt { end: good.end + 3_600, ..good.clone() },
        Receipt { count: 2_048, ..good.clone() },
        Receipt { start: good.start - DAY, end: good.start, ..good.clone() },
    ] {
        assert_eq!(judged(&log(&[bad]), 1), [news(), accused("release_rule")]);
    }
    // 4,096 to 8,191 may be 5,000: nothing is proved.
    assert_eq!(judged(&log(&[Receipt { count: 4_096, ..good.clone() }]), 0), [news()]);
    let again = Receipt { seq: 2, start: good.start + 3_600, ..good.clone() };
    assert_eq!(judged(&log(&[good, again]), 1), [news(), news(), accused("release_rule")]);
}

#[test]
fn a_release_before_its_time_is_noticed() {
    let recipe = closed();
    let due = recipe.when.opens + DAY + GRACE_S;
    let entries = [recipe_entry(&recipe), entry(&receipt(&recipe, Role::Leader, 1))];
    let world = Folder::new();
    let events = events_at(&world, &entries, due - 600, 1);
    let words = events.last().unwrap()["words"].as_str().unwrap();
    assert!(words.contains("was public before it was due. leader.example is to blame"), "{words}");
    assert!(words.contains("Nothing here speaks against helper.example, the author or the log"));
    let events = events_at(&Folder::new(), &entries, due, 0);
    assert_eq!(events.len(), 2, "{events:?}");
}

#[test]
fn operators_who_contradict_each_other_are_both_named() {
    let recipe = closed();
    let (leader, helper) = (receipt(&recipe, Role::Leader, 1), receipt(&recipe, Role::Helper, 1));
    let both = json!(["leader.example", "helper.example"]);
    let both = json!(["receipts_differ", true, "operator", both, null]);
    for lie in [
        Receipt { count: 16_384, ..leader.clone() },
        Receipt { end: leader.end - 3_600, ..leader.clone() },
    ] {
        let entries = [recipe_entry(&recipe), entry(&helper), entry(&lie)];
        assert_eq!(judged(&entries, 1), [news(), news(), both.clone()]);
    }
    let world = Folder::new();
    let lie = Receipt { count: 16_384, ..helper };
    let entries = [recipe_entry(&recipe), entry(&leader), entry(&lie)];
    forge_with(&world.path("log"), &entries, 2, now());
    let said = monitor(&world, &[]).says(1);
    let alert = said.lines().find(|line| line.starts_with("ALERT")).unwrap();
    assert!(alert.contains("the release differs from the one of entry 1."), "{alert}");
    assert!(alert.contains("One of helper.example and leader.example is to blame"), "{alert}");
    assert!(alert.contains("Nothing here speaks against the author or the log"), "{alert}");
}

#[test]
fn a_receipt_that_stays_alone_is_noticed_in_time() {
    let (world, recipe) = (Folder::new(), closed());
    let mut entries = vec![recipe_entry(&recipe), entry(&receipt(&recipe, Role::Leader, 1))];
    let seen = now() - 2 * PATIENCE_S;
    let events = |entries: &[Entry], time, code| {
        let mut events = events_at(&world, entries, time, code);
        events.retain(|event| event["kind"] == "receipt_missing");
        events
    };
    let nothing: [Value; 0] = [];
    assert_eq!(events(&entries, seen, 0), nothing);
    assert_eq!(events(&entries, seen + PATIENCE_S - 1, 0), nothing);
    // The helper writes none at all: that is no alert.
    let [missing] = &events(&entries, seen + PATIENCE_S, 0)[..] else { panic!("none") };
    assert_eq!((&missing["alert"], &missing["index"]), (&json!(false), &json!(1)));
    let words = missing["words"].as_str().unwrap();
    assert!(words.contains("helper.example logged no receipt of it in 2 days, nor of any"));
    assert_eq!(events(&entries, seen + PATIENCE_S + 1, 0), nothing, "told once");

    // Now it does, of the second day, and the leader does not.
    let next = receipt(&recipe, Role::Helper, 1);
    let next = Receipt { start: next.end, end: next.end + DAY, ..next };
    entries.push(entry(&next));
    let later = now() - PATIENCE_S;
    assert_eq!(events(&entries, later, 0), nothing);
    let [missing] = &events(&entries, later + PATIENCE_S, 1)[..] else { panic!("none") };
    assert_eq!((&missing["alert"], &missing["index"]), (&json!(true), &json!(2)));
    assert_eq!(missing["blamed_operators"], json!(["helper.example", "leader.example"]));
}

#[test]
fn only_what_an_operator_signed_speaks_against_it() {
    let recipe = closed();
    let bad = Receipt { count: 1, ..receipt(&recipe, Role::Leader, 1) };
    let own = key_of("receipts", "leader.example");
    let with_own = Receipt { operator: signer(&own), ..bad.clone() };
    let set = KeySet {
        receipt_key: Some(PublicKey::new(*own.verifier().public_key())),
        ..key_set(&key("leader.example"), 5).key_set().unwrap().clone()
    };
    let set = valid_entry(EntryKind::KeySet, &set.to_json(), &[&key("leader.example")]);
    let unsigned = json!(["receipt", true, null, null, null]);
    // Before the key set that names the key, anybody may have made it.
    let entries = [recipe_entry(&recipe), signed(&with_own, &own), set];
    assert_eq!(judged(&entries, 1)[0], unsigned);
    let [recipe_entry, with_own, set] = entries;
    let rule = json!(["release_rule", true, "operator", ["leader.example"], ["helper.example"]]);
    let accepted = [recipe_entry.clone(), set.clone(), with_own];
    assert_eq!(judged(&accepted, 1)[1..], [news(), rule]);
    let forged = signed(&bad, &own);
    assert_eq!(judged(&[recipe_entry.clone(), set, forged], 1)[1..], [unsigned]);
    // A log must not take a receipt of somebody whom the recipe does not name.
    let against_log = json!(["receipt", true, "log", null, null]);
    let swapped = Receipt { role: Role::Helper, ..bad.clone() };
    assert_eq!(judged(&[recipe_entry, entry(&swapped)], 1), std::slice::from_ref(&against_log));
    assert_eq!(judged(&[entry(&bad)], 1), [against_log]);
    let stranger = Receipt { operator: signer(&key("stranger.example")), ..bad };
    assert_eq!(judged(&[entry(&stranger)], 0), [news()]);
}
