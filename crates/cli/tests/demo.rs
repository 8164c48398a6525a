//! The demo: exact, repeatable, and with exactly the keys that it promises.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use crate::flat;

use crate::{json, read};

fn demo(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_sotto")).arg("demo").args(arguments).output().unwrap()
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_exact_demo_is_exact_and_repeatable() {
    let run = || -> Value {
        let output = demo(&["--exact", "--json", "--seed", "7", "--devices", "300"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        json(&output)
    };
    let (first, second) = (run(), run());
    assert_eq!(first["buckets"], second["buckets"]);
    assert_eq!(
        keys(&first),
        BTreeSet::from([
            "schema",
            "command",
            "devices",
            "participated",
            "min_batch",
            "batches",
            "buckets",
            "reports",
            "elapsed_s"
        ])
    );
    assert_eq!(first["devices"], 300);
    assert_eq!(first["participated"], 300);
    assert_eq!(keys(&first["reports"]), BTreeSet::from(["accepted", "rejected"]));
    assert_eq!(first["reports"]["accepted"], 300);
    assert_eq!(first["reports"]["rejected"], serde_json::json!({}));
    let batches = first["batches"].as_array().unwrap();
    assert_eq!(batches.iter().map(|batch| batch["count"].as_u64().unwrap()).sum::<u64>(), 300);
    let buckets = first["buckets"].as_array().unwrap();
    assert_eq!(buckets.iter().map(|bucket| bucket["true"].as_u64().unwrap()).sum::<u64>(), 300);
    for bucket in buckets {
        assert_eq!(
            keys(bucket),
            BTreeSet::from(["label", "true", "estimate", "stderr", "lo95", "hi95"])
        );
        assert_eq!(bucket["stderr"], 0);
        for key in ["estimate", "lo95", "hi95"] {
            assert_eq!(bucket[key], bucket["true"], "{bucket}");
        }
    }
}

#[test]
fn people_get_a_chart_and_an_honest_word() {
    let output = demo(&["--devices", "40", "--seed", "1"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let shown = String::from_utf8(output.stdout).unwrap();
    for part in ["queen", "█", "What each party saw", "Not private yet", "Try next"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains('\x1b'), "colour without a terminal");
    fits(&shown);
}

fn fits(shown: &str) {
    let long: Vec<&str> = shown.lines().filter(|line| line.width() > 80).collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn a_batch_that_cannot_fill_is_refused_at_once() {
    let output = demo(&["--devices", "10", "--min-batch-size", "11", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let error = json(&output);
    assert!(error["hint"].as_str().unwrap().contains("--devices"));
}

/// The coins are real, so the bounds are wide: five standard deviations for the number of
/// participants, which fails by chance once in 1.7 million runs, and 14 of 24 intervals of 95 %,
/// which fails less often than once in a million.
#[test]
fn the_demo_samples_randomizes_and_says_what_it_cost() {
    let output = demo(&["--json", "--seed", "7", "--devices", "600"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let result = json(&output);
    let number = |value: &Value| value.as_f64().unwrap();
    let participated = number(&result["participated"]);
    assert!((participated - 300.0).abs() < 5.0 * 150f64.sqrt(), "{participated}");
    assert_eq!(result["reports"]["accepted"], result["participated"]);
    assert_eq!(result["reports"]["rejected"], serde_json::json!({}));
    let privacy = &result["privacy"];
    let (epsilon, local) = (number(&privacy["epsilon"]), number(&privacy["local_epsilon"]));
    assert!(number(&privacy["paper_epsilon"]) < epsilon && epsilon < local, "{privacy}");
    assert_eq!(result["rate"], 0.5);
    assert_eq!(result["index"], 5, "after five key sets");
    let granted = &result["tokens"]["granted"];
    assert_eq!(*granted, 1_200, "two for each device, whether it takes part or not");
    assert_eq!(result["recipe_id"].as_str().unwrap().len(), 64);
    let buckets = result["buckets"].as_array().unwrap();
    let total: f64 = buckets.iter().map(|bucket| number(&bucket["estimate"])).sum();
    assert!((total - 2.0 * participated).abs() < 1e-6, "unbiased corrections cancel: {total}");
    let covered = |low: &str, high: &str| {
        let inside = |bucket: &&Value| {
            let truth = number(&bucket["true"]);
            number(&bucket[low]) <= truth && truth <= number(&bucket[high])
        };
        buckets.iter().filter(inside).count()
    };
    assert!(covered("lo95", "hi95") >= 14, "{buckets:?}");
    for bucket in buckets {
        assert!(number(&bucket["stderr"]) > 0.0);
        // Score intervals are not centred, so their lengths are compared.
        let length = |low: &str, high: &str| number(&bucket[high]) - number(&bucket[low]);
        if number(&bucket["estimate"]) > 0.0 {
            assert!(length("noise_lo95", "noise_hi95") < length("lo95", "hi95"), "{bucket}");
        }
    }
}

/// Whether the estimate is within this many standard errors of the true value.
fn is_near(row: &Value, errors: f64) -> bool {
    let number = |key: &str| row[key].as_f64().unwrap();
    (number("estimate") - number("true")).abs() <= errors * number("stderr")
}

/// Counts with the servers' noise, of a certified audience, at two rates: with fewer devices no
/// claim holds. Both estimates are sums of many coins and of noise, about normal: each is six
/// standard errors away in fewer than one of 10^7 runs.
#[test]
fn needles_are_found() {
    let output = demo(&["needles", "--json", "--seed", "7", "--devices", "1000"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let result = json(&output);
    assert_eq!(result["reports"]["rejected"], serde_json::json!({}));
    assert_eq!(result["index"], 6, "after five key sets and the certified audience");
    let buckets = result["buckets"].as_array().unwrap();
    let truth: Vec<f64> = buckets.iter().map(|row| row["true"].as_f64().unwrap()).collect();
    assert_eq!((truth.iter().sum::<f64>(), buckets[0]["label"].as_str()), (1000.0, Some("none")));
    assert!(truth[0] > 800.0 && truth[1] > 0.0, "{truth:?}");
    assert!(buckets[..2].iter().all(|row| is_near(row, 6.0)), "{buckets:?}");
    let privacy = &result["privacy"];
    assert!(privacy["epsilon"].as_f64().unwrap() < 2.3, "{privacy}");
    let few = demo(&["needles", "--devices", "300"]);
    assert_eq!(few.status.code(), Some(2));
    assert!(flat(&String::from_utf8(few.stderr).unwrap()).contains("ask more devices"));
    assert_eq!(result.get("statistics"), None);
}

/// Sums of about 100 coins and of noise are about normal: each of three estimates is six standard
/// errors away in fewer than one of 10^7 runs.
#[test]
fn a_mean_is_shown_beside_the_true_one() {
    let output = demo(&["sleep", "--json", "--seed", "7", "--devices", "200"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let result = json(&output);
    let [sum, devices, mean] =
        [&result["buckets"][0], &result["statistics"][0], &result["statistics"][1]];
    assert_eq!([&sum["label"], &devices["label"], &mean["label"]], ["sum", "devices", "mean"]);
    assert_eq!(devices["true"], 200);
    let truth = mean["true"].as_f64().unwrap();
    assert!((truth - sum["true"].as_f64().unwrap() / 200.0).abs() < 1e-9, "{result}");
    assert!((6.0..8.0).contains(&truth), "{truth}");
    assert!([sum, devices, mean].into_iter().all(|row| is_near(row, 6.0)), "{result}");
}

/// Each of 48 coordinates is six standard errors of the noise and the sampling away in fewer than one
/// of 10^7 runs, and their errors allow for more than there is.
#[test]
fn a_vector_is_shown_beside_the_true_one() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("day.json");
    let kept = kept.to_str().unwrap();
    let output = demo(&["vectors", "--json", "--seed", "7", "--devices", "200", "--out", kept]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let result = json(&output);
    assert_eq!(result["buckets"], serde_json::json!([]));
    let column = |name: &str| -> Vec<f64> {
        let column = result["coordinates"][name].as_array().unwrap().iter();
        column.map(|one| one.as_f64().unwrap()).collect()
    };
    let (truths, estimates, errors) = (column("truths"), column("estimates"), column("errors"));
    assert_eq!((truths.len(), estimates.len(), errors.len()), (48, 48, 48));
    for ((truth, estimate), error) in truths.iter().zip(&estimates).zip(&errors) {
        assert!((truth - estimate).abs() < 6.0 * error, "{truth} {estimate} {error}");
    }
    let squares = truths.iter().zip(&estimates).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
    let rms = result["coordinates"]["rms_error"].as_f64().unwrap();
    assert!((squares / 48.0).sqrt() < 2.0 * rms, "{squares} {rms}");
    let [devices, norm] = [&result["statistics"][0], &result["statistics"][1]];
    assert_eq!((&devices["label"], &norm["label"]), (&"devices".into(), &"norm".into()));
    assert!(is_near(devices, 6.0) && is_near(norm, 6.0), "{norm}");

    let shown = Command::new(env!("CARGO_BIN_EXE_sotto"))
        .args(["result", "show", kept])
        .args(["--out", folder.path().join("day.npy").to_str().unwrap()])
        .args(["--out", folder.path().join("day.parquet").to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(shown.status.code(), Some(0), "{}", String::from_utf8_lossy(&shown.stderr));
    let text = String::from_utf8(shown.stdout).unwrap();
    for part in ["●", "░", "norm", "48 coordinates", "fraction bits 15", "gaussian"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    fits(&text);
    let bytes = std::fs::read(folder.path().join("day.npy")).unwrap();
    let numbers: Vec<f64> = bytes[bytes.len() - 48 * 8..]
        .chunks_exact(8)
        .map(|number| f64::from_le_bytes(number.try_into().unwrap()))
        .collect();
    assert!(numbers.iter().zip(&estimates).all(|(a, b)| (a - b).abs() < 1e-9));
}

#[test]
fn the_words_fit_the_mechanism() {
    let output = demo(&["sleep", "--devices", "60", "--seed", "1"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let shown = String::from_utf8(output.stdout).unwrap();
    for part in ["statistic", "mean", "answers, with noise of leader and helper (sigma 72 each)"] {
        assert!(flat(&shown).contains(part), "{part}: {shown}");
    }
    for part in ["randomized", "noise alone", "inf"] {
        assert!(!shown.contains(part), "{part}: {shown}");
    }
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("each knowing how many hours its owner slept"), "{said}");
    fits(&shown);
}

#[test]
fn stories_are_listed() {
    let listed = json(&demo(&["--list", "--json"]));
    let names: Vec<&str> = listed["stories"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names[0], "words");
    let output = demo(&["needle"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(names.iter().all(|name| error.contains(name)), "{error}");
}

/// From an empty folder: one's own question, simulated, in two commands.
#[test]
fn somebody_asks_their_own_question_before_any_operator_exists() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let command = Command::new(env!("CARGO_BIN_EXE_sotto"))
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(command.status.code(), Some(0), "{}", String::from_utf8_lossy(&command.stderr));
        String::from_utf8(command.stdout).unwrap()
    };
    let mut new = vec!["recipe", "new", "commute", "--purpose", "How long do people commute?"];
    new.extend(["--attribute", "minutes:int", "--labels", "short,middle,long"]);
    new.extend(["--mapping", "minutes < 15 ? \"short\" : minutes < 45 ? \"middle\" : \"long\""]);
    new.extend(["--population", "1e6"]);
    run(&new);
    let shown = run(&["demo", "--recipe", "commute.toml", "--devices", "60", "--seed", "7"]);
    for part in
        ["short", "middle", "long", "unknown", "The values are made up", "1,000,000 devices"]
    {
        assert!(flat(&shown).contains(part), "{part}: {shown}");
    }
    let differs = "Operators, keys, tokens and times are the demo's";
    assert!(flat(&shown).contains(differs), "{shown}");
    fits(&shown);

    // With one's own values, of which two are missing.
    let values: String = (0..60).map(|number| format!("{}\n", number % 3 * 20)).collect();
    let path = folder.path().join("values.csv");
    std::fs::write(&path, format!("minutes\n{values}\"\"\n\"\"\n")).unwrap();
    let demo = ["demo", "--recipe", "commute.toml", "--data", "values.csv"];
    let found = read(run(&[&demo[..], &["--json"]].concat()).as_bytes());
    assert_eq!(found["devices"], 62);
    let truth = |bucket: &Value| (bucket["label"].clone(), bucket["true"].as_u64().unwrap());
    let truth: Vec<_> = found["buckets"].as_array().unwrap().iter().map(truth).collect();
    let expected = [("short", 20), ("middle", 40), ("long", 0), ("unknown", 2)];
    assert_eq!(truth, expected.map(|(label, count)| (Value::from(label), count)));
    assert!(found["privacy"]["epsilon"].as_f64().unwrap() > 0.0);
    let shown = run(&demo);
    let reason = "2 devices count as bucket 3 (unknown): attribute `minutes` is not declared";
    assert!(flat(&shown).contains(reason), "{shown}");

    // A wrong column is an error, not a bucket.
    std::fs::write(&path, format!("minuts\n{values}")).unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_sotto")).args(demo).current_dir(folder.path()).output();
    let error = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(error.contains("line 1: the recipe declares no attribute `minuts`"), "{error}");
    assert!(error.contains("hint: write the names in the first line: minutes"), "{error}");
}

/// An exact sum has no claim: the demo's devices allow it, and the sum is an estimate.
#[test]
fn sums_can_be_tried_too() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let command = Command::new(env!("CARGO_BIN_EXE_sotto"))
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(command.status.code(), Some(0), "{}", String::from_utf8_lossy(&command.stderr));
        command.stdout
    };
    let mut new =
        vec!["recipe", "new", "total", "--purpose", "How long in total?", "--kind", "sum"];
    new.extend(["--max", "240", "--attribute", "minutes:int", "--mapping", "minutes"]);
    new.extend(["--population", "60", "--rate", "1", "--min-batch", "20", "--insecure-exact"]);
    run(&new);
    let demo = ["demo", "--recipe", "total.toml", "--devices", "60", "--seed", "3", "--json"];
    let found = read(&run(&demo));
    assert_eq!((&found["participated"], &found["min_batch"]), (&Value::from(60), &Value::from(20)));
    let sum = &found["buckets"][0];
    assert_eq!(sum["label"], "sum");
    assert_eq!(sum["estimate"], sum["true"], "everybody answers, without noise");
    assert_eq!(found["privacy"], Value::Null);
}

/// The questions of stories are not those of a file.
#[test]
fn values_are_not_ignored() {
    for arguments in [&["ages", "--data", "colour.csv"][..], &["--data", "colour.csv"]] {
        let output = demo(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = flat(&String::from_utf8(output.stderr).unwrap());
        assert!(error.contains("--data needs --recipe"), "{error}");
        assert!(error.contains("hint: give your question too: --recipe FILE"), "{error}");
    }
}

/// Made-up devices are in the audience, and both rates are scaled and named.
#[test]
fn rare_values_can_be_tried_too() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_sotto"))
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    let id = "0".repeat(64);
    let new = |predicate: &str| {
        let mut new = vec!["recipe", "new", "crashes", "--purpose", "Which crash?", "--force"];
        new.extend(["--attribute", "crash:string", "--attribute", "country:string"]);
        new.extend(["--kind", "sparse_histogram", "--labels", "none,disk,memory,network"]);
        new.extend(["--mapping", "crash", "--population", "2e6", "--sigma", "30"]);
        new.extend(["--rate", "0.2", "--default-rate", "0.1", "--audience", "1e6"]);
        new.extend(["--certified", &id, "--predicate", predicate]);
        let made = run(&new);
        assert!(made.status.success(), "{made:?}");
    };
    new("country == \"CH\"");
    let demo = ["demo", "--recipe", "crashes.toml", "--seed", "7"];
    let output = run(&[&demo[..], &["--devices", "2000"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let shown = flat(&String::from_utf8(output.stdout).unwrap());
    for part in [
        "of which 1 in 10 devices with the default answer, 1 in 5 others answer",
        "devices cannot fill its minimum batch. So here 1 in 4 devices with the default answer, \
         1 in 2 others answer, and nothing is released below",
        "of 2000 devices are asked, those for which the predicate is true",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    new("country == \"CH\" && country == \"DE\"");
    let output = run(&demo);
    assert_eq!(output.status.code(), Some(2));
    let error = flat(&String::from_utf8(output.stderr).unwrap());
    let reason = "none of the 2000 made-up devices is in the audience: country == \"CH\" && ";
    assert!(error.contains(reason) && error.contains("--data FILE"), "{error}");
}
