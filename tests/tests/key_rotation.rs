//! HPKE keys change while reports sealed to the old ones wait in the backlog.

use serde_json::json;
use sotto_tests::cli::{collect, upload};
use sotto_tests::pair::{Aggregator, Pair};
use sotto_tests::process::run_json;

/// Makes a key and lists it before the aggregator's existing ones.
fn add_key(aggregator: &mut Aggregator, keys: &mut Vec<String>, name: &str, id: &str) {
    let path = aggregator.data_dir().with_file_name(name).to_string_lossy().into_owned();
    run_json(["--json", "keys", "new", "--id", id, "--out", &path]).unwrap();
    keys.insert(0, path);
    aggregator.configure(&format!("hpke_keys = {}", json!(keys))).unwrap();
}

#[test]
fn reports_in_the_backlog_survive_new_keys() {
    let mut pair = Pair::new().unwrap();
    let options = ["--vdaf", "histogram", "--length", "40", "--min-batch-size", "40"];
    let files = pair.add_task("rotation", &options).unwrap();
    let (mut leader_keys, mut helper_keys) = (Vec::new(), Vec::new());
    add_key(&mut pair.leader, &mut leader_keys, "leader-old.toml", "1");
    add_key(&mut pair.helper, &mut helper_keys, "helper-old.toml", "1");
    pair.start().unwrap();
    let time = files.past_time().unwrap();
    let old = (pair.leader.hpke_config().unwrap(), pair.helper.hpke_config().unwrap());

    // The client has the keys and the helper is down, so the first half stays in the backlog.
    let prepared = pair.folder().join("prepared").to_string_lossy().into_owned();
    let first: Vec<_> = (0..20).map(|bucket| json!(bucket)).collect();
    upload(&files, &first, time, pair.folder(), &["--prepare-only", "--out", &prepared]).unwrap();
    pair.helper.kill().unwrap();
    let task = files.path("client").to_string_lossy().into_owned();
    let arguments = ["--json", "upload", "--task", &task, "--prepared", &prepared];
    assert_eq!(run_json(arguments).unwrap()["accepted"], 20);
    pair.leader.kill().unwrap();

    add_key(&mut pair.leader, &mut leader_keys, "leader-new.toml", "2");
    add_key(&mut pair.helper, &mut helper_keys, "helper-new.toml", "2");
    pair.start().unwrap();
    let new = (pair.leader.hpke_config().unwrap(), pair.helper.hpke_config().unwrap());
    assert!(old.0 != new.0 && old.1 != new.1);

    let second: Vec<_> = (20..40).map(|bucket| json!(bucket)).collect();
    assert_eq!(upload(&files, &second, time, pair.folder(), &[]).unwrap()["accepted"], 20);
    let collected = collect(&files, Some(time), &["--deadline", "60"]).unwrap();
    assert_eq!(collected["result"], json!(vec![1; 40]));
}

#[test]
fn a_leader_does_not_start_without_a_key_that_its_backlog_needs() {
    let mut pair = Pair::new().unwrap();
    let files = pair.add_task("lost-key", &["--vdaf", "count", "--min-batch-size", "5"]).unwrap();
    let mut keys = Vec::new();
    add_key(&mut pair.leader, &mut keys, "old.toml", "1");
    pair.start().unwrap();
    let time = files.past_time().unwrap();
    let prepared = pair.folder().join("prepared").to_string_lossy().into_owned();
    let reports = vec![json!(true); 5];
    upload(&files, &reports, time, pair.folder(), &["--prepare-only", "--out", &prepared]).unwrap();
    pair.helper.kill().unwrap();
    let task = files.path("client").to_string_lossy().into_owned();
    run_json(["--json", "upload", "--task", &task, "--prepared", &prepared]).unwrap();
    pair.leader.kill().unwrap();

    let old = keys.clone();
    keys.clear();
    add_key(&mut pair.leader, &mut keys, "new.toml", "2");
    assert!(pair.leader.start().is_err(), "the reports of the backlog cannot be opened any more");

    keys.extend(old);
    pair.leader.configure(&format!("hpke_keys = {}", json!(keys))).unwrap();
    pair.start().unwrap();
    assert_eq!(collect(&files, Some(time), &["--deadline", "60"]).unwrap()["result"], 5);
}
