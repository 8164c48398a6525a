//! Below the minimum batch size the collector learns nothing, not even the count.

use serde_json::{Value, json};
use sotto_tests::cli::{collect, collect_arguments, upload};
use sotto_tests::pair::Pair;
use sotto_tests::process::{read_json, run, shown};

const MODES: [(&str, bool); 2] = [("time-interval", true), ("leader-selected", false)];

#[test]
fn a_batch_is_released_with_the_last_missing_report_and_not_before() {
    let mut pair = Pair::new().unwrap();
    let tasks = MODES.map(|(mode, by_time)| {
        let options = ["--vdaf", "sum", "--max-measurement", "777", "--min-batch-size", "30"];
        let options = [&options[..], &["--batch-mode", mode]].concat();
        (pair.add_task(mode, &options).unwrap(), by_time)
    });
    pair.start().unwrap();
    for (files, by_time) in tasks {
        let time = files.past_time().unwrap();
        let batch = by_time.then_some(time);
        let measurements: Vec<Value> = (0..29).map(|_| json!(777)).collect();
        upload(&files, &measurements, time, pair.folder(), &[]).unwrap();
        let early = run(collect_arguments(&files, batch, &["--deadline", "2"])).unwrap();
        assert_eq!(early.status.code(), Some(1), "{}", shown(&early));
        let answer = read_json(&early).unwrap();
        assert_eq!(answer["ready"], false);
        assert!(answer.get("result").is_none() && answer.get("count").is_none());
        // Neither 29 nor 29 * 777 may appear in any form.
        for secret in ["29", "22533"] {
            assert!(!shown(&early).contains(secret), "{}", shown(&early));
        }
        upload(&files, &[json!(3)], time, pair.folder(), &[]).unwrap();
        let collected = collect(&files, batch, &["--deadline", "60"]).unwrap();
        assert_eq!(collected["count"], 30);
        assert_eq!(collected["result"], 29 * 777 + 3);
    }
}

#[test]
fn a_collected_interval_takes_no_more_reports() {
    let mut pair = Pair::new().unwrap();
    let files = pair.add_task("late", &["--vdaf", "count", "--min-batch-size", "10"]).unwrap();
    pair.start().unwrap();
    let time = files.past_time().unwrap();
    let measurements = vec![json!(true); 10];
    upload(&files, &measurements, time, pair.folder(), &[]).unwrap();
    let collected = collect(&files, Some(time), &["--deadline", "60"]).unwrap();
    assert_eq!(collected["result"], 10);
    let late = upload(&files, &measurements, time, pair.folder(), &[]).unwrap_err().to_string();
    assert!(late.contains("batch_collected"), "{late}");
    // The result is unchanged.
    assert_eq!(collect(&files, Some(time), &["--deadline", "60"]).unwrap(), collected);
}
