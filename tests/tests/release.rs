//! A slice of the campaign of releases; `cargo xtask campaign release` runs it at full length.

use sotto_tests::release;

/// The number of kills, unless `SOTTO_RELEASES` is set.
const KILLS: u64 = 12;

#[test]
fn a_kill_during_a_release_draws_once() {
    let kills = std::env::var("SOTTO_RELEASES").map_or(KILLS, |count| count.parse().unwrap());
    let stages: Vec<_> = (1..=kills).map(|seed| release::run(seed).unwrap().1).collect();
    println!("{stages:?}");
}
