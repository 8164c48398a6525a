//! `sotto figures`: the figures of the paper again, from our own accountant.
//!
//! The mathematics is in `sotto_dp::paper`. [`grid`] says which panels there are and draws them,
//! [`check`] compares with a file of expected values.

mod check;
mod grid;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args};
use serde::Serialize;
use sotto_dp::account::Accountant;
use sotto_dp::paper::{Experiment, Noise};
use sotto_wire::recipe::parse_whole;

use crate::output::{Outcome, Output};
use crate::workers::{lock, work};

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("what").required(true).multiple(true).args(["out", "check"]),
    after_help = "Expected squared errors against the number of reports: without privacy, with noise alone, \
    with noise and a secret sample in the paper's model, and the same as devices judge it.\n\n\
    FILE is a list of {\"inputs\": .., \"expected\": ..}. The inputs are task (histogram or \
    sparse_histogram), N, K, T, M, gamma, epsilon and delta. Expected values may be left out.\n\n\
    Example:\n  sotto figures --out figures"
)]
pub(crate) struct FiguresArgs {
    /// Write every figure to this folder: an SVG for each panel, a CSV file for each grid.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Compute the rows of a JSON file instead, and compare them with what it expects.
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    check: Option<PathBuf>,
    /// How the paper's model is counted: by loss distributions, or by Renyi divergences at the usual
    /// orders.
    #[arg(long, value_name = "METHOD", default_value = "pld",
        value_parser = PossibleValuesParser::new(["pld", "rdp"]).map(|name| match name.as_str() {
            "rdp" => Accountant::Rdp,
            _ => Accountant::Pld,
        }))]
    accountant: Accountant,
    /// How many devices there are in the figures. (The paper does not say.)
    #[arg(long, value_name = "N", default_value = "1e6", value_parser = parse_whole)]
    population: u64,
}

/// What was written.
#[derive(Serialize)]
struct Written<'a> {
    accountant: Accountant,
    population: u64,
    folder: &'a Path,
    #[serde(rename = "figures")]
    files: Vec<String>,
    elapsed_s: f64,
}

impl FiguresArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        match (&self.check, &self.out) {
            (Some(file), _) => check::run(file, self.accountant, output),
            (None, Some(folder)) => self.draw(folder, output),
            (None, None) => Ok(Outcome::Yes),
        }
    }

    fn draw(&self, folder: &Path, output: &Output) -> Result<Outcome> {
        let started = Instant::now();
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let mut files = Vec::new();
        for (name, text) in grid::figures(self.population, self.accountant, output)? {
            let path = folder.join(&name);
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
            files.push(name);
        }
        let elapsed_s = (started.elapsed().as_secs_f64() * 1e3).round() / 1e3;
        if output.json() {
            let (accountant, population) = (self.accountant, self.population);
            output.value(&Written { accountant, population, folder, files, elapsed_s })?;
            return Ok(Outcome::Yes);
        }
        let (tables, panels): (Vec<_>, Vec<_>) =
            files.iter().partition(|name| name.ends_with(".csv"));
        output.line(format!("wrote {} panels to {}", panels.len(), folder.display()))?;
        for table in tables {
            let of = table.trim_end_matches("csv").trim_end_matches('.');
            let first = panels.iter().find(|name| name.starts_with(of)).map_or("", |it| it);
            output.line(format!("{table}: {first} and the like"))?;
        }
        output.remark(format!("{elapsed_s:.1} s"));
        Ok(Outcome::Yes)
    }
}

/// The noise of each experiment, computed side by side.
fn noises(
    experiments: &[Experiment],
    noise: impl Fn(&Experiment) -> Result<Noise, sotto_dp::Error> + Sync,
    output: &Output,
) -> Result<Vec<Noise>> {
    let bar = output.bar("experiments", experiments.len() as u64);
    let found = Mutex::new(vec![None; experiments.len()]);
    let threads = available_parallelism().map_or(1, usize::from);
    work(experiments.iter().enumerate().map(Ok), threads, &bar, |(index, experiment), _| {
        let noise = noise(experiment).with_context(|| format!("experiment {}", index + 1))?;
        lock(&found)[index] = Some(noise);
        Ok(())
    })?;
    bar.finish_and_clear();
    let found = std::mem::take(&mut *lock(&found));
    found.into_iter().collect::<Option<Vec<_>>>().context("an experiment was not computed")
}
