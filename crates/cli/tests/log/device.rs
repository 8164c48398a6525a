//! `sotto device`.

use std::fs::File;

use serde_json::json;
use sotto_protocol::recipe::{Assessment, show_micro};
use sotto_wire::Recipe;

use crate::log::entries::{key_sets, key_sets_for, recipe, recipe_entry, sampled};
use crate::log::folder::{Folder, LOG, Run};
use crate::log::web::{Requests, serve};

/// A log with key sets and this recipe, and a device's attributes.
fn world(recipe: &Recipe) -> Folder {
    let [leader, helper] = key_sets_for(recipe);
    let world = Folder::with(&[leader, helper, recipe_entry(recipe)]);
    world.write("me.toml", "region = 2\n");
    world
}

/// A recipe that a device answers once in 10,000 times. Nothing here depends on that: its leader
/// cannot be reached.
fn unanswered() -> Recipe {
    let mut recipe = recipe("regions");
    recipe.parties.leader.url = "http://127.0.0.1:1/".to_owned();
    sampled(recipe, 1, 10_000)
}

/// A recipe that every device answers, and the requests that its leader received. The leader always
/// fails.
fn answered() -> (Recipe, Requests) {
    let (url, requests) = serve(|_| (400, Vec::new()));
    let mut recipe = recipe("regions");
    recipe.parties.leader.url = format!("{url}/");
    (sampled(recipe, 1, 1), requests)
}

fn run(world: &Folder, more: &[&str]) -> Run {
    let files = ["--state", "device.json", "--attributes", "me.toml", "--trust", "trust.toml"];
    world.run(&[&["device", "run", "--once", "--log", LOG], &files[..], more].concat())
}

/// What the recipe costs, as computed by the device.
fn epsilon(recipe: &Recipe) -> u64 {
    Assessment::new(recipe.clone()).unwrap().cost().unwrap().epsilon_micro
}

#[test]
fn a_recipe_is_considered_once_and_the_coin_is_told_nobody() {
    let (yes, asked) = answered();
    let no = unanswered();
    for recipe in [&yes, &no] {
        let world = world(recipe);
        let id = recipe.id();
        assert_eq!(run(&world, &[]).says(0), "considered  regions\n");
        let said = run(&world, &[]).says(0);
        assert_eq!(said, "silent      regions: once: it has been considered before\n");
        let silent = json!({
            "recipe_id": id, "name": "regions", "check": "once", "reason": "it has been considered before",
        });
        let found = run(&world, &["--json"]).json(0);
        assert_eq!((&found["considered"], &found["silent"]), (&json!([]), &json!([silent])));
        // The output for people does not reveal it either.
        let cost = show_micro(epsilon(recipe));
        let shown = world.run(&["device", "log", "--state", "device.json"]).says(0);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[0].contains("  regions  "), "{shown}");
        assert!(lines[0].ends_with(&format!(" epsilon {cost}")), "{cost}: {shown}");
        assert_eq!(lines[1], "    How many devices are in each region.");
        assert!(lines[3].starts_with("Spent in this period: epsilon "), "{shown}");
        assert!(lines[3].ends_with(" of 2"), "{shown}");
        assert!(lines[4].starts_with("Spent in this device's life: epsilon "), "{shown}");
        assert!(lines[4].ends_with(" of 10"), "{shown}");
        let text = lines[6..].join(" ");
        assert!(text.contains(" in 100 sure of one of them."), "{shown}");
        assert!(text.contains("When it reaches 10, the device answers nothing more."), "{shown}");
        let shown = world.run(&["device", "log", "--state", "device.json", "--json"]).json(0);
        let spent = shown["epsilon_spent"].as_f64().unwrap();
        let expected = epsilon(recipe) as f64 / 1e6;
        assert!(expected > 0.0);
        assert!((spent - expected).abs() < 2e-6, "{spent} {expected}");
        assert_eq!(shown["epsilon_budget"], 2.0);
        let spent = shown["lifetime_epsilon_spent"].as_f64().unwrap();
        assert!((spent - expected).abs() < 2e-6, "{spent} {expected}");
        assert_eq!(shown["lifetime_epsilon_cap"], 10.0);
        assert_eq!(shown["lifetime_delta"], 1e-5);
        assert_eq!(shown["considered"].as_array().unwrap().len(), 1);
        let mut fields: Vec<&String> = shown["considered"][0].as_object().unwrap().keys().collect();
        fields.sort();
        assert_eq!(fields, ["at", "at_s", "epsilon", "name", "purpose", "recipe_id"]);
        assert_eq!(shown["considered"][0]["epsilon"], expected);
    }
    // One of them answered. Each pass sends the same bytes, because the leader never accepted them.
    let asked = asked.lock().unwrap();
    assert!(asked.len() >= 3, "{}", asked.len());
    assert!(asked.iter().all(|request| *request == asked[0]));
    assert!(asked[0].0.starts_with("POST /tasks/") && !asked[0].1.is_empty());
}

#[test]
fn a_spent_life_is_a_reason_of_its_own() {
    let world = world(&unanswered());
    world.trust(|trust| trust.budget.lifetime_epsilon = 1e-6);
    let said = run(&world, &[]).says(0);
    let reason =
        "silent      regions: lifetime: in this device's whole life it would take epsilon from 0";
    assert!(said.starts_with(reason) && said.contains("above the budget of 0.000001"), "{said}");
    let shown = world.run(&["device", "log", "--state", "device.json", "--json"]).json(0);
    assert_eq!(shown["lifetime_epsilon_spent"], serde_json::Value::Null, "nothing is charged");
}

#[test]
fn conditions_are_asked_and_do_not_speak() {
    let world = world(&unanswered());
    let said = run(&world, &["--condition", "false"]).says(0);
    assert_eq!(said, "silent      regions: conditions: the host's conditions are not met\n");
    let found = run(&world, &["--condition", "echo yes", "--json"]).json(0);
    let considered = json!([{ "recipe_id": unanswered().id(), "name": "regions" }]);
    assert_eq!((&found["considered"], &found["silent"]), (&considered, &json!([])));
}

#[test]
fn a_device_without_history_waits() {
    let world = world(&unanswered());
    world.trust(|trust| trust.insecure_fresh_start = false);
    assert!(run(&world, &[]).says(0).starts_with("silent      regions: fresh_state: "));
    let shown = world.run(&["device", "log", "--state", "device.json"]).says(0);
    assert_eq!(shown, "No recipe has been considered yet.\n");
}

#[test]
fn what_is_not_allowed_is_refused_with_a_hint() {
    let world = world(&unanswered());
    world.trust(|trust| trust.insecure_direct = false);
    let files = ["--state", "device.json", "--attributes", "me.toml", "--trust", "trust.toml"];
    let web = ["device", "run", "--once", "--log", "http://127.0.0.1:1/"];
    let said = world.run(&[&web, &files[..]].concat()).fails();
    assert!(said.contains("names no log_gateway"), "{said}");
    assert!(said.contains("insecure_direct = true works without them"), "{said}");
    world.trust(|_| {});
    let said = world.run(&[&["device", "run", "--once"], &files[..]].concat()).fails();
    assert!(said.contains("no log is given") && said.contains("hint: give --log"), "{said}");
    let said = world.run(&[&["device", "run", "--json", "--log", LOG], &files[..]].concat());
    assert!(said.json(2)["error"].as_str().unwrap().contains("--once"));
    assert!(!world.path("device.json").exists());
    // The log can be read from a folder, but the leader has no gateway.
    world.trust(|trust| trust.insecure_direct = false);
    let said = run(&world, &[]).says(0);
    assert!(
        said.starts_with("silent      regions: key_sets: leader.example: no gateway"),
        "{said}"
    );
}

#[test]
fn a_state_that_is_in_use_or_damaged_is_left_alone() {
    let world = world(&unanswered());
    let lock = File::create(world.path("device.json.lock")).unwrap();
    lock.lock().unwrap();
    let said = run(&world, &[]).fails();
    assert!(said.contains("device.json") && said.contains("another process"), "{said}");
    drop(lock);
    run(&world, &[]).says(0);
    let good = world.read("device.json");
    // The file is sealed: it does not show which recipes were considered.
    assert!(!String::from_utf8_lossy(&good).contains("regions"));
    let mut changed = good.clone();
    *changed.last_mut().unwrap() ^= 1;
    for (bad, why) in [
        (&b""[..], "state is damaged"),
        (b"nonsense", "state is damaged"),
        (&good[..good.len() / 2], "state does not open"),
        (&changed, "state does not open"),
    ] {
        world.write("device.json", bad);
        let said = run(&world, &[]).fails();
        assert!(said.contains("device.json") && said.contains(why), "{said}");
        let said = world.run(&["device", "log", "--state", "device.json"]).fails();
        assert!(said.contains("device.json: the device's") && said.contains(why), "{said}");
        assert_eq!(world.read("device.json"), bad);
    }
    // A state without its key is not silently replaced by a new one.
    world.write("device.json", &good);
    let key = world.read("device.json.key");
    std::fs::remove_file(world.path("device.json.key")).unwrap();
    assert!(run(&world, &[]).fails().contains("device.json.key"));
    world.write("device.json.key", "nonsense");
    assert!(run(&world, &[]).fails().contains("device.json.key holds no key"));
    world.write("device.json.key", key);
    run(&world, &[]).says(0);
    let said = world.run(&["device", "log", "--state", "other.json"]).fails();
    assert!(said.contains("other.json"), "{said}");
}

#[test]
fn mistakes_in_the_attributes_are_located_and_not_quoted() {
    let world = world(&unanswered());
    world.write("me.toml", "region = 2\nsecret = = 5\n");
    let said = run(&world, &[]).fails();
    assert!(said.contains("me.toml cannot be used: line 2 is not `name = value`"), "{said}");
    assert!(!said.contains("secret"), "{said}");
    std::fs::remove_file(world.path("me.toml")).unwrap();
    assert!(run(&world, &[]).fails().contains("cannot read me.toml"));
    assert!(!world.path("device.json").exists());
    // A value that no expression can read counts as missing: the device continues like any other.
    world.write("me.toml", "height = 1.83\n");
    run(&world, &[]).says(0);
}

#[test]
fn a_log_that_goes_back_is_not_followed() {
    let world = world(&unanswered());
    run(&world, &[]).says(0);
    let state = world.read("device.json");
    let [leader, helper] = key_sets();
    crate::log::folder::forge(&world.path("back"), &[leader, helper]);
    let files = ["--state", "device.json", "--attributes", "me.toml", "--trust", "trust.toml"];
    let said = world.run(&[&["device", "run", "--once", "--log", "back"], &files[..]].concat());
    assert!(said.fails().contains("consistency: the log has 2 entries, but had 3"));
    assert_eq!(world.read("device.json"), state);
}

/// A mistyped attribute is told to the owner, whatever the coin says, and to nobody else.
#[test]
fn the_owner_learns_that_the_fallback_is_used() {
    let (yes, asked) = answered();
    let note = "attribute `region` is not declared on this device";
    for recipe in [&yes, &unanswered()] {
        let world = world(recipe);
        world.write("me.toml", "regon = 2\n");
        let said = run(&world, &[]).says(0);
        assert_eq!(said, format!("considered  regions\n            fallback used: {note}\n"));
        let shown = world.run(&["device", "log", "--state", "device.json"]).says(0);
        assert_eq!(shown.lines().nth(2), Some(&*format!("    fallback used: {note}")), "{shown}");
        let shown = world.run(&["device", "log", "--state", "device.json", "--json"]).json(0);
        assert_eq!(shown["considered"][0]["fallback"], note);
    }
    assert_eq!(asked.lock().unwrap().len(), 1, "one of them answered");
}
