//! The campaign of predicted errors at full length: `cargo xtask campaign plan`.
#![allow(clippy::print_stdout)] // a program for people at a terminal

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use sotto_tests::plan::QUESTIONS;

/// Asks thirty questions of different kinds and sizes in memory, and compares errors and turnout with
/// the prediction.
#[derive(Debug, Parser)]
struct Arguments {
    /// How often each is asked; more often where few numbers are compared.
    #[arg(long, default_value_t = 20)]
    count: u64,
    /// Decides values, coins and noise.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<ExitCode> {
    let Arguments { count, seed } = Arguments::parse();
    let (begin, folder) = (Instant::now(), tempfile::tempdir().context("no temporary folder")?);
    let mut failed = 0;
    for (question, seed) in QUESTIONS.iter().zip(seed..) {
        let found = question.run(folder.path(), count, seed)?;
        failed += u64::from(!found.holds());
        println!(
            "{:>5.0} s, seed {seed:>3}: {:<50} {:>5} runs, {:.3} of the predicted squared error, +- {:.3}; \
             reports: furthest {:.1} sigma, mean {:+.1}{}",
            begin.elapsed().as_secs_f64(),
            question.name,
            found.runs,
            found.ratio,
            found.deviation,
            found.furthest,
            found.mean,
            if found.holds() { "" } else { " FAILED" }
        );
    }
    let all = QUESTIONS.len();
    println!("{all} questions, {failed} of them not as predicted");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
