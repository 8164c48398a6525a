//! Servers that are stopped, not dead: they accept connections, and nothing comes back. Nobody
//! waits for longer than was said, and everybody learns for whom.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use sotto_tests::cli::{collect, collect_arguments, upload};
use sotto_tests::pair::{Pair, get};
use sotto_tests::process::{run_json, shown, sotto};
use sotto_tests::task::TaskFiles;
use sotto_wire::Time;

/// Longer than a deadline of five seconds, even on a busy machine, and than a few probes; much
/// shorter than the minutes for which the requests themselves may take.
const PATIENCE: Duration = Duration::from_secs(30);

fn pair() -> (Pair, TaskFiles) {
    let mut pair = Pair::new().unwrap();
    let files = pair.add_task("count", &["--vdaf", "count", "--min-batch-size", "10"]).unwrap();
    pair.start().unwrap();
    (pair, files)
}

/// Runs a command, and fails if it takes too long.
fn run_in_time(arguments: &[String]) -> Output {
    let mut command = Command::new(sotto().unwrap());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("still waiting: {}", shown(&child.wait_with_output().unwrap()));
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

fn upload_arguments(files: &TaskFiles, more: &[&str]) -> Vec<String> {
    let task = files.path("client").to_string_lossy().into_owned();
    let mut arguments: Vec<String> = ["upload", "--task"].map(Into::into).into();
    arguments.extend([task, "--deadline".into(), "5".into()]);
    arguments.extend(more.iter().map(|&argument| argument.to_owned()));
    arguments
}

/// What the leader's `/readyz` names.
fn reasons(admin: SocketAddr) -> Vec<Value> {
    let document: Value = serde_json::from_slice(&get(admin, "/readyz").unwrap().body).unwrap();
    document["reasons"].as_array().unwrap().iter().map(|reason| reason["name"].clone()).collect()
}

#[test]
fn a_collection_ends_at_its_deadline() {
    let (pair, files) = pair();
    let time = files.past_time().unwrap();
    let ones = vec![Value::from(true); 10];
    upload(&files, &ones, time, pair.folder(), &[]).unwrap();
    // Without --json.
    let text = &collect_arguments(&files, Some(time), &["--deadline", "5"])[1..];
    let leader = pair.leader.process().unwrap();
    leader.signal("STOP").unwrap();
    let output = run_in_time(text);
    // A question that is answered at once has a short deadline of its own.
    let task = files.path("collector").to_string_lossy().into_owned();
    let listed = run_in_time(&["collect", "--task", &task, "--list"].map(str::to_owned));
    leader.signal("CONT").unwrap();
    assert_eq!(listed.status.code(), Some(2), "{}", shown(&listed));
    let hint = format!(" hint: is the leader at {} running?", pair.leader.url);
    assert!(shown(&listed).contains(&hint), "{}", shown(&listed));
    assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
    let silent = format!("the leader at {}", pair.leader.url.trim_end_matches('/'));
    let line = format!("{silent} does not answer: attempt 1, 3 s so far\n");
    for output in [&output, &listed] {
        assert!(shown(output).contains(&line), "{}", shown(output));
    }

    // Another batch is complete, but the helper gives no share.
    let other = Time::new(time.as_units() - 1);
    upload(&files, &ones, other, pair.folder(), &[]).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while pair.leader.metric("sotto_reports_aggregated_total").unwrap() < 20.0 {
        assert!(Instant::now() < deadline, "{}", pair.leader.log_text());
        thread::sleep(Duration::from_millis(20));
    }
    let helper = pair.helper.process().unwrap();
    helper.signal("STOP").unwrap();
    let output = run_in_time(&collect_arguments(&files, Some(other), &["--deadline", "5"]));
    helper.signal("CONT").unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
    assert!(shown(&output).contains("run the same command"), "{}", shown(&output));
    // Nothing was lost.
    for time in [time, other] {
        let collected = collect(&files, Some(time), &["--deadline", "120"]).unwrap();
        assert_eq!(collected["count"], 10);
    }
}

#[test]
fn an_upload_keeps_what_it_could_not_send_and_resumes() {
    let (pair, files) = pair();
    let time = files.past_time().unwrap();
    let seconds = time.start_seconds(files.task().configuration().time_precision()).to_string();
    let values = pair.folder().join("values");
    fs::write(&values, "true\n".repeat(20)).unwrap();
    let file = ["--file", values.to_str().unwrap(), "--time", &seconds, "--concurrency", "4"];
    let unsent = files.path("client").with_extension("unsent");

    // Without the keys there is nothing to keep.
    let helper = pair.helper.process().unwrap();
    helper.signal("STOP").unwrap();
    let output = run_in_time(&upload_arguments(&files, &file));
    helper.signal("CONT").unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
    let silent = format!("the helper at {}", pair.helper.url.trim_end_matches('/'));
    let line = format!("{silent} does not answer: attempt 1, 3 s so far\n");
    assert!(shown(&output).contains(&line), "{}", shown(&output));
    assert!(!unsent.exists());

    // The leader stops once it has given out its key.
    let prepared = pair.folder().join("prepared").to_string_lossy().into_owned();
    let make = [&file[..], &["--prepare-only", "--out", &prepared]].concat();
    assert!(run_in_time(&upload_arguments(&files, &make)).status.success());
    let leader = pair.leader.process().unwrap();
    leader.signal("STOP").unwrap();
    let output = run_in_time(&upload_arguments(&files, &["--prepared", &prepared]));
    assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
    let said = shown(&output);
    assert!(said.contains("the leader at ") && said.contains("attempt 1"), "{said}");
    assert!(said.contains("20 reports are kept in") && said.contains("--resume"), "{said}");
    // Still silent: they stay where they are.
    let output = run_in_time(&upload_arguments(&files, &["--resume"]));
    assert!(shown(&output).contains("20 reports are kept in"), "{}", shown(&output));
    leader.signal("CONT").unwrap();
    let output = run_in_time(&upload_arguments(&files, &["--resume"]));
    assert!(output.status.success(), "{}", shown(&output));
    assert!(shown(&output).contains("20 accepted, 0 rejected"), "{}", shown(&output));
    assert!(!unsent.exists());
    assert!(run_in_time(&upload_arguments(&files, &["--resume"])).status.success());
    // Some arrived twice. Each counts once.
    let collected = collect(&files, Some(time), &["--deadline", "120"]).unwrap();
    assert_eq!((&collected["count"], &collected["result"]), (&20.into(), &20.into()));
}

#[test]
fn a_leader_knows_that_its_idle_helper_is_silent() {
    let (pair, _) = pair();
    let admin = pair.leader.admin_address();
    assert_eq!(reasons(admin), [] as [Value; 0]);
    let until = |expected: &[&str]| {
        let deadline = Instant::now() + 2 * PATIENCE;
        while reasons(admin) != expected {
            assert!(Instant::now() < deadline, "{:?}", reasons(admin));
            thread::sleep(Duration::from_millis(100));
        }
    };
    pair.helper.process().unwrap().signal("STOP").unwrap();
    until(&["helper_unreachable"]);
    pair.helper.process().unwrap().signal("CONT").unwrap();
    until(&[]);
}

/// A line for each attempt would hide everything else.
#[test]
fn a_helper_that_stays_away_is_named_once() {
    let (mut pair, files) = pair();
    let prepared = pair.folder().join("prepared").to_string_lossy().into_owned();
    let (time, report) = (files.past_time().unwrap(), [Value::Bool(true)]);
    let options = ["--prepare-only", "--out", &prepared];
    upload(&files, &report, time, pair.folder(), &options).unwrap();
    pair.helper.kill().unwrap();
    let task = files.path("client").to_string_lossy().into_owned();
    let sent = run_json(["--json", "upload", "--task", &task, "--prepared", &prepared]).unwrap();
    assert_eq!(sent["accepted"], 1);
    let started = Instant::now();
    let errors = "sotto_helper_request_errors_total{reason=\"connect\"}";
    while pair.leader.metric(errors).unwrap() < 5.0 {
        assert!(started.elapsed() < PATIENCE, "{}", pair.leader.log_text());
        thread::sleep(Duration::from_millis(50));
    }
    let text = pair.leader.log_text();
    let lines: Vec<_> = text.lines().filter(|line| line.contains("did not answer")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(lines[0].contains(&pair.helper.url), "{}", lines[0]);
}
