//! `sotto account`: known values, both ways, and what it says to nonsense.

// Helpers of tests stop at the first surprise.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn run(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sotto"))
        .arg("account")
        .args(line.split_whitespace())
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .output()
        .unwrap()
}

/// What people see.
fn shown(line: &str) -> String {
    let output = run(line);
    assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
    assert!(output.stderr.is_empty(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What programs see, with the fields that every command has.
fn answer(line: &str) -> Value {
    let output = run(&format!("{line} --json"));
    assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in [
        "epsilon",
        "epsilon_lower",
        "delta",
        "sigma",
        "adjacency",
        "accountant",
        "method",
        "honest",
        "count",
        "meaning",
    ] {
        assert!(value.get(key).is_some(), "{line}: no {key}");
    }
    if let Some(lower) = value["epsilon_lower"].as_f64() {
        assert!(lower <= number(&value, "epsilon"), "{line}: {value}");
    }
    value
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key}: {value}"))
}

/// `found` is `truth` or above it by a part of `slack` at most.
#[track_caller]
fn just_above(found: f64, truth: f64, slack: f64) {
    assert!(found >= truth * (1.0 - 1e-12), "{found} is below {truth}");
    assert!(found <= truth * (1.0 + slack), "{found} is far above {truth}");
}

/// The rows of the block that people see, without the sentence.
fn row<'a>(shown: &'a str, name: &str) -> &'a str {
    let rest = shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("  "));
    rest.unwrap_or_else(|| panic!("no row {name}: {shown}")).trim()
}

#[test]
fn help_says_how_to_ask() {
    for command in [
        "",
        "gaussian",
        "sampled-gaussian",
        "discrete-gaussian",
        "shuffle",
        "sample",
        "donation",
        "compose",
    ] {
        let name = format!("help_{command}");
        insta::assert_snapshot!(name.trim_end_matches('_'), shown(&format!("{command} --help")));
    }
}

#[test]
fn gaussian_any_one_of_three() {
    let value = answer("gaussian --sigma 5.1 --delta 1e-8");
    just_above(number(&value, "epsilon"), 1.000_063_849_958_526, 1e-9);
    assert!(number(&value, "epsilon_lower") > 1.000_063_84);
    assert_eq!(value["adjacency"], "add-remove");
    assert_eq!(value["computed"], serde_json::json!(["epsilon"]));
    just_above(
        number(&answer("gaussian --epsilon 1 --delta 1e-8"), "sigma"),
        5.100_308_787_53,
        1e-9,
    );
    let value = answer("gaussian --epsilon 1 --sigma 5.1");
    just_above(number(&value, "delta"), 1.001_746_311_56e-8, 1e-9);
    insta::assert_snapshot!("gaussian", shown("gaussian --sigma 5.1 --delta 1e-8"));
    // Tiny deltas stay numbers.
    assert!(number(&answer("gaussian --sigma 5.1 --delta 1e-300"), "epsilon") > 5.0);
}

#[test]
fn gaussian_under_replacement_and_with_less_than_all_honest() {
    // Two contributions of norm 1 are 2 apart, two one-hot ones sqrt 2.
    let epsilon = |line: &str| number(&answer(line), "epsilon");
    just_above(epsilon("gaussian --sigma 5.1 --delta 1e-8 --adjacency replace"), 2.086, 1e-3);
    let one_hot = "gaussian --sigma 5.1 --delta 1e-8 --adjacency replace --shape one-hot";
    just_above(epsilon(one_hot), 1.442, 1e-3);
    // A quarter of the noise is half of sigma; a sensitivity of 2 is the same.
    let double = epsilon("gaussian --sigma 5.1 --delta 1e-8 --sensitivity 2");
    just_above(epsilon("gaussian --sigma 5.1 --delta 1e-8 --honest 0.25"), double, 1e-9);
    just_above(epsilon("gaussian --sigma 2.55 --delta 1e-8"), double, 1e-9);
    let value = answer("gaussian --epsilon 1 --delta 1e-8 --honest 0.5 --sensitivity 3");
    just_above(number(&value, "sigma"), 5.100_308_787_53 * 3.0 * 2.0_f64.sqrt(), 1e-9);
    assert_eq!(value["honest"], 0.5);
    let text = value["meaning"].as_str().unwrap();
    assert!(text.contains("a fraction of 0.5 of the noise"), "{text}");
}

#[test]
fn sampled_gaussian_is_bracketed() {
    let line = "sampled-gaussian --rate 0.02 --steps 2500 --sigma 5.1 --delta 1e-8";
    let value = answer(line);
    let epsilon = number(&value, "epsilon");
    assert!((1.0195..1.0210).contains(&epsilon), "{value}");
    assert!(number(&value, "epsilon_lower") > 1.0190, "{value}");
    assert_eq!((&value["count"], &value["steps"]), (&"hidden".into(), &2500.into()));
    let renyi = answer(&format!("{line} --accountant rdp"));
    assert_eq!(renyi["accountant"], "rdp");
    just_above(number(&renyi, "epsilon"), 1.0825, 1e-3);
    assert_eq!(answer(&format!("{line} --accountant pld"))["accountant"], "pld");
    let text = shown(line);
    assert!(row(&text, "epsilon").starts_with("1.02"), "{text}");
    assert!(row(&text, "between").ends_with("(certified)"), "{text}");
    assert!(text.contains("a factor of 2.78 (e^epsilon), except with probability 1e-8."), "{text}");
    assert!(text.contains("the paper's model"), "{text}");
    // Everybody, once: no sampling.
    let all = answer("sampled-gaussian --rate 1 --steps 1 --sigma 5.1 --delta 1e-8");
    just_above(number(&all, "epsilon"), 1.000_063_849_958_526, 1e-6);
}

#[test]
fn sampled_gaussian_finds_what_is_left_out() {
    let target = "--epsilon 1 --delta 1e-8";
    let ask = |line: &str| answer(&format!("sampled-gaussian {line}"));
    let epsilon = |rate: f64, steps: u64, sigma: f64| {
        number(
            &ask(&format!("--rate {rate} --steps {steps} --sigma {sigma} --delta 1e-8")),
            "epsilon",
        )
    };
    // Each answer meets the target, and a little less noise (more rate, more steps) does not.
    let sigma = number(&ask(&format!("--rate 0.02 --steps 500 {target}")), "sigma");
    assert!(epsilon(0.02, 500, sigma) <= 1.0 && epsilon(0.02, 500, sigma * 0.999) > 1.0);
    let rate = number(&ask(&format!("--sigma 3 --steps 500 {target}")), "rate");
    assert!(epsilon(rate, 500, 3.0) <= 1.0 && epsilon(rate * 1.001, 500, 3.0) > 1.0);
    let steps = ask(&format!("--sigma 3 --rate 0.02 {target}"))["steps"].as_u64().unwrap();
    assert!(epsilon(0.02, steps, 3.0) <= 1.0 && epsilon(0.02, steps + steps / 500 + 1, 3.0) > 1.0);
    let value = ask("--rate 0.02 --steps 500 --sigma 3 --epsilon 0.9");
    let delta = number(&value, "delta");
    let line = format!("--rate 0.02 --steps 500 --sigma 3 --delta {delta}");
    assert!((number(&ask(&line), "epsilon") - 0.9).abs() < 1e-4, "{value}");
    assert_eq!(value["computed"], serde_json::json!(["delta"]));
}

#[test]
fn the_count_matters() {
    let line =
        "sampled-gaussian --rate 0.01 --steps 1 --sigma 0.7764 --delta 1e-6 --population 1e6";
    let hidden = answer(line);
    just_above(number(&hidden, "epsilon"), 1.0, 1e-3);
    just_above(number(&hidden["count_seen"], "one-hot"), 3.32, 3e-3);
    just_above(number(&hidden["count_seen"], "vector"), 7.675, 1e-3);
    let text = shown(line);
    assert!(text.contains("this is the paper's model. Aggregators do see it"), "{text}");
    for (shape, epsilon) in [("one-hot", 3.32), ("vector", 7.675)] {
        let seen = answer(&format!("{line} --count seen --shape {shape}"));
        just_above(number(&seen, "epsilon"), epsilon, 3e-3);
        assert_eq!((&seen["count"], &seen["shape"]), (&"seen".into(), &shape.into()));
        assert!(seen["meaning"].as_str().unwrap().contains("and how many devices took part"));
    }
    // Fewer honest devices hide less.
    let half = answer(&format!("{line} --count seen --shape one-hot --honest 0.5"));
    assert!(number(&half, "epsilon") > 3.4, "{half}");
}

#[test]
fn discrete_gaussian_any_one_of_three() {
    let value = answer("discrete-gaussian --sigma 5.1 --delta 1e-8");
    let epsilon = number(&value, "epsilon");
    just_above(epsilon, 1.0, 0.01);
    assert_eq!(value["sensitivity"], 1);
    let sigma = number(&answer("discrete-gaussian --epsilon 1 --delta 1e-8"), "sigma");
    let back = answer(&format!("discrete-gaussian --sigma {sigma} --delta 1e-8"));
    just_above(1.0, number(&back, "epsilon"), 5e-4);
    let value = answer(&format!("discrete-gaussian --sigma 5.1 --epsilon {epsilon}"));
    assert!((number(&value, "delta") / 1e-8 - 1.0).abs() < 1e-6, "{value}");
    // Replacement moves an integer twice as far.
    let far =
        number(&answer("discrete-gaussian --sigma 9 --delta 1e-6 --sensitivity 2"), "epsilon");
    let replaced = answer("discrete-gaussian --sigma 9 --delta 1e-6 --adjacency replace");
    assert_eq!(number(&replaced, "epsilon"), far);
}

#[test]
fn shuffle_any_one_of_four() {
    let value = answer("shuffle --epsilon0 4 --n 10000 --delta 1e-10");
    just_above(number(&value, "epsilon"), 0.605_255_975_466_401_2, 1e-6);
    assert_eq!(value["adjacency"], "replace");
    // The paper's own example is outside of the closed form.
    assert_eq!(value["closed_form"], Value::Null);
    let text = shown("shuffle --epsilon0 4 --n 10000 --delta 1e-10");
    assert!(row(&text, "closed form").starts_with("not valid"), "{text}");
    let closed = answer("shuffle --epsilon0 4 --n 20000 --delta 1e-10");
    just_above(number(&closed, "closed_form"), 0.888_448_675_552_366_2, 1e-9);

    let local = number(&answer("shuffle --epsilon 0.5 --n 10000 --delta 1e-10"), "epsilon0");
    let back = answer(&format!("shuffle --epsilon0 {local} --n 10000 --delta 1e-10"));
    let epsilon = number(&back, "epsilon");
    assert!(epsilon <= 0.5 && epsilon > 0.4998, "{back}");
    let n = answer("shuffle --epsilon 0.5 --epsilon0 4 --delta 1e-10")["n"].as_u64().unwrap();
    let at =
        |n: u64| number(&answer(&format!("shuffle --epsilon0 4 --n {n} --delta 1e-10")), "epsilon");
    assert!(at(n) <= 0.5 && at(n - 1) > 0.5, "{n}");
    let value = answer("shuffle --epsilon 0.605256 --epsilon0 4 --n 10000");
    assert!((number(&value, "delta") / 1e-10 - 1.0).abs() < 1e-3, "{value}");
}

#[test]
fn shuffle_knows_the_mechanism_and_the_honest_crowd() {
    let epsilon = |line: &str| number(&answer(line), "epsilon");
    let generic = epsilon("shuffle --epsilon0 4 --n 10000 --delta 1e-10");
    let krr = epsilon("shuffle --epsilon0 4 --n 10000 --delta 1e-10 --mechanism krr --k 16");
    assert!(krr < generic, "{krr} {generic}");
    let half = epsilon("shuffle --epsilon0 4 --n 10001 --delta 1e-10 --honest 0.5");
    assert_eq!(half, epsilon("shuffle --epsilon0 4 --n 5001 --delta 1e-10"));
}

#[test]
fn sample_amplifies_any_guarantee() {
    let value = answer("sample --epsilon 1 --delta 1e-8 --rate 0.02");
    just_above(number(&value, "epsilon"), 0.033_788_327_282_916_57, 1e-9);
    just_above(number(&value, "delta"), 2e-10, 1e-12);
    assert_eq!(value["count"], "hidden");
    insta::assert_snapshot!("sample", shown("sample --epsilon 1 --delta 1e-8 --rate 0.02"));
}

#[test]
fn donation_gives_all_bounds_and_the_best() {
    let value = answer("donation --epsilon 1 --delta 1e-8 --slots 100");
    just_above(number(&value, "formula"), 1.048_600_674_414_358, 1e-9);
    just_above(number(&value, "poisson"), 0.0917, 5e-3);
    just_above(number(&value, "random_allocation"), 0.0860, 0.045);
    just_above(number(&value, "sigma"), 5.100_308_787_53, 1e-9);
    just_above(number(&value, "delta"), 2e-8, 1e-12);
    let least = ["formula", "poisson", "random_allocation"]
        .map(|name| number(&value, name))
        .into_iter()
        .fold(f64::INFINITY, f64::min);
    assert_eq!(number(&value, "best"), least);
    assert_eq!(value["best"], value["epsilon"]);
    let text = shown("donation --epsilon 1 --delta 1e-8 --slots 100");
    assert!(row(&text, "random allocation").ends_with("(certified)"), "{text}");
    assert!(text.contains("63.4 % find a slot"), "{text}");
}

fn write(folder: &Path, text: &str) -> String {
    let path = folder.join("events.json");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

const TRAINING: &str = r#"{"event":"composed","of":[{"event":"repeated","times":2500,"of":
    {"event":"poisson_sampled","rate":0.02,"of":{"event":"gaussian","sigma":5.1}}}]}"#;

#[test]
fn compose_reads_events() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), TRAINING);
    let value = answer(&format!("compose --events {path} --delta 1e-8"));
    let single = answer("sampled-gaussian --rate 0.02 --steps 2500 --sigma 5.1 --delta 1e-8");
    assert_eq!(value["epsilon"], single["epsilon"]);
    assert_eq!((&value["count"], &value["events"]), (&"hidden".into(), &2500.into()));
    let value = answer(&format!("compose --events {path} --epsilon 1.02"));
    just_above(number(&value, "delta"), 1e-8, 0.05);
    // Half of the noise, by flag or by hand.
    let half = answer(&format!("compose --events {path} --delta 1e-8 --honest 0.25"));
    let by_hand = answer("sampled-gaussian --rate 0.02 --steps 2500 --sigma 2.55 --delta 1e-8");
    just_above(number(&half, "epsilon"), number(&by_hand, "epsilon"), 1e-6);
    assert!(shown(&format!("compose --events {path} --delta 1e-8")).contains("2500 releases"));
}

#[test]
fn compose_reads_stdin() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sotto"))
        .args(["account", "compose", "--events", "-", "--delta", "1e-8", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let text = br#"{"event":"repeated","times":4,"of":{"event":"gaussian","sigma":10.2}}"#;
    child.stdin.take().unwrap().write_all(text).unwrap();
    let output = child.wait_with_output().unwrap();
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Four times with twice the noise is once.
    just_above(number(&value, "epsilon"), 1.000_063_849_958_526, 1e-6);
}

/// Exit code 2, the same words for people and for programs, and every part of `parts` in them.
#[track_caller]
fn refused(line: &str, parts: &[&str]) {
    let output = run(line);
    assert_eq!(output.status.code(), Some(2), "{line}: {output:?}");
    assert!(output.stdout.is_empty(), "{line}: {output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    let output = run(&format!("{line} --json"));
    assert_eq!(output.status.code(), Some(2), "{line}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let message = value["error"].as_str().unwrap();
    assert!(text.contains(message), "{text} {message}");
    for part in parts {
        assert!(text.contains(part), "{line}: {part:?} is not in {text:?}");
    }
}

#[test]
fn nonsense_is_named() {
    for (line, parts) in [
        ("gaussian --sigma 5 --delta 0", &["--delta is 0: it must be above 0 and below 1"][..]),
        ("gaussian --sigma 5 --delta 1", &["--delta is 1: it must be above 0 and below 1"]),
        ("gaussian --sigma 5 --delta nan", &["--delta is NaN: it must be"]),
        (
            "gaussian --sigma -5 --delta 1e-8",
            &["--sigma is -5: it must be a finite number above 0"],
        ),
        ("gaussian --sigma inf --delta 1e-8", &["--sigma is inf"]),
        ("gaussian --sigma=-inf --delta 1e-8", &["--sigma is -inf"]),
        ("gaussian --sigma five --delta 1e-8", &["'five'", "--sigma"]),
        ("gaussian --epsilon -1 --delta 1e-8", &["--epsilon is -1: it must be"]),
        ("gaussian --sigma 5 --delta 1e-8 --sensitivity 0", &["--sensitivity is 0: it must be"]),
        ("gaussian --sigma 5 --delta 1e-8 --honest 0", &["--honest is 0: it must be above 0"]),
        ("gaussian --sigma 5 --delta 1e-8 --honest 1.1", &["--honest is 1.1"]),
        (
            "gaussian --sigma 5 --delta 1e-8 --epsilon 1",
            &["--epsilon, --delta and --sigma are all given"],
        ),
        (
            "gaussian --sigma 5",
            &["--epsilon and --delta are missing", "hint: to compute --epsilon"],
        ),
        (
            "gaussian --sigma 5 --delta 1e-8 --shape one-hot",
            &["--shape has no meaning", "--adjacency replace"],
        ),
        ("gaussian --sigma 5 --delta 1e-8 --adjacency other", &["'other'", "--adjacency"]),
        (
            "sampled-gaussian --rate 1.5 --steps 1 --sigma 1 --delta 1e-8",
            &["--rate is 1.5: it must be between"],
        ),
        (
            "sampled-gaussian --rate 0.1 --steps 0 --sigma 1 --delta 1e-8",
            &["--steps is 0: it must be a whole"],
        ),
        (
            "sampled-gaussian --rate 0.1 --steps -3 --sigma 1 --delta 1e-8",
            &["'-3'", "--steps", "whole number"],
        ),
        (
            "sampled-gaussian --rate 0.1 --delta 1e-8",
            &["--epsilon, --sigma and --steps are missing"],
        ),
        (
            "sampled-gaussian --rate 0.1 --steps 1 --sigma 1 --delta 1e-8 --count seen",
            &["--count seen needs --population"],
        ),
        (
            "sampled-gaussian --rate 0.1 --steps 1 --sigma 1 --delta 1e-8 --count seen --population 0",
            &["--population is 0: it must be"],
        ),
        (
            "sampled-gaussian --rate 0.1 --steps 1 --sigma 1 --delta 1e-8 --count seen --population 9 --adjacency replace",
            &["--population has no meaning with --adjacency replace", "leave out one"],
        ),
        (
            "sampled-gaussian --rate 0.1 --steps 1 --sigma 1 --delta 1e-8 --shape vector",
            &["--shape has no meaning"],
        ),
        ("discrete-gaussian --sigma 5 --delta 1e-8 --sensitivity 0", &["--sensitivity is 0"]),
        (
            "discrete-gaussian --sigma 5 --delta 1e-8 --honest 0.5",
            &["--honest", "distributed_discrete_gaussian"],
        ),
        (
            "shuffle --epsilon0 4 --n 0 --delta 1e-10",
            &["--n is 0: it must be a whole number, 1 or more"],
        ),
        ("shuffle --epsilon0 nan --n 10 --delta 1e-10", &["--epsilon0 is NaN"]),
        (
            "shuffle --epsilon0 4 --n 10 --delta 1e-10 --mechanism krr",
            &["--mechanism krr needs --k"],
        ),
        (
            "shuffle --epsilon0 4 --n 10 --delta 1e-10 --mechanism krr --k 1",
            &["--k is 1: it must be a whole number, 2"],
        ),
        (
            "shuffle --epsilon0 4 --n 10 --delta 1e-10 --k 4",
            &["--k has no meaning with --mechanism generic"],
        ),
        (
            "shuffle --epsilon0 4 --n 10 --delta 1e-10 --adjacency add-remove",
            &["--adjacency add-remove", "replacement"],
        ),
        ("sample --epsilon 1 --delta 1e-8 --rate -0.1", &["--rate is -0.1"]),
        (
            "sample --epsilon 1 --delta 1e-8 --rate 0.1 --adjacency replace",
            &["--adjacency replace", "leave it out"],
        ),
        ("donation --epsilon 1 --delta 1e-8 --slots 0", &["--slots is 0"]),
        ("donation --epsilon 0 --delta 1e-8 --slots 3", &["--epsilon is 0"]),
        ("donation --epsilon 1 --delta 0.7 --slots 3", &["--delta is 0.7"]),
        (
            "compose --events /nowhere/events.json --delta 1e-8",
            &["--events: cannot read /nowhere/events.json"],
        ),
    ] {
        refused(line, parts);
    }
}

#[test]
fn mistakes_in_events_are_found() {
    let folder = tempfile::tempdir().unwrap();
    for (text, part) in [
        ("{\"event\":", "not JSON: EOF while parsing a value at line 1 column 9"),
        (r#"{"event":"gauss","sigma":1}"#, "at $: unknown variant `gauss`"),
        (
            r#"{"event":"composed","of":[{"event":"gaussian","sigma":-1}]}"#,
            "at $.of[0].sigma: it is -1",
        ),
        (r#"{"event":"repeated","times":2,"of":{"event":"zcdp"}}"#, "at $.of: missing field `rho`"),
    ] {
        let path = write(folder.path(), text);
        refused(&format!("compose --events {path} --delta 1e-8"), &["--events: ", &path, part]);
    }
    let path = write(folder.path(), r#"{"event":"pure_dp","epsilon":1}"#);
    refused(
        &format!("compose --events {path} --delta 1e-8 --honest 0.5"),
        &["--honest", "pure_dp"],
    );
    refused(&format!("compose --events {path}"), &["--epsilon and --delta are missing"]);
    let path = write(folder.path(), r#"{"event":"randomized_response","epsilon0":1,"k":4}"#);
    refused(
        &format!("compose --events {path} --delta 1e-8"),
        &["no accounting for randomized response", "--adjacency replace"],
    );
    refused(&format!("compose --events {path} --delta 0"), &["--delta is 0"]);
}
