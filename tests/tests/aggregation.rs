//! All VDAFs in both batch modes: leader, helper, devices and collector are separate processes, and
//! the result is exact.

use serde_json::{Value, json};
use sotto_tests::cli::{collect, upload};
use sotto_tests::pair::Pair;

/// The number of reports of each task.
const DEVICES: u64 = 60;

/// A VDAF, the measurements of its devices, and the expected result.
struct Case {
    name: &'static str,
    options: &'static [&'static str],
    measurement: fn(u64) -> Value,
}

const CASES: [Case; 6] = [
    Case { name: "count", options: &["--vdaf", "count"], measurement: |i| json!(i % 3 == 0) },
    Case {
        name: "sum",
        options: &["--vdaf", "sum", "--max-measurement", "1000"],
        measurement: |i| json!(i * 17 % 1001),
    },
    Case {
        name: "sum-vec",
        options: &["--vdaf", "sum-vec", "--length", "9", "--max-measurement", "6"],
        measurement: |i| (0..9).map(|at| json!((i + at) % 7)).collect(),
    },
    Case {
        name: "histogram",
        options: &["--vdaf", "histogram", "--length", "11"],
        measurement: |i| json!(i * i % 11),
    },
    Case {
        name: "multihot-count-vec",
        options: &["--vdaf", "multihot-count-vec", "--length", "8", "--max-weight", "2"],
        measurement: |i| (0..8).map(|at| json!(at == i % 8 || at == i % 5)).collect(),
    },
    Case {
        name: "l1-bound-sum",
        options: &["--vdaf", "l1-bound-sum", "--length", "4", "--max-value", "10"],
        measurement: |i| json!([i % 4, i % 3, 1, i % 5]),
    },
];

/// The sum of the measurements, computed in the clear.
fn expected(case: &Case) -> Value {
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| value.as_bool().unwrap().into());
    let measurements = (0..DEVICES).map(case.measurement);
    if case.name == "histogram" {
        let mut buckets = [0; 11];
        measurements.for_each(|bucket| buckets[bucket.as_u64().unwrap() as usize] += 1);
        return json!(buckets);
    }
    let mut sums: Vec<u64> = Vec::new();
    let mut is_vector = false;
    for measurement in measurements {
        let elements = match &measurement {
            Value::Array(elements) => {
                is_vector = true;
                elements.iter().map(number).collect()
            }
            scalar => vec![number(scalar)],
        };
        sums.resize(elements.len(), 0);
        sums.iter_mut().zip(elements).for_each(|(sum, element)| *sum += element);
    }
    if is_vector { json!(sums) } else { json!(sums[0]) }
}

#[test]
fn every_vdaf_in_time_interval_mode() {
    let mut pair = Pair::new().unwrap();
    let tasks: Vec<_> = CASES
        .iter()
        .map(|case| {
            let minimum = ["--min-batch-size", "60"];
            let options: Vec<&str> = case.options.iter().chain(&minimum).copied().collect();
            (case, pair.add_task(case.name, &options).unwrap())
        })
        .collect();
    pair.start().unwrap();
    for (case, files) in tasks {
        let time = files.past_time().unwrap();
        let measurements: Vec<Value> = (0..DEVICES).map(case.measurement).collect();
        let uploaded = upload(&files, &measurements, time, pair.folder(), &[]).unwrap();
        assert_eq!(uploaded["accepted"], DEVICES, "{}", case.name);
        let collected = collect(&files, Some(time), &["--deadline", "60"]).unwrap();
        assert_eq!(collected["count"], DEVICES, "{}", case.name);
        assert_eq!(collected["result"], expected(case), "{}", case.name);
        // The same request finds a finished job again.
        let again = collect(&files, Some(time), &["--deadline", "60"]).unwrap();
        assert_eq!(collected, again);
    }
}

#[test]
fn every_vdaf_in_leader_selected_mode() {
    let mut pair = Pair::new().unwrap();
    let tasks: Vec<_> = CASES
        .iter()
        .map(|case| {
            let mode = ["--batch-mode", "leader-selected", "--min-batch-size", "60"];
            let options: Vec<&str> = case.options.iter().chain(&mode).copied().collect();
            (case, pair.add_task(case.name, &options).unwrap())
        })
        .collect();
    pair.start().unwrap();
    for (case, files) in tasks {
        let time = files.past_time().unwrap();
        let measurements: Vec<Value> = (0..DEVICES).map(case.measurement).collect();
        let mut jobs = Vec::new();
        // Two batches, one after the other: the requests for them are the same bytes.
        for _ in 0..2 {
            let uploaded = upload(&files, &measurements, time, pair.folder(), &[]).unwrap();
            assert_eq!(uploaded["accepted"], DEVICES, "{}", case.name);
            // A kept job gives the same batch again; then it is deleted.
            let kept = collect(&files, None, &["--deadline", "60", "--keep"]).unwrap();
            let collected = collect(&files, None, &["--deadline", "60"]).unwrap();
            assert_eq!(kept, collected, "{}", case.name);
            assert_eq!(collected["count"], DEVICES, "{}", case.name);
            assert_eq!(collected["result"], expected(case), "{}", case.name);
            jobs.push(collected["job_id"].clone());
        }
        assert_ne!(jobs[0], jobs[1], "{}", case.name);
    }
}
