//! `sotto log monitor`.

use serde_json::{Value, json};
use sotto_wire::{Encode, Entry, HpkeConfigList, Recipe};

use crate::flat;
use crate::log::entries::{
    DAY, claiming, hpke, key, key_of, key_set, key_sets, now, recipe, recipe_entry, result, sampled,
};
use crate::log::folder::{Folder, Run, forge, forge_with};
use crate::log::verify::proofs;
use crate::log::web::serve;

/// Reads the log in the folder `log` once.
fn monitor(world: &Folder, more: &[&str]) -> Run {
    let files = ["--trust", "trust.toml", "--state", "monitor.json", "--log", "log"];
    world.run(&[&["log", "monitor", "--once"], &files[..], more].concat())
}

/// The same without served keys, as JSON.
fn quiet(world: &Folder, code: i32) -> Value {
    monitor(world, &["--no-served-keys", "--json"]).json(code)
}

fn show(world: &Folder, entries: &[Entry]) {
    forge(&world.path("log"), entries);
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// The words of the events that are alerts, or of those that are not.
fn words(report: &Value, alert: bool) -> Vec<String> {
    let events = report["events"].as_array().unwrap().iter();
    let events = events.filter(|event| event["alert"] == alert);
    events.map(|event| event["words"].as_str().unwrap().to_owned()).collect()
}

fn news(report: &Value) -> Vec<String> {
    words(report, false)
}

fn alerts(report: &Value) -> Vec<String> {
    words(report, true)
}

/// The one alert.
fn alert(report: &Value) -> String {
    let [alert]: [String; 1] = alerts(report).try_into().unwrap();
    alert
}

/// Checks that the one file named by the report is a valid proof.
fn check_proof(world: &Folder, report: &Value) -> String {
    let [file]: [String; 1] = texts(&report["misbehaviour_files"]).try_into().unwrap();
    flat(&world.run(&["log", "verify", "--misbehaviour", &file]).says(1))
}

#[test]
fn what_is_new_is_told_once() {
    let world = Folder::new();
    let [leader, helper] = key_sets();
    let mut entries =
        vec![leader, helper, result(&key("leader.example")), recipe_entry(&recipe("one"))];
    show(&world, &entries);
    let said = monitor(&world, &["--no-served-keys"]).says(0);
    let lines: Vec<&str> = said.lines().collect();
    let leader = "0: key set 5 of leader.example: HPKE keys 5; at https://leader.example/";
    let helper = "1: key set 7 of helper.example: HPKE keys 7; at https://helper.example/";
    assert_eq!(lines[..2], [leader, helper]);
    assert_eq!(lines[2], "2: result for the predicate \"tier == 'gold'\": 50000 devices");
    assert!(lines[3].starts_with("3: recipe one by author.example: epsilon 0."), "{said}");
    assert!(lines[3].ends_with(", minimum batch 5000"), "{said}");
    assert_eq!(lines.len(), 4);
    let again = monitor(&world, &["--no-served-keys"]).says(0);
    assert_eq!(again, "4 entries, nothing new, nothing wrong\n");
    let empty = json!({
        "schema": "sotto/1", "command": "log monitor", "size": 4, "events": [], "misbehaviour_files": [], "hook_failures": [], "hook_pending": 0
    });
    assert_eq!(quiet(&world, 0), empty);

    // Only new entries are read. They are compared with what the author published before.
    entries.push(recipe_entry(&sampled(recipe("two"), 1, 1)));
    show(&world, &entries);
    let report = quiet(&world, 0);
    let news = news(&report);
    assert!(news[0].starts_with("4: recipe two by author.example: epsilon "), "{news:?}");
    let changes = "4: recipe two by author.example: since one: ";
    assert!(news[1..].iter().all(|line| line.starts_with(changes)), "{news:?}");
    let rate = format!("{changes}sampling rate ");
    let rate = news.iter().find(|line| line.starts_with(&rate)).unwrap();
    assert!(rate.ends_with("(weaker)"), "{rate}");
}

/// An event without its words, as one line.
fn brief(event: &Value) -> String {
    let fields = ["kind", "alert", "index", "author", "name", "against"];
    fields.map(|field| event[field].to_string().replace('"', "")).join(" ")
}

#[test]
fn events_say_what_happened_where_and_whom_it_speaks_against() {
    let world = Folder::new();
    let entries = [
        recipe_entry(&recipe("one")),
        key_set(&key("leader.example"), 5),
        key_set(&key("leader.example"), 4),
        result(&key("leader.example")),
        recipe_entry(&claiming(recipe("two"), 0.99)),
    ];
    show(&world, &entries);
    let report = quiet(&world, 1);
    let events = report["events"].as_array().unwrap();
    let brief: Vec<String> = events.iter().map(brief).collect();
    let expected = [
        "recipe false 0 author.example one null",
        "key_set false 1 leader.example 5 null",
        "key_set false 2 leader.example 4 null",
        "key_set true 2 leader.example 4 operator",
        "result false 3 leader.example, helper.example tier == 'gold' null",
        "bad_recipe true 4 author.example two author",
        "recipe false 4 author.example two null",
        "change false 4 author.example two null",
    ];
    assert_eq!(brief[..7], expected[..7]);
    assert!(brief[7..].iter().all(|event| event == expected[7]), "{brief:?}");
    for event in events {
        let index = usize::try_from(event["index"].as_u64().unwrap()).unwrap();
        assert_eq!(event["entry_id"], entries[index].id().to_string());
    }
}

/// A hook that adds its input to the file `events`.
const APPEND: &str = "cat >> events";

#[test]
fn every_event_reaches_the_hook() {
    let world = Folder::new();
    let with_hook = |hook: &str, code: i32| {
        let hook = ["--hook", hook, "--hook-timeout", "1", "--no-served-keys", "--json"];
        monitor(&world, &hook).json(code)
    };
    let heard = || -> Vec<Value> {
        let text = String::from_utf8(world.read("events")).unwrap();
        let event = |line: &str| {
            let mut event = crate::read(line.as_bytes());
            assert_eq!(event["command"], "log monitor");
            event.as_object_mut().unwrap().retain(|key, _| key != "schema" && key != "command");
            event
        };
        text.lines().map(event).collect()
    };
    let entries = [1, 2, 3, 4, 5].map(|seq| key_set(&key("leader.example"), seq));
    show(&world, &entries[..1]);
    let first = with_hook(APPEND, 0)["events"].as_array().unwrap().clone();
    assert_eq!(first.len(), 1);
    assert_eq!(heard(), first);
    with_hook(APPEND, 0);
    assert_eq!(heard(), first, "once");

    // One that fails, one that never ends, and one that is not there: each is reported, and the
    // events wait.
    show(&world, &entries);
    let report = with_hook("exit 3", 2);
    let new = report["events"].as_array().unwrap().clone();
    assert_eq!(new.len(), 4);
    let failures = texts(&report["hook_failures"]);
    assert_eq!(failures.len(), 3, "the others wait: {failures:?}");
    assert!(failures[0].starts_with("exit status: 3, for: 1: key set 2 of "), "{failures:?}");
    assert_eq!(report["hook_pending"], 4);
    let report = with_hook("exec sleep 100", 2);
    assert!(texts(&report["hook_failures"])[0].starts_with("it took longer than 1s"), "{report}");
    assert_eq!(with_hook("/nowhere/hook", 2)["hook_pending"], 4);
    assert_eq!(heard(), first);
    // Without a hook they wait too.
    quiet(&world, 0);
    let hook = ["--no-served-keys", "--hook", "exit 3"];
    monitor(&world, &hook).says(2);

    // One that refuses one event: it does not hold up the others.
    let picky =
        "event=$(cat); case $event in *'key set 4 of'*) exit 1;; esac; echo \"$event\" >> events";
    assert_eq!(with_hook(picky, 2)["hook_pending"], 1);
    assert_eq!(with_hook(APPEND, 0)["hook_pending"], 0);
    let by_index = |mut events: Vec<Value>| {
        events.sort_by_key(|event| event["index"].as_u64());
        events
    };
    assert_eq!(by_index(heard()), [first, new].concat());

    // What is true at every reading waits once.
    show(&world, &entries[..4]);
    assert_eq!(with_hook("exit 3", 1)["hook_pending"], 1);
    assert_eq!(with_hook("exit 3", 1)["hook_pending"], 1);
    with_hook(APPEND, 1);
    assert_eq!(heard().last().unwrap()["kind"], "smaller");
}

#[test]
fn what_devices_would_refuse_is_told() {
    let world = Folder::new();
    world.trust(|trust| trust.floors.dishonest_devices = 5_000);
    let stranger = key_set(&key("stranger.example"), 1);
    show(&world, &[recipe_entry(&recipe("one")), stranger, result(&key("stranger.example"))]);
    let news = self::news(&quiet(&world, 0));
    assert!(news[0].contains("; devices stay silent: floors: a minimum batch of 5000"), "{news:?}");
    assert!(news[1].contains("an operator that the trust file does not pin"), "{news:?}");
    assert!(news[2].contains("by stranger.example, whom the trust file does not pin"), "{news:?}");

    // An aggregator that is not where its operator says.
    let (world, [leader, helper]) = (Folder::new(), key_sets());
    show(&world, &[leader, helper, recipe_entry(&at("https://author.example", recipe("one")))]);
    let news = self::news(&quiet(&world, 0));
    let silent = "; devices stay silent: key_sets: the recipe names leader.example at https://author.example/leader/";
    assert!(news[2].contains(silent), "{news:?}");
}

#[test]
fn a_name_that_is_used_twice_is_an_alert_with_proof() {
    let world = Folder::new();
    show(&world, &[recipe_entry(&recipe("one"))]);
    assert_eq!(alerts(&quiet(&world, 0)), [""; 0]);
    // The first of the two is remembered from the reading before.
    let two = [recipe("one"), sampled(recipe("one"), 1, 4)];
    show(&world, &two.map(|recipe| recipe_entry(&recipe)));
    let said = monitor(&world, &["--no-served-keys", "--out", "evidence"]).says(1);
    let alert = "ALERT 1: recipe one by author.example: the name was used for another recipe\n";
    assert!(said.contains(alert), "{said}");
    let [file]: [String; 1] = world.evidence("evidence").try_into().unwrap();
    assert!(said.contains(&format!("proof in {file}\n")), "{said}");
    let proved = world.run(&["log", "verify", "--misbehaviour", &file]).says(1);
    let author = key("author.example").verifier();
    let words = format!("Proved: the author key {author} signed two recipes named one");
    assert_eq!(flat(&proved), words);
    // It is reported only once.
    assert_eq!(alerts(&quiet(&world, 0)), [""; 0]);
}

#[test]
fn a_claim_that_is_too_low_is_an_alert_with_proof() {
    let world = Folder::new();
    show(&world, &[recipe_entry(&claiming(recipe("one"), 0.99))]);
    let report = quiet(&world, 1);
    let words = alert(&report);
    assert!(words.starts_with("0: recipe one by author.example: claim: it claims "), "{words}");
    assert!(check_proof(&world, &report).contains("signed a recipe that fails: claim: "));
}

#[test]
fn a_proof_that_cannot_be_written_does_not_hide_what_it_proves() {
    let world = Folder::new();
    show(&world, &[recipe_entry(&claiming(recipe("one"), 0.99))]);
    world.write("taken", "a file");
    let report = monitor(&world, &["--no-served-keys", "--json", "--out", "taken"]).json(1);
    let alerts = alerts(&report);
    assert!(alerts[0].contains("it claims"), "{alerts:?}");
    assert!(alerts[1].starts_with("a proof could not be written: "), "{alerts:?}");
}

#[test]
fn key_sets_that_follow_each_other_too_fast_are_alerts() {
    let world = Folder::new();
    world.trust(|file| file.insecure_no_min_age = false);
    let operator = key("leader.example");
    show(&world, &[key_set(&operator, 5), key_set(&operator, 6)]);
    let words = alert(&quiet(&world, 1));
    let begins = "it begins less than 86400 s after key set 5: devices ignore it";
    assert_eq!(words, format!("1: key set 6 of leader.example: {begins}"));
}

#[test]
fn key_sets_that_go_back_or_are_foreign_are_alerts() {
    let world = Folder::new();
    let operator = key("leader.example");
    show(&world, &[key_set(&operator, 5), key_set(&operator, 4)]);
    let words = alert(&quiet(&world, 1));
    assert_eq!(words, "1: key set 4 of leader.example: key set 5 was published before");

    let world = Folder::new();
    let impostor = key_of("somebody", "leader.example");
    show(&world, &[key_set(&impostor, 5), result(&impostor)]);
    let alerts = alerts(&quiet(&world, 1));
    assert_eq!(alerts[0], "0: key set 5 of leader.example: not signed by the pinned key");
    assert!(alerts[1].ends_with("not signed by the pinned key of leader.example"), "{alerts:?}");
}

#[test]
fn checkpoints_that_no_device_believes_are_alerts() {
    let world = Folder::new();
    let entries = [recipe_entry(&recipe("one"))];
    let at = |witnesses, time| {
        forge_with(&world.path("log"), &entries, witnesses, time);
        alert(&quiet(&world, 1))
    };
    let words = at(1, now());
    assert!(words.starts_with("no device believes the checkpoint: "), "{words}");
    let words = at(2, now() - 5 * DAY);
    assert!(words.starts_with("the checkpoint is 432"), "{words}");
    assert!(words.ends_with(" s old; devices allow 604800 s"), "{words}");
    let words = at(2, now() + DAY);
    assert_eq!(words, "the witnesses' time is ahead of this machine's clock");
}

#[test]
fn a_log_that_goes_back_or_contradicts_itself_is_an_alert() {
    let world = Folder::new();
    let entries = ["one", "two", "three"].map(|name| recipe_entry(&recipe(name)));
    show(&world, &entries[..2]);
    quiet(&world, 0);
    let state = world.read("monitor.json");
    show(&world, &entries[..1]);
    assert_eq!(alert(&quiet(&world, 1)), "the log has 1 entries, but had 2");
    assert!(world.evidence(".").is_empty());

    // A fork of the same size, and a larger one.
    for fork in [vec![0, 2], vec![0, 2, 1]] {
        let world = Folder::new();
        show(&world, &entries[..2]);
        quiet(&world, 0);
        let state = world.read("monitor.json");
        let fork: Vec<Entry> =
            fork.into_iter().map(|index: usize| entries[index].clone()).collect();
        show(&world, &fork);
        let report = quiet(&world, 1);
        let words = alert(&report);
        assert_eq!(words, format!("the log contradicts itself: sizes 2 and {}", fork.len()));
        assert_eq!(report["size"], fork.len());
        assert!(check_proof(&world, &report).starts_with("Proved: the log key "));
        assert_eq!(world.read("monitor.json"), state, "what was believed stays");
    }

    // The monitor continues where it was.
    assert_eq!(world.read("monitor.json"), state);
    show(&world, &entries);
    let news = news(&quiet(&world, 0));
    assert!(news[0].starts_with("2: recipe three "), "{news:?}");
}

#[test]
fn a_log_that_contradicted_itself_stays_an_alert() {
    let world = Folder::new();
    let entries = ["one", "two", "three"].map(|name| recipe_entry(&recipe(name)));
    show(&world, &entries[..2]);
    quiet(&world, 0);
    show(&world, &[entries[0].clone(), entries[2].clone()]);
    quiet(&world, 1);
    // The honest view again.
    show(&world, &entries[..2]);
    let words = alert(&quiet(&world, 1));
    assert!(words.contains(" signed two trees of 2 entries. This was proved before"), "{words}");
    // The memory is that of `log verify`.
    let [name]: [String; 1] = proofs(&world).try_into().unwrap();
    world.run(&["log", "memory", "--remove", &name]).says(0);
    assert_eq!(alerts(&quiet(&world, 0)), [""; 0]);
}

#[test]
fn a_log_that_cannot_be_read_is_neither() {
    let world = Folder::new();
    let once = ["--no-served-keys"];
    assert!(monitor(&world, &once).fails().contains("no such folder"));
    show(&world, &[recipe_entry(&recipe("one"))]);
    let loops = ["log", "monitor", "--trust", "trust.toml", "--state", "s", "--json"];
    assert!(world.run(&loops).json(2)["error"].as_str().unwrap().contains("--once"));
    world.write("monitor.json", "nonsense");
    assert!(monitor(&world, &once).fails().contains("monitor.json is damaged"));
    assert_eq!(world.read("monitor.json"), b"nonsense");

    // Entries that do not belong to the checkpoint are not reported, and nothing is saved.
    let world = Folder::new();
    show(&world, &[recipe_entry(&recipe("one"))]);
    let bundle = "log/tile/entries/000.p/1";
    let other = String::from_utf8_lossy(&world.read(bundle)).replace("one", "two");
    world.write(bundle, other);
    assert!(monitor(&world, &once).fails().contains("does not belong to the checkpoint"));
    assert!(!world.path("monitor.json").exists());
}

/// The recipe with its aggregators at this address.
fn at(url: &str, mut recipe: Recipe) -> Recipe {
    recipe.parties.leader.url = format!("{url}/leader/");
    recipe.parties.helper.url = format!("{url}/helper/");
    recipe
}

#[test]
fn served_keys_are_compared_with_logged_ones() {
    let (url, requests) = serve(|line| {
        let list = |seeds: &[u64]| {
            let configs = seeds.iter().map(|seed| hpke(*seed)).collect();
            (200, HpkeConfigList::new(configs).unwrap().to_bytes())
        };
        match line {
            // A key of the previous set, which is still in force.
            _ if line.starts_with("GET /leader/hpke_config ") => list(&[5]),
            _ if line.starts_with("GET /helper/hpke_config ") => list(&[7, 66]),
            _ => (404, Vec::new()),
        }
    });
    let world = Folder::new();
    let [leader, helper] = key_sets();
    let newer = key_set(&key("leader.example"), 6);
    let mut entries = vec![leader, helper, newer, recipe_entry(&at(&url, recipe("one")))];
    show(&world, &entries);
    let report = monitor(&world, &["--json"]).json(1);
    let words = alert(&report);
    let expected =
        format!("helper.example at {url}/helper/ serves key 66, which it has not logged");
    assert_eq!(words, expected);
    let event = report["events"].as_array().unwrap().iter().find(|event| event["alert"] == true);
    assert_eq!(event.unwrap()["operator"], "helper.example");
    assert_eq!(event.unwrap()["url"], format!("{url}/helper/"));
    assert_eq!(requests.lock().unwrap().len(), 2);
    // The alert is repeated as long as the problem persists.
    assert_eq!(alert(&monitor(&world, &["--json"]).json(1)), expected);
    assert_eq!(alerts(&quiet(&world, 0)), [""; 0]);

    // An aggregator that does not answer is reported, but is not an alert.
    world.write(
        "monitor.json",
        "{\"size\":0,\"checkpoint\":null,\"recipes\":{},\"newest\":{},\"key_sets\":{}}",
    );
    entries[3] = recipe_entry(&at(&format!("{url}/nowhere"), recipe("one")));
    show(&world, &entries);
    let news = news(&monitor(&world, &["--json"]).json(0));
    assert!(
        news.contains(&"leader.example: keys not compared: it answers 404".to_owned()),
        "{news:?}"
    );

    // Keys that nobody logged.
    let world = Folder::new();
    show(&world, &[recipe_entry(&at(&url, recipe("one")))]);
    let alerts = alerts(&monitor(&world, &["--json"]).json(1));
    assert_eq!(alerts.len(), 2);
    assert!(
        alerts[0].ends_with("serves keys, but has logged none that are in force"),
        "{alerts:?}"
    );
}

#[test]
fn two_rounds_with_one_number_are_an_alert_with_proof() {
    use sotto_testing::world::Plan;
    use sotto_wire::EntryId;
    use sotto_wire::recipe::{
        AttributeType, Model, Participation, Query, Randomizer, Round, Training, UPDATE,
        VectorQuery,
    };
    let world = Folder::new();
    let mut plan = Plan::new();
    plan.recipe = recipe("one");
    plan.recipe.attributes.insert(UPDATE.parse().unwrap(), AttributeType::Vector(10));
    plan.recipe.randomizer = Randomizer::Gaussian { sigma_micro: 8_000_000 };
    let query = Query::VectorSum(VectorQuery {
        dimension: 10,
        clip_micro: 1_000_000,
        fraction_bits: 15,
        mapping: UPDATE.to_owned(),
        compression: None,
    });
    sotto_testing::recipe::set_query(&mut plan.recipe, query);
    plan.in_series(3, Participation::EachRound {});
    plan.recipe.series.as_mut().unwrap().training = Some(Training {
        model: Model::Softmax { features: 5, classes: 2 },
        models: "https://models.example/".to_owned(),
        steps: 1,
        batch: None,
        learning_rate_micro: 1_000_000,
        vote_weight_micro: None,
        largest_loss_micro: None,
    });
    plan.reclaim();
    let mut entries = vec![recipe_entry(&plan.recipe)];
    for bytes in [&b"one"[..], b"two"] {
        let model = Some(EntryId::of(bytes));
        entries.push(recipe_entry(&plan.recipe.with_round(Round { index: 0, model }).unwrap()));
    }
    show(&world, &entries);
    check_proof(&world, &quiet(&world, 1));
}
