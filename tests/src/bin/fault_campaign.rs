//! The fault campaign at full length: `cargo xtask campaign faults`.
#![allow(clippy::print_stdout)] // a program for people at a terminal

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use sotto_tests::faults::{Plan, run};

/// Breaks leaders, helpers and their databases under load, and checks every sum.
#[derive(Debug, Parser)]
struct Arguments {
    /// For how many seconds.
    #[arg(long, default_value_t = 480)]
    count: u64,
    /// The seed of the faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<ExitCode> {
    let Arguments { count: seconds, seed } = Arguments::parse();
    let plan = Plan { leaders: 4, helpers: 4, seconds, seed };
    let outcome = run(&plan)?.context("there is no PostgreSQL server")?;
    outcome.log.iter().for_each(|fault| println!("{fault}"));
    println!("{outcome}");
    Ok(ExitCode::SUCCESS)
}
