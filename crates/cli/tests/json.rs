//! `--json`: every command prints an object that fits the schema, and the schema is strict.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::recipe::{folder, sotto};
use crate::result::WEEKS;
use crate::{json, read};

/// Commands that other tests run, which check what is printed in the same way: they need a log or
/// servers, or take long.
const ELSEWHERE: [(&str, &str); 24] = [
    ("account compose", "account.rs"),
    ("account discrete-gaussian", "account.rs"),
    ("account donation", "account.rs"),
    ("account recipes", "budget.rs"),
    ("account sampled-gaussian", "account.rs"),
    ("collect", "serve.rs"),
    ("db migrate", "tests/tests/init.rs"),
    ("demo", "demo.rs"),
    ("device log", "log/device.rs"),
    ("device run", "log/device.rs"),
    ("figures", "figures.rs"),
    ("keys publish", "recipe.rs"),
    ("log fsck", "log/fsck.rs"),
    ("log list", "log/list.rs"),
    ("log memory", "log/verify.rs"),
    ("log monitor", "log/monitor.rs"),
    ("log verify", "log/verify.rs"),
    ("recipe publish", "recipe.rs"),
    ("recipe repeat", "tests/tests/repeat.rs"),
    ("recipe tokens", "tests/src/world.rs"),
    ("serve", "serve.rs"),
    ("discover", "discover.rs"),
    ("train", "train.rs"),
    ("upload", "serve.rs"),
];

/// Lines of commands, run one after the other in a folder with a recipe.
const LINES: &str = "\
--version
account gaussian --epsilon 1 --delta 1e-8
account shuffle --epsilon0 4 --n 20 --delta 1e-10
account sample --epsilon 1 --delta 1e-8 --rate 0.02
keys new --out k.toml
keys show k.toml
keys signer --name leader.example --out leader.key
keys show leader.key
keys secret
keys store --out store.key
init two-operators d --local
task new --out t --vdaf count --leader https://l.example/ --helper https://h.example/ --task-start 2026-11-19 --task-end 2026-11-26
task show t/leader.toml
task show t/collector.toml
recipe new r --purpose P --kind count --mapping true --population 1e4 --insecure-exact
recipe check commute.toml
plan --buckets 5 --population 1e6 --epsilon 0.5
recipe check r.toml
recipe new s --purpose P --kind count --mapping true --population 1e4 --insecure-exact --rounds 9 --round-length 1w
recipe check s.toml
recipe coalitions commute.toml
recipe coalitions r.toml
recipe show commute.toml
recipe diff r.toml commute.toml
recipe explain commute.toml
fleet --story names --population 4000 --rate 1/2 --buckets 5 --mechanism servers --repeats 2 --seed 1
vectors check k.toml
result show week1.json
result compare week1.json week1.json
result compare week1.json week1.json week2.json --significance 1e-9";

fn commands() -> BTreeSet<String> {
    let schema: Value = serde_json::from_slice(&sotto(Path::new("."), &["schema"]).stdout).unwrap();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    let outputs = schema["$defs"].as_object().unwrap().values().flat_map(|definition| {
        let modes = definition["anyOf"].as_array().cloned().unwrap_or_default();
        [vec![definition.clone()], modes].concat()
    });
    let names = outputs.map(|output| output["properties"]["command"]["const"].clone());
    names.filter_map(|name| Some(name.as_str()?.to_owned())).collect()
}

#[test]
fn every_command_prints_what_the_schema_describes() {
    let folder = folder();
    WEEKS.iter().for_each(|(name, text)| std::fs::write(folder.path().join(name), text).unwrap());
    let mut seen: BTreeSet<String> = ELSEWHERE.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut run = |arguments: &[&str]| {
        let printed = json(&sotto(folder.path(), &[arguments, &["--json"]].concat()));
        assert_eq!(printed.get("error"), None, "{printed}");
        seen.insert(printed["command"].as_str().unwrap().to_owned());
        printed
    };
    for line in LINES.lines() {
        run(&line.split(' ').collect::<Vec<_>>());
    }
    let id = "7".repeat(64);
    let key = run(&["keys", "signer", "--name", "helper.example", "--out", "helper.key"]);
    let leader = run(&["keys", "show", "leader.key"]);
    let [leader, helper] = [&leader, &key].map(|key| key["verifier"].as_str().unwrap());
    let certify =
        ["recipe", "certify", "--recipe", &id, "--predicate", "a", "--attribute", "a:bool"];
    let by =
        ["--population", "9", "--leader", leader, "--helper", helper, "--signer", "helper.key"];
    run(&[&certify[..], &by, &["--out", "a.result"]].concat());
    seen.insert(interop()["command"].as_str().unwrap().to_owned());
    assert_eq!(seen, commands());
}

/// What `sotto interop` prints once it listens.
fn interop() -> Value {
    let mut process = Command::new(env!("CARGO_BIN_EXE_sotto"))
        .args(["interop", "client", "--host", "127.0.0.1", "--port", "0", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut printed = String::new();
    for line in lines {
        printed += &line;
        if line == "}" {
            break;
        }
    }
    process.kill().unwrap();
    process.wait().unwrap();
    read(printed.as_bytes())
}

#[test]
fn versions_and_errors_are_versioned_too() {
    let version = json(&sotto(Path::new("."), &["--version", "--json"]));
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(version["schema"], "sotto/1");
    let failed = sotto(Path::new("."), &["task", "show", "nothing.toml", "--json"]);
    assert_eq!(failed.status.code(), Some(2));
    let failed = json(&failed);
    assert_eq!((&failed["schema"], &failed["command"]), (&"sotto/1".into(), &"task show".into()));
    // Nobody knows which command was meant.
    let failed = json(&sotto(Path::new("."), &["task", "shwo", "--json"]));
    assert_eq!((&failed["schema"], failed.get("command")), (&"sotto/1".into(), None));
}

/// No promise is no small epsilon, wherever it is printed.
#[test]
fn what_promises_nothing_has_no_finite_epsilon() {
    let folder = folder();
    let mut new = vec!["recipe", "new", "r", "--purpose", "P", "--kind", "count", "--json"];
    new.extend(["--mapping", "true", "--population", "1e4", "--insecure-exact"]);
    assert_eq!(json(&sotto(folder.path(), &new))["epsilon"], "inf");
    let checked = json(&sotto(folder.path(), &["recipe", "check", "r.toml", "--json"]));
    assert_eq!(checked["privacy"], serde_json::json!({ "epsilon": "inf" }));
    let rows = json(&sotto(folder.path(), &["recipe", "coalitions", "r.toml", "--json"]));
    let rows = rows["coalitions"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["epsilon_with_result"] == "inf"), "{rows:?}");
}

#[test]
fn the_schema_is_strict() {
    let good = r#"{"schema":"sotto/1","command":"keys secret","secret":"s"}"#;
    let fault = |from: &str, to: &str| {
        let printed = good.replace(from, to);
        assert_ne!(printed, good);
        sotto_testing::output::read(printed.as_bytes()).unwrap_err()
    };
    read(good.as_bytes());
    assert!(fault("}", r#","more":1}"#).contains("more"));
    assert!(fault(r#""s"}"#, "7}").contains("/secret"));
    assert!(fault("sotto/1", "sotto/2").contains("/schema"));
    assert!(fault("keys secret", "keys").contains("output-keys"));
    assert!(fault(r#""command":"keys secret","#, "").contains("no command"));
    let time = r#"{"schema":"sotto/1","command":"recipe tokens","file":"f","issuers":[],
        "expires":"19 November","expires_s":1,"endorsements_checked":true}"#;
    let fault = sotto_testing::output::read(time.as_bytes()).unwrap_err();
    assert!(fault.contains("date-time"), "{fault}");
}
