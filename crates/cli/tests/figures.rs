//! `sotto figures`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::json as printed;
use crate::recipe::sotto;

fn rows(folder: &Path, rows: &Value) {
    fs::write(folder.join("rows.json"), rows.to_string()).unwrap();
}

fn histogram(expected: Value) -> Value {
    let inputs = json!({
        "task": "histogram", "N": 1e6, "K": 1000, "T": 1, "M": 1000, "epsilon": 1.0, "delta": 1e-6,
    });
    json!({ "inputs": inputs, "expected": expected })
}

#[test]
fn rows_are_computed_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    rows(folder, &json!([histogram(json!({ "nonpriv": 0.001, "sampagg_pld": 0.00125675 }))]));
    let found = printed(&sotto(folder, &["figures", "--check", "rows.json", "--json"]));
    assert!(found["ok"] == true && found["compared"] == 2, "{found}");
    let point = &found["points"][0]["found"];
    assert!((point["sigma_agg"].as_f64().unwrap() - 4.224_678_889).abs() < 1e-6, "{found}");

    rows(folder, &json!([histogram(json!({ "sampagg_rdp_exact": 0.0018 }))]));
    let check = ["figures", "--check", "rows.json", "--accountant", "rdp"];
    let good = sotto(folder, &check);
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    rows(folder, &json!([histogram(json!({ "agg": 0.017 }))]));
    let bad = sotto(folder, &check);
    assert_eq!(bad.status.code(), Some(1), "{bad:?}");
    let text = String::from_utf8(bad.stdout).unwrap();
    assert!(text.contains("agg is 0.0188") && text.contains("expected 0.017"), "{text}");

    // Without expected values they are shown.
    let sparse = json!({ "inputs": {
        "task": "sparse_histogram", "gamma": 0.1, "N": 1_000_000, "K": 1000, "T": 1, "M": 1000,
        "epsilon": 1.0, "delta": 1e-6,
    }});
    rows(folder, &json!([sparse]));
    let shown = sotto(folder, &["figures", "--check", "rows.json"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("nonpriv_impsamp   2.000000e-5"), "{text}");
}

#[test]
fn figures_are_files() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let out = ["figures", "--out", "new/figures", "--population", "3000", "--json"];
    let found = printed(&sotto(folder, &out));
    let names = found["figures"].as_array().unwrap();
    assert_eq!(names.len(), 52);
    for name in names {
        let text = fs::read_to_string(folder.join("new/figures").join(name.as_str().unwrap()));
        assert!(text.unwrap().lines().count() > 1, "{name}");
    }
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut wrong = histogram(json!({}));
    let failure = |value: &Value, part: &str| {
        rows(folder, &json!([value]));
        let output = sotto(folder, &["figures", "--check", "rows.json"]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(part), "{part}: {text}");
    };
    wrong["inputs"]["M"] = json!(2_000_000);
    failure(&wrong, "reports");
    wrong["inputs"]["M"] = json!(0.5);
    failure(&wrong, "not a whole number");
    wrong["inputs"]["M"] = json!(1_000);
    wrong["inputs"]["task"] = json!("sparse_histogram");
    failure(&wrong, "gamma");
    failure(&json!(7), "rows.json");
    let few = sotto(folder, &["figures", "--out", "x", "--population", "10"]);
    assert_eq!(few.status.code(), Some(2), "{few:?}");
}
