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
