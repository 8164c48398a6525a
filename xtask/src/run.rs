//! Tasks that build something in release mode and start it.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::postgres::{Keeping, Server};
use crate::workspace::{cargo, succeed, target};

/// What `cargo xtask campaign fuzz` runs unless told otherwise.
const FUZZ_MUTATIONS: u64 = 1_000_000;
/// What `cargo xtask campaign crash` runs unless told otherwise.
const CRASH_KILLS: u64 = 300;
/// What `cargo xtask campaign faults` runs unless told otherwise.
const FAULT_SECONDS: u64 = 480;
/// What `cargo xtask campaign training` runs unless told otherwise.
const TRAINING_KILLS: u64 = 100;
/// What `cargo xtask campaign error` runs unless told otherwise.
const ERROR_RUNS: u64 = 20;
/// What `cargo xtask campaign plan` runs unless told otherwise.
const PLAN_RUNS: u64 = 20;
/// What `cargo xtask campaign log` runs unless told otherwise.
const LOG_KILLS: u64 = 200;
/// What `cargo xtask campaign large` runs unless told otherwise.
const LARGE_REPORTS: u64 = 200;
/// What `cargo xtask campaign audit` runs unless told otherwise.
const AUDIT_RUNS: u64 = 200_000;

/// The mutation tests of the decoders, at full length.
pub(crate) fn fuzz(count: Option<u64>, seed: u64) -> Result<ExitCode> {
    let count = count.unwrap_or(FUZZ_MUTATIONS).to_string();
    println!("{count} mutated messages per decoder, seed {seed}");
    let mut command = tests("sotto-wire", "mutations", "");
    command.env("SOTTO_MUTATIONS", count).env("SOTTO_MUTATION_SEED", seed.to_string());
    status(&mut command)
}

/// The empirical audit of the mechanisms, at full length. Its last line says how long it took.
pub(crate) fn audit(count: Option<u64>, seed: u64) -> Result<ExitCode> {
    let count = count.unwrap_or(AUDIT_RUNS).to_string();
    println!("{count} runs of each population, seed {seed}");
    let mut command = tests("sotto-dp", "all", "mechanism::audit");
    status(command.env("SOTTO_CASES", count).env("SOTTO_SEED", seed.to_string()))
}

/// The tests of a package whose names contain `filter`, in release mode, with all that they print.
fn tests(package: &str, target: &str, filter: &str) -> Command {
    let run = ["test", "--release", "-p", package, "--test", target];
    cargo(run.into_iter().chain(["--", filter, "--nocapture"]))
}

/// The crash campaign, on the release binary.
pub(crate) fn crash(count: Option<u64>, seed: u64) -> Result<ExitCode> {
    with_binary("crash-campaign", count.unwrap_or(CRASH_KILLS), seed)
}

/// The fault campaign, on the release binary and a PostgreSQL server of its own, which keeps what it
/// says that it keeps.
pub(crate) fn faults(seconds: Option<u64>, seed: u64) -> Result<ExitCode> {
    let server = Server::start(Keeping::Everything)?;
    let release = built(&["sotto", "sotto-tests"])?;
    let mut command = Command::new(release.join("fault-campaign"));
    let seconds = seconds.unwrap_or(FAULT_SECONDS).to_string();
    command.args(["--count", &seconds, "--seed", &seed.to_string()]);
    command.env("SOTTO_BIN", release.join("sotto")).envs(server.environment());
    status(command.env("SOTTO_POSTGRES_CONTROL", server.control()))
}

/// The campaign of releases with noise, on the release binary.
pub(crate) fn release(count: Option<u64>, seed: u64) -> Result<ExitCode> {
    with_binary("release-campaign", count.unwrap_or(CRASH_KILLS), seed)
}

/// The campaign of trainings, on the release binary.
pub(crate) fn training(count: Option<u64>, seed: u64) -> Result<ExitCode> {
    with_binary("training-campaign", count.unwrap_or(TRAINING_KILLS), seed)
}

/// The campaign of the errors of estimates, on the release binary.
pub(crate) fn error(count: Option<u64>, seed: u64) -> Result<ExitCode> {
    with_binary("error-campaign", count.unwrap_or(ERROR_RUNS), seed)
}

/// The campaign of plans, on the release binary.
pub(crate) fn plan(count: Option<u64>, seed: u64) -> Result<ExitCode> {
    with_binary("plan-campaign", count.unwrap_or(PLAN_RUNS), seed)
}

/// The campaign of large reports, on the release binary.
pub(crate) fn large(count: Option<u64>, seed: u64) -> Result<ExitCode> {
    with_binary("large-campaign", count.unwrap_or(LARGE_REPORTS), seed)
}

fn with_binary(campaign: &str, count: u64, seed: u64) -> Result<ExitCode> {
    let release = built(&["sotto", "sotto-tests"])?;
    let mut command = Command::new(release.join(campaign));
    command.args(["--count", &count.to_string(), "--seed", &seed.to_string()]);
    status(command.env("SOTTO_BIN", release.join("sotto")))
}

/// The campaign of the public log, in release mode.
pub(crate) fn log(count: Option<u64>, seed: u64) -> Result<ExitCode> {
    let count = count.unwrap_or(LOG_KILLS).to_string();
    let mut command = Command::new(built(&["sotto-tests"])?.join("log-campaign"));
    status(command.args(["--count", &count, "--seed", &seed.to_string()]))
}

/// A benchmark, on the release binary.
pub(crate) fn bench(arguments: &[String]) -> Result<ExitCode> {
    let release = built(&["sotto", "sotto-bench"])?;
    let mut command = Command::new(release.join("sotto-bench"));
    command.args(arguments).env("SOTTO_BIN", release.join("sotto"));
    status(&mut command)
}

/// The man pages, from the same definitions as the command line.
pub(crate) fn man(out: &Path) -> Result<ExitCode> {
    let release = built(&["sotto"])?;
    status(Command::new(release.join("sotto")).arg("man").arg("--out").arg(out))
}

/// Builds packages in release mode and returns the folder of the results.
fn built(packages: &[&str]) -> Result<std::path::PathBuf> {
    let mut arguments = vec!["build", "--release", "--quiet", "--bins"];
    arguments.extend(packages.iter().flat_map(|package| ["-p", package]));
    succeed(&mut cargo(arguments))?;
    target("release")
}

/// Runs a command and passes on its exit code.
fn status(command: &mut Command) -> Result<ExitCode> {
    Ok(if command.status()?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
