//! Mistakes in a recipe: each gets a message that names the line and what to write instead.

use std::fs;

use crate::recipe::{folder, sotto};

/// What is replaced, by what, the line that must be named (the one that begins with this text, in
/// the changed file), and a part of the message that says what to write.
type Mistake = (&'static str, &'static str, &'static str, &'static str);

const MISTAKES: &[Mistake] = &[
    // Not TOML.
    ("[who]", "[who", "[who", "expected"),
    ("name = \"commute\"", "name = commute", "name = commute", "quoted"),
    ("[sampling]", "[who]", "[who]\nrate", "duplicate key"),
    // Keys that are missing, misspelt or of another kind.
    ("rate = ", "rte = ", "[sampling]", "write it like `rate = \"1/50\"`"),
    ("rate = ", "covr = 1\nrate = ", "covr", "use one of: rate, cover"),
    ("population = 1000000", "population = \"1e6\"", "population", "without quotes, like 1000"),
    ("purpose = \"How", "purpose = 3 #", "purpose", "text in quotes"),
    ("labels = [\"short\", ", "labels = [1, ", "labels", "text in quotes"),
    ("min_batch = 19434", "min_batch = -5", "min_batch", "a number that is not negative"),
    (
        "kind = \"histogram\"",
        "kind = \"pie\"",
        "kind = \"pie\"",
        "use one of: count, sum, histogram",
    ),
    ("minutes = \"int\"", "minutes = \"float\"", "minutes", "use one of: bool, int, string"),
    ("minutes = \"int\"", "Minutes = \"int\"", "Minutes", "a-z"),
    // Values that make no sense.
    ("rate = \"1/50\"", "rate = \"3/2\"", "rate", "at most 1"),
    ("rate = \"1/50\"", "rate = \"often\"", "rate", "give digits"),
    ("window = \"1h\"", "window = \"1 hour\"", "window", "use s, m, h, d or w"),
    ("max_window = \"1w\"", "max_window = \"90m\"", "max_window", "must be a multiple"),
    ("fallback = 0", "fallback = 9", "fallback", "from 0 to 2"),
    ("labels = [\"short\", ", "labels = [", "labels", "one label for each of the 3 buckets"),
    ("labels = [\"short\", ", "labels = [\"long\", ", "labels", "must differ"),
    ("epsilon = 4.0", "epsilon = -4.0", "epsilon", "give digits"),
    ("delta = \"1/1000000000\"", "delta = 1", "delta", "above 0 and below 1"),
    ("\"helper.example\"", "\"leader.example\"", "operator = \"leader", "must differ"),
    ("\"https://helper.example/\"", "\"helper.example\"", "url = \"helper", "begin with https://"),
    // What a device would refuse.
    ("minutes < 15", "minuts < 15", "mapping", "declared are: minutes"),
    ("1 : 2\"", "1 : 3\"", "mapping", "write a bucket from 0 to 2, or its label: \"short\""),
    ("0 : minutes < 45 ? 1 : 2\"", "-1 : 2\"", "mapping", "write a bucket from 0 to 2"),
    ("1 : 2\"", "1 :\"", "mapping", "mapping:"),
    ("? 0 : minutes < 45 ? 1 : 2", "|| minutes > 45", "mapping", "gives bool, not int or string"),
    (
        "kind = \"claim\"\nepsilon = 0.",
        "kind = \"claim\"\nepsilon = 0.0000",
        "epsilon = 0.0000",
        "its parameters imply",
    ),
];

#[test]
fn each_names_its_line_and_what_to_write() {
    let folder = folder();
    let path = folder.path().join("commute.toml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(MISTAKES.len() >= 20);
    for (from, to, line, part) in MISTAKES {
        let at = text.find(from).unwrap_or_else(|| panic!("{from} is not in\n{text}"));
        let wrong = format!("{}{to}{}", &text[..at], &text[at + from.len()..]);
        fs::write(&path, &wrong).unwrap();
        let output = sotto(folder.path(), &["recipe", "check", "commute.toml"]);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{to}: {output:?}");
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let start = wrong.find(&format!("\n{line}")).unwrap_or_else(|| panic!("{line}: {wrong}"));
        let number = wrong[..=start].matches('\n').count() + 1;
        assert!(said.contains(&format!("line {number}")), "{to}: line {number}: {said}");
        assert!(said.contains(part), "{to}: {part}: {said}");
    }
}
