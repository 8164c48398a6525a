//! Test vectors: those of the VDAF specification, and our own for Prio3L1BoundSum.

use std::fs;
use std::path::{Path, PathBuf};

use sotto_testing::published;
use sotto_vdaf::vectors::{VectorFailure, check};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All vector files of a folder, by name.
fn files(folder: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

fn check_all(folder: &Path) -> usize {
    let files = files(folder);
    for (name, text) in &files {
        let report = check(text, name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(name.starts_with(&report.vdaf), "{name} was taken for {}", report.vdaf);
        assert_eq!(report.failed > 0, name.contains("_bad_"), "{name}: {report:?}");
    }
    files.len()
}

#[test]
fn vectors_of_the_specification_pass() {
    if let Some(folder) = published::path("vdaf_18") {
        let count = check_all(&folder);
        assert!(count >= 25, "only {count} files");
    }
}

#[test]
fn own_vectors_pass() {
    assert_eq!(check_all(&workspace().join("vectors/vdaf_18_own")), 4);
}

#[test]
fn vectors_of_pine_pass() {
    assert_eq!(check_all(&workspace().join("vectors/pine_18")), 8);
}

fn own(name: &str) -> String {
    fs::read_to_string(workspace().join("vectors/vdaf_18_own").join(name)).unwrap()
}

fn fail(text: &str) -> String {
    match check(text, "Prio3L1BoundSum_0.json") {
        Ok(report) => panic!("passed: {report:?}"),
        Err(failure) => failure.to_string(),
    }
}

/// The file with `edit` applied to its JSON.
fn edited(edit: impl Fn(&mut serde_json::Value)) -> String {
    let mut json = serde_json::from_str(&own("Prio3L1BoundSum_0.json")).unwrap();
    edit(&mut json);
    json.to_string()
}

/// Changes the byte of a hex string at `index`.
fn flip(value: &mut serde_json::Value, index: usize) {
    let mut bytes = hex::decode(value.as_str().unwrap()).unwrap();
    bytes[index] ^= 1;
    *value = hex::encode(bytes).into();
}

#[test]
fn the_first_difference_is_named() {
    let text = edited(|json| flip(&mut json["reports"][0]["input_shares"][0], 33));
    assert!(
        fail(&text).contains(
            "operation 0 (shard, report 0): input share of aggregator 0 differs at byte 33"
        )
    );

    let text = edited(|json| flip(&mut json["reports"][0]["verifier_shares"][0][1], 2));
    let message = fail(&text);
    assert!(message.contains("(verify_init, report 0, aggregator 1)"), "{message}");
    assert!(message.contains("verifier share differs at byte 2"), "{message}");

    let text = edited(|json| flip(&mut json["reports"][0]["verifier_messages"][0], 0));
    assert!(fail(&text).contains("(verifier_shares_to_message, report 0, round 0)"));

    let text = edited(|json| flip(&mut json["reports"][0]["out_shares"][1], 0));
    assert!(fail(&text).contains("output share differs at byte 0"));

    let text = edited(|json| flip(&mut json["agg_shares"][1], 0));
    assert!(fail(&text).contains("aggregate share differs at byte 0"));

    let text = edited(|json| json["agg_result"][2] = 1000.into());
    let message = fail(&text);
    assert!(message.contains("(unshard): aggregate result differs at element 2"), "{message}");

    let text = edited(|json| json["agg_result"] = serde_json::json!([]));
    assert!(fail(&text).contains("got"));
}

#[test]
fn an_operation_must_fail_exactly_where_it_should() {
    let count = serde_json::from_str::<serde_json::Value>(&own("Prio3L1BoundSum_0.json")).unwrap()
        ["operations"]
        .as_array()
        .unwrap()
        .len();
    for index in 0..count {
        let text = edited(|json| json["operations"][index]["success"] = false.into());
        let message = fail(&text);
        assert!(message.starts_with(&format!("operation {index} ")), "{message}");
        assert!(message.ends_with("should fail, but succeeded"), "{message}");
    }

    let mut json: serde_json::Value =
        serde_json::from_str(&own("Prio3L1BoundSum_bad_norm.json")).unwrap();
    let operations = json["operations"].as_array_mut().unwrap();
    operations.last_mut().unwrap()["success"] = true.into();
    assert!(fail(&json.to_string()).contains("should succeed, but failed"));
}

#[test]
fn malformed_files_are_refused() {
    assert!(matches!(check("{}", ""), Err(VectorFailure::Json(_))));
    let text = edited(|json| json["operations"] = serde_json::json!([]));
    assert!(matches!(check(&text, ""), Err(VectorFailure::NoOperations)));
    for (pointer, value) in [
        ("/operations/0/report_index", serde_json::json!(9)),
        ("/operations/1/aggregator_id", serde_json::json!(2)),
        ("/operations/3/round", serde_json::json!(1)),
        ("/operations/4/round", serde_json::json!(2)),
        ("/reports/0/nonce", serde_json::json!("00")),
        ("/reports/0/rand", serde_json::json!("00")),
        ("/reports/0/input_shares", serde_json::json!([])),
        ("/reports/0/public_share", serde_json::json!("00")),
        ("/verify_key", serde_json::json!("00")),
        ("/agg_param", serde_json::json!("00")),
        ("/agg_shares", serde_json::json!([])),
        ("/shares", serde_json::json!(0)),
        ("/length", serde_json::json!(4_000_000_000u32)),
        ("/chunk_length", serde_json::json!(0)),
    ] {
        let text = edited(|json| *json.pointer_mut(pointer).unwrap() = value.clone());
        assert!(check(&text, "").is_err(), "{pointer} = {value}");
    }
}

#[test]
fn the_vdaf_is_found_by_field_then_name_then_parameters() {
    let text = own("Prio3L1BoundSum_0.json");
    for name in ["", "anything.json", "/a/b/Prio3L1BoundSum_0.json", "Prio3L1BoundSum.json"] {
        assert_eq!(check(&text, name).unwrap().vdaf, "Prio3L1BoundSum", "{name}");
    }
    let named = edited(|json| json["type"] = "Prio3L1BoundSum".into());
    assert_eq!(check(&named, "Prio3Count_0.json").unwrap().vdaf, "Prio3L1BoundSum");

    assert!(matches!(
        check(&text, "Prio3Nothing_0.json"),
        Err(VectorFailure::UnknownVdaf(Some(_)))
    ));
    assert!(matches!(check(&text, "Prio3Sum_0.json"), Err(VectorFailure::Parameters { .. })));
    let unknown = edited(|json| json["dimension"] = 3.into());
    assert!(matches!(check(&unknown, "x.json"), Err(VectorFailure::UnknownVdaf(None))));
}
