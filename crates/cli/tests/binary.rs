//! Quick checks of the binary: what it prints, what it writes, its exit codes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::{flat, json};

fn sotto(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sotto")).args(arguments).env("NO_COLOR", "1").output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A histogram task in a fresh folder.
fn new_task(folder: &Path) -> Output {
    sotto(&[
        "task",
        "new",
        "--out",
        text(folder),
        "--vdaf",
        "histogram",
        "--length",
        "16",
        "--leader",
        "https://leader.example/",
        "--helper",
        "https://helper.example/",
        "--json",
    ])
}

#[test]
fn mistakes_on_the_command_line_are_usage_errors() {
    let output = sotto(&["frobnicate"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stdout(&output).is_empty());
    let output = sotto(&["frobnicate", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(json(&output)["error"].as_str().unwrap().contains("frobnicate"));
}

#[test]
fn a_new_task_is_four_files_with_the_same_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let output = new_task(folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let task_id = json(&output)["task_id"].as_str().unwrap().to_owned();
    let mut configurations = Vec::new();
    for party in ["leader", "helper", "client", "collector"] {
        let path = folder.path().join(format!("{party}.toml"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let shown = sotto(&["task", "show", text(&path), "--json"]);
        assert_eq!(shown.status.code(), Some(0), "{}", stderr(&shown));
        let shown = json(&shown);
        assert_eq!(shown["party"], party);
        assert_eq!(shown["task_id"], task_id.as_str());
        assert_eq!(shown["task_id_derived"], true);
        configurations.push(shown["task"].clone());
    }
    assert!(configurations.iter().all(|configuration| *configuration == configurations[0]));
    assert_eq!(configurations[0]["vdaf"]["length"], 16);
    // At least 16 random bytes.
    assert_eq!(configurations[0]["task_info"].as_str().unwrap().len(), 22);
}

#[test]
fn shown_tasks_hide_their_secrets() {
    let folder = tempfile::tempdir().unwrap();
    new_task(folder.path());
    for party in ["leader", "helper", "collector"] {
        let path = folder.path().join(format!("{party}.toml"));
        let secrets = secret_values(&fs::read_to_string(&path).unwrap());
        assert!(secrets.len() >= 2, "{party}");
        for arguments in
            [vec!["task", "show", text(&path)], vec!["task", "show", text(&path), "--json"]]
        {
            let shown = stdout(&sotto(&arguments));
            assert!(shown.contains("[redacted]"), "{shown}");
            assert!(!secrets.iter().any(|secret| shown.contains(secret)), "{party}: {shown}");
        }
    }
}

/// Tokens and keys of a task file.
fn secret_values(file: &str) -> Vec<String> {
    file.lines()
        .filter_map(|line| line.split_once(" = "))
        .filter(|(key, _)| {
            key.contains("token") || key.contains("verify_key") || key.contains("private_key")
        })
        .map(|(_, value)| value.trim_matches('"').to_owned())
        .collect()
}

#[test]
fn each_party_gets_what_it_needs_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    new_task(folder.path());
    let keys = |party: &str| -> Vec<String> {
        let file = fs::read_to_string(folder.path().join(format!("{party}.toml"))).unwrap();
        let keys =
            file.lines().filter_map(|line| line.split_once(" = ").map(|(key, _)| key.to_owned()));
        keys.skip_while(|key| key != "encoded").skip(1).collect()
    };
    assert_eq!(keys("client"), Vec::<String>::new());
    assert_eq!(
        keys("leader"),
        [
            "vdaf_verify_key",
            "leader_authentication_token",
            "collector_authentication_token",
            "collector_hpke_config"
        ]
    );
    assert_eq!(
        keys("helper"),
        ["vdaf_verify_key", "leader_authentication_token", "collector_hpke_config"]
    );
    assert_eq!(keys("collector"), ["authentication_token", "hpke_config", "hpke_private_key"]);
}

#[test]
fn a_task_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    new_task(folder.path());
    let before = fs::read(folder.path().join("leader.toml")).unwrap();
    let again = new_task(folder.path());
    assert_eq!(again.status.code(), Some(2));
    let error = json(&again);
    assert!(error["error"].as_str().unwrap().contains("already exists"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("--force"), "{error}");
    assert_eq!(fs::read(folder.path().join("leader.toml")).unwrap(), before);
}

#[test]
fn keys_are_written_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.toml");
    let first = sotto(&["keys", "new", "--id", "7", "--out", text(&path), "--json"]);
    assert_eq!(first.status.code(), Some(0));
    assert_eq!(json(&first)["key_id"], 7);
    let again = sotto(&["keys", "new", "--out", text(&path)]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("hint:"), "{}", stderr(&again));
}

#[test]
fn keys_get_different_ids_by_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.toml");
    let id = |_| {
        json(&sotto(&["keys", "new", "--force", "--out", text(&path), "--json"]))["key_id"].clone()
    };
    let ids: Vec<Value> = (0..9).map(id).collect();
    // They are all equal by chance once in 2^64 runs.
    assert!(ids.iter().any(|id| *id != ids[0]), "{ids:?}");
}

#[test]
fn vectors_pass_or_say_where_they_differ() {
    let folder = tempfile::tempdir().unwrap();
    let good = vector();
    let good_path = folder.path().join("Prio3Count_good.json");
    fs::write(&good_path, good.to_string()).unwrap();
    let output = sotto(&["vectors", "check", text(&good_path)]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stdout(&output).starts_with("pass "), "{}", stdout(&output));

    let mut bad = good;
    bad["agg_result"] = 5.into();
    let bad_path = folder.path().join("Prio3Count_bad.json");
    fs::write(&bad_path, bad.to_string()).unwrap();
    let missing: PathBuf = folder.path().join("Prio3Count_missing.json");
    let files = ["vectors", "check", text(&good_path), text(&bad_path), text(&missing), "--json"];
    let output = sotto(&files);
    assert_eq!(output.status.code(), Some(1));
    let report = json(&output);
    assert_eq!((&report["passed"], &report["failed"]), (&1.into(), &2.into()));
    assert!(report["verdicts"][1]["difference"].as_str().unwrap().contains("unshard"), "{report}");
    assert!(report["verdicts"][2]["difference"].as_str().unwrap().contains("read"), "{report}");
}

/// What is not implemented is neither passed nor failed.
#[test]
fn vectors_of_what_is_not_implemented_are_said_not_to_be_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("Pine32HmacSha256Aes128_0.json");
    let old = serde_json::json!({
        "shares": 2, "prep": [], "agg_shares": [], "agg_result": [], "field": "Field32",
    });
    fs::write(&path, old.to_string()).unwrap();
    let output = sotto(&["vectors", "check", text(&path)]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stdout(&output).starts_with("skip "), "{}", stdout(&output));
    let report = json(&sotto(&["vectors", "check", text(&path), "--json"]));
    assert_eq!([&report["passed"], &report["failed"], &report["unsupported"]], [0, 0, 1]);
    assert_eq!(report["verdicts"][0]["pass"], false);
}

#[test]
fn token_vectors_pass_or_say_where_they_differ() {
    let good = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/tokens_0004/tokens_0004.json");
    let output = sotto(&["vectors", "check", good]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    // The path is as long as it happens to be, so the text may be wrapped anywhere.
    let said = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("rate-limited tokens 0x0004, "), "{said}");

    let mut bad: Value = serde_json::from_str(&fs::read_to_string(good).unwrap()).unwrap();
    bad["transcripts"][1]["attester"]["index_result"] = "00".into();
    let folder = tempfile::tempdir().unwrap();
    let bad_path = folder.path().join("bad.json");
    fs::write(&bad_path, bad.to_string()).unwrap();
    let output = sotto(&["vectors", "check", good, text(&bad_path), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report = json(&output);
    assert_eq!((&report["passed"], &report["failed"]), (&1.into(), &1.into()));
    assert!(report["verdicts"][0]["values"].as_u64().unwrap() > 280, "{report}");
    let difference = report["verdicts"][1]["difference"].as_str().unwrap();
    assert!(difference.starts_with("T2.attester.index_result: "), "{report}");
}

#[test]
fn what_is_no_vector_is_called_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.json");
    let mut report = vector();
    report["reports"] = serde_json::json!([3]);
    let mut operation = vector();
    operation["operations"] = serde_json::json!([3]);
    let cases = [
        ("", "it is not JSON"),
        ("[1, 2]", "it is not a JSON object"),
        ("{}", "missing field `operations`"),
        (&report.to_string(), "expected an object"),
        (&operation.to_string(), "expected an object"),
    ];
    for (content, reason) in cases {
        fs::write(&path, content).unwrap();
        let output = sotto(&["vectors", "check", text(&path)]);
        assert_eq!(output.status.code(), Some(1));
        let line = flat(&stdout(&output));
        assert!(line.contains("not a VDAF or token test vector: "), "{line}");
        assert!(line.contains(reason), "{line}");
        assert!(!line.contains("struct") && !line.contains("Vector"), "{line}");
    }
}

/// The smallest test vector: no reports at all, so that only the end is computed.
fn vector() -> Value {
    serde_json::json!({
        "shares": 2, "ctx": "00", "verify_key": "00".repeat(32), "agg_param": "", "reports": [],
        "agg_shares": ["0000000000000000", "0300000000000000"], "agg_result": 3,
        "operations": [{ "operation": "unshard", "success": true }],
    })
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let output = sotto(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains("collect"), "{shell}");
    }
    assert_eq!(sotto(&["completions", "abacus"]).status.code(), Some(2));
}

#[test]
fn man_pages_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let output = sotto(&["man", "--out", text(folder.path())]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let page = fs::read_to_string(folder.path().join("sotto-demo.1")).unwrap();
    assert!(page.contains("devices"));
}

#[test]
fn servers_explain_configurations_that_they_refuse() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leader.toml");
    fs::write(&path, "listen = \"127.0.0.1:0\"\ndata_dri = \"x\"\n").unwrap();
    let output = sotto(&["serve", "leader", "--config", text(&path)]);
    assert_eq!(output.status.code(), Some(2));
    let shown = stderr(&output);
    assert!(shown.contains("line 2: unknown field `data_dri`"), "{shown}");
    assert!(shown.contains("did you mean `data_dir`?"), "{shown}");

    // A plain task is never served by accident.
    let task = folder.path().join("task");
    new_task(&task);
    fs::write(&path, "listen = \"127.0.0.1:0\"\ndata_dir = \"data\"\ntasks = [\"task\"]\n")
        .unwrap();
    let output = sotto(&["serve", "leader", "--config", text(&path)]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("insecure_plain_tasks = true"), "{}", stderr(&output));
}

#[test]
fn collect_and_upload_explain_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    new_task(folder.path());
    let (client, collector) =
        (folder.path().join("client.toml"), folder.path().join("collector.toml"));
    let output = sotto(&["collect", "--task", text(&collector), "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(json(&output)["hint"].as_str().unwrap().contains("multiples of 1h"));
    let output =
        sotto(&["collect", "--task", text(&collector), "--interval", "1800", "1h", "--json"]);
    assert!(json(&output)["hint"].as_str().unwrap().contains("--interval 1970-01-01T00:00:00Z 1h"));
    let output = sotto(&["collect", "--task", text(&client), "--current", "--json"]);
    assert!(json(&output)["error"].as_str().unwrap().contains("the client's file"));
    let output = sotto(&["upload", "--task", text(&client), "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(json(&output)["error"], "nothing to upload");
}
