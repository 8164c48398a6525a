//! The campaign of the public log at full length: `cargo xtask campaign log`.
#![allow(clippy::print_stdout)] // a program for people at a terminal

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Result;
use clap::Parser;
use sotto_tests::log;

/// Grows a log and compares it with two other implementations; then repeatedly kills a process that
/// appends.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many kills.
    #[arg(long, default_value_t = 200)]
    count: u64,
    /// The seed of the pseudo-random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many entries the log grows to.
    #[arg(long, default_value_t = 1_000_000)]
    entries: u64,
    /// How many are appended at a time.
    #[arg(long, default_value_t = 10_000)]
    batch: u64,
    /// The folder to work in; a temporary one unless given.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Run as the process that is killed (internal).
    #[arg(long, hide = true)]
    appender: Option<u64>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let temporary = tempfile::tempdir()?;
    let folder = arguments.folder.as_deref().unwrap_or(temporary.path());
    if let Some(run) = arguments.appender {
        return log::appender(folder, run, &mut std::io::stdout().lock());
    }
    grow(folder, &arguments)?;
    kill(folder, &arguments)
}

fn grow(folder: &Path, arguments: &Arguments) -> Result<()> {
    let Arguments { entries, batch, seed, .. } = *arguments;
    println!("{entries} entries in batches of {batch}");
    let mut next = entries / 10;
    let growth = log::grow(&folder.join("grown"), entries, batch, seed, &mut |size| {
        if size >= next {
            println!("  {size}");
            next += entries / 10;
        }
    })?;
    println!(
        "{} tiles equal to those of tlog_tiles, {} proofs verified by tlog_tiles and ct-merkle, \
         every file checked",
        growth.tiles, growth.proofs
    );
    println!(
        "building entries {:.1} s; staging {:.1} s, publishing {:.1} s, last rows {:.1} s; opening \
         the grown log {:.2} s; checking every file {:.1} s",
        growth.building.as_secs_f64(),
        growth.staging.as_secs_f64(),
        growth.publishing.as_secs_f64(),
        growth.indexing.as_secs_f64(),
        growth.opening.as_secs_f64(),
        growth.checking.as_secs_f64()
    );
    Ok(())
}

fn kill(folder: &Path, arguments: &Arguments) -> Result<()> {
    let begin = Instant::now();
    let folder = folder.join("killed");
    let program = std::env::current_exe()?;
    let command = |run: u64| {
        let mut command = Command::new(&program);
        command.args(["--appender", &run.to_string()]).arg("--folder").arg(&folder);
        command
    };
    let kills = log::kills(&folder, arguments.count, arguments.seed, &command, &mut |run| {
        if run.is_multiple_of(20) {
            println!("  {run} kills");
        }
    })?;
    println!(
        "{} kills in {:.0} s, {} of them between signature and publication: {} signed checkpoints \
         all consistent, {} acknowledged entries all there, no fork",
        kills.kills,
        begin.elapsed().as_secs_f64(),
        kills.unpublished,
        kills.signed,
        kills.acknowledged
    );
    Ok(())
}
