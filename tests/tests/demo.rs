//! `sotto demo --exact` keeps its contract.

use serde_json::{Value, json};
use sotto_tests::process::run_json;

fn demo() -> Value {
    run_json(["--json", "demo", "--exact", "--seed", "7", "--devices", "500"]).unwrap()
}

#[test]
fn a_seed_gives_the_same_exact_buckets_twice() {
    let (first, second) = (demo(), demo());
    assert_eq!(first["buckets"], second["buckets"]);
    assert_eq!(first["devices"], 500);
    assert_eq!(first["participated"], first["devices"]);
    assert_eq!(first["reports"]["accepted"], 500);
    assert_eq!(first["reports"]["rejected"], json!({}));
    let buckets = first["buckets"].as_array().unwrap();
    let number = |bucket: &Value, field: &str| bucket[field].as_f64().unwrap();
    let mut total = 0.0;
    for bucket in buckets {
        assert!(bucket["label"].is_string());
        for field in ["estimate", "lo95", "hi95"] {
            assert_eq!(number(bucket, field), number(bucket, "true"), "{bucket}");
        }
        assert_eq!(number(bucket, "stderr"), 0.0);
        total += number(bucket, "true");
    }
    assert_eq!(total, 500.0);
    let batches = first["batches"].as_array().unwrap();
    let counted: u64 = batches.iter().map(|batch| batch["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, 500);
    assert!(first["min_batch"].as_u64().unwrap() <= 500 && first["elapsed_s"].is_number());
}
