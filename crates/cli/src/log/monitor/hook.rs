//! The command that is run for every event.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::time_text::show_seconds;

/// How often we look whether the command has ended.
const STEP: Duration = Duration::from_millis(20);

/// Runs the command with an event, which is a line of JSON, on its standard input. It fails if the command cannot be
/// run, exits with another code than 0, or takes too long; then it is killed.
pub(super) fn run(command: &str, event: String, limit: Duration) -> Result<()> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        // Standard output is for our own data.
        .stdout(io::stderr())
        .spawn()
        .context("cannot run it")?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command need not read its input, and must not hold us up if it does not.
        thread::spawn(move || writeln!(stdin, "{event}"));
    }
    let ends = Instant::now().checked_add(limit);
    loop {
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "{status}");
            return Ok(());
        }
        if ends.is_some_and(|ends| Instant::now() >= ends) {
            child.kill()?;
            child.wait()?;
            bail!("it took longer than {}", show_seconds(limit.as_secs()));
        }
        thread::sleep(STEP);
    }
}
