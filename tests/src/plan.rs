//! Plan against truth: questions of all kinds and sizes, planned by `sotto plan`, and asked by `sotto
//! fleet` many times. Are the errors as planned, do as many devices take part as expected, and does a
//! device find no larger epsilon than was to be spent?
//!
//! What the devices hold is what plans assume ([docs/planning.md](../../docs/planning.md)).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rand_core::Rng;
use serde_json::Value;
use sotto_testing::keys::rng;

use crate::process::{read_json, run, run_json};

/// How many lines the files of devices have, unless each number has its own.
const LINES: u32 = 2_000;

/// What a prediction and the plan may differ by: counts of devices are whole.
const ROUNDING: f64 = 1e-3;

/// A question: the arguments of `sotto plan`, and what the devices have.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// How it differs from others.
    pub name: &'static str,
    arguments: &'static str,
    values: Values,
    /// How many numbers are compared, about.
    numbers: u32,
    /// The largest epsilon that may be claimed.
    epsilon: &'static str,
}

/// The values of devices.
#[derive(Clone, Copy, Debug)]
enum Values {
    /// True for 3 of 10.
    Bool,
    /// All numbers up to this one, each as often.
    Even(u32),
    /// Numbers below this, the small ones more often, as words are (Zipf).
    Below(u32),
    /// The same above 0 for one device of forty, and 0 for all others.
    Rare(u32),
    /// Three different ones of these.
    Lists(u32),
    /// So many numbers with the norm 1; with each vector, also its negative.
    Vector(u32),
}

macro_rules! questions {
    ($($name:literal, $numbers:literal, $epsilon:literal, $values:expr, $arguments:literal;)+) => {
        /// All of them.
        pub const QUESTIONS: &[Question] = &[$(Question {
            name: $name,
            arguments: $arguments,
            values: $values,
            numbers: $numbers,
            epsilon: stringify!($epsilon),
        }),+];
    };
}

use Values::{Below, Bool, Even, Lists, Rare, Vector};

questions! {
    "count", 1, 1.0, Bool, "--kind count --population 1e6";
    "count of few", 1, 2.0, Bool, "--kind count --population 2500 --rate 1/2";
    "count of many", 1, 0.5, Bool, "--kind count --population 1e8 --rate 1/5000";
    "count, noise of servers", 1, 0.2, Bool,
        "--kind count --population 1e5 --rate 1/4 --mechanism server_gaussian";
    "sum", 1, 1.0, Even(10), "--kind sum --max 10 --population 1e6";
    "sum of large numbers", 1, 2.0, Even(1_000),
        "--kind sum --max 1000 --population 1e6 --rate 1/20";
    "mean", 1, 1.0, Even(24), "--kind mean --max 24 --population 1e6";
    "mean of few", 1, 4.0, Even(100), "--kind mean --max 100 --population 10000 --rate 1/2";
    "mean of many", 1, 0.3, Even(60), "--kind mean --max 60 --population 1e7 --rate 1/100";
    "randomized response, 3", 3, 1.0, Below(3),
        "--buckets 3 --mechanism randomized_response --population 1e6";
    "randomized response, 12", 12, 2.0, Below(12),
        "--buckets 12 --mechanism randomized_response --population 200000 --rate 1/10";
    "histogram", 200, 1.0, Below(200), "--buckets 200 --population 1e6";
    "rappor, 100", 100, 1.0, Below(100), "--buckets 100 --mechanism rappor --population 1e6";
    "rappor, 1000", 1000, 1.0, Below(1000),
        "--buckets 1000 --mechanism rappor --population 1e6 --rate 1/100";
    "projective geometry, 50", 50, 0.5, Below(50),
        "--buckets 50 --mechanism projective_geometry --population 1e6";
    "projective geometry, 1000", 1000, 0.2, Below(1000),
        "--buckets 1000 --mechanism projective_geometry --population 1e6 --rate 1/100";
    "histogram, noise of devices", 100, 1.0, Below(100),
        "--buckets 100 --mechanism gaussian --population 1e6 --rate 1/200";
    "histogram, noise of servers", 40, 1.0, Below(40),
        "--buckets 40 --mechanism server_gaussian --population 1e6";
    "large histogram, noise of servers", 2000, 0.1, Below(2000),
        "--buckets 2000 --mechanism server_gaussian --population 1e7 --rate 1/500";
    "histogram of few", 20, 2.0, Below(20), "--buckets 20 --population 2500 --rate 1/2";
    "lists, rappor", 20, 2.0, Lists(20),
        "--kind multi_histogram --most 3 --mechanism rappor --population 1e6";
    "lists, noise of servers", 30, 0.5, Lists(30),
        "--kind multi_histogram --most 3 --mechanism server_gaussian --population 1e6";
    "rare faults, rappor", 100, 2.0, Rare(101),
        "--kind sparse_histogram --buckets 101 --mechanism rappor --population 1e6 --rate 1/20";
    "rare faults, projective geometry", 60, 0.5, Rare(61),
        "--kind sparse_histogram --buckets 61 --mechanism projective_geometry --population 1e6";
    "rare faults, importance sampling", 100, 2.0, Rare(101),
        "--kind sparse_histogram --buckets 101 --mechanism rappor --population 1e6 --audience 1000000";
    "rare faults of few, noise of servers", 40, 2.0, Rare(41),
        "--kind sparse_histogram --buckets 41 --mechanism server_gaussian --population 2500 --rate 1/2";
    "quantiles", 6, 1.0, Below(6), "--kind quantiles --buckets 6 --population 1e6";
    "vectors, noise of devices", 16, 1.0, Vector(16),
        "--kind vector_sum --dimension 16 --mechanism gaussian --population 1e6";
    "mean of vectors", 64, 2.0, Vector(64),
        "--kind vector_mean --dimension 64 --population 1e6 --rate 1/100";
    "vectors, noise of servers", 32, 0.5, Vector(32),
        "--kind vector_sum --dimension 32 --mechanism server_gaussian --population 1e6";
}

/// Those that are also asked through the whole system.
pub const WHOLE: [&str; 3] =
    ["count of few", "histogram of few", "rare faults of few, noise of servers"];

/// A recipe in a file, and what its author was told.
#[derive(Debug)]
pub struct Planned {
    recipe: String,
    data: String,
    population: String,
    budget: f64,
    /// The mechanism that was proposed.
    pub mechanism: String,
    /// The squared error that was planned, of the average number.
    pub squared_error: f64,
    /// What a device finds.
    pub epsilon: f64,
}

/// What was found about a question.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// How many collections there were.
    pub runs: u64,
    /// The squared error that was measured.
    pub measured: f64,
    /// Its standard error.
    pub deviation: f64,
    /// The squared error that was planned.
    pub planned: f64,
    /// How far the number of reports is from the expected one, in standard deviations, in the first
    /// twenty collections.
    pub first: f64,
    /// The same in all of them.
    pub furthest: f64,
    /// How far the mean of all collections is from it, in standard deviations of that mean.
    pub mean: f64,
}

impl Outcome {
    /// What was measured, as a part of what was planned, and the standard error of that.
    pub fn ratio(&self) -> (f64, f64) {
        (self.measured / self.planned, self.deviation / self.planned)
    }

    /// How far the measured error may be from the planned one: 10 %, and three of its own standard
    /// errors. The number of reports is four deviations away in one of the first twenty collections
    /// for one of 800 questions, five in one of 1.7 million collections, and the mean is four away
    /// for one of 16,000 questions.
    pub fn holds(&self) -> bool {
        let (ratio, deviation) = self.ratio();
        (ratio - 1.0).abs() <= 0.1 + 3.0 * deviation
            && self.first <= 4.0
            && self.furthest <= 5.0
            && self.mean.abs() <= 4.0
    }
}

impl Question {
    /// The question of this name.
    pub fn named(name: &str) -> Result<&'static Self> {
        QUESTIONS.iter().find(|question| question.name == name).context("no such question")
    }

    /// The recipe that `sotto plan` proposes, as a device checks it.
    pub fn planned(&self, folder: &Path, seed: u64) -> Result<Planned> {
        let mut more = vec!["--epsilon", self.epsilon];
        match self.values {
            Bool => more.extend(["--rare", "0.3"]),
            Rare(_) => more.extend(["--rare", "0.025"]),
            _ => {}
        }
        let question = Asked { arguments: self.arguments, more: &more, values: self.values };
        question.planned(folder, seed).with_context(|| self.name.to_owned())
    }

    /// How many collections `times` are: more where few numbers are compared, as their squared errors
    /// vary more.
    fn runs(&self, times: u64) -> u64 {
        times * u64::from(400 / self.numbers.max(20)).max(1)
    }

    /// Asks so many times, and more often where few numbers are compared.
    pub fn run(&self, planned: &Planned, times: u64, seed: u64) -> Result<Outcome> {
        planned.asked(self.runs(times), seed, false).with_context(|| self.name.to_owned())
    }

    /// Asks once through the whole system. The command itself fails if the sum is not that of what
    /// the devices sent.
    pub fn run_whole(&self, folder: &Path, seed: u64) -> Result<Outcome> {
        let planned = self.planned(folder, seed)?;
        planned.asked(1, seed, true).with_context(|| self.name.to_owned())
    }
}

/// What `sotto plan` is asked.
struct Asked<'a> {
    arguments: &'a str,
    more: &'a [&'a str],
    values: Values,
}

/// The plan of a histogram whose buckets have sizes as words have.
pub fn planned_histogram(
    buckets: u32,
    arguments: &str,
    folder: &Path,
    seed: u64,
) -> Result<Planned> {
    let buckets_text = buckets.to_string();
    let more = ["--buckets", &buckets_text];
    Asked { arguments, more: &more, values: Below(buckets) }.planned(folder, seed)
}

impl Asked<'_> {
    fn planned(&self, folder: &Path, seed: u64) -> Result<Planned> {
        let recipe = text(&folder.join("recipe.toml"))?;
        let mut arguments = vec!["--json", "plan", "--force", "--out", &recipe];
        let attribute = self.values.attribute();
        let mapping = if matches!(self.values, Bool) { "value == 1" } else { "value" };
        arguments.extend(["--attribute", &attribute, "--mapping", mapping]);
        let labels = self.values.labels();
        if let Some(labels) = &labels {
            arguments.extend(["--labels", labels]);
        }
        arguments.extend(self.arguments.split(' '));
        arguments.extend(self.more);
        let plan = run_json(arguments)?;
        let mut check = vec!["--json", "recipe", "check", &recipe];
        check.extend(self.option("--audience").iter().flat_map(|count| ["--audience", count]));
        // It says no: the operators are missing.
        let checked = read_json(&run(check)?)?;
        let failed = checked["checks"].as_array().context("no checks")?.iter();
        let failed: Vec<_> = failed.filter(|line| line["verdict"] == "bad").collect();
        ensure!(failed.iter().all(|line| line["check"] == "operators"), "refused: {failed:?}");
        let epsilon = number(&checked["privacy"]["computed_epsilon"])?;
        let budget = self.more.iter().skip_while(|option| **option != "--epsilon").nth(1);
        let budget = budget.copied().or_else(|| self.option("--epsilon")).context("no budget")?;
        let budget: f64 = budget.parse()?;
        ensure!(epsilon <= budget, "a device computes {epsilon}, with {budget} to spend");
        let data = text(&folder.join("devices.csv"))?;
        fs::write(&data, self.values.lines(seed))?;
        Ok(Planned {
            recipe,
            data,
            budget,
            population: self.option("--population").context("no population")?.to_owned(),
            mechanism: plan["mechanism"].as_str().context("no mechanism")?.to_owned(),
            squared_error: number(&plan["expected_errors"][0]["stderr"])?.powi(2),
            epsilon,
        })
    }

    fn option(&self, name: &str) -> Option<&str> {
        self.arguments.split(' ').skip_while(|argument| *argument != name).nth(1)
    }
}

impl Planned {
    /// Asks the devices so many times.
    pub fn asked(&self, runs: u64, seed: u64, whole: bool) -> Result<Outcome> {
        let (repeats, seed) = (runs.to_string(), seed.to_string());
        let mut arguments = vec!["--json", "fleet", &self.recipe, "--data", &self.data];
        arguments.extend(["--population", &self.population]);
        arguments.extend(["--repeats", &repeats, "--seed", &seed]);
        arguments.extend(whole.then_some("--pipeline"));
        let found = &run_json(arguments)?["experiments"][0];
        let error = &found["squared_error"];
        let again = number(&error["predicted"])? / self.squared_error;
        ensure!((again - 1.0).abs() <= ROUNDING, "fleet predicts {again} of what was planned");
        let epsilon = number(&found["epsilon"])?;
        let least = self.epsilon * (1.0 - ROUNDING);
        ensure!(epsilon >= least, "{epsilon} in fleet, and a device computes {}", self.epsilon);
        ensure!(epsilon <= self.budget, "{epsilon} in fleet, with {} to spend", self.budget);
        let all = found["runs"].as_array().context("no runs")?.iter();
        let sigmas: Vec<f64> = all.map(|run| number(&run["sigmas"])).collect::<Result<_>>()?;
        ensure!(sigmas.len() as u64 == runs, "{} runs", sigmas.len());
        let furthest =
            |count: usize| sigmas.iter().take(count).map(|sigma| sigma.abs()).fold(0.0, f64::max);
        Ok(Outcome {
            runs,
            measured: number(&error["measured"])?,
            // A single collection has none.
            deviation: error["measured_stderr"].as_f64().unwrap_or(f64::INFINITY),
            planned: self.squared_error,
            first: furthest(20),
            furthest: furthest(sigmas.len()),
            mean: sigmas.iter().sum::<f64>() / (runs as f64).sqrt(),
        })
    }
}

fn number(value: &Value) -> Result<f64> {
    value.as_f64().context("a number is missing")
}

fn text(path: &Path) -> Result<String> {
    Ok(path.to_str().context("a path is no text")?.to_owned())
}

impl Values {
    fn attribute(self) -> String {
        match self {
            Bool | Even(_) | Below(_) | Rare(_) => "value:int".to_owned(),
            Lists(_) => "value:strings".to_owned(),
            Vector(length) => format!("value:vector({length})"),
        }
    }

    /// The names of the buckets of lists.
    fn labels(self) -> Option<String> {
        let Lists(count) = self else { return None };
        Some((0..count).map(|app| format!("app{app}")).collect::<Vec<_>>().join(","))
    }

    /// A line for each device.
    fn lines(self, seed: u64) -> String {
        let lines = if let Even(most) = self { most + 1 } else { LINES };
        let each = (0..lines).map(|line| format!("{}\n", self.of(line, seed)));
        format!("value\n{}", each.collect::<String>())
    }

    fn of(self, line: u32, seed: u64) -> String {
        match self {
            Bool => u32::from(line % 10 < 3).to_string(),
            Even(_) => line.to_string(),
            Below(count) => zipf(line, count).to_string(),
            Rare(count) => match line % 40 {
                0 => (1 + zipf(line / 40, count - 1)).to_string(),
                _ => "0".to_owned(),
            },
            Lists(count) => {
                let apps = [line, line + 1 + line % 2, line + 4 + line % 3];
                apps.map(|app| format!("app{}", app % count)).join(";")
            }
            Vector(length) => {
                // The same for several devices, so that there is something to see.
                let mut rng = rng(seed + u64::from(line / 2 % 25));
                let sign = if line.is_multiple_of(2) { 1.0 } else { -1.0 };
                let numbers: Vec<f64> = (0..length)
                    .map(|_| sign * (f64::from(rng.next_u32()) / f64::from(u32::MAX) - 0.3))
                    .collect();
                let norm = numbers.iter().map(|one| one * one).sum::<f64>().sqrt();
                let numbers = numbers.iter().map(|one| format!("{:.9}", one / norm));
                numbers.collect::<Vec<_>>().join(";")
            }
        }
    }
}

/// A number below `count`, with a frequency like `1/(1 + number)`.
fn zipf(line: u32, count: u32) -> u32 {
    // The inverse of the logarithm that the sum is about; every number once first.
    if line < count {
        return line;
    }
    let part = f64::from(line % 997) / 997.0;
    (((f64::from(count) + 1.0).powf(part)) as u32 - 1).min(count - 1)
}
