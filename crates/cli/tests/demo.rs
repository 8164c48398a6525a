//! The demo: exact, repeatable, and with exactly the keys that it promises.

// Helpers of tests stop at the first surprise.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

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
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (first, second) = (run(), run());
    assert_eq!(first["buckets"], second["buckets"]);
    assert_eq!(
        keys(&first),
        BTreeSet::from([
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
    assert_eq!(output.status.code(), Some(0));
    let shown = String::from_utf8(output.stdout).unwrap();
    for part in ["queen", "█", "What each party saw", "Not private yet", "Try next"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains('\x1b'), "colour without a terminal");
}

#[test]
fn a_batch_that_cannot_fill_is_refused_at_once() {
    let output = demo(&["--devices", "10", "--min-batch-size", "11", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let error: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(error["hint"].as_str().unwrap().contains("--devices"));
}
