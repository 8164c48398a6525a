//! The campaign of releases with server noise at full length: `cargo xtask campaign release`.
#![allow(clippy::print_stdout)] // a program for people at a terminal

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Parser;
use sotto_tests::release::{self, Stage};

/// Repeatedly kills the leader or the helper during a release, and looks for a second draw.
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
    let (mut stages, mut failures) = (Vec::new(), 0_u64);
    for seed in seed..seed + count {
        match release::run(seed) {
            Ok((_, stage)) => stages.push(stage),
            Err(error) => {
                println!("seed {seed}: FAILED: {error:#}");
                failures += 1;
            }
        }
    }
    let at = |stage| stages.iter().filter(|other| **other == stage).count();
    println!(
        "{count} kills in {:.0} s, {} before the helper's answer, {} after it, {} \
         after the result was seen: {} times each aggregator drew once; {failures} failures",
        begin.elapsed().as_secs_f64(),
        at(Stage::Begun),
        at(Stage::HelperReleased),
        at(Stage::Finished),
        stages.len()
    );
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
