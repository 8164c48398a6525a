//! The campaign of large reports: `cargo xtask campaign large`.
#![allow(clippy::print_stdout)] // a program for people at a terminal

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use clap::{Parser, ValueEnum};
use sotto_tests::fleet::Fleet;
use sotto_tests::large::{Devices, Kind, LargeReports};
use sotto_tests::process::peak_memory;

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
    /// Whole devices that answer a recipe in the log, with noise of their own and with tokens that
    /// they fetch beforehand. (Only for vectors of bounded norm.)
    #[arg(long, conflicts_with = "kind")]
    tokens: bool,
    /// One device in a process of its own (internal): folder, time, relay.
    #[arg(long, num_args = 3, hide = true)]
    device: Option<Vec<String>>,
}

/// Makes and sends one report, and prints the peak memory of this process.
fn answer(arguments: &Arguments, device: &[String]) -> Result<ExitCode> {
    let [folder, time, relay] = device else { bail!("three arguments") };
    let Arguments { count, kind, length, .. } = *arguments;
    let devices = Devices::join(Path::new(folder), kind, length, time.parse()?, relay.clone())?;
    devices.answer(count)?;
    println!("{}", peak_memory("self")?);
    Ok(ExitCode::SUCCESS)
}

/// Runs one more device in a process of its own. Returns its peak memory.
fn measure_device(arguments: &Arguments, large: &LargeReports) -> Result<u64> {
    let mut command = Command::new(std::env::current_exe()?);
    let (count, length) = (arguments.count.to_string(), arguments.length.to_string());
    let kind = arguments.kind.to_possible_value().map(|kind| kind.get_name().to_owned());
    command.args(["--count", &count, "--length", &length, "--kind", &kind.unwrap_or_default()]);
    command.arg("--device").arg(large.pair.folder()).args(large.devices.arguments());
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Devices with tokens: from the first pass that answers to the result.
fn with_tokens(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { count, length, lanes, .. } = *arguments;
    let begin = Instant::now();
    let fleet = Fleet::start(length, count, lanes, "")?;
    println!(
        "{count} devices have their two tokens each, {:.1} s after the start",
        begin.elapsed().as_secs_f64()
    );
    let took = fleet.answer(lanes)?;
    println!(
        "all reports made, sent and accepted after {:.1} s, {lanes} devices at once",
        took.accepted.as_secs_f64()
    );
    println!("collected after {:.1} s; the sum is exact", took.collected.as_secs_f64());
    judge(fleet.peaks()?)
}

/// Prints the peak memory of each role.
fn judge(peaks: [(&str, u64); 3]) -> Result<ExitCode> {
    let mut is_met = true;
    for (role, peak) in peaks {
        let peak = peak / 1_000_000;
        let met = peak < LIMIT_MB;
        is_met &= met;
        let verdict = if met { "met" } else { "NOT MET" };
        println!("peak memory of the {role}: {peak} MB; goal {LIMIT_MB} MB: {verdict}");
    }
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(device) = &arguments.device {
        return answer(&arguments, device);
    }
    if arguments.tokens {
        return with_tokens(&arguments);
    }
    let Arguments { count, kind, length, lanes, .. } = arguments;
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
    let device = measure_device(&arguments, &large)?;
    large.finish(count + 1)?;
    println!("the sum is right, {:.1} s after the first upload", begin.elapsed().as_secs_f64());
    println!("peak memory of a device: {} MB", device / 1_000_000);
    judge(large.peaks()?)
}
