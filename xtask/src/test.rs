//! `cargo xtask test`: every check of the project, in order, stopping at the first that fails.
//!
//! Long campaigns run a short seeded slice here, as tests: the mutations of the decoders
//! (`SOTTO_MUTATIONS`, in `sotto-wire`), crashes, releases and trainings (`SOTTO_CRASHES`,
//! `SOTTO_RELEASES` and `SOTTO_TRAINING_KILLS`, in `sotto-tests`), the audit of the mechanisms
//! (`SOTTO_CASES`, in `sotto-dp`).
//! `cargo xtask campaign` runs them at full length.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use cargo_metadata::Message;

use crate::postgres::{Keeping, Server};
use crate::workspace::{cargo, root, succeed, target};
use crate::{layers, licences, tidy};

/// The number of kills in the slice of the crash campaign.
const CRASH_SLICE: &str = "20";
/// The number of kills in the slice of the campaign of releases.
const RELEASE_SLICE: &str = "12";
/// The number of kills in the slice of the campaign of trainings.
const TRAINING_SLICE: &str = "5";
/// The number of mutated messages per decoder in the slice of the fuzz campaign.
const MUTATION_SLICE: &str = "20000";

/// The folders of the packages whose tests take longest. They begin first, so that none of them is
/// left alone at the end.
const LONGEST: [&str; 4] = ["tests", "cli", "dp", "store"];

/// A check. It adds its counts to the tally.
type Step = fn(&mut Tally) -> Result<()>;

const STEPS: [(&str, Step); 8] = [
    ("tools", tools),
    ("format", |_| succeed(&mut cargo(["fmt", "--all", "--check"]))),
    ("house rules", |_| tidy::check()),
    ("layers", |_| layers::check()),
    ("licences", |_| licences::check()),
    ("device library", device_library),
    ("compile", compile),
    ("tests", tests),
];

/// Runs all steps, or `only` those named. The last line printed is `N passed, N failed`.
pub(crate) fn run(only: &[String]) -> Result<ExitCode> {
    if let Some(name) = only.iter().find(|name| !STEPS.iter().any(|(step, _)| step == name)) {
        bail!("no step `{name}`; there are: {}", STEPS.map(|(step, _)| step).join(", "));
    }
    let chosen = |name: &str| only.is_empty() || only.iter().any(|step| step == name);
    let mut tally = Tally::default();
    let begin = Instant::now();
    for (name, step) in STEPS.into_iter().filter(|(name, _)| chosen(name)) {
        println!("== {name}");
        let step_begin = Instant::now();
        let outcome = step(&mut tally);
        println!("== {name}: {:.1} s", step_begin.elapsed().as_secs_f64());
        if let Err(error) = outcome {
            println!("== {name} FAILED: {error:#}");
            // The failure of a step that counts no tests must also show in the last line.
            tally.failed = tally.failed.max(1);
            break;
        }
    }
    println!("== all: {:.1} s", begin.elapsed().as_secs_f64());
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The runner's counts, summed over all test programs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
}

impl Tally {
    /// Shows what a test program printed, and adds its counts. A program that fails in any other way
    /// counts as one failure.
    fn add(&mut self, name: &str, done: &Output) {
        let before = self.failed;
        for stream in [&done.stdout, &done.stderr] {
            let text = String::from_utf8_lossy(stream);
            println!("{name}:\n{text}");
            text.lines().for_each(|line| self.add_line(line));
        }
        if !done.status.success() && self.failed == before {
            println!("{name} FAILED: {}", done.status);
            self.failed += 1;
        }
    }

    /// Adds a line such as `test result: ok. 3 passed; 0 failed; 0 ignored; ...`; ignores other
    /// lines.
    fn add_line(&mut self, line: &str) {
        let Some((_, counts)) =
            line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for count in counts.split(';') {
            match count.trim().split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

/// rustfmt and clippy may be missing from a minimal toolchain; nothing else needs to be added to
/// it.
fn tools(_: &mut Tally) -> Result<()> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        let mut probe = cargo([subcommand, "--version"]);
        if probe.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success() {
            continue;
        }
        println!("installing {component}");
        succeed(Command::new("rustup").args(["component", "add", component])).with_context(
            || {
                format!(
                    "{component} is missing: install it with `rustup component add {component}`"
                )
            },
        )?;
    }
    Ok(())
}

/// Builds what an application embeds, without the features that servers enable in the same crates.
fn device_library(_: &mut Tally) -> Result<()> {
    succeed(&mut cargo(["check", "--package", "sotto-client", "--lib", "--locked"]))
}

/// Compiles everything that the tests run, with all lints, and checks the links of the
/// documentation.
fn compile(_: &mut Tally) -> Result<()> {
    succeed(shared_build()?.args(["--no-run", "--no-fail-fast"]))
}

/// The one build that lints, documentation and tests share (see `xtask/rustc-wrapper`).
fn shared_build() -> Result<Command> {
    let mut command = cargo(["test", "--workspace", "--all-features", "--locked"]);
    command
        .env("RUSTC_WORKSPACE_WRAPPER", root().join("xtask/rustc-wrapper"))
        .env("CLIPPY_ARGS", "-Dwarnings")
        .env("SOTTO_DOC_DIR", target("doc")?);
    if std::env::var_os("CI").is_some() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    Ok(command)
}

/// Unit, integration, end-to-end and doc tests. Two test programs run at a time: many tests wait for
/// processes, disks and timers.
fn tests(tally: &mut Tally) -> Result<()> {
    let postgres = Server::start(Keeping::Nothing).context("no PostgreSQL server for the tests")?;
    let (programs, tallied) = (Mutex::new(test_programs()?.into_iter()), Mutex::new(tally));
    let work = || -> Result<()> {
        loop {
            let Some(program) = lock(&programs).next() else { return Ok(()) };
            println!("running {}", program.name);
            let done = program.command()?.envs(postgres.environment()).output()?;
            lock(&tallied).add(&program.name, &done);
        }
    };
    thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        let joined = workers.map(|worker| worker.join().unwrap_or_else(|_| bail!("a panic")));
        joined.into_iter().collect::<Result<()>>()
    })?;
    let documentation = shared_build()?.args(["--doc", "--no-fail-fast"]).output()?;
    let mut tally = lock(&tallied);
    tally.add("documentation", &documentation);
    if tally.failed > 0 {
        bail!("{} failed", tally.failed);
    }
    if tally.passed == 0 {
        bail!("no test ran");
    }
    Ok(())
}

/// A compiled test program.
struct Program {
    name: String,
    executable: PathBuf,
    /// The folder of its package, in which it runs.
    folder: PathBuf,
}

impl Program {
    fn command(&self) -> Result<Command> {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command.env("SOTTO_BIN", target("debug")?.join("sotto"));
        for (name, slice) in [
            ("SOTTO_CRASHES", CRASH_SLICE),
            ("SOTTO_RELEASES", RELEASE_SLICE),
            ("SOTTO_TRAINING_KILLS", TRAINING_SLICE),
            ("SOTTO_MUTATIONS", MUTATION_SLICE),
        ] {
            if std::env::var_os(name).is_none() {
                command.env(name, slice);
            }
        }
        Ok(command)
    }
}

/// All test programs, the longest first.
fn test_programs() -> Result<Vec<Program>> {
    let built = shared_build()?
        .args(["--no-run", "--no-fail-fast", "--message-format=json"])
        .stderr(Stdio::inherit())
        .output()?;
    let mut programs = Vec::new();
    for message in Message::parse_stream(&built.stdout[..]) {
        let Message::CompilerArtifact(artifact) = message? else { continue };
        let Some(executable) = artifact.executable.filter(|_| artifact.profile.test) else {
            continue;
        };
        let folder = artifact.manifest_path.parent().context("a manifest has a folder")?;
        let package = folder.file_name().unwrap_or_default();
        programs.push(Program {
            name: format!("{package}: {}", artifact.target.name),
            executable: executable.into(),
            folder: folder.into(),
        });
    }
    let rank = |program: &Program| {
        let place = LONGEST.iter().position(|folder| program.folder.ends_with(folder));
        place.unwrap_or(LONGEST.len())
    };
    programs.sort_by_key(rank);
    Ok(programs)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::Tally;

    #[test]
    fn the_runners_counts_are_summed() {
        let mut tally = Tally::default();
        tally.add_line("test leader::upload::tests::replayed ... ok");
        tally.add_line(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out",
        );
        tally.add_line("test result: FAILED. 3 passed; 2 failed; 0 ignored; finished in 0.05s");
        assert_eq!(tally, Tally { passed: 15, failed: 2 });
    }

    #[test]
    fn a_program_that_fails_is_counted_once() {
        let mut tally = Tally::default();
        let mut run = |script: &str| {
            tally.add(script, &Command::new("sh").args(["-c", script]).output().unwrap());
            tally.failed
        };
        assert_eq!(run("exit 3"), 1, "without a result");
        let result = "echo 'test result: FAILED. 1 passed; 2 failed; 0 ignored'";
        assert_eq!(run(&format!("{result}; exit 101")), 3);
        assert_eq!(run("echo 'test result: ok. 4 passed; 0 failed'"), 3);
        assert_eq!(tally.passed, 5);
    }
}
