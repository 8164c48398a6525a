//! Results that were kept: shown again, written in other formats, compared; and every mistake.

use std::fs;
use std::path::Path;
use std::process::Output;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Value, json};

use crate::recipe::sotto;
use crate::{flat, json};

/// Two weeks of one recipe. In the second one, `long` is more frequent.
pub(crate) const WEEKS: [(&str, &str); 2] = [
    ("week1.json", include_str!("result/week1.json")),
    ("week2.json", include_str!("result/week2.json")),
];

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    WEEKS.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
    folder
}

fn error(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    flat(&String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_kept_result_is_written_in_every_format() {
    let folder = folder();
    let run = |arguments: &[&str]| {
        let output = sotto(folder.path(), &[&["result", "show"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        output
    };
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    run(&[
        "week1.json",
        "--out",
        "a.json",
        "--out",
        "a.csv",
        "--out",
        "a.svg",
        "--out",
        "a.parquet",
    ]);
    // What is read and written again is the same.
    run(&["a.json", "--out", "b.json"]);
    assert_eq!(read("a.json"), read("b.json"));
    let kept: Value = serde_json::from_str(&read("a.json")).unwrap();
    assert_eq!(kept, serde_json::from_str::<Value>(WEEKS[0].1).unwrap());
    let mut printed = json(&run(&["week1.json", "--json"]));
    printed["command"] = "collect".into();
    assert_eq!(printed, kept);
    let csv = read("a.csv");
    assert_eq!(csv.matches("\r\n").count(), 4, "{csv}");
    assert!(csv.contains("\r\nmiddle,,"), "{csv}");
    let svg = read("a.svg");
    for part in ["<svg ", "How long do people commute?", ">short<", ">middle<", ">long<"] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
    let consistent = json(&run(&["week1.json", "--consistent", "--json"]));
    let sum: f64 = consistent["buckets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["consistent"].as_f64().unwrap())
        .sum();
    assert!((sum - 20_000.0).abs() < 1e-6, "10,000 reports of every second device: {sum}");
}

/// The columns of the CSV file, with types, and the result itself as metadata.
#[test]
fn parquet_has_the_same_columns() {
    let folder = folder();
    let arguments = ["result", "show", "week1.json", "--out", "a.parquet", "--out", "a.csv"];
    assert!(sotto(folder.path(), &arguments).status.success());
    let file = fs::File::open(folder.path().join("a.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let csv = fs::read_to_string(folder.path().join("a.csv")).unwrap();
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 3);
    for (row, line) in rows.iter().zip(lines) {
        let fields: Vec<_> = row.get_column_iter().collect();
        assert_eq!(fields.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names);
        for ((name, field), cell) in fields.into_iter().zip(line.split(',')) {
            match field {
                Field::Null => assert_eq!(cell, "", "{name}"),
                Field::Str(text) => assert_eq!(cell, text, "{name}"),
                Field::Double(number) => {
                    assert_eq!(cell.parse::<f64>().unwrap(), *number, "{name}")
                }
                Field::ULong(whole) => assert_eq!(cell, whole.to_string(), "{name}"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
    let kept: Value = serde_json::from_str(&metadata(&reader, "result").unwrap()).unwrap();
    assert_eq!(kept["recipe_id"], "7a".repeat(32));
}

fn metadata(reader: &SerializedFileReader<fs::File>, key: &str) -> Option<String> {
    let all = reader.metadata().file_metadata().key_value_metadata()?;
    all.iter().find(|one| one.key == key)?.value.clone()
}

/// Readers refuse metadata of 100 MB.
#[test]
fn a_long_vector_in_parquet_is_not_there_twice() {
    let folder = folder();
    let mut result: Value =
        serde_json::from_slice(&fs::read(folder.path().join("week1.json")).unwrap()).unwrap();
    let numbers: Vec<f64> = (0..50_000).map(|number| f64::from(number) / 8.0).collect();
    let columns = ["estimates", "errors", "lows", "highs"].map(str::to_owned);
    let noise = ["errors", "lows", "highs"].map(|column| format!("noise_{column}"));
    let columns = columns.into_iter().chain(noise).map(|column| (column, json!(numbers)));
    let coordinates = columns.chain([("rms_error".to_owned(), json!(1.0))]).collect();
    result["coordinates"] = Value::Object(coordinates);
    fs::write(folder.path().join("long.json"), result.to_string()).unwrap();
    let arguments = ["result", "show", "long.json", "--out", "a.parquet"];
    let shown = sotto(folder.path(), &arguments);
    assert!(shown.status.success(), "{shown:?}");
    let file = fs::File::open(folder.path().join("a.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    assert_eq!(metadata(&reader, "result"), None);
    assert_eq!(metadata(&reader, "schema").unwrap(), "sotto/1");
    assert!(reader.metadata().file_metadata().num_rows() >= 50_000);
}

#[test]
fn a_comparison_has_three_exit_codes() {
    let folder = folder();
    let compare =
        |arguments: &[&str]| sotto(folder.path(), &[&["result", "compare"], arguments].concat());
    let same = compare(&["week1.json", "week1.json"]);
    assert_eq!(same.status.code(), Some(0), "{same:?}");
    assert!(String::from_utf8_lossy(&same.stdout).contains("No difference beyond noise"));
    assert!(String::from_utf8_lossy(&same.stderr).contains("both are the same collection"));
    let different = compare(&["week1.json", "week2.json", "--json"]);
    assert_eq!(different.status.code(), Some(1), "{different:?}");
    let different = json(&different);
    assert_eq!((&different["differs"], &different["significance"]), (&true.into(), &0.05.into()));
    let rows = different["comparisons"].as_array().unwrap();
    let differs: Vec<bool> = rows.iter().map(|row| row["differs"].as_bool().unwrap()).collect();
    assert_eq!(differs, [true, false, true], "{different}");
    // Several: each with the one before it, at the same level for all of them together.
    let trend = ["week1.json", "week1.json", "week2.json", "--json", "--chart", "trend.svg"];
    let trend = compare(&trend);
    assert_eq!(trend.status.code(), Some(1), "{trend:?}");
    let trend = json(&trend);
    let steps = trend["comparisons"].as_array().unwrap();
    assert_eq!(steps.len(), 2 * rows.len());
    assert!(steps.iter().all(|row| row["step"] == 3 || row["differs"] == false), "{trend}");
    for (alone, row) in rows.iter().zip(&steps[rows.len()..]) {
        let p = |row: &Value| row["p_adjusted"].as_f64().unwrap();
        assert!((p(row) - (2.0 * p(alone)).min(1.0)).abs() < 1e-12, "{alone} {row}");
    }
    assert!(fs::read_to_string(folder.path().join("trend.svg")).unwrap().starts_with("<svg"));
    let refused =
        error(&compare(&["week1.json", "week1.json", "week2.json", "--significance", "1"]));
    assert!(refused.contains("significance"), "{refused}");
    // Stricter than the smallest p-value.
    let strict = compare(&["week1.json", "week2.json", "--significance", "1e-9"]);
    assert_eq!(strict.status.code(), Some(0), "{strict:?}");
    let refused = error(&compare(&["week1.json", "week2.json", "--significance", "1"]));
    assert!(refused.contains("above 0 and below 1"), "{refused}");
}

#[test]
fn what_is_no_result_is_refused_with_the_place() {
    let folder = folder();
    let write = |name: &str, from: &str, to: &str| {
        assert!(WEEKS[0].1.contains(from), "{from}");
        fs::write(folder.path().join(name), WEEKS[0].1.replacen(from, to, 1)).unwrap();
    };
    write("form.json", "\"count\": 10000", "\"count\": \"many\"");
    write("demo.json", "\"collect\"", "\"demo\"");
    write("early.json", "\"result\"", "\"error\"");
    write("later.json", "sotto/1", "sotto/9");
    write("other.json", "\"middle\"", "\"medium\"");
    fs::write(folder.path().join("half.json"), &WEEKS[0].1[..300]).unwrap();
    fs::write(folder.path().join("week.csv"), "label,estimate\n").unwrap();
    fs::write(folder.path().join("empty.json"), "").unwrap();
    let show = |name: &str| error(&sotto(folder.path(), &["result", "show", name]));
    for (name, reasons) in [
        (
            "form.json",
            &["invalid type: string \"many\"", "\"count\": \"many\"", "^", "collect --out"][..],
        ),
        (
            "demo.json",
            &["what `sotto demo` printed", "`sotto demo --out FILE.json` writes a result"],
        ),
        ("early.json", &["the collection gave no result", "collect again"]),
        ("later.json", &["version \"sotto/9\"", "reads \"sotto/1\""]),
        ("half.json", &["EOF while parsing"]),
        ("week.csv", &["is not a result: expected value at line 1 column 1"]),
        ("empty.json", &["is not a result: EOF"]),
        ("nothing.json", &["cannot read nothing.json"]),
    ] {
        let said = show(name);
        assert!(reasons.iter().all(|reason| said.contains(reason)), "{name}: {said}");
    }
    let said = error(&sotto(folder.path(), &["result", "compare", "week1.json", "other.json"]));
    assert!(said.contains("row 2 is `middle` in one, and `medium` in the other"), "{said}");
    assert!(said.contains("compare results of the same question"), "{said}");
}

/// Before anything is asked of a leader: it would be a pity to lose what was collected.
#[test]
fn a_file_that_cannot_be_written_is_refused_at_once() {
    let folder = folder();
    let show =
        |out: &str| error(&sotto(folder.path(), &["result", "show", "week1.json", "--out", out]));
    assert!(show("a.txt").contains("must end in .json, .csv, .parquet, .npy or .svg"));
    assert!(show("nowhere/a.csv").contains("there is no folder nowhere"));
    fs::create_dir(folder.path().join("b.csv")).unwrap();
    assert!(show("b.csv").contains("cannot write b.csv"));
    assert!(!Path::new(&folder.path().join("nowhere")).exists());
}
