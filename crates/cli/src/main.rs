//! The binary `sotto`: every role of the protocol and the tools around it.
//!
//! One file per command; each has its arguments and a `run`. Output and exit codes are in
//! [`output`]. Cryptography, protocol and servers live in the crates below.

mod account;
mod chart;
mod cli;
mod collect;
mod completions;
mod connection;
mod db;
mod demo;
mod device;
mod discover;
mod figures;
mod fleet;
mod init;
mod interop;
mod keys;
mod log;
mod log_source;
mod logging;
mod npy;
mod output;
#[cfg(test)]
#[allow(dead_code, reason = "the tests of the program as a process use the rest")]
#[path = "../tests/pages.rs"]
mod pages;
mod patience;
mod plot;
mod private_file;
mod problem_words;
mod random;
mod recipe;
mod recipe_file;
mod result;
mod schema;
mod serve;
mod signals;
mod signer_file;
mod stage;
mod svg_chart;
mod task;
mod task_file;
mod time_text;
mod token_keys;
mod toml_text;
mod train;
mod trust_file;
mod upload;
mod vectors;
mod vocabulary;
mod workers;

use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::cli::Cli;
use crate::output::{Outcome, Output};

/// Exit code of a usage error or a failure, in contrast to a check with a negative result.
const EXIT_ERROR: u8 = 2;

fn main() -> ExitCode {
    let (cli, command) = match Cli::read() {
        Ok(read) => read,
        Err(error) => return usage(&error),
    };
    let output = Output::new(cli.json, Some(command));
    match cli.run(&output) {
        Ok(Outcome::Yes) => ExitCode::SUCCESS,
        Ok(Outcome::No) => ExitCode::FAILURE,
        Ok(Outcome::Undecided) => ExitCode::from(EXIT_ERROR),
        // The reader of our output has closed the pipe.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output.failure(&error);
            ExitCode::from(EXIT_ERROR)
        }
    }
}

/// Help and version go to stdout, usage errors to stderr. With `--json`, a version is JSON, and so
/// is a usage error, on stdout.
fn usage(error: &clap::Error) -> ExitCode {
    let json = std::env::args_os().any(|argument| argument == "--json");
    if json && error.kind() == ErrorKind::DisplayVersion {
        let version = serde_json::json!({ "version": env!("CARGO_PKG_VERSION") });
        let _ = Output::new(true, Some("version".to_owned())).value(&version);
    } else if json && error.use_stderr() {
        let text = error.to_string();
        // The error message ends at the first empty line; the usage follows.
        let lines = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim);
        let message = lines.collect::<Vec<_>>().join(" ");
        let error = anyhow::anyhow!("{}", message.trim_start_matches("error: "));
        Output::new(true, None).failure(&error);
    } else if error.use_stderr() {
        Output::new(false, None).usage(error);
    } else {
        // If the terminal is gone, there is nobody to tell.
        let _ = error.print();
        let _ = std::io::stdout().flush();
    }
    if error.use_stderr() { ExitCode::from(EXIT_ERROR) } else { ExitCode::SUCCESS }
}
