//! `sotto log list`.

use serde_json::Value;

use crate::log::entries::{DAY, key, key_sets, now, recipe, recipe_entry, result};
use crate::log::folder::{Folder, LOG};

/// A log of two key sets, a result and two recipes. The last one is new, the others two days old.
fn world() -> Folder {
    let [leader, helper] = key_sets();
    let recipes = ["commute", "sleep"].map(|name| recipe_entry(&recipe(name)));
    let [commute, sleep] = recipes;
    Folder::with(&[leader, helper, result(&key("leader.example")), commute, sleep])
}

/// The indexes of the entries that are found.
fn found(world: &Folder, search: &[&str]) -> Vec<u64> {
    let list = ["log", "list", "--trust", "trust.toml", "--log", LOG, "--json"];
    let list = world.run(&[&list[..], search].concat()).json(0);
    assert_eq!((&list["log"], &list["size"]), (&"log.example".into(), &5.into()));
    let entries = list["entries"].as_array().unwrap().iter();
    entries.map(|entry| entry["index"].as_u64().unwrap()).collect()
}

#[test]
fn entries_are_found_by_author_name_kind_and_time() {
    let world = world();
    assert_eq!(found(&world, &[]), [0, 1, 2, 3, 4]);
    assert_eq!(found(&world, &["--kind", "recipe"]), [3, 4]);
    assert_eq!(found(&world, &["--kind", "key_set"]), [0, 1]);
    assert_eq!(found(&world, &["--author", "author.example"]), [3, 4]);
    // A result has two authors. Letters match in either case.
    assert_eq!(found(&world, &["--author", "HELPER"]), [1, 2]);
    assert_eq!(found(&world, &["--name", "slee"]), [4]);
    assert_eq!(found(&world, &["--name", "gold"]), [2]);
    assert_eq!(found(&world, &["--name", "slee", "--author", "leader"]), [0; 0]);
    let yesterday = (now() - DAY).to_string();
    assert_eq!(found(&world, &["--since", &yesterday]), [4]);
    assert_eq!(found(&world, &["--until", &yesterday]), [0, 1, 2, 3]);
    assert_eq!(found(&world, &["--until", &yesterday, "--kind", "recipe"]), [3]);
    let long_ago = (now() - 3 * DAY).to_string();
    assert_eq!(found(&world, &["--since", &long_ago, "--until", &yesterday]), [0, 1, 2, 3]);
}

#[test]
fn lines_say_when_what_and_by_whom() {
    let world = world();
    let list = |more: &[&str]| world.run(&[&["log", "list", "--log", LOG], more].concat());
    let said = list(&["--policy", "policy", "--kind", "recipe"]).says(0);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("    3  20"), "{said}");
    assert!(lines[0].ends_with("Z  recipe   commute  by author.example"), "{said}");
    let entry = &list(&["--policy", "policy", "--name", "commute", "--json"]).json(0)["entries"][0];
    assert_eq!(entry["kind"], "recipe");
    assert_eq!(entry["author"], "author.example");
    assert_eq!(entry["entry_id"].as_str().unwrap().len(), 64);
    let time = entry["public_since_s"].as_u64().unwrap();
    assert!(time <= now() - 2 * DAY && time > now() - 3 * DAY, "{entry}");

    // Without the keys of the witnesses nothing is proved, and no time is known.
    let said = list(&["--kind", "recipe"]).says(0);
    assert!(said.starts_with("    3  -                     recipe   commute"), "{said}");
    assert_eq!(list(&["--json"]).json(0)["entries"][0]["public_since"], Value::Null);
    assert!(list(&["--since", "2026-01-01"]).fails().contains("hint: give --trust or --policy"));
    let nowhere = world.run(&["log", "list", "--policy", "policy"]);
    assert!(nowhere.fails().contains("--log is missing"));
}
