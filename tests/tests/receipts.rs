//! Releases become visible: leader and helper log receipts, whatever happens to them or to the log,
//! and a monitor tells what it makes of them.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sotto_crypto::Secret;
use sotto_crypto::note::NoteKey;
use sotto_tests::pair::{self, Aggregator};
use sotto_tests::world::World;
use sotto_wire::{Entry, EntryKind, Note, PublicKey, Receipt, Role};

const SENT: &str = "sotto_receipts_total{outcome=\"sent\"}";
const OWED: &str = "sotto_receipts_owed";
const PATIENCE: Duration = Duration::from_secs(60);

fn world(receipts: &'static [&'static str]) -> World {
    let arrange = |world: &mut World| {
        world.receipts = receipts;
        Ok(())
    };
    let mut world = World::arranged(arrange).unwrap();
    world.start_with_keys().unwrap();
    world
}

/// Publishes a recipe, has three devices answer, and waits until both have counted them.
fn answered(world: &World, name: &str, options: &[&str]) -> String {
    let published = world.publish_recipe_with(name, 3, options).unwrap();
    let aggregated = "sotto_reports_aggregated_total";
    let before = world.pair.helper.metric(aggregated).unwrap();
    // A device that knows two recipes may need a further pass for its second answer.
    eventually("three reports are counted", || {
        for device in 0..3 {
            world.device(&format!("{name}-{device}"), 20 * device).unwrap();
        }
        world.pair.helper.metric(aggregated).unwrap() >= before + 3.0
    });
    published["entry_id"].as_str().unwrap().to_owned()
}

fn collect(world: &World, name: &str) {
    assert_eq!(world.collect(name).unwrap()["count"], 3);
}

/// The receipts in the log, in its order.
fn logged(world: &World) -> Vec<Value> {
    let list = ["log", "list", "--trust", "trust.toml", "--kind", "receipt"];
    world.run_json(&list).unwrap()["entries"].as_array().unwrap().clone()
}

/// What a new monitor reports, without what is not about receipts.
fn monitored(world: &World, state: &str) -> Vec<Value> {
    let monitor = ["log", "monitor", "--once", "--json", "--trust", "trust.toml", "--state", state];
    let output = world.run(&monitor).unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kinds = ["receipt", "release_rule", "receipts_differ", "receipt_missing"];
    let mut events = report["events"].as_array().unwrap().clone();
    events.retain(|event| kinds.iter().any(|kind| event["kind"] == *kind));
    events
}

/// The reasons in `/readyz`.
fn reasons(aggregator: &Aggregator) -> Vec<String> {
    let answer = pair::get(aggregator.admin_address(), "/readyz").unwrap();
    let document: Value = serde_json::from_slice(&answer.body).unwrap();
    let reasons = document["reasons"].as_array().unwrap().iter();
    reasons.map(|reason| reason["name"].as_str().unwrap().to_owned()).collect()
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn both_sent(world: &World, count: f64) {
    for aggregator in [&world.pair.leader, &world.pair.helper] {
        world.wait_for(aggregator, SENT, count).unwrap();
        eventually("no receipt is owed", || aggregator.metric(OWED).unwrap() == 0.0);
    }
}

/// Operator, role, number and count of each receipt for a recipe.
fn said(receipts: &[Value], id: &str) -> Vec<Value> {
    let of_recipe = receipts.iter().filter(|receipt| receipt["recipe_id"] == id);
    let fields = ["operator", "role", "seq", "count"];
    let mut said: Vec<Value> =
        of_recipe.map(|receipt| fields.map(|field| receipt[field].clone()).into()).collect();
    said.sort_by_key(Value::to_string);
    said
}

/// Both say the same. The operators of this world release early, and are told so.
#[test]
fn both_operators_log_what_they_released() {
    let world = world(&["leader", "helper"]);
    let modes = [("by-time", "time-interval"), ("selected", "leader-selected")];
    let mut said_before = 0;
    let ids = modes.map(|(name, mode)| {
        let id = answered(&world, name, &["--batch-mode", mode]);
        assert_eq!(logged(&world).len(), said_before, "nothing is said before a release");
        collect(&world, name);
        said_before += 2;
        both_sent(&world, said_before as f64 / 2.0);
        id
    });
    for aggregator in [&world.pair.leader, &world.pair.helper] {
        assert_eq!(reasons(aggregator), [] as [String; 0]);
    }

    let receipts = logged(&world);
    assert_eq!(receipts.len(), 4);
    for id in &ids {
        // Three reports are two, rounded down.
        let expected =
            [json!(["helper.example", "helper", 1, 2]), json!(["leader.example", "leader", 1, 2])];
        assert_eq!(said(&receipts, id), expected);
        let of_recipe: Vec<&Value> =
            receipts.iter().filter(|receipt| receipt["recipe_id"] == id.as_str()).collect();
        for field in ["start_s", "end_s", "batch_id"] {
            assert_eq!(of_recipe[0][field], of_recipe[1][field], "{field}");
        }
        assert_eq!(of_recipe[0].get("batch_id").is_some(), *id == ids[1]);
    }
    let events = monitored(&world, "monitor.json");
    let (news, alerts): (Vec<_>, Vec<_>) = events.iter().partition(|event| event["alert"] == false);
    assert_eq!((news.len(), alerts.len()), (4, 4), "{events:?}");
    assert!(news.iter().all(|event| event["kind"] == "receipt"));
    for event in alerts {
        assert_eq!(
            (&event["kind"], &event["against"]),
            (&json!("release_rule"), &json!("operator"))
        );
        assert_eq!(event["blamed_operators"], json!([event["operator"]]));
        let words = event["words"].as_str().unwrap();
        assert!(words.contains("was public before it was due"), "{words}");
    }
}

/// The log is away during the release, and both are killed before they could send anything. Then
/// one is killed after it sent its receipt, before it knew that.
#[test]
fn a_receipt_is_logged_once_whoever_is_away_or_killed() {
    let mut world = world(&["leader", "helper"]);
    let id = answered(&world, "commute", &[]);
    world.log.kill().unwrap();
    collect(&world, "commute");
    for aggregator in [&world.pair.leader, &world.pair.helper] {
        eventually("the operator is told", || {
            reasons(aggregator).contains(&"receipts_owed".to_owned())
        });
        assert_eq!(aggregator.metric(OWED).unwrap(), 1.0);
        assert_eq!(aggregator.metric(SENT).unwrap(), 0.0);
    }
    world.pair.leader.kill().unwrap();
    world.pair.helper.kill().unwrap();
    world.log.start().unwrap();
    world.pair.start().unwrap();
    both_sent(&world, 1.0);
    let expected =
        [json!(["helper.example", "helper", 1, 2]), json!(["leader.example", "leader", 1, 2])];
    let receipts = logged(&world);
    assert_eq!(said(&receipts, &id), expected);

    world.pair.leader.kill().unwrap();
    let store = world.pair.leader.data_dir().join("sotto.sqlite");
    let store = rusqlite::Connection::open(store).unwrap();
    assert_eq!(store.execute("UPDATE receipts SET is_sent = 0", []).unwrap(), 1);
    drop(store);
    world.pair.leader.start().unwrap();
    world.wait_for(&world.pair.leader, SENT, 1.0).unwrap();
    assert_eq!(logged(&world), receipts);
}

/// The key of an operator, which devices pin.
fn operator_key(world: &World, operator: &str) -> NoteKey {
    let file = fs::read_to_string(world.path(&format!("{operator}.key"))).unwrap();
    let file: toml::Table = file.parse().unwrap();
    let seed = base64::Engine::decode(
        &base64::engine::general_purpose::URL_SAFE_NO_PAD,
        file["seed"].as_str().unwrap(),
    );
    let name = file["name"].as_str().unwrap().parse().unwrap();
    NoteKey::from_seed(name, Secret::new(seed.unwrap().try_into().unwrap()))
}

/// The helper releases a batch with the leader, and then says that it was larger.
#[test]
fn an_operator_who_lies_is_named() {
    let world = world(&["leader"]);
    answered(&world, "commute", &[]);
    collect(&world, "commute");
    world.wait_for(&world.pair.leader, SENT, 1.0).unwrap();
    let [honest] = &logged(&world)[..] else { panic!("one receipt") };
    let helper = operator_key(&world, "helper");
    let number = |field: &str| honest[field].as_u64().unwrap();
    let lie = Receipt {
        version: 1,
        recipe: honest["recipe_id"].as_str().unwrap().parse().unwrap(),
        operator: sotto_wire::Signer {
            name: helper.name().clone(),
            key: PublicKey::new(*helper.verifier().public_key()),
        },
        role: Role::Helper,
        seq: 1,
        start: number("start_s"),
        end: number("end_s"),
        count: 2 * number("count"),
        batch: None,
    };
    let text = Entry::text(EntryKind::Receipt, std::str::from_utf8(&lie.to_json()).unwrap());
    let signature = helper.sign(&text);
    let entry = Note::new(text).unwrap().with_signature(signature).to_bytes();
    fs::write(world.path("lie.receipt"), entry).unwrap();
    world.run_json(&["recipe", "publish", "lie.receipt", "--log", &world.log.url()]).unwrap();

    let events = monitored(&world, "monitor.json");
    let differ: Vec<_> = events.iter().filter(|event| event["kind"] == "receipts_differ").collect();
    let [differs] = &differ[..] else { panic!("{events:?}") };
    assert_eq!((&differs["alert"], &differs["against"]), (&json!(true), &json!("operator")));
    assert_eq!(differs["blamed_operators"], json!(["helper.example", "leader.example"]));
    let words = differs["words"].as_str().unwrap();
    let index = honest["index"].as_u64().unwrap();
    assert!(words.contains(&format!("differs from the one of entry {index}.")), "{words}");
    assert!(words.contains("Nothing here speaks against the author or the log"), "{words}");
    // Every other alert is about the releases of this world, which come early.
    let others = events.iter().filter(|event| event["alert"] == true && event != differs);
    assert!(others.into_iter().all(|event| event["kind"] == "release_rule"), "{events:?}");
}
