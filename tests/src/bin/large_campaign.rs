//! The campaign of large reports: `cargo xtask campaign large`.
#![allow(clippy::print_stdout)] // a program for people at a terminal

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Parser;
use sotto_tests::large::{Kind, LargeReports};

/// The most memory that a role may take.
const LIMIT_MB: u64 = 512;

/// Sends reports of the largest size through relay, leader and helper, and measures the peak memory
/// of each.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many reports.
    #[arg(long, default_value_t = 200)]
    count: u64,
    /// The seed: nothing is random here.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What is measured.
    #[arg(long, value_enum, default_value_t = Kind::Pine)]
    kind: Kind,
    /// Elements of a measurement.
    #[arg(long, default_value_t = 1_000_000)]
    length: u32,
    /// Devices that send at once.
    #[arg(long, default_value_t = 32)]
    lanes: usize,
}

fn main() -> Result<ExitCode> {
    let Arguments { count, kind, length, lanes, .. } = Arguments::parse();
    let mut large = LargeReports::new(kind, length, count)?;
    large.start("")?;
    let begin = Instant::now();
    let reports = large.prepare(count)?;
    println!(
        "prepared {count} reports of {} bytes in {:.0} s",
        reports.report_len(),
        begin.elapsed().as_secs_f64()
    );
    let begin = Instant::now();
    let sent = large.send(&reports, lanes)?;
    println!(
        "all accepted after {:.1} s, {lanes} devices at once; {} attempts were turned away",
        sent.took.as_secs_f64(),
        sent.turned_away
    );
    large.finish(count)?;
    println!("the sum is right, {:.1} s after the first upload", begin.elapsed().as_secs_f64());
    let peaks = large.peaks()?;
    let mut is_met = true;
    for (role, peak) in [("relay", peaks.relay), ("leader", peaks.leader), ("helper", peaks.helper)]
    {
        let peak = peak / 1_000_000;
        let met = peak < LIMIT_MB;
        is_met &= met;
        let verdict = if met { "met" } else { "NOT MET" };
        println!("peak memory of the {role}: {peak} MB; goal {LIMIT_MB} MB: {verdict}");
    }
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
