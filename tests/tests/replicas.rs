//! Leaders and helpers that share a database: each report is counted once, whoever takes it and
//! whoever works on it.

use sotto_tests::faults::{Plan, run};

/// How long the slice of the fault campaign runs, unless `SOTTO_FAULT_SECONDS` is set.
const SECONDS: u64 = 60;

#[test]
fn every_acknowledged_report_is_counted_once_whatever_fails() {
    let seconds =
        std::env::var("SOTTO_FAULT_SECONDS").map_or(SECONDS, |text| text.parse().unwrap());
    let plan = Plan { leaders: 2, helpers: 2, seconds, seed: 1 };
    let Some(outcome) = run(&plan).unwrap() else { return };
    println!("{outcome}");
    assert!(outcome.reports > 0 && outcome.faults > 0);
}
