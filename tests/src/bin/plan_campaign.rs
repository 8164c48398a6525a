//! The campaign of plans at full length: `cargo xtask campaign plan`.
#![allow(clippy::print_stdout)] // a program for people at a terminal

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use sotto_tests::frontier::{EPSILONS, Frontier, PROTECTIONS, ties};
use sotto_tests::plan::{QUESTIONS, Question, WHOLE};

/// How many times as often the protections of a frontier are asked: some differ by a few percent.
const FRONTIER: u64 = 5;

/// Asks thirty planned questions of different kinds and sizes in memory, three of them also through
/// the whole system, and one with every protection at five epsilons. Compares errors and turnout with
/// the plans.
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
        failed += u64::from(!asked(question, folder.path(), count, seed)?);
    }
    println!("{} questions, {failed} of them not as planned", QUESTIONS.len());
    for name in WHOLE {
        let found = Question::named(name)?.run_whole(folder.path(), seed)?;
        let holds = found.furthest <= 4.0;
        failed += u64::from(!holds);
        println!(
            "through the whole system: {name}: the sum of what was sent; {:.3} of the planned squared \
             error, reports {:.1} sigma away{}",
            found.ratio().0,
            found.furthest,
            if holds { "" } else { " FAILED" }
        );
    }
    failed += frontier(folder.path(), count, seed)?;
    println!("{:.0} s, {failed} failures", begin.elapsed().as_secs_f64());
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether the question was answered as planned.
fn asked(question: &Question, folder: &Path, count: u64, seed: u64) -> Result<bool> {
    let begin = Instant::now();
    let planned = question.planned(folder, seed)?;
    let found = question.run(&planned, count, seed)?;
    let (ratio, deviation) = found.ratio();
    println!(
        "{:<36} {:<19} epsilon {:.4}, planned {:>9.4}: {:>4} runs, {ratio:.3} +- {deviation:.3} of its \
         square; reports: {:.1} sigma in the first 20, {:.1} in all, mean {:+.1}; {:.0} s{}",
        question.name,
        planned.mechanism,
        planned.epsilon,
        planned.squared_error.sqrt(),
        found.runs,
        found.first,
        found.furthest,
        found.mean,
        begin.elapsed().as_secs_f64(),
        if found.holds() { "" } else { " FAILED" }
    );
    Ok(found.holds())
}

/// How many epsilons of the frontier do not have the planned order.
fn frontier(folder: &Path, count: u64, seed: u64) -> Result<u64> {
    let (question, mut failed) = (Frontier { buckets: 50, devices: 20_000 }, 0);
    for epsilon in EPSILONS {
        let times = FRONTIER * count;
        let mut points = question.measured(epsilon, &PROTECTIONS, folder, times, seed)?;
        points.sort_by(|one, other| one.found.planned.total_cmp(&other.found.planned));
        for point in &points {
            let (ratio, deviation) = point.found.ratio();
            let holds = point.found.holds();
            failed += u64::from(!holds);
            println!(
                "frontier at {epsilon}: {:<19} epsilon {:.4}, planned squared error {:>12.1}, measured \
                 {:>12.1} +- {:.1}: {ratio:.3} +- {deviation:.3}{}",
                point.protection,
                point.epsilon,
                point.found.planned,
                point.found.measured,
                point.found.deviation,
                if holds { "" } else { " FAILED" }
            );
        }
        match ties(&points) {
            Ok(ties) => println!("frontier at {epsilon}: the planned order, with {ties} ties"),
            Err(reason) => {
                failed += 1;
                println!("frontier at {epsilon}: FAILED: {reason}");
            }
        }
    }
    Ok(failed)
}
