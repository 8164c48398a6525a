//! The crash campaign at full length: `cargo xtask campaign crash`.
#![allow(clippy::print_stdout)] // a program for people at a terminal

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;
use sotto_tests::crash::{self, Recovery};
use sotto_wire::{BatchMode, Role};

/// Repeatedly kills the leader or the helper, and checks every sum.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many kills.
    #[arg(long, default_value_t = 300)]
    count: u64,
    /// The seed of the first run; the others count up from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<ExitCode> {
    let Arguments { count, seed } = Arguments::parse();
    let begin = Instant::now();
    let (mut recoveries, mut failures) = (Vec::new(), 0_u64);
    println!("{} devices per run, each with its own bucket", crash::DEVICES);
    for seed in seed..seed + count {
        match crash::run(seed) {
            Ok(recovery) => {
                println!("{}", line(seed, &recovery));
                recoveries.push(recovery);
            }
            Err(error) => {
                println!("seed {seed}: FAILED: {error:#}");
                failures += 1;
            }
        }
    }
    summary("serving again", &recoveries, |recovery| recovery.serving);
    summary("all reports aggregated", &recoveries, |recovery| recovery.aggregated);
    summary("result collected", &recoveries, |recovery| recovery.collected);
    println!(
        "{count} kills in {:.0} s: {} times every report was counted exactly once, leader and helper \
         agreeing on count and checksum; {failures} failures",
        begin.elapsed().as_secs_f64(),
        recoveries.len()
    );
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn line(seed: u64, recovery: &Recovery) -> String {
    let moment = recovery.moment;
    format!(
        "seed {seed}: {} killed after {} of {} reports + {:.1} ms, {}; serving {:.0} ms, aggregated \
         {:.0} ms, result {:.0} ms after the restart",
        if moment.victim == Role::Leader { "leader" } else { "helper" },
        moment.acknowledged,
        crash::DEVICES,
        milliseconds(moment.delay),
        match moment.batch_mode {
            BatchMode::TimeInterval => "time-interval",
            BatchMode::LeaderSelected => "leader-selected",
        },
        milliseconds(recovery.serving),
        milliseconds(recovery.aggregated),
        milliseconds(recovery.collected),
    )
}

/// Prints the median and the maximum of a duration.
fn summary(name: &str, recoveries: &[Recovery], of: impl Fn(&Recovery) -> Duration) {
    let mut durations: Vec<Duration> = recoveries.iter().map(of).collect();
    durations.sort();
    if let (Some(median), Some(longest)) = (durations.get(durations.len() / 2), durations.last()) {
        println!(
            "from the restart until {name}: median {:.0} ms, longest {:.0} ms",
            milliseconds(*median),
            milliseconds(*longest)
        );
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
