//! What a grant costs. Run with `cargo test --release -p sotto-store --test attester -- --ignored
//! --nocapture bench`.

use std::io::Write;
use std::time::Instant;

use super::*;

#[test]
#[ignore = "a measurement"]
fn cost_of_grants() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let batches = 400;
    let start = Instant::now();
    for batch in 0..batches {
        let grants =
            (0..256).map(|device| wish(device * 7919 % 50_000, batch, 1).grant()).collect();
        block_on(db.record(grants, at(5))).unwrap();
    }
    let grants = batches * 256;
    let micros = start.elapsed().as_secs_f64() * 1e6 / f64::from(grants);
    drop(db);
    let bytes = std::fs::metadata(dir.path().join("attester.sqlite")).unwrap().len();
    let bytes = bytes / u64::from(grants);
    let mut out = std::io::stdout();
    writeln!(out, "{grants} grants in batches of 256: {micros:.1} us and {bytes} bytes each")
        .unwrap();
}
