//! `sotto result`: what to do with a result that was kept.

mod compare;
mod file;
mod parquet;
mod show;
mod shown;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::output::{Outcome, Output};

pub(crate) use self::file::OutArgs;
pub(crate) use self::shown::{about, curve, print};

/// Shows and compares results that were kept.
#[derive(Debug, Args)]
#[command(
    after_help = "A result is kept with `sotto collect --out FILE.json`; `sotto demo` has the same \
    option:\n\n  sotto demo --out words.json\n  sotto result show words.json --out words.svg"
)]
pub(crate) struct ResultArgs {
    #[command(subcommand)]
    command: ResultCommand,
}

#[derive(Debug, Subcommand)]
enum ResultCommand {
    /// Show a result again, or write it in another format.
    Show(show::ShowArgs),
    /// Say whether two results differ by more than noise and sampling.
    Compare(compare::CompareArgs),
}

impl ResultArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        match self.command {
            ResultCommand::Show(args) => args.run(output),
            ResultCommand::Compare(args) => args.run(output),
        }
    }
}
