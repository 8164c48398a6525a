//! A slice of the campaign of trainings; `cargo xtask campaign training` runs it at full length.

use sotto_tests::training;

/// The number of kills, unless `SOTTO_TRAINING_KILLS` is set.
const KILLS: usize = 5;

#[test]
fn a_training_ends_as_if_nobody_had_been_killed() {
    let kills = std::env::var("SOTTO_TRAINING_KILLS");
    let kills = kills.map_or(KILLS, |count| count.parse().unwrap());
    let trained = training::run(1, kills).unwrap();
    println!("{trained:?}");
}

/// Every device takes part in every round, and adds 1/8 to a weight of its own. So after two rounds
/// each weight, which is the device's loss, is 1/4, and after four 1/2; and every prediction is right.
#[test]
fn the_devices_of_a_training_say_how_good_the_model_is() {
    let found = training::evaluated().unwrap();
    assert_eq!(found.len(), 2, "{found:?}");
    for (index, line) in found.iter().enumerate() {
        assert_eq!(
            (&line["count"], line["round"].as_u64()),
            (&training::DEVICES.into(), Some(2 * index as u64 + 1))
        );
        let estimate = |name: &str| line["evaluation"][name]["estimate"].as_f64().unwrap();
        let loss = 0.25 * (index + 1) as f64;
        assert!((estimate("mean_loss") - loss).abs() < 1e-3, "{line}");
        assert!((estimate("mean_accuracy") - 1.0).abs() < 1e-9, "{line}");
    }
}
