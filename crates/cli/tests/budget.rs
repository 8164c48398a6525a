//! `sotto account recipes`: several recipes in the budget of one device.

use std::fs;
use std::path::Path;

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use serde_json::Value;
use sotto_crypto::note::NoteKey;

use crate::recipe::{folder, sotto};
use crate::{flat, json};

/// A trust file with this budget.
pub(crate) fn trust(folder: &Path, epsilon: f64, lifetime_epsilon: f64) {
    let key =
        |name: &str| NoteKey::generate(name.parse().unwrap(), &mut ChaCha20Rng::seed_from_u64(1));
    let text = format!(
        "policy = \"log {}\\nwitness w {}\\nquorum w\\n\"\ninsecure_direct = true\n\
         insecure_no_tokens = true\n\
         [[operators]]\nkey = \"{}\"\n[[operators]]\nkey = \"{}\"\n\
         [budget]\nepsilon = {epsilon}\ndelta = 1e-6\nperiod_s = 2419200\n\
         lifetime_epsilon = {lifetime_epsilon}\nlifetime_delta = 1e-5\n",
        key("log.example").verifier(),
        key("witness.example").cosigner(),
        key("leader.example").verifier(),
        key("helper.example").verifier(),
    );
    fs::write(folder.join("trust.toml"), text).unwrap();
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key}: {value}"))
}

#[test]
fn recipes_add_up_in_one_budget() {
    let folder = folder();
    let folder = folder.path();
    let run = |recipes: &[&str]| {
        let arguments = [&["account", "recipes"], recipes, &["--trust", "trust.toml"]].concat();
        let printed = sotto(folder, &[&arguments[..], &["--json"]].concat());
        let people = sotto(folder, &arguments);
        assert_eq!(printed.status.code(), people.status.code(), "{people:?}");
        (json(&printed), String::from_utf8(people.stdout).unwrap())
    };
    trust(folder, 2.0, 10.0);
    let (one, text) = run(&["commute.toml"]);
    let first = &one["recipes"][0];
    assert!(one["ok"] == true && first["name"] == "commute", "{one}");
    // What one recipe costs is what the ledger then says.
    let cost = number(first, "epsilon_alone");
    assert!(cost >= number(first, "computed_epsilon"), "{one}");
    assert_eq!(cost, number(first, "epsilon_spent"));
    assert_eq!(2.0 - cost, number(first, "epsilon_left"));
    let again = number(first, "more_in_period");
    assert!(again >= 1.0 && again <= number(first, "more_in_life"), "{one}");
    assert!(text.contains("A device can answer all of them"), "{text}");

    // As often as was said, and not once more.
    trust(folder, 0.03, 10.0);
    let (few, _) = run(&["commute.toml"]);
    let times = number(&few["recipes"][0], "more_in_period") as usize + 1;
    assert!((2..10).contains(&times), "{few}");
    let (all, _) = run(&vec!["commute.toml"; times]);
    assert_eq!(all["ok"], true, "{all}");
    let last = all["recipes"].as_array().unwrap().last().unwrap();
    assert!(
        number(last, "epsilon_spent") <= 0.03 && number(last, "more_in_period") == 0.0,
        "{last}"
    );
    // Divergences add up to less than epsilons do.
    assert!(number(last, "epsilon_spent") <= cost * times as f64 * (1.0 + 1e-9), "{last}");
    let (more, text) = run(&vec!["commute.toml"; times + 1]);
    assert_eq!(more["ok"], false, "{more}");
    let refused = more["recipes"].as_array().unwrap().last().unwrap();
    assert_eq!(refused["epsilon_spent"], last["epsilon_spent"]);
    assert!(
        text.contains("NOT ANSWERED") && flat(&text).contains("above the budget of 0.03"),
        "{text}"
    );

    // The cap on a life counts too.
    trust(folder, 2.0, cost * 0.5);
    let (capped, text) = run(&["commute.toml"]);
    assert_eq!(capped["ok"], false, "{capped}");
    assert!(flat(&text).contains("in a device's whole life"), "{text}");
}

#[test]
fn a_series_is_paid_once_and_what_is_refused_costs_nothing() {
    let folder = folder();
    let folder = folder.path();
    trust(folder, 2.0, 10.0);
    let new = [
        "recipe",
        "new",
        "weekly",
        "--purpose",
        "P",
        "--kind",
        "count",
        "--mapping",
        "true",
        "--population",
        "1e6",
        "--epsilon",
        "0.5",
        "--rounds",
        "9",
    ];
    assert_eq!(sotto(folder, &new).status.code(), Some(0));
    let broken = fs::read_to_string(folder.join("commute.toml")).unwrap();
    fs::write(folder.join("broken.toml"), broken.replace("minutes < 15", "hours < 15")).unwrap();
    let recipes = ["weekly.toml", "weekly.toml", "broken.toml", "commute.toml"];
    let arguments = [&["account", "recipes"], &recipes[..], &["--trust", "trust.toml"]].concat();
    let found = sotto(folder, &[&arguments[..], &["--json"]].concat());
    assert_eq!(found.status.code(), Some(1), "{found:?}");
    let found = json(&found);
    let recipes = found["recipes"].as_array().unwrap();
    assert_eq!(recipes[1]["reason"], "paid with its series");
    assert_eq!(recipes[1]["epsilon_spent"], recipes[0]["epsilon_spent"]);
    assert!(recipes[2]["ok"] == false && recipes[2]["reason"].is_string(), "{found}");
    assert_eq!(recipes[2]["epsilon_spent"], recipes[0]["epsilon_spent"]);
    assert!(number(&recipes[3], "epsilon_spent") > number(&recipes[2], "epsilon_spent"));
}
