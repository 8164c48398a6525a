//! `sotto fleet`: whole experiments. A recipe, or a story on real data, is asked many times, and the
//! errors are put beside what was predicted.

mod data;
mod devices;
mod experiment;
mod memory;
mod page;
mod pipeline;
mod report;
mod story;
mod thinning;
mod truth;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use indicatif::{HumanDuration, ProgressBar};
use sotto_learn::coins::Coins;
use sotto_wire::recipe::{Probability, parse_epsilon, parse_probability, parse_whole};

use self::data::Name;
use self::devices::Devices;
use self::experiment::Experiment;
use self::report::Report;
use self::story::{MechanismName, Terms};
use crate::output::{Outcome, Output, WithHint};
use crate::random;

/// How many devices a story has, how many of them take part, and what it may claim.
const POPULATION: u64 = 1_000_000;
const PARTICIPANTS: u64 = 10_000;
const EPSILON_MICRO: u64 = 1_000_000;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sotto fleet --story flights --repeats 20 --out report.html\n  \
    sotto fleet --story names --pipeline --population 300 --rate 1/2 \\\n    --epsilon 8 --buckets 10 \
    --mechanism rappor\n  sotto recipe new commute --purpose 'How long do people commute?' \\\n    \
    --attribute minutes:int --labels short,middle,long \\\n    \
    --mapping 'minutes < 15 ? 0 : minutes < 45 ? 1 : 2' --population 1e6\n  \
    sotto fleet commute.toml --repeats 20\n\nThe error is the mean, over all numbers of the result, of the \
    squared difference from the truth. Beside it: the prediction; the exact answers of those who took part; and \
    these with noise that one trusted party adds for the same claim."
)]
pub(crate) struct FleetArgs {
    /// The recipe to ask.
    #[arg(value_name = "RECIPE", conflicts_with = "story")]
    recipe: Option<PathBuf>,
    /// Ask for real data instead, with several mechanisms under the same claim.
    #[arg(long, value_enum, value_name = "STORY")]
    story: Option<Name>,
    /// The devices of RECIPE: a CSV file as for `sotto demo`. With --story: the file that the data come
    /// from.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// How many devices there are, like 1000000 or 1e8 [default: what the recipe says; 1e6 with
    /// --story]
    #[arg(long, value_name = "N", value_parser = parse_whole)]
    population: Option<u64>,
    /// How often the devices are asked.
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeats: u32,
    /// Decides all coins and all noise [default: a random one]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Through the whole system instead of in memory: recipe, tokens, relay, leader, helper. The sums
    /// must be those that the same coins give in memory.
    #[arg(long)]
    pipeline: bool,
    /// With --story: the probability with which a device takes part [default: for 10,000 of them]
    #[arg(long, value_name = "Q", requires = "story", value_parser = parse_probability)]
    rate: Option<Probability>,
    /// With --story: how many buckets; the last one is for all other values [default: 1000]
    #[arg(long, value_name = "K", requires = "story", value_parser = clap::value_parser!(u32).range(2..=100_000))]
    buckets: Option<u32>,
    /// With --story: the largest epsilon that is claimed [default: 1]
    #[arg(long, value_name = "EPSILON", requires = "story", value_parser = parse_epsilon)]
    epsilon: Option<u64>,
    /// With --story: the mechanisms, with commas between [default: several]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME", requires = "story")]
    mechanism: Vec<MechanismName>,
    /// Write a report with charts (HTML).
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl FleetArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        let started = Instant::now();
        let seed = self.seed.unwrap_or_else(|| u64::from(u32::from_le_bytes(random::bytes())));
        let spinner = output.spinner("planning");
        let (devices, experiments) = self.experiments(seed, output)?;
        spinner.finish_and_clear();
        let population = devices.count();
        if self.pipeline && population > pipeline::MOST_DEVICES {
            return Err(anyhow!(
                "{population} whole devices are too many for one machine: at most {} with --pipeline",
                pipeline::MOST_DEVICES
            ))
            .hint("give a smaller --population, with a higher rate");
        }
        let mut report = Report::new(&self, seed, &devices, output);
        for experiment in &experiments {
            let runs = self.runs(experiment, &devices, Coins::from_number(seed), output)?;
            report.add(experiment, &devices, &runs, output)?;
        }
        report.end(started.elapsed(), self.out.as_deref(), output)?;
        Ok(Outcome::Yes)
    }

    /// What is asked, and of whom.
    fn experiments(&self, seed: u64, output: &Output) -> Result<(Devices, Vec<Experiment>)> {
        if let Some(recipe) = &self.recipe {
            let (devices, question) =
                Devices::of_recipe(recipe, self.data.as_deref(), self.population, seed)?;
            let experiment = Experiment::new("", question.draft, &devices)?;
            return Ok((devices, vec![experiment]));
        }
        let name = self.story.ok_or_else(|| anyhow!("give a RECIPE, or --story"))?;
        let population = self.population.unwrap_or(POPULATION);
        ensure!(population > 0, "--population must be at least 1");
        let rate = match self.rate {
            Some(rate) => rate,
            None => Probability::reduced(PARTICIPANTS.min(population), population)?,
        };
        story::experiments(
            name,
            &Terms {
                output,
                data: self.data.as_deref(),
                population,
                rate,
                buckets: self.buckets.unwrap_or(1_000),
                epsilon_micro: self.epsilon.unwrap_or(EPSILON_MICRO),
                delta: Probability::new(1, 1_000_000)?,
                mechanisms: &self.mechanism,
            },
        )
    }

    /// Asks the devices as often as wanted.
    fn runs(
        &self,
        experiment: &Experiment,
        devices: &Devices,
        coins: Coins,
        output: &Output,
    ) -> Result<Vec<experiment::Run>> {
        if self.pipeline {
            let one = |number| pipeline::run(experiment, devices, coins, number, output);
            return (0..self.repeats).map(one).collect();
        }
        let all = experiment.truth.expected * f64::from(self.repeats);
        let bar = output.bar("reports", all as u64);
        let begun = Instant::now();
        let one = |number: u32| {
            let mut run = experiment.run(coins, number, &bar)?;
            // There may be many, and only those of the first one are shown.
            if number > 0 {
                run.forget();
            }
            say_time_left(&bar, begun, f64::from(number + 1) / f64::from(self.repeats));
            anyhow::Ok(run)
        };
        let runs = (0..self.repeats).map(one).collect();
        bar.finish_and_clear();
        runs
    }
}

/// How long the rest takes, if it goes on like the part that is done.
fn say_time_left(bar: &ProgressBar, begun: Instant, done: f64) {
    let left = begun.elapsed().as_secs_f64() * (1.0 - done) / done;
    bar.set_message(format!("{} left", HumanDuration(Duration::from_secs_f64(left))));
}
