//! The campaign of trainings at full length: `cargo xtask campaign training`.
#![allow(clippy::print_stdout)] // a program for people at a terminal

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Parser;
use sotto_tests::training::{self, DEVICES, Party, Point, ROUNDS, Trained};

/// Kills of one training.
const KILLS: usize = 8;

/// Repeatedly kills the parties of trainings, and checks everything that is left.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many kills, at least.
    #[arg(long, default_value_t = 100)]
    count: usize,
    /// The seed of the first training; the others count up from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<ExitCode> {
    let Arguments { count, mut seed } = Arguments::parse();
    let begin = Instant::now();
    let (mut trained, mut failures) = (Vec::<Trained>::new(), 0_usize);
    println!("{ROUNDS} rounds of {DEVICES} devices per training");
    // A training that fails counts as if its kills had happened: the campaign must end.
    while trained.iter().map(|it| it.kills.len()).sum::<usize>() + failures * KILLS < count {
        match training::run(seed, KILLS) {
            Ok(one) => {
                println!("seed {seed}: {}", line(&one));
                trained.push(one);
            }
            Err(error) => {
                println!("seed {seed}: FAILED: {error:#}");
                failures += 1;
            }
        }
        seed += 1;
    }
    let kills: Vec<_> = trained.iter().flat_map(|it| &it.kills).collect();
    let of = |party| (party, kills.iter().filter(|kill| kill.party == party).count());
    let parties = Party::ALL.map(of).map(|(party, kills)| format!("{party} {kills}"));
    let at = |step: fn(Point) -> bool| kills.iter().filter(|kill| step(kill.point)).count();
    let between: usize = trained.iter().map(|it| it.between).sum();
    println!(
        "{} kills ({}) in {:.0} s; {} while a round began, {} while devices answered or sums were \
         made, {} while a step was taken, of which {between} left a sum without its step",
        kills.len(),
        parties.join(", "),
        begin.elapsed().as_secs_f64(),
        at(|point| point == Point::Begun),
        at(|point| matches!(point, Point::Answered(_))),
        at(|point| point == Point::Collected),
    );
    let sums: usize = trained.iter().map(|it| it.sums_seen).sum();
    let gave_up: usize = trained.iter().map(|it| it.gave_up.len()).sum();
    println!(
        "{} trainings ended, with {} rounds: every device counted once in each, every ledger charged \
         once; {sums} sums compared with their steps; `sotto train` gave up {gave_up} times and went \
         on; {failures} failures",
        trained.len(),
        trained.len() as u64 * ROUNDS,
    );
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn line(trained: &Trained) -> String {
    let kill = |kill: &training::Kill| format!("{}@{} {:?}", kill.party, kill.round, kill.point);
    let kills: Vec<_> = trained.kills.iter().map(kill).collect();
    let gave_up: String = trained.gave_up.iter().map(|text| format!("; gave up: {text}")).collect();
    format!("{}; {} sums seen{gave_up}", kills.join(", "), trained.sums_seen)
}
