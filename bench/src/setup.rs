//! What a benchmark needs before it starts, kept under `target/bench` between runs: a task, HPKE
//! keys and prepared reports. Reports are bound to the task with its URLs, hence the fixed ports.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sotto_crypto::hpke::Suite;
use sotto_tests::pair::{Ports, shown};
use sotto_tests::process::{run_json, sotto};
use sotto_tests::task::{TaskFiles, read_key};
use sotto_wire::{BatchMode, Time};

use crate::prepare::Prepared;
use crate::workload::{Workload, suite_name};

/// The ports of the aggregators in benchmarks, and of the counting pipe between them.
pub(crate) const PORTS: Ports = Ports {
    leader: 17_401,
    leader_admin: 17_402,
    helper: 17_403,
    helper_admin: 17_404,
    helper_public: 17_405,
};

/// A task of a workload, and its folder.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) workload: Workload,
    pub(crate) suite: Suite,
    pub(crate) folder: PathBuf,
    pub(crate) files: TaskFiles,
    pub(crate) time: Time,
}

impl Setup {
    /// Opens or makes the task.
    pub(crate) fn new(
        workload: Workload,
        count: u64,
        batch_mode: BatchMode,
        suite: Suite,
    ) -> Result<Self> {
        let (suffix, mode) = match batch_mode {
            BatchMode::TimeInterval => ("", "time-interval"),
            BatchMode::LeaderSelected => ("-leader-selected", "leader-selected"),
        };
        let name = format!("{}-{count}{suffix}-{}", workload.name(), suite_name(suite));
        let folder = bench_folder()?.join(name);
        // Written last: without it the folder is not complete.
        let time_file = folder.join("time");
        if let Ok(time) = fs::read_to_string(&time_file) {
            let files = TaskFiles::open(&folder.join("task"))?;
            let time = Time::new(time.parse()?);
            return Ok(Self { workload, suite, folder, files, time });
        }
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        for role in ["leader", "helper"] {
            let key = key_path(&folder, role).to_string_lossy().into_owned();
            run_json(["--json", "keys", "new", "--suite", suite_name(suite), "--out", &key])?;
        }
        let minimum = count.to_string();
        let mut options = workload.options().to_vec();
        options.extend(["--min-batch-size", &minimum, "--batch-mode", mode]);
        let url = |port: u16| format!("http://127.0.0.1:{port}/");
        let (leader, helper) = (url(PORTS.leader), url(PORTS.helper_public));
        let files = TaskFiles::make(&folder.join("task"), &leader, &helper, &options)?;
        let time = files.past_time()?;
        fs::write(&time_file, time.as_units().to_string())?;
        Ok(Self { workload, suite, folder, files, time })
    }

    /// Opens or makes the reports.
    pub(crate) fn reports(&self, count: u64) -> Result<Prepared> {
        let path = self.folder.join("reports");
        if let Some(prepared) = Prepared::open(&path, count)? {
            return Ok(prepared);
        }
        let leader = read_key(&key_path(&self.folder, "leader"))?;
        let helper = read_key(&key_path(&self.folder, "helper"))?;
        let keys = (leader.config(), helper.config());
        Prepared::make(&path, count, self.workload, self.files.task(), keys, self.time)
    }

    /// The line of a server's configuration that names its key.
    pub(crate) fn key_setting(&self, role: &str) -> String {
        format!("hpke_keys = [{}]", shown(&key_path(&self.folder, role)))
    }

    pub(crate) fn batch_mode(&self) -> BatchMode {
        self.files.task().configuration().batch_mode()
    }
}

fn key_path(folder: &Path, role: &str) -> PathBuf {
    folder.join(format!("{role}-key.toml"))
}

/// `target/bench`, beside the folder of the binary.
fn bench_folder() -> Result<PathBuf> {
    let target =
        sotto()?.parent().and_then(Path::parent).context("the binary has no parent folder")?;
    Ok(target.join("bench"))
}
