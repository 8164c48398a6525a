//! The peak memory of one step, in a process that does nothing else.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Case;

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Step {
    Shard,
    Leader,
    Helper,
}

/// Starts this program again, and reads what it prints.
pub(super) fn in_own_process(step: Step, dimension: u32) -> Result<u64> {
    let name = match step {
        Step::Shard => "shard",
        Step::Leader => "leader",
        Step::Helper => "helper",
    };
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["pine", "--memory", name, "--dimension", &dimension.to_string()]);
    // What is freed goes back to the system at once, so that the steps before, which make the
    // inputs, leave nothing that this one could use without being noticed.
    let output = command.env("MALLOC_MMAP_THRESHOLD_", "16384").output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// How much the peak of this process is above what it has now, in bytes.
pub(super) fn peak_of(step: Step, case: &Case) -> Result<u64> {
    let inbound = case.lead()?;
    let mut sum = [case.vdaf.zero_share()];
    // Resets the peak to the present size (Linux).
    fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak")?;
    let before = kilobytes("VmRSS:")?;
    match step {
        Step::Shard => drop(case.shard()?),
        Step::Leader => drop(case.lead()?),
        Step::Helper => case.help(&inbound, &mut sum)?,
    }
    Ok(kilobytes("VmHWM:")?.saturating_sub(before) * 1024)
}

fn kilobytes(name: &str) -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such line")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
