//! `sotto fleet`: whole experiments, small enough for a test.

use std::path::Path;

use serde_json::Value;

use crate::recipe::sotto;
use crate::{flat, json};

const SMALL: [&str; 9] =
    ["fleet", "--story", "names", "--rate", "1/2", "--buckets", "5", "--seed", "7"];

fn fleet(folder: &Path, arguments: &[&str]) -> Value {
    let done = sotto(folder, &[&SMALL[..], arguments, &["--json"]].concat());
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    json(&done)
}

/// All parties, recipes, tokens and proofs: the command fails if the sums are not those of the same
/// coins in memory. Then it shows who took part.
#[test]
fn what_is_collected_is_what_the_devices_sent() {
    let few = ["--population", "120", "--epsilon", "8", "--pipeline"];
    let mechanisms = ["--mechanism", "rappor,servers"];
    let found = fleet(Path::new("."), &[&few[..], &mechanisms].concat());
    let experiments = found["experiments"].as_array().unwrap();
    assert_eq!(experiments.len(), 2);
    for one in experiments {
        let count = one["runs"][0]["count"].as_u64().unwrap();
        assert!((30..=90).contains(&count), "{count} of 120 devices");
        assert!(one["epsilon"].as_f64().unwrap() <= 8.0);
    }
}

/// The same seed gives the same errors, which are about as predicted: a mean of 40 sums of five
/// squares is within a half of its mean but for one of 10^4 seeds.
#[test]
fn errors_are_as_predicted_and_follow_from_the_seed() {
    let folder = tempfile::tempdir().unwrap();
    let many = ["--population", "100000000", "--rate", "1/20000", "--repeats", "40"];
    let arguments = [&many[..], &["--mechanism", "servers", "--out", "report.html"]].concat();
    // Without the rate of the small ones.
    let ask = || {
        let own = ["fleet", "--story", "names", "--buckets", "5", "--seed", "7", "--json"];
        json(&sotto(folder.path(), &[&own[..], &arguments].concat()))
    };
    let (first, second) = (ask(), ask());
    let error = |found: &Value| found["experiments"][0]["squared_error"].clone();
    assert_eq!(error(&first), error(&second));
    let part = |key: &str| error(&first)[key].as_f64().unwrap();
    let ratio = part("measured") / part("predicted");
    assert!((0.5..=1.5).contains(&ratio), "{ratio}");
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg") && page.contains("Smith"));
    assert!(!page.contains("<script") && !page.contains("href"));
    assert!(!page.contains("NaN"), "a number is missing");
}

#[test]
fn what_cannot_be_asked_is_refused_with_what_to_do() {
    let refused = |arguments: &[&str], words: &str| {
        let done = sotto(Path::new("."), &[&["fleet"], arguments].concat());
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(flat(&said).contains(words), "{said}");
    };
    refused(&[], "--story");
    refused(&["--story", "words"], "npm pack");
    refused(&["no-such-file.toml"], "no-such-file.toml");
    let many = ["--story", "names", "--mechanism", "servers", "--pipeline"];
    refused(&many, "smaller --population");
    refused(&["--story", "names", "--population", "5"], "--population");
}
