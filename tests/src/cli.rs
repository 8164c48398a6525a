//! Devices and the collector as separate processes: `sotto upload` and `sotto collect`.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;
use sotto_wire::Time;

use crate::process::run_json;
use crate::task::TaskFiles;

/// Uploads measurements, all with the timestamp `time`; returns what the command printed.
pub fn upload(
    files: &TaskFiles,
    measurements: &[Value],
    time: Time,
    scratch: &Path,
    options: &[&str],
) -> Result<Value> {
    let lines: Vec<String> = measurements.iter().map(Value::to_string).collect();
    let file = scratch.join(format!("{}.measurements", files.task().id()));
    fs::write(&file, lines.join("\n"))?;
    let seconds = seconds(files, time);
    let (task, file) = (files.path("client"), file.into_os_string());
    let mut arguments =
        vec!["--json".into(), "upload".into(), "--task".into(), task.into_os_string()];
    arguments.extend(["--file".into(), file, "--time".into(), seconds.into()]);
    arguments.extend(options.iter().map(Into::into));
    run_json(arguments)
}

/// The arguments that collect the bucket of `time`, or the next batch of a leader-selected task.
pub fn collect_arguments(files: &TaskFiles, time: Option<Time>, options: &[&str]) -> Vec<String> {
    let task = files.path("collector").to_string_lossy().into_owned();
    let mut arguments: Vec<String> = ["--json", "collect", "--task"].map(Into::into).into();
    arguments.push(task);
    if let Some(time) = time {
        let unit = files.task().configuration().time_precision().as_seconds();
        arguments.extend(["--interval".into(), seconds(files, time), unit.to_string()]);
    }
    arguments.extend(options.iter().map(|&option| option.to_owned()));
    arguments
}

/// Collects a batch; returns what the command printed.
pub fn collect(files: &TaskFiles, time: Option<Time>, options: &[&str]) -> Result<Value> {
    run_json(collect_arguments(files, time, options))
}

fn seconds(files: &TaskFiles, time: Time) -> String {
    time.start_seconds(files.task().configuration().time_precision()).to_string()
}
