//! `sotto plan`, as a person or a script uses it.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::json;
use crate::recipe::sotto;

fn plan(folder: &Path, line: &str) -> Value {
    let arguments: Vec<&str> =
        ["plan"].into_iter().chain(line.split(' ')).chain(["--json"]).collect();
    let output = sotto(folder, &arguments);
    assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
    json(&output)
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key}: {value}"))
}

fn error(value: &Value) -> f64 {
    number(&value["expected_errors"][0], "stderr")
}

/// Every kind is planned within its budget, and its recipe is accepted but for the parties.
#[test]
fn every_kind_gives_a_recipe_that_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    for (index, kind) in [
        "--buckets 200",
        "--kind count",
        "--kind sum --max 100",
        "--kind mean --max 240",
        "--kind quantiles --buckets 16",
        "--kind multi_histogram --buckets 20 --most 3",
        "--kind sparse_histogram --buckets 50",
        "--kind vector_sum --dimension 100",
        "--kind vector_mean --dimension 16 --clip 2.5",
    ]
    .iter()
    .enumerate()
    {
        let out = format!("{index}.toml");
        let found =
            plan(folder.path(), &format!("{kind} --population 1e6 --epsilon 0.8 --out {out}"));
        assert!(number(&found, "epsilon") <= 0.8, "{kind}: {found}");
        assert!(number(&found, "min_batch") >= 1_000.0, "{kind}");
        let checked = json(&sotto(folder.path(), &["recipe", "check", &out, "--json"]));
        let failed = checked["checks"].as_array().unwrap().iter();
        let failed: Vec<_> = failed.filter(|line| line["verdict"] == "bad").collect();
        assert!(failed.iter().all(|line| line["check"] == "operators"), "{kind}: {failed:?}");
        assert_eq!(checked["privacy"]["epsilon"], found["epsilon"], "{kind}");
        let expected = number(&checked["expected_errors"][0], "stderr");
        assert!((expected / error(&found) - 1.0).abs() < 1e-9, "{kind}: {expected}");
    }
}

/// More budget is never a larger error, and both directions agree.
#[test]
fn more_budget_never_gives_more_error() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["--buckets 100 --population 1e6", "--kind count --population 2e5"] {
        let mut last = f64::INFINITY;
        for epsilon in ["0.05", "0.2", "0.8"] {
            let found = plan(folder.path(), &format!("{kind} --epsilon {epsilon}"));
            assert!(error(&found) <= last * 1.000_001, "{kind} {epsilon}: {found}");
            last = error(&found);
            let rate = number(&found, "rate");
            let mechanism = found["mechanism"].as_str().unwrap();
            let back = plan(
                folder.path(),
                &format!("{kind} --error {last} --rate {rate} --mechanism {mechanism}"),
            );
            let (spent, needed) = (number(&found, "epsilon"), number(&back, "epsilon"));
            assert!(needed <= spent * 1.000_001 && needed > 0.9 * spent, "{spent} {needed}");
        }
    }
}

/// The case of the default: 200 countries, a million users.
#[test]
fn two_hundred_countries() {
    let folder = tempfile::tempdir().unwrap();
    let found = plan(folder.path(), "--buckets 199 --population 1e6 --epsilon 1");
    assert_eq!(found["mechanism"], "randomized_response");
    let rarest = &found["expected_errors"][2];
    assert!(number(rarest, "noise_stderr") < 150.0, "{found}");
    // The sample alone: 200 buckets of 5,000, of which 1 in 50 is seen.
    assert!((number(&found, "sampling_error") / 495.0 - 1.0).abs() < 0.001, "{found}");
    assert!(number(&found, "central_error") < number(rarest, "noise_stderr"), "{found}");
    assert!(found["more_answers"].as_array().unwrap().len() > 2, "{found}");
}

#[test]
fn the_frontier_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let found = plan(folder.path(), "--buckets 30 --population 1e6 --frontier --svg frontier.svg");
    let points = found["frontier"].as_array().unwrap();
    for mechanism in
        ["randomized_response", "rappor", "projective_geometry", "gaussian", "server_gaussian"]
    {
        let of: Vec<&Value> =
            points.iter().filter(|point| point["mechanism"] == mechanism).collect();
        assert!(of.len() >= 5, "{mechanism}: {}", of.len());
        assert!(of.windows(2).all(|two| {
            number(two[1], "stderr") <= number(two[0], "stderr") * 1.000_001
                && number(two[1], "epsilon") >= number(two[0], "epsilon")
        }));
    }
    let image = fs::read_to_string(folder.path().join("frontier.svg")).unwrap();
    assert!(image.starts_with("<svg") && image.contains("one trusted server"));
}

/// What other recipes leave is not exceeded.
#[test]
fn several_questions_share_a_budget() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), "--buckets 5 --population 1e6 --epsilon 0.4 --out first.toml");
    let second = plan(
        folder.path(),
        "--kind count --population 1e6 --epsilon 1 --with first.toml --budget 0.6",
    );
    let left = number(&second, "epsilon_left");
    assert!(left > 0.1 && left < 0.6, "{left}");
    assert!(number(&second, "epsilon") <= left, "{second}");
    let arguments = ["plan", "--kind", "count", "--population", "1e6", "--with", "first.toml"];
    let output = sotto(folder.path(), &[&arguments[..], &["--budget", "0.05"]].concat());
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("more than --budget"), "{text}");
}

#[test]
fn mistakes_have_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    for (line, part) in [
        ("--buckets 10 --population 900", "no protection reaches"),
        ("--buckets 10 --population 1e6 --error 0.001", "accept a larger error"),
        ("--buckets 10 --population 1e6 --epsilon zero", "--epsilon"),
        ("--kind quantiles --population 1e6", "how many ranges"),
        ("--kind vector_sum --dimension 8 --population 1e6 --error 5%", "give a number"),
        ("--population 1e6", "--labels (or --buckets)"),
    ] {
        let arguments: Vec<&str> = ["plan"].into_iter().chain(line.split(' ')).collect();
        let output = sotto(folder.path(), &arguments);
        assert_eq!(output.status.code(), Some(2), "{line}: {output:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(part), "{line}: {text}");
    }
}
