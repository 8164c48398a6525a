//! `sotto log`: for auditors. It verifies a recipe, watches a log, lists its entries,
//! or checks its files.

mod about;
mod findings;
mod fork;
mod fsck;
mod list;
mod memory;
mod misbehaviour;
mod monitor;
mod verify;

use std::path::Path;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use sotto_wire::TlogPolicy;

use crate::output::{Outcome, Output};
use crate::private_file;

/// Checks a public log and what it holds.
#[derive(Debug, Args)]
pub(crate) struct LogCommandArgs {
    #[command(subcommand)]
    command: LogCommand,
}

#[derive(Debug, Subcommand)]
enum LogCommand {
    /// Verify that a recipe is public and keeps its privacy promise.
    Verify(verify::VerifyArgs),
    /// Watch a log: describe new entries, and raise an alert if something is wrong.
    Monitor(monitor::MonitorArgs),
    /// List the entries of a log, or search them by author, name, kind and time.
    List(list::ListArgs),
    /// Show what is remembered: logs that were seen, and proofs of misbehaviour.
    Memory(memory::MemoryArgs),
    /// Check every file of a log against its entries.
    Fsck(fsck::FsckArgs),
}

impl LogCommandArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        match self.command {
            LogCommand::Verify(args) => args.run(output),
            LogCommand::Monitor(args) => args.run(output),
            LogCommand::List(args) => args.run(output),
            LogCommand::Memory(args) => args.run(output),
            LogCommand::Fsck(args) => args.run(output),
        }
    }
}

/// Reads a policy from a file.
fn read_policy(path: &Path) -> Result<TlogPolicy> {
    TlogPolicy::parse(&private_file::read(path)?)
        .with_context(|| format!("{} cannot be used", path.display()))
}
