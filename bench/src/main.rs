//! Benchmarks: `cargo xtask bench aggregate | scale | account | device | anonymity | tokens | pine`.
//!
//! The first two run the binary `sotto`: [`setup`] keeps tasks and prepared reports from run to
//! run, [`run`] measures one run, [`floor`] measures what the cryptography alone costs, [`table`]
//! prints. [`account`] compares the privacy accountant with its peer, [`device`] the checks of a
//! device with their floor, [`anonymity`] gateway and relay with theirs. [`tokens`] measures
//! issuing and verifying tokens, [`pine`] vectors with a proven norm.
#![allow(clippy::print_stdout)] // a program for people at a terminal

mod account;
mod anonymity;
mod device;
mod floor;
mod load;
mod pine;
mod prepare;
mod proxy;
mod run;
mod setup;
mod table;
mod tokens;
mod turns;
mod workload;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use serde_json::json;
use sotto_crypto::hpke::Suite;
use sotto_wire::BatchMode;

use crate::proxy::Traffic;
use crate::run::Measured;
use crate::setup::{PORTS, Setup};
use crate::workload::Workload;

/// Benchmarks of the release build.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// What a report costs leader and helper, compared with the cost of its cryptography alone.
    Aggregate {
        #[command(flatten)]
        options: Options,
        /// Use leader-selected batches instead of a time interval.
        #[arg(long)]
        leader_selected: bool,
    },
    /// Whether time grows linearly and memory stays constant, from 10,000 to 1,000,000 reports.
    Scale {
        #[command(flatten)]
        options: Options,
        /// Other numbers of reports; may be repeated.
        #[arg(long, value_name = "N")]
        reports: Vec<u64>,
    },
    /// The privacy accountant compared with `dp-accounting`, in the same run.
    Account {
        #[command(flatten)]
        options: account::Options,
    },
    /// What checking a recipe and its proofs costs a device.
    Device {
        #[command(flatten)]
        options: device::Options,
    },
    /// What a gateway and a relay cost per request, compared with the unavoidable minimum.
    Anonymity {
        #[command(flatten)]
        options: anonymity::Options,
    },
    /// What issuing and verifying a token costs, compared with bare signatures and other
    /// implementations.
    Tokens {
        #[command(flatten)]
        options: tokens::Options,
    },
    /// What a vector with a proven norm costs device, leader and helper, by the processor's
    /// instructions.
    Pine {
        #[command(flatten)]
        options: pine::Options,
    },
    /// One process of `anonymity` (internal).
    #[command(hide = true)]
    Party {
        /// What it does.
        part: anonymity::Part,
        /// The gateway behind it.
        #[arg(long)]
        gateway: Option<SocketAddr>,
    },
}

#[derive(Clone, Copy, Debug, Args)]
struct Options {
    /// Fewer reports: to see that it works, not to quote.
    #[arg(long)]
    quick: bool,
    /// One JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    match Arguments::parse().benchmark {
        Benchmark::Aggregate { options, leader_selected } => {
            aggregate(options, leader_selected, counted()?.as_ref())
        }
        Benchmark::Scale { options, reports } => scale(options, &reports, counted()?.as_ref()),
        Benchmark::Account { options } => account::run(&options),
        Benchmark::Device { options } => device::run(&options),
        Benchmark::Anonymity { options } => anonymity::run(&options),
        Benchmark::Tokens { options } => tokens::run(&options),
        Benchmark::Pine { options } => pine::run(&options),
        Benchmark::Party { part, gateway } => anonymity::play(part, gateway),
    }
}

/// The pipe between leader and helper.
fn counted() -> Result<Arc<Traffic>> {
    let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    proxy::start(address(PORTS.helper_public), address(PORTS.helper))
}

fn aggregate(options: Options, leader_selected: bool, traffic: &Traffic) -> Result<()> {
    let count = if options.quick { 2_000 } else { 50_000 };
    let mode = if leader_selected { BatchMode::LeaderSelected } else { BatchMode::TimeInterval };
    let mut objects = Vec::new();
    let workloads = [Workload::Histogram256, Workload::SumVec1000];
    let suites = [Suite::X25519, Suite::Hybrid];
    for (workload, suite) in workloads.into_iter().flat_map(|of| suites.map(|suite| (of, suite))) {
        let setup = Setup::new(workload, count, mode, suite)?;
        let verify_key = setup.files.verify_key()?;
        let floor = floor::measure(workload, suite, setup.files.task(), &verify_key)?;
        let measured = measure(&setup, count, options, traffic)?;
        if options.json {
            objects.push(table::aggregate_json(workload, &measured, floor));
        } else {
            table::print_aggregate(workload, &measured, floor);
        }
    }
    if options.json {
        println!("{:#}", json!({ "benchmark": "aggregate", "runs": objects }));
    }
    Ok(())
}

fn scale(options: Options, reports: &[u64], traffic: &Traffic) -> Result<()> {
    let counts = match (reports, options.quick) {
        ([], true) => &[1_000, 10_000][..],
        ([], false) => &[10_000, 100_000, 1_000_000],
        (reports, _) => reports,
    };
    let mut runs = Vec::new();
    for &count in counts {
        let setup = Setup::new(Workload::Count, count, BatchMode::TimeInterval, Suite::X25519)?;
        runs.push(measure(&setup, count, options, traffic)?);
    }
    if options.json {
        println!("{:#}", json!({ "benchmark": "scale", "runs": runs }));
    } else {
        table::print_scale(&runs);
    }
    Ok(())
}

/// Prepares what is missing, then runs.
fn measure(setup: &Setup, count: u64, options: Options, traffic: &Traffic) -> Result<Measured> {
    let begin = Instant::now();
    let reports = setup.reports(count)?;
    if !options.json && begin.elapsed().as_secs() > 0 {
        println!("prepared {count} reports in {:.0} s", begin.elapsed().as_secs_f64());
    }
    run::run(setup, &reports, traffic)
}
