//! A collector that looks too early, gives up, is stopped or killed locks nobody out.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use sotto_tests::process::{Process, read_json};
use sotto_tests::world::World;

const PATIENCE: Duration = Duration::from_secs(60);
const DAY: u64 = 86_400;

/// One-day windows, released by the week: 100 devices are asked, and all must answer.
fn weekly() -> World {
    let mut world = World::new().unwrap();
    world.start_with_keys().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let opens = (now / DAY * DAY).to_string();
    world.publish_recipe_when("weekly", 100, &["--opens", &opens, "--window", "1d"], "7d").unwrap();
    world
}

/// The exit code of a collection, and its JSON.
fn collect(world: &World, options: &[&str]) -> (Option<i32>, Value) {
    let arguments = world.collect_arguments("weekly", &[options, &["--json"]].concat());
    let output = world.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    (output.status.code(), read_json(&output).unwrap())
}

fn jobs(world: &World) -> Vec<Value> {
    let (code, list) = collect(world, &["--list"]);
    assert_eq!(code, Some(0), "{list}");
    list["jobs"].as_array().unwrap().clone()
}

/// A collector of today alone, whose job the leader has.
fn collector_of_today(world: &World) -> Process {
    let options = ["--current", "--anyway", "--deadline", "1h"];
    let arguments = world.collect_arguments("weekly", &options);
    let process = Process::start(arguments, &world.path("collect.log"), "info").unwrap();
    let deadline = Instant::now() + PATIENCE;
    while jobs(world).is_empty() {
        assert!(Instant::now() < deadline, "there is no job");
        thread::sleep(Duration::from_millis(50));
    }
    process
}

#[test]
fn a_look_too_early_costs_nothing() {
    let world = weekly();
    // The leader learns about the recipe from the first request.
    assert!(jobs(&world).is_empty());

    // A day cannot reach the minimum batch of a week. Nothing is asked, so no job is left.
    let (code, refused) = collect(&world, &["--current", "--deadline", "3"]);
    assert_eq!(code, Some(2), "{refused}");
    let said = refused["error"].as_str().unwrap();
    assert!(said.contains("too short") && said.contains("below 100"), "{said}");
    // The week can, but it is not over.
    let (code, open) = collect(&world, &["--deadline", "3"]);
    assert_eq!((code, &open["ready"]), (Some(1), &json!(false)), "{open}");
    assert!(open["error"].as_str().unwrap().contains("is still open"), "{open}");
    assert!(open["hint"].as_str().unwrap().contains("ask again after"), "{open}");
    assert!(jobs(&world).is_empty());

    // Whoever asks anyway leaves no job at the deadline, at SIGTERM or at Ctrl-C.
    let (code, early) = collect(&world, &["--current", "--anyway", "--deadline", "3"]);
    assert_eq!((code, &early["ready"]), (Some(1), &json!(false)), "{early}");
    assert!(jobs(&world).is_empty());
    for signal in ["TERM", "INT"] {
        let mut process = collector_of_today(&world);
        process.signal(signal).unwrap();
        assert_eq!(process.wait(PATIENCE).unwrap(), Some(1));
        assert!(jobs(&world).is_empty(), "after {signal}");
    }

    // A job can be cancelled by hand.
    collector_of_today(&world).kill().unwrap();
    let left = jobs(&world);
    assert_eq!((left.len(), &left[0]["state"]), (1, &json!("pending")), "{left:?}");
    assert_eq!(left[0]["interval"]["duration_s"], DAY);
    let (code, cancelled) = collect(&world, &["--cancel", left[0]["job_id"].as_str().unwrap()]);
    assert_eq!((code, &cancelled["cancelled"]), (Some(0), &json!(true)));
    assert!(jobs(&world).is_empty());

    // A collector that was killed could cancel nothing. The next one does, and gets the week.
    collector_of_today(&world).kill().unwrap();
    assert_eq!(jobs(&world).len(), 1);
    for i in 0..100 {
        world.device(&format!("device-{i}"), i).unwrap();
    }
    let collected = world.collect("weekly").unwrap();
    assert_eq!(collected["count"], 100);

    // The result is not lost by a cancellation, and the same request finds it again.
    let left = jobs(&world);
    assert_eq!((left.len(), &left[0]["state"]), (1, &json!("finished")), "{left:?}");
    let (code, kept) = collect(&world, &["--cancel", left[0]["job_id"].as_str().unwrap()]);
    assert_eq!((code, &kept["cancelled"]), (Some(1), &json!(false)), "{kept}");
    assert_eq!(world.collect("weekly").unwrap(), collected);
    // Another interval is refused with the one that gives a result.
    let (code, refused) = collect(&world, &["--current", "--anyway", "--deadline", "60"]);
    assert_eq!(code, Some(2), "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("was collected before"), "{refused}");
    let interval = &collected["interval"];
    assert_eq!(interval["duration_s"], DAY);
    let hint = refused["hint"].as_str().unwrap();
    assert!(hint.contains(&format!("--interval {} {}", interval["start_s"], 7 * DAY)), "{hint}");
}
