//! The campaign of the errors of estimates at full length: `cargo xtask campaign error`.
#![allow(clippy::print_stdout)] // a program for people at a terminal

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Parser;
use sotto_tests::squared_error::{Errors, Outcome, Scale, run};
use sotto_wire::recipe::Probability;

/// How far a right mechanism may be off. With 20 runs of 1,000 buckets the sum of squares has a
/// relative deviation of 1.0 % if the errors are independent and normal, and 1.6 % for projective
/// geometry response, where they are not independent: a false alarm in fewer than one of 10^8
/// campaigns. What the deviation was is printed.
const TOLERANCE: f64 = 0.1;

/// Collects a histogram of a million devices, of which about 10,000 take part, through all parties,
/// and compares the squared errors with the predicted ones.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many collections with each mechanism.
    #[arg(long, default_value_t = 20)]
    count: u64,
    /// The seed of the first run; the others count up from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// All devices.
    #[arg(long, default_value_t = 1_000_000)]
    devices: u64,
    /// How many devices take part on average.
    #[arg(long, default_value_t = 10_000)]
    participants: u64,
    /// Buckets of the histogram.
    #[arg(long, default_value_t = 1_000)]
    buckets: u32,
}

fn main() -> Result<ExitCode> {
    let Arguments { count, seed, devices, participants, buckets } = Arguments::parse();
    let scale = Scale { devices, rate: Probability::reduced(participants, devices)?, buckets };
    let begin = Instant::now();
    let mut done: BTreeMap<&str, Vec<Outcome>> = BTreeMap::new();
    for seed in seed..seed + count {
        for outcome in run(scale, seed)? {
            println!(
                "seed {seed}, {:>6.0} s: {:<20} {} reports, {:.4} of the predicted squared error, \
                 {:.4} of that of the noise",
                begin.elapsed().as_secs_f64(),
                outcome.mechanism,
                outcome.reports,
                outcome.total.ratio(),
                outcome.noise.ratio()
            );
            done.entry(outcome.mechanism).or_default().push(outcome);
        }
    }
    let mut held = true;
    for (mechanism, outcomes) in &done {
        for (name, part) in [
            ("noise and sampling", (|outcome| outcome.total) as fn(&Outcome) -> Errors),
            ("the noise alone", |outcome| outcome.noise),
        ] {
            let (ratio, deviation) = summed(outcomes.iter().map(part));
            println!(
                "{mechanism}, {name}: {ratio:.4} of the predicted squared error, +- {deviation:.4}"
            );
            held &= (ratio - 1.0).abs() <= TOLERANCE;
        }
    }
    println!("{}", if held { "all within 10 %" } else { "FAILED: more than 10 % off" });
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The ratio of the sums over all runs, and its standard deviation as the runs show it.
fn summed(runs: impl Iterator<Item = Errors>) -> (f64, f64) {
    let runs: Vec<Errors> = runs.collect();
    let count = runs.len() as f64;
    let measured: f64 = runs.iter().map(|run| run.measured).sum();
    let predicted: f64 = runs.iter().map(|run| run.predicted).sum();
    let ratio = measured / predicted;
    let squares: f64 = runs.iter().map(|run| (run.ratio() - ratio).powi(2)).sum();
    (ratio, (squares / (count - 1.0).max(1.0) / count).sqrt())
}
