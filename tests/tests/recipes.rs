//! The whole life of a recipe between real parties: keys and the recipe go through a witnessed log,
//! devices decide for themselves, leader and helper learn about it only from the log, and the
//! collector gets an estimate.

use std::fs;

use serde_json::{Value, json};
use sotto_crypto::Secret;
use sotto_crypto::note::NoteKey;
use sotto_testing::ports::free_ports;
use sotto_tests::process;
use sotto_tests::task::read_key;
use sotto_tests::world::World;
use sotto_wire::{Entry, EntryKind, Note};

const ACCEPTED: &str = "sotto_reports_accepted_total";
const AGGREGATED: &str = "sotto_reports_aggregated_total";

/// Both operators' first keys are in their configurations and in the log, and all parties are
/// serving.
fn world() -> World {
    let mut world = World::with_tokens().unwrap();
    world.start_with_keys().unwrap();
    world
}

fn considered(pass: &Value) -> usize {
    pass["considered"].as_array().unwrap().len()
}

/// A different recipe than the one in the log, properly signed by the same author.
fn signed_again(world: &World) -> Vec<u8> {
    let key: toml::Table = fs::read_to_string(world.path("author.key")).unwrap().parse().unwrap();
    let seed = base64::Engine::decode(
        &base64::engine::general_purpose::URL_SAFE_NO_PAD,
        key["seed"].as_str().unwrap(),
    );
    let name = key["name"].as_str().unwrap().parse().unwrap();
    let key = NoteKey::from_seed(name, Secret::new(seed.unwrap().try_into().unwrap()));
    let entry = Entry::parse(&fs::read(world.path("commute.recipe")).unwrap()).unwrap();
    let mut recipe = entry.recipe().unwrap().clone();
    recipe.purpose = "How short do people commute?".into();
    let text = Entry::text(EntryKind::Recipe, std::str::from_utf8(&recipe.to_json()).unwrap());
    let signature = key.sign(&text);
    Entry::from_note(Note::new(text).unwrap().with_signature(signature)).unwrap().to_bytes()
}

/// What auditors can find out about the recipe `commute`, offline and online, good and bad.
fn audit(world: &World) {
    let verify = |options: &[&str]| {
        let arguments = [&["log", "verify", "--trust", "trust.toml", "--forget"], options].concat();
        world.exit_code(&arguments).unwrap()
    };
    let log = world.log.url();
    for good in [&["commute.recipe", "--proof", "commute.proof"][..], &["commute", "--log", &log]] {
        let (code, text) = verify(good);
        assert!(code == Some(0) && text.contains("Verified"), "{text}");
    }

    fs::write(world.path("other.recipe"), signed_again(world)).unwrap();
    let (code, text) = verify(&["other.recipe", "--proof", "commute.proof"]);
    assert_eq!(code, Some(1), "{text}");
    let entry = fs::read_to_string(world.path("commute.recipe")).unwrap();
    fs::write(world.path("bad.recipe"), entry.replace("How long", "How slow")).unwrap();
    let (code, text) = verify(&["bad.recipe", "--proof", "commute.proof"]);
    assert_eq!(code, Some(1), "{text}");

    let (code, text) = verify(&["commute", "--log", "http://127.0.0.1:9/"]);
    assert_eq!(code, Some(2), "{text}");

    let monitor = ["log", "monitor", "--once", "--trust", "trust.toml", "--state", "monitor.json"];
    let (code, text) = world.exit_code(&monitor).unwrap();
    assert!(code == Some(0) && text.contains("recipe commute by author.example"), "{text}");
    let fsck = ["log", "fsck", "--policy", "policy", "log-data/public"];
    let (code, text) = world.exit_code(&fsck).unwrap();
    assert!(code == Some(0) && text.contains("6 entries"), "{text}");
}

#[test]
fn from_keys_to_an_estimate() {
    let world = world();
    let published = world.publish_recipe("commute", 20).unwrap();
    assert_eq!(published["index"], 5);
    audit(&world);

    for i in 0..20 {
        let pass = world.device(&format!("device-{i}"), i * 5).unwrap();
        assert_eq!(considered(&pass), 1, "{pass}");
        assert_eq!(pass["considered"][0]["recipe_id"], published["entry_id"]);
    }
    // Nobody answers twice.
    let again = world.device("device-3", 15).unwrap();
    assert_eq!(considered(&again), 0);
    assert_eq!(again["silent"][0]["check"], "once");
    assert_eq!(world.pair.leader.metric(ACCEPTED).unwrap(), 20.0);

    let collected = world.collect("commute").unwrap();
    assert_eq!(collected["result"], json!([3, 6, 11]));
    assert_eq!(collected["count"], 20);
    assert_eq!(collected["recipe_id"], published["entry_id"]);
    for (estimate, (label, truth)) in collected["buckets"].as_array().unwrap().iter().zip([
        ("short", 3.0),
        ("middle", 6.0),
        ("long", 11.0),
    ]) {
        assert_eq!(estimate["label"], label);
        let number = |key: &str| estimate[key].as_f64().unwrap();
        assert!((number("estimate") - truth).abs() < 1e-6, "{estimate}");
        assert!(number("lo95") <= truth && truth <= number("hi95"), "{estimate}");
    }
}

#[test]
fn keys_change_and_the_leader_dies_while_reports_wait() {
    let mut world = world();
    world.publish_recipe("commute", 8).unwrap();
    let mut minutes = (0..).step_by(10);
    let mut device = |world: &World, name: &str| {
        let pass = world.device(name, minutes.next().unwrap()).unwrap();
        assert_eq!(considered(&pass), 1, "{pass}");
    };
    // 0 and 10 are counted under the old keys, 20 and 30 wait at the leader, 40 waits in the
    // device's own state.
    device(&world, "a");
    device(&world, "b");
    world.wait_for(&world.pair.leader, AGGREGATED, 2.0).unwrap();
    world.pair.helper.kill().unwrap();
    device(&world, "c");
    device(&world, "d");
    assert_eq!(world.pair.leader.metric(ACCEPTED).unwrap(), 4.0);
    world.pair.leader.kill().unwrap();
    device(&world, "e");

    let new = ["leader", "helper"].map(|operator| world.add_hpke_key(operator, 2).unwrap());
    world.pair.start().unwrap();
    // A log that was killed continues, with the two remaining witnesses.
    world.log.kill().unwrap();
    world.witnesses[0].kill().unwrap();
    world.log.start().unwrap();
    for (operator, file) in ["leader", "helper"].iter().zip(&new) {
        let old = format!("{operator}-hpke-1.toml");
        assert_eq!(world.publish_keys(operator, &[file, &old]).unwrap()["seq"], 2);
    }
    // The same device sends the same bytes, sealed to the old keys.
    assert_eq!(considered(&world.device("e", 40).unwrap()), 0);
    device(&world, "f");
    world.wait_for(&world.pair.leader, AGGREGATED, 4.0).unwrap();

    // From here on only the new keys exist: reports sealed to the old ones would not be counted.
    for (operator, file) in ["leader", "helper"].iter().zip(&new) {
        let aggregator = world.aggregator(operator);
        aggregator.kill().unwrap();
        aggregator.configure(&format!("hpke_keys = [\"{file}\"]")).unwrap();
    }
    world.pair.start().unwrap();
    device(&world, "g");
    device(&world, "h");

    let collected = world.collect("commute").unwrap();
    assert_eq!(collected["count"], 8);
    assert_eq!(collected["result"], json!([2, 3, 3]));
}

/// The examples of `sotto-client`: what an application embeds.
#[test]
fn the_examples_take_part_and_collect() {
    let world = world();
    world.publish_recipe("commute", 2).unwrap();
    let example = |name: &str, arguments: &[&str]| {
        let mut command = std::process::Command::new(process::example(name).unwrap());
        let output = command.args(arguments).current_dir(world.path("")).output().unwrap();
        assert!(output.status.success(), "{name}: {}", process::shown(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    for state in ["one.state", "other.state"] {
        let device = |expected: &str| {
            let told = example("device", &["trust.toml", state, &world.log.url()]);
            assert_eq!(told.trim_end(), expected);
        };
        device("considered commute");
        device("silent: once: it has been considered before");
    }
    let key = read_key(&world.path("collector.toml")).unwrap();
    fs::write(world.path("collector.raw"), key.private_key().expose()).unwrap();
    let token = fs::read_to_string(world.path("collector.token")).unwrap();
    let told = example("collector", &["commute.recipe", "collector.raw", token.trim()]);
    assert_eq!(told.trim_end(), "2 reports: [0, 2, 0]");
}

/// `docs/walkthrough.md`, at free ports: every block of commands, in order, in one shell.
#[cfg(unix)]
#[test]
fn the_walkthrough_works_as_it_is_written() {
    let page = include_str!("../../docs/walkthrough.md");
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut script: String = blocks.collect();
    // The servers have consecutive ports, of which the page names those of the issuers.
    let first = free_ports(35).unwrap();
    script = script.replace("--local", &format!("--local --port {first}"));
    for offset in [8, 10] {
        script = script.replace(&format!("70{offset:02}"), &(first + offset).to_string());
    }
    // The processes that it started end with it, even if a command fails.
    let trap = "trap 'kill $(cat \"$TOP/walkthrough/pids\") 2>/dev/null || true' EXIT\n";
    let script = format!("set -e\n{trap}{}", script);

    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(process::sotto().unwrap(), folder.path().join("sotto")).unwrap();
    let path = std::env::var("PATH").unwrap();
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("TOP", folder.path())
        .env("PATH", format!("{}:{path}", folder.path().display()))
        .output()
        .unwrap();
    let text = process::shown(&output);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("Verified: public, and within").count(), 2, "{text}");
    for expected in [
        "a device would accept this recipe",
        "5 entries checked: nothing is wrong",
        "200 considered  commute",
        "commute: once: it has been considered before",
        "2 of 2 token requests failed, the last at attester-",
        "the attester refuses (status 400)",
        "95 % (total)",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing in {text}");
    }
    assert!(!folder.path().join("walkthrough").exists());
}
