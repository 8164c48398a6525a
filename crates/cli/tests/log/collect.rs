//! `sotto collect --recipe`: which recipe, and whose.

use sotto_wire::Entry;

use crate::log::entries::{recipe, recipe_entry};
use crate::log::folder::{Folder, LOG, publish};

/// A log with a recipe for the collector key `collector.toml`, and a token.
fn world() -> Folder {
    let world = Folder::new();
    world.run(&["keys", "new", "--id", "9", "--out", "collector.toml"]).says(0);
    let made = world.run(&["keys", "new", "--id", "9", "--out", "other.toml", "--json"]).json(0);
    let mut recipe = recipe("regions");
    // Nobody listens there.
    recipe.parties.leader.url = "http://127.0.0.1:1/".to_owned();
    recipe.parties.collector_hpke_config = made["hpke_config"].as_str().unwrap().to_owned();
    publish(&mut world.log(), &[recipe_entry(&recipe)]);
    world.write("regions.recipe", recipe_entry(&recipe).to_bytes());
    world.write("token", "a token\n");
    world
}

fn collect(world: &Folder, recipe: &str, key: &str, more: &[&str]) -> String {
    let arguments = ["collect", "--anyway", "--deadline", "1"];
    let subject = ["--recipe", recipe, "--collector-key", key, "--token-file", "token"];
    world.run(&[&arguments[..], &subject, more].concat()).fails()
}

#[test]
fn a_recipe_is_collected_with_its_own_key() {
    let world = world();
    let said = collect(&world, "regions.recipe", "collector.toml", &[]);
    assert!(said.contains("the recipe is for another collector key"), "{said}");
    assert!(said.contains("hint: give the key whose public half"), "{said}");
    let said = collect(&world, "regions.recipe", "other.toml", &[]);
    assert!(said.contains("is the leader at http://127.0.0.1:1/ running?"), "{said}");
    std::fs::remove_file(world.path("token")).unwrap();
    let said = collect(&world, "regions.recipe", "other.toml", &[]);
    assert!(said.contains("the collector's token: cannot read token"), "{said}");
}

#[test]
fn a_name_counts_in_a_log_that_is_believed() {
    let world = world();
    let asked = "is the leader at http://127.0.0.1:1/ running?";
    // The recipe decides where the token is sent, so an untrusted log must not choose the recipe.
    let said = collect(&world, "regions", "other.toml", &["--log", LOG]);
    assert!(said.contains("needs a log that can be verified"), "{said}");
    assert!(said.contains("hint: give --trust"), "{said}");
    let said = collect(&world, "regions", "other.toml", &["--log", LOG, "--trust", "trust.toml"]);
    assert!(said.contains(asked), "{said}");
    // An id determines the recipe.
    let entry = Entry::parse(&world.read("regions.recipe")).unwrap();
    let said = collect(&world, &entry.id().to_string(), "other.toml", &["--log", LOG]);
    assert!(said.contains(asked), "{said}");
}
