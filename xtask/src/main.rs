//! Development tasks: `cargo xtask test | campaign | bench | man`.
//!
//! `test` is the only test command. [`mod@test`] lists its steps; the project's own checks are
//! [`layers`], [`licences`] and [`tidy`]. Campaigns are tests, or live in the crate `sotto-tests`;
//! benchmarks in `sotto-bench`. Here they are only built in release mode and started.
#![allow(clippy::print_stdout)] // a program for people at a terminal

mod layers;
mod licences;
mod postgres;
mod run;
mod test;
mod tidy;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};

/// Development tasks of the project.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Formatting, lints, layers, licences, house rules, then every test. What CI runs.
    Test {
        /// Run this step alone, for instance `compile`; may be repeated.
        #[arg(long, value_name = "STEP")]
        only: Vec<String>,
    },
    /// Runs a campaign at full length. `test` runs a short slice of each.
    Campaign {
        /// The campaign to run.
        #[arg(value_enum)]
        campaign: Campaign,
        /// Mutated messages per decoder (fuzz, default 1,000,000), runs of each population (audit,
        /// default 200,000), seconds (faults, default 480), kills (crash and release, default 300; log, default 200; training,
        /// default 100), collections per mechanism (error, default 20) or question (plan, default 20), or reports (large, default
        /// 200).
        #[arg(long)]
        count: Option<u64>,
        /// The seed of the pseudo-random choices.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Runs a benchmark of the release build. `--quick` and `--json` work with every benchmark.
    Bench {
        /// The benchmark and its options; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Writes the man pages.
    Man {
        /// The folder to write to.
        #[arg(long)]
        out: PathBuf,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Campaign {
    /// Mutated messages against every decoder.
    Fuzz,
    /// `kill -9` of leader or helper at many different times.
    Crash,
    /// Four leaders and four helpers on PostgreSQL under load: processes that are killed or stand
    /// still, connections that are cut, a database that restarts.
    Faults,
    /// `kill -9` of leader or helper while they release a batch with noise.
    Release,
    /// `kill -9` of `sotto train`, leader, helper, log or relay in the rounds of trainings.
    Training,
    /// The squared errors of estimates against those that results predict, with 10,000 of a million
    /// devices.
    Error,
    /// The squared errors and the turnout of thirty questions in memory against their prediction.
    Plan,
    /// A public log of a million entries, and `kill -9` of a process that appends to one.
    Log,
    /// Reports of the largest size through relay, leader and helper: the memory of each.
    Large,
    /// Every mechanism on neighbouring populations, and broken ones: does any claim not hold?
    Audit,
}

fn main() -> Result<ExitCode> {
    match Arguments::parse().chore {
        Chore::Test { only } => test::run(&only),
        Chore::Campaign { campaign: Campaign::Fuzz, count, seed } => run::fuzz(count, seed),
        Chore::Campaign { campaign: Campaign::Crash, count, seed } => run::crash(count, seed),
        Chore::Campaign { campaign: Campaign::Faults, count, seed } => run::faults(count, seed),
        Chore::Campaign { campaign: Campaign::Release, count, seed } => run::release(count, seed),
        Chore::Campaign { campaign: Campaign::Training, count, seed } => run::training(count, seed),
        Chore::Campaign { campaign: Campaign::Error, count, seed } => run::error(count, seed),
        Chore::Campaign { campaign: Campaign::Plan, count, seed } => run::plan(count, seed),
        Chore::Campaign { campaign: Campaign::Log, count, seed } => run::log(count, seed),
        Chore::Campaign { campaign: Campaign::Large, count, seed } => run::large(count, seed),
        Chore::Campaign { campaign: Campaign::Audit, count, seed } => run::audit(count, seed),
        Chore::Bench { arguments } => run::bench(&arguments),
        Chore::Man { out } => run::man(&out),
    }
}
