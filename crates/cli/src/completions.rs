//! `sotto completions` and `sotto man`: generated from the command table.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::output::{Outcome, Output};

/// Prints a completion script.
#[derive(Debug, Args)]
#[command(
    after_help = "Example, for bash, now or in ~/.bashrc:\n  eval \"$(sotto completions bash)\""
)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

impl CompletionsArgs {
    pub(crate) fn run(self, _output: &Output) -> Result<Outcome> {
        // Written to memory first: the generator panics on a closed pipe.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut whole(), "sotto", &mut script);
        io::stdout().lock().write_all(&script)?;
        Ok(Outcome::Yes)
    }
}

/// The command table with the commands that the first screen of the help leaves out.
fn whole() -> clap::Command {
    let left_out = ["interop", "vectors"];
    left_out.into_iter().fold(Cli::command(), |command, name| {
        command.mut_subcommand(name, |subcommand| subcommand.hide(false))
    })
}

/// Writes one man page per command.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder to write to.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl ManArgs {
    pub(crate) fn run(self, _output: &Output) -> Result<Outcome> {
        std::fs::create_dir_all(&self.out)
            .and_then(|()| clap_mangen::generate_to(whole(), &self.out))
            .with_context(|| format!("cannot write man pages to {}", self.out.display()))?;
        Ok(Outcome::Yes)
    }
}
