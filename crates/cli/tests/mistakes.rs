//! Mistakes in a recipe: each gets a message that names the line and what to write instead.

use std::fs;

use crate::flat;
use crate::recipe::{folder, sotto};

/// What is replaced, by what; the line that must be named (the one that begins with this text, in
/// the changed file); what the message says to write; and what the caret is below.
type Mistake = (&'static str, &'static str, &'static str, &'static str, &'static str);

const MISTAKES: &[Mistake] = &[
    // Not TOML.
    ("[who]", "[who", "[who", "is not closed: write `]`", ""),
    ("name = \"commute\"", "name = commute", "name = commute", "in quotes: write it", "commute"),
    ("[sampling]", "[who]", "[who]\nrate", "was there before: keep one of the two", "who]"),
    ("purpose = \"", "purpose \"", "purpose", "a value is missing: write `name = value`", "\"How"),
    ("commute?\"", "commute?", "purpose", "is not closed: write `\"` at its end", ""),
    // Keys that are missing, misspelt or of another kind.
    ("rate = ", "rte = ", "[sampling]", "write it like `rate = \"1/50\"`", "sampling]"),
    ("rate = ", "covr = 1\nrate = ", "covr", "use one of: rate, default_rate", "covr"),
    (
        "population = 1000000",
        "population = \"1e6\"",
        "population",
        "a whole number without quotes, like 1000",
        "population",
    ),
    ("purpose = \"How", "purpose = 3 #", "purpose", "must be text in quotes", "purpose"),
    ("labels = [\"short\", ", "labels = [1, ", "labels", "must be text in quotes", "1, "),
    (
        "min_batch = 19434",
        "min_batch = -5",
        "min_batch",
        "write a number that is not negative",
        "min_batch",
    ),
    (
        "kind = \"histogram\"",
        "kind = \"pie\"",
        "kind = \"pie\"",
        "use one of: count, sum, mean, histogram, quantiles",
        "kind",
    ),
    (
        "minutes = \"int\"",
        "minutes = \"float\"",
        "minutes",
        "use one of: bool, int, string, strings",
        "minutes",
    ),
    ("minutes = \"int\"", "Minutes = \"int\"", "Minutes", "a-z, 0-9 and _", "Minutes"),
    // Values that make no sense.
    ("rate = \"1/50\"", "rate = \"3/2\"", "rate", "a probability is at most 1", "rate"),
    ("rate = \"1/50\"", "rate = \"often\"", "rate", "give digits", "rate"),
    ("window = \"1h\"", "window = \"1 hour\"", "window", "use s, m, h, d or w", "window"),
    (
        "max_window = \"1w\"",
        "max_window = \"90m\"",
        "max_window",
        "must be a multiple of when.window_s",
        "max_window",
    ),
    ("fallback = 0", "fallback = 9", "fallback", "must be from 0 to 2", "fallback"),
    (
        "labels = [\"short\", ",
        "labels = [",
        "labels",
        "must have one label for each of the 3 buckets",
        "labels",
    ),
    ("labels = [\"short\", ", "labels = [\"long\", ", "labels", "must differ", "labels"),
    ("epsilon = 4.0", "epsilon = -4.0", "epsilon", "give digits", "epsilon"),
    ("delta = \"1/1000000000\"", "delta = 1", "delta", "above 0 and below 1", "delta"),
    ("\"helper.example\"", "\"leader.example\"", "operator = \"leader", "must differ", "operator"),
    (
        "\"https://helper.example/\"",
        "\"helper.example\"",
        "url = \"helper",
        "must begin with https://",
        "url",
    ),
    // What a device would refuse.
    ("minutes < 15", "minuts < 15", "mapping", "declared are: minutes", "minuts < 15"),
    ("minutes < 15", "minutes = 15", "mapping", "write `==`", "= 15"),
    ("minutes < 15", "minutes < '15'", "mapping", "compares two ints or two strings", "< '15'"),
    ("? 0 :", "? short :", "mapping", "write it in quotes: \"short\"", "short :"),
    ("1 : 2\"", "1 : 3\"", "mapping", "write a bucket from 0 to 2, or its label: \"short\"", "3"),
    ("0 : minutes < 45 ? 1 : 2\"", "-1 : 2\"", "mapping", "write a bucket from 0 to 2", "1 : 2"),
    ("1 : 2\"", "1 :\"", "mapping", "a value is missing at the end", ""),
    (
        "? 0 : minutes < 45 ? 1 : 2",
        "|| minutes > 45",
        "mapping",
        "gives bool, not int or string: write `condition ? value : other value`",
        "mapping",
    ),
    (
        "kind = \"claim\"\nepsilon = 0.",
        "kind = \"claim\"\nepsilon = 0.0000",
        "epsilon = 0.0000",
        "claim that, or more",
        "epsilon",
    ),
];

#[test]
fn each_names_its_line_and_what_to_write() {
    let folder = folder();
    let path = folder.path().join("commute.toml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(MISTAKES.len() >= 20);
    for (from, to, line, write, caret) in MISTAKES {
        let at = text.find(from).unwrap_or_else(|| panic!("{from} is not in\n{text}"));
        let wrong = format!("{}{to}{}", &text[..at], &text[at + from.len()..]);
        fs::write(&path, &wrong).unwrap();
        let output = sotto(folder.path(), &["recipe", "check", "commute.toml"]);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{to}: {output:?}");
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let start = wrong.find(&format!("\n{line}")).unwrap_or_else(|| panic!("{line}: {wrong}"));
        let number = wrong[..=start].matches('\n').count() + 1;
        let named = format!("line {number}");
        assert!(said.contains(&named), "{to}: {named}: {said}");
        assert!(flat(&said).contains(write), "{to}: {write}: {said}");
        assert!(below(&said).starts_with(caret), "{to}: {caret}: {said}");
    }
}

/// What is above the caret, from there on.
fn below(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    let at = lines.iter().position(|line| line.trim() == "^").unwrap_or_else(|| panic!("{said}"));
    let column = lines[at].find('^').unwrap();
    lines[at - 1].chars().skip(column).collect()
}
