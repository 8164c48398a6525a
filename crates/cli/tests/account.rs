//! `sotto account`: known values, in both directions, and error messages for invalid input.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::{flat, json};

fn run(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sotto"))
        .arg("account")
        .args(line.split_whitespace())
        .env("NO_COLOR", "1")
        .env_remove("COLUMNS")
        .output()
        .unwrap()
}

/// The output for people.
fn shown(line: &str) -> String {
    let output = run(line);
    assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
    assert!(output.stderr.is_empty(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The output for programs.
fn answer(line: &str) -> Value {
    let output = run(&format!("{line} --json"));
    assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
    let value = json(&output);
    if let Some(lower) = value["epsilon_lower"].as_f64() {
        let upper = value["epsilon"].as_f64().unwrap_or(f64::INFINITY);
        assert!(lower <= upper, "{line}: {value}");
    }
    value
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key}: {value}"))
}

/// A sentence without its line breaks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `found` is at least `truth`, and at most a fraction `slack` above it.
#[track_caller]
fn just_above(found: f64, truth: f64, slack: f64) {
    assert!(found >= truth * (1.0 - 1e-12), "{found} is below {truth}");
    assert!(found <= truth * (1.0 + slack), "{found} is far above {truth}");
}

/// A row of the table that people see.
fn row<'a>(shown: &'a str, name: &str) -> &'a str {
    let rest = shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("  "));
    rest.unwrap_or_else(|| panic!("no row {name}: {shown}")).trim()
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
    assert_eq!((&value["count_view"], &value["steps"]), (&"hidden".into(), &2500.into()));
    let renyi = answer(&format!("{line} --accountant rdp"));
    assert_eq!(renyi["accountant"], "rdp");
    just_above(number(&renyi, "epsilon"), 1.0825, 1e-3);
    assert_eq!(answer(&format!("{line} --accountant pld"))["accountant"], "pld");
    let text = shown(line);
    assert!(row(&text, "epsilon").starts_with("1.02"), "{text}");
    assert!(row(&text, "between").ends_with("(certified)"), "{text}");
    assert!(flat(&text).contains("at most 2.78 times (e^epsilon) as likely"), "{text}");
    assert!(flat(&text).contains("the paper's model"), "{text}");
    // Every device, once: no sampling.
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
    let text = words(&shown(line));
    assert!(text.contains("this is the paper's model. Aggregators do see it"), "{text}");
    for (shape, epsilon) in [("one-hot", 3.32), ("vector", 7.675)] {
        let seen = answer(&format!("{line} --count seen --shape {shape}"));
        just_above(number(&seen, "epsilon"), epsilon, 3e-3);
        assert_eq!((&seen["count_view"], &seen["shape"]), (&"seen".into(), &shape.into()));
        assert!(seen["meaning"].as_str().unwrap().contains("the number of devices in it"));
        assert!(!shown(&format!("{line} --count seen --shape {shape}")).contains("Sotto's own"));
    }
    // Fewer honest devices hide a device less well.
    let half = answer(&format!("{line} --count seen --shape one-hot --honest 0.5"));
    assert!(number(&half, "epsilon") > 3.4, "{half}");
    assert_eq!(half["honest_population"], 500_000);
    let text = shown(&format!("{line} --count seen --shape one-hot --honest 0.5"));
    assert_eq!(row(&text, "population"), "1000000 others, 500000 honest");
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
    // The closed form does not cover the paper's own example.
    assert_eq!(value["closed_form"], "inf", "no bound");
    assert_eq!(value["closed_form_valid"], false);
    assert!(value["closed_form_reason"].as_str().unwrap().ends_with("= 3.94546"), "{value}");
    // The known attacks do not reach the bound.
    assert_eq!(value["accountant"], "bound");
    let text = shown("shuffle --epsilon0 4 --n 10000 --delta 1e-10");
    assert!(row(&text, "closed form").starts_with("not valid"), "{text}");
    let closed = answer("shuffle --epsilon0 4 --n 20000 --delta 1e-10");
    just_above(number(&closed, "closed_form"), 0.888_448_675_552_366_2, 1e-9);
    assert_eq!(closed["closed_form_valid"], true);

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
    let text = words(&shown("shuffle --epsilon0 4 --n 10001 --delta 1e-10 --honest 0.5"));
    assert!(text.contains("of the crowd, 5001 of 10001, is relied on"), "{text}");
}

#[test]
fn sample_amplifies_any_guarantee() {
    let value = answer("sample --epsilon 1 --delta 1e-8 --rate 0.02");
    just_above(number(&value, "epsilon"), 0.033_788_327_282_916_57, 1e-9);
    just_above(number(&value, "delta"), 2e-10, 1e-12);
    assert_eq!(value["count_view"], "hidden");
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
    // The law of the donation itself, by an independent convolution.
    just_above(number(&value, "epsilon"), 0.057_916_5, 1e-3);
    assert!(number(&value, "epsilon") < least, "{value}");
    let with_coin = answer("donation --epsilon 1 --delta 1e-8 --slots 100 --rate 0.5");
    assert!(number(&with_coin, "epsilon") < number(&value, "epsilon_lower"), "{with_coin}");
    // No lower end is known with a coin, and 0 would be one.
    assert_eq!(with_coin["poisson_lower"], Value::Null);
    for name in ["poisson", "random_allocation"] {
        let lower = number(&value, &format!("{name}_lower"));
        assert!(lower > 0.0 && lower <= number(&value, name), "{value}");
    }
    let text = shown("donation --epsilon 1 --delta 1e-8 --slots 100");
    assert!(row(&text, "random allocation").ends_with("(certified)"), "{text}");
    // The bracket appears only once.
    assert!(!text.contains("best"), "{text}");
    let text = words(&text);
    assert!(text.contains("63.4 % of the devices find a slot"), "{text}");
    assert!(text.contains("whether or not it found a slot"), "{text}");
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
    assert_eq!((&value["count_view"], &value["releases"]), (&"hidden".into(), &2500.into()));
    let value = answer(&format!("compose --events {path} --epsilon 1.02"));
    just_above(number(&value, "delta"), 1e-8, 0.05);
    // Half of the noise, by flag or written in the file.
    let half = answer(&format!("compose --events {path} --delta 1e-8 --honest 0.25"));
    let by_hand = answer("sampled-gaussian --rate 0.02 --steps 2500 --sigma 2.55 --delta 1e-8");
    just_above(number(&half, "epsilon"), number(&by_hand, "epsilon"), 1e-6);
    let text = shown(&format!("compose --events {path} --delta 1e-8"));
    assert_eq!(row(&text, "releases"), "2500 from 1 event");
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
    let value = json(&output);
    // Four times with twice the noise is once.
    just_above(number(&value, "epsilon"), 1.000_063_849_958_526, 1e-6);
}

#[test]
fn compose_reads_and_writes_events_of_dp_accounting() {
    let folder = tempfile::tempdir().unwrap();
    // As json.dumps(event.to_named_tuple()) writes it.
    let step = r#"["dp_accounting.dp_event","GaussianDpEvent",5.1]"#;
    let step = format!(r#"["dp_accounting.dp_event","PoissonSampledDpEvent",0.02,{step}]"#);
    let list = format!(r#"["dp_accounting.dp_event","SelfComposedDpEvent",{step},2500]"#);
    let path = write(folder.path(), &list);
    let line = format!("compose --events {path} --format dp-accounting");
    let single = answer("sampled-gaussian --rate 0.02 --steps 2500 --sigma 5.1 --delta 1e-8");
    let value = answer(&format!("{line} --delta 1e-8"));
    assert_eq!(value["epsilon"], single["epsilon"]);
    // To our own events, and back.
    let ours = shown(&format!("{line} --to sotto"));
    let value: Value = serde_json::from_str(&ours).unwrap();
    assert_eq!((&value["event"], &value["of"]["rate"]), (&"repeated".into(), &0.02.into()));
    let path = write(folder.path(), &ours);
    let theirs = shown(&format!("compose --events {path} --to dp-accounting"));
    let value: Value = serde_json::from_str(&theirs).unwrap();
    assert_eq!(value["module_name"], "dp_accounting.dp_event");
    assert_eq!(
        (&value["class_name"], &value["count"]),
        (&"SelfComposedDpEvent".into(), &2500.into())
    );
    let path = write(folder.path(), &theirs);
    assert_eq!(shown(&format!("compose --events {path} --format dp-accounting --to sotto")), ours);
    refused(&format!("compose --events {path} --to sotto --delta 1e-8"), &["--to <FORMAT>"]);
    let parts = ["$ is a DpEvent", "hint: give --format dp-accounting"];
    refused(&format!("compose --events {path} --delta 1e-8"), &parts);
    let other = r#"["dp_accounting.dp_event","RepeatAndSelectDpEvent",[],3,1]"#;
    let path = write(folder.path(), other);
    let line = format!("compose --events {path} --format dp-accounting --delta 1e-8");
    let parts = ["RepeatAndSelectDpEvent is not counted here", "hint: write its (epsilon, delta)"];
    refused(&line, &parts);
    let path = write(folder.path(), r#"["dp_accounting.dp_event","NonPrivateDpEvent"]"#);
    let value = answer(&format!("compose --events {path} --format dp-accounting --delta 1e-8"));
    assert_eq!(value["epsilon"], "inf");
}

#[test]
fn the_sentence_is_about_being_there() {
    let meaning = |line: &str| answer(line)["meaning"].as_str().unwrap().to_owned();
    let plain = meaning("gaussian --sigma 5.1 --delta 1e-8");
    assert!(plain.contains("with a given device as without it"), "{plain}");
    assert!(plain.contains("plus 1e-8 (delta)"), "{plain}");
    assert!(plain.contains("if it is seen, use --adjacency replace"), "{plain}");
    let line = "sampled-gaussian --rate 0.02 --steps 25 --sigma 5.1 --delta 1e-8";
    let sampled = meaning(line);
    assert!(sampled.contains("among those that may be sampled as without it"), "{sampled}");
    assert!(sampled.contains("whether or not it was sampled"), "{sampled}");
    let advice = "add --count seen --population N, and --honest 0.5 as for every recipe.";
    assert!(words(&shown(line)).contains(advice));
    let replaced = meaning("gaussian --sigma 5.1 --delta 1e-8 --adjacency replace --count seen");
    assert!(replaced.contains("with one value of a given device as with another"), "{replaced}");
    assert!(replaced.contains("the result and the number of devices in it"), "{replaced}");
    let zero = meaning("gaussian --sigma 5.1 --delta 1e-8 --adjacency zero-out");
    assert!(zero.contains("as with the null value in its place"), "{zero}");
    let hopeless = meaning("gaussian --sigma 0.1 --delta 1e-8");
    assert!(hopeless.contains("That protects hardly anybody."), "{hopeless}");
    for text in [shown(line), shown("donation --epsilon 1 --delta 1e-8 --slots 100")] {
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    }
}

/// At the same count one device in means another one out, also if it is there in both cases: all
/// others may hold the opposite of its value. (rate, sigma, population, shape, the epsilon of that
/// attack).
#[test]
fn the_count_seen_under_zero_out() {
    for (rate, sigma, population, shape, attack) in [
        ("0.02", "2", "2000", "vector", 0.58655),
        ("0.001", "1", "1e6", "vector", 1.0001),
        ("0.1", "2", "1e5", "one-hot", 0.763),
    ] {
        let line = format!(
            "sampled-gaussian --rate {rate} --steps 1 --sigma {sigma} --delta 1e-6 \
             --adjacency zero-out --population {population} --shape {shape}"
        );
        let (hidden, seen) = (answer(&line), answer(&format!("{line} --count seen")));
        let found = number(&seen, "epsilon");
        assert!(found > attack && found > 1.5 * number(&hidden, "epsilon"), "{line}: {found}");
        assert_eq!(hidden["count_seen"][shape], seen["epsilon"]);
        assert!(hidden["meaning"].as_str().unwrap().contains("Aggregators do see it"));
    }
}

#[test]
fn the_count_seen_under_replacement() {
    let line = "sampled-gaussian --rate 0.02 --steps 1 --sigma 2 --delta 1e-6 --population 2000 \
                --adjacency replace";
    let (hidden, seen) = (answer(line), answer(&format!("{line} --count seen")));
    just_above(number(&seen, "epsilon"), 0.74836, 1e-4);
    assert_eq!(hidden["count_seen"]["vector"], seen["epsilon"]);
}

#[test]
fn a_search_that_ends_at_a_limit_says_so() {
    let line = "sampled-gaussian --steps 1 --sigma 50 --delta 1e-6 --epsilon 1";
    let value = answer(line);
    assert_eq!(number(&value, "rate"), 1.0);
    assert!((0.07..0.072).contains(&number(&value, "epsilon_reached")), "{value}");
    assert_eq!(row(&shown(line), "reached"), "0.0709607 (epsilon)");
    let line = "sampled-gaussian --rate 1e-9 --sigma 50 --delta 1e-6 --epsilon 5";
    let value = answer(line);
    assert_eq!((&value["steps"], &value["steps_at_least"]), (&(1_u64 << 39).into(), &true.into()));
    assert_eq!(row(&shown(line), "steps"), "at least 549755813888");
    // If the target is met closely, nothing more is said.
    let text = shown("sampled-gaussian --rate 0.02 --steps 100 --epsilon 1 --delta 1e-8");
    assert!(!text.contains("reached"), "{text}");
}

#[test]
fn compose_tells_what_it_counted_with() {
    let folder = tempfile::tempdir().unwrap();
    let seen = r#"{"event":"sampled_count_seen","rate":0.01,"population":1000000,"sigma":0.7764}"#;
    let path = write(folder.path(), seen);
    let line = format!("compose --events {path} --delta 1e-6");
    just_above(number(&answer(&line), "epsilon"), 7.675, 3e-3);
    let one_hot = answer(&format!("{line} --shape one-hot"));
    just_above(number(&one_hot, "epsilon"), 3.32, 3e-3);
    assert_eq!((&one_hot["shape"], &one_hot["count_view"]), (&"one-hot".into(), &"seen".into()));
    assert_eq!(row(&shown(&line), "releases"), "1 from 1 event");

    let both = format!(r#"{{"event":"composed","of":[{seen},{{"event":"gaussian","sigma":5}}]}}"#);
    let path = write(folder.path(), &both);
    let line = format!("compose --events {path} --delta 1e-6");
    assert_eq!(answer(&line)["count_view"], "mixed");
    assert_eq!(row(&shown(&line), "count"), "mixed");

    let path = write(folder.path(), r#"{"event":"gaussian","sigma":5.1}"#);
    let line = format!("compose --events {path} --delta 1e-8");
    let text = words(&shown(&line));
    assert!(text.contains("must be hidden: if it is seen, use --adjacency replace"), "{text}");
    let replaced = shown(&format!("{line} --adjacency replace"));
    assert_eq!(row(&replaced, "shape"), "vector");
    refused(&format!("{line} --shape one-hot"), &["--shape has no meaning: no event leaves"]);
}

#[test]
fn infinity_is_no_null() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), r#"{"event":"approximate_dp","epsilon":1,"delta":0.1}"#);
    let line = format!("compose --events {path} --delta 1e-6");
    assert_eq!(answer(&line)["epsilon"], "inf");
    assert_eq!(row(&shown(&line), "epsilon"), "unbounded");
}

#[test]
fn the_documentation_is_what_is_printed() {
    let page = include_str!("../../../docs/privacy-accounting.md");
    let first = "sampled-gaussian --rate 0.02 --sigma 5.1 --steps 2500 --delta 1e-8";
    let block = format!("$ sotto account {first}\n{}```", shown(first));
    assert!(page.contains(&block), "{block}");
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<&str> =
        page.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let flags = ["training.json --delta 1e-8", "shuffle.json --delta 1e-10 --adjacency replace"];
    assert_eq!(files.len(), flags.len());
    for (text, flags) in files.into_iter().zip(flags) {
        let (name, others) = flags.split_once(' ').unwrap();
        std::fs::write(folder.path().join(name), text).unwrap();
        let path = folder.path().join(name);
        let shown = shown(&format!("compose --events {} {others}", path.display()));
        let claim =
            format!("`sotto account compose --events {flags}`, epsilon {}", row(&shown, "epsilon"));
        assert!(page.contains(&claim), "{claim}");
    }
}

/// Exit code 2, the same message for people and for programs, and every part of `parts` in it.
#[track_caller]
fn refused(line: &str, parts: &[&str]) {
    let output = run(line);
    assert_eq!(output.status.code(), Some(2), "{line}: {output:?}");
    assert!(output.stdout.is_empty(), "{line}: {output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    let output = run(&format!("{line} --json"));
    assert_eq!(output.status.code(), Some(2), "{line}");
    let value = json(&output);
    let message = value["error"].as_str().unwrap();
    // In JSON it is one line.
    assert!(flat(&text).contains(&flat(message)), "{text} {message}");
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
            "sampled-gaussian --rate 0.1 --steps 1 --sigma 1 --delta 1e-8 --shape vector --adjacency zero-out",
            &["--shape has no meaning while the count is hidden"],
        ),
        (
            "sampled-gaussian --rate 0.1 --steps 1e16 --sigma 1 --delta 1e-8",
            &["at most 9007199254740992 (2^53)"],
        ),
        (
            "gaussian --sigma 5 --delta 1e-8 --count seen",
            &["--count seen: the number", "if it is seen, use --adjacency replace"],
        ),
        (
            "discrete-gaussian --sigma 5 --delta 1e-8 --count seen",
            &["--count seen: the number", "if it is seen, use --adjacency replace"],
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
            &["--adjacency replace", "present or absent", "leave it out"],
        ),
        (
            "sample --epsilon 2 --delta 1e-8 --rate 0.1 --adjacency zero-out",
            &["--adjacency zero-out", "present or absent", "leave it out"],
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
        (
            r#"{"event":"gauss","sigma":1}"#,
            "$.event: there is no event `gauss`; did you mean `gaussian`?",
        ),
        (r#"{"event":"gaussian","sigma":"5"}"#, "$.sigma must be a number"),
        (r#"{"event":"gaussian","sigma":5,"sigma":9}"#, "$.sigma is written twice at line 1"),
        (
            r#"{"event":"composed","of":[{"event":"gaussian","sigma":-1}]}"#,
            "$.of[0].sigma is -1: it must be",
        ),
        (
            r#"{"event":"repeated","times":2,"of":{"event":"zcdp"}}"#,
            "$.of.rho is missing: zcdp needs it",
        ),
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
