//! A slice of the crash campaign; `cargo xtask campaign crash` runs it at full length.

use sotto_tests::crash;

/// The number of kills, unless `SOTTO_CRASHES` is set.
const KILLS: u64 = 20;

#[test]
fn every_acknowledged_report_is_counted_once_whoever_is_killed() {
    let kills = std::env::var("SOTTO_CRASHES").map_or(KILLS, |count| count.parse().unwrap());
    let mut recoveries = Vec::new();
    for seed in 1..=kills {
        recoveries.push(crash::run(seed).unwrap().collected);
    }
    recoveries.sort();
    println!("{kills} kills; result after {:?} (median)", recoveries[recoveries.len() / 2]);
}
