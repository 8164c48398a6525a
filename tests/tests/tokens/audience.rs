//! A recipe for an audience that the operators of both aggregators have certified: a batch of more
//! than twice the expected size is not released.

use crate::tokens::rogue::{Rogue, present};
use crate::tokens::{AGGREGATED, Scene, until_equal};

/// Devices in the audience. All of them answer, so a batch holds at most twice as many reports.
const AUDIENCE: u64 = 10;

/// Devices that are selected, and the expression that selects them.
const PREDICATE: &str = "minutes < 1000";

/// Certifies the audience, as both operators, and publishes it. Returns the id of the result.
fn certified(scene: &Scene) -> String {
    let world = &scene.world;
    let keys = ["leader", "helper"].map(|operator| world.public(operator, "verifier").unwrap());
    let measured_by = "00".repeat(32);
    let audience = AUDIENCE.to_string();
    let mut arguments = vec!["recipe", "certify", "--recipe", &measured_by, "--signer"];
    arguments.extend(["leader.key", "--predicate", PREDICATE, "--attribute", "minutes:int"]);
    arguments.extend(["--population", &audience, "--leader", &keys[0], "--helper", &keys[1]]);
    arguments.extend(["--out", "audience.result"]);
    world.run_json(&arguments).unwrap();
    world
        .run_json(&["recipe", "certify", "--add", "audience.result", "--signer", "helper.key"])
        .unwrap();
    let log = world.log.url();
    let published = world.run_json(&["recipe", "publish", "audience.result", "--log", &log]);
    published.unwrap()["entry_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_batch_of_twice_the_certified_audience_is_the_largest() {
    let mut scene = Scene::new();
    let audience = certified(&scene);
    let options = ["--predicate", PREDICATE, "--certified", &audience];
    // 1.9 times the audience, and 2.1 times.
    let (some, many) = (2 * AUDIENCE - 1, 2 * AUDIENCE + 1);
    let mut aggregated = 0;
    for (recipe, devices) in [("some", some), ("many", many)] {
        scene.publish_with(recipe, AUDIENCE, &options);
        let admitted = scene.admitted(recipe);
        for number in 0..devices {
            let mut device = Rogue::new(&format!("device {number}"), number);
            let tokens = device.tokens(&scene.world, &admitted);
            let report = device.report(&admitted, 0, present(&admitted), Some(&tokens));
            assert_eq!(scene.upload(&admitted, &report).status, 200);
        }
        aggregated += devices;
        let leader = &scene.world.pair.leader;
        until_equal(AGGREGATED, aggregated as f64, || leader.metric(AGGREGATED).unwrap());
    }
    scene.collect("some", [some, 0, 0]);
    let error = scene.world.collect_within("many", "10").unwrap_err().to_string();
    assert!(error.contains("twice what the certified audience would send"), "{error}");
    assert!(error.contains("more than 20 reports"), "{error}");
    assert!(!error.contains(&format!("{many} reports")), "the count is not told: {error}");
}

/// A round of a header that is open for weeks counts as a recipe of one week: all of the audience may
/// answer it.
#[test]
fn a_round_with_a_length_is_released_for_a_certified_audience() {
    let mut scene = Scene::new();
    let audience = certified(&scene);
    let options = ["--predicate", PREDICATE, "--certified", &audience];
    let rounds = ["--rounds", "3", "--round-length", "1w"];
    scene.world.publish_recipe_with("weekly", AUDIENCE, &[&options[..], &rounds].concat()).unwrap();
    let log = scene.world.log.url();
    let repeat = ["recipe", "repeat", "weekly.recipe", "--signer", "author.key", "--log", &log];
    scene.world.run_json(&repeat).unwrap();
    for aggregator in [&scene.world.pair.leader, &scene.world.pair.helper] {
        let served = "sotto_recipes_served";
        until_equal(served, 1.0, || aggregator.metric(served).unwrap());
    }
    scene.honest(&[20; AUDIENCE as usize]);
    let leader = &scene.world.pair.leader;
    until_equal(AGGREGATED, AUDIENCE as f64, || leader.metric(AGGREGATED).unwrap());
    scene.collect("weekly-round-0", [0, AUDIENCE, 0]);
    let (code, said) = scene.world.exit_code(&repeat).unwrap();
    assert!(code == Some(2) && said.contains("the last round is open until"), "{said}");
}
