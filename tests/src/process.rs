//! The binary `sotto` as an operating-system process, and the system's statistics about it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

/// The path of the binary: `SOTTO_BIN`, or one that is built now in the profile of this program.
pub fn sotto() -> Result<&'static Path> {
    static BINARY: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
    match BINARY.get_or_init(|| locate().map_err(|error| format!("{error:#}"))) {
        Ok(path) => Ok(path),
        Err(error) => bail!("{error}"),
    }
}

fn locate() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("SOTTO_BIN") {
        return Ok(path.into());
    }
    // .../target/<profile>/deps/<test> or .../target/<profile>/<program>
    let program = std::env::current_exe()?;
    let folder = program
        .ancestors()
        .skip(1)
        .find(|folder| !folder.ends_with("deps"))
        .context("this program has no parent folder")?;
    build(folder, &["-p", "sotto", "--bin", "sotto"])?;
    Ok(folder.join("sotto"))
}

/// Builds in the profile of this folder.
fn build(folder: &Path, what: &[&str]) -> Result<()> {
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet"]).args(what);
    if folder.components().any(|part| part.as_os_str() == "release") {
        build.arg("--release");
    }
    let status = build.current_dir(env!("CARGO_MANIFEST_DIR")).status().context("cargo build")?;
    if !status.success() {
        bail!("cargo build {} failed", what.join(" "));
    }
    Ok(())
}

/// The path of an example of `sotto-client`, built beside the binary.
pub fn example(name: &str) -> Result<PathBuf> {
    let folder = sotto()?.parent().context("the binary has no parent folder")?.join("examples");
    if std::env::var_os("SOTTO_BIN").is_none() {
        build(&folder, &["-p", "sotto-client", "--example", name])?;
    }
    Ok(folder.join(name))
}

/// Runs a command of the binary to its end.
pub fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Result<Output> {
    let mut command = Command::new(sotto()?);
    command.args(arguments).stdin(Stdio::null());
    command.output().context("cannot start sotto")
}

/// Runs a command of the binary that must succeed, and reads its one JSON object.
pub fn run_json<S: AsRef<OsStr>>(
    arguments: impl IntoIterator<Item = S>,
) -> Result<serde_json::Value> {
    let output = run(arguments)?;
    if !output.status.success() {
        bail!("sotto failed ({}): {}", output.status, shown(&output));
    }
    read_json(&output)
}

/// The same for one that prints an object on each line. Each must fit the schema.
pub fn run_json_lines<S: AsRef<OsStr>>(
    arguments: impl IntoIterator<Item = S>,
) -> Result<Vec<serde_json::Value>> {
    let output = run(arguments)?;
    if !output.status.success() {
        bail!("sotto failed ({}): {}", output.status, shown(&output));
    }
    let lines = output.stdout.split_inclusive(|byte| *byte == b'\n');
    lines.map(|line| sotto_testing::output::read(line).map_err(|reason| anyhow!(reason))).collect()
}

/// The one JSON object that a command printed. It must fit the schema.
pub fn read_json(output: &Output) -> Result<serde_json::Value> {
    sotto_testing::output::read(&output.stdout)
        .map_err(|reason| anyhow!("{reason}\n{}", shown(output)))
}

/// What a command printed, for messages.
pub fn shown(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}", text(&output.stdout), text(&output.stderr))
}

/// A server process. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts a command of the binary, its output going to a file; `log_level` is `SOTTO_LOG`.
    pub fn start<S: AsRef<OsStr>>(
        arguments: impl IntoIterator<Item = S>,
        log: &Path,
        log_level: &str,
    ) -> Result<Self> {
        let log = fs::OpenOptions::new().create(true).append(true).open(log)?;
        let mut command = Command::new(sotto()?);
        command.args(arguments).env("SOTTO_LOG", log_level).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log);
        Ok(Self { child: command.spawn().context("cannot start sotto")? })
    }

    /// `kill -9`: no chance to save anything.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends SIGTERM, then waits until it has drained. Returns whether it exited successfully.
    pub fn terminate(&mut self, patience: Duration) -> Result<bool> {
        self.signal("TERM")?;
        Ok(self.wait(patience)? == Some(0))
    }

    /// Sends a signal: `STOP`, `CONT`, `INT`.
    pub fn signal(&self, name: &str) -> Result<()> {
        let (name, id) = (format!("-{name}"), self.child.id().to_string());
        if !Command::new("kill").args([name, id]).status()?.success() {
            bail!("cannot signal the process");
        }
        Ok(())
    }

    /// Waits until it has ended. Returns its exit code; none if a signal killed it.
    pub fn wait(&mut self, patience: Duration) -> Result<Option<i32>> {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code());
            }
            thread::sleep(Duration::from_millis(5));
        }
        bail!("the process did not end in {patience:?}")
    }

    /// Whether it is still running.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// User and system time since it started, including ended threads. In steps of 10 ms.
    pub fn cpu(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in parentheses may contain anything; the numbers follow it.
        let (_, numbers) = stat.rsplit_once(')').context("/proc/<pid>/stat")?;
        let ticks: u64 = numbers
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|number| number.parse::<u64>().unwrap_or(0))
            .sum();
        Ok(Duration::from_millis(ticks * 10))
    }

    /// Its peak resident memory, in bytes.
    pub fn peak_memory(&self) -> Result<u64> {
        peak_memory(&self.child.id().to_string())
    }

    /// Bytes that it caused to be written to storage.
    pub fn written(&self) -> Result<u64> {
        let io = fs::read_to_string(format!("/proc/{}/io", self.child.id()))?;
        let line = io.lines().find_map(|line| line.strip_prefix("write_bytes:"));
        Ok(line.context("write_bytes")?.trim().parse()?)
    }
}

/// The peak resident memory of a process, or of this one (`self`), in bytes.
pub fn peak_memory(process: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("VmHWM")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}

impl From<Child> for Process {
    fn from(child: Child) -> Self {
        Self { child }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
