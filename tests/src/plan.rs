//! Questions of all kinds and sizes, asked by `sotto fleet` in memory many times: are the errors as
//! predicted, and do as many devices take part as expected?
//!
//! `sotto recipe new` writes the recipes, with the noise that the claim needs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rand_core::Rng;
use serde_json::Value;
use sotto_testing::keys::rng;

use crate::process::run_json;

/// How many lines the files of devices have.
const LINES: u32 = 2_000;

/// A question: the arguments of `sotto recipe new`, and what the devices have.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// How it differs from others.
    pub name: &'static str,
    arguments: &'static [&'static str],
    values: Values,
    /// How many numbers are compared, about.
    numbers: u32,
    /// The largest epsilon that may be claimed, where the noise is not given.
    epsilon: &'static str,
}

/// The values of devices.
#[derive(Clone, Copy, Debug)]
enum Values {
    /// True for 3 of 10.
    Bool,
    /// Numbers below this, the small ones more often, as words are (Zipf).
    Below(u32),
    /// The same for one device of forty, and 0 for all others.
    Rare(u32),
    /// Up to three different ones of these.
    Lists(u32),
    /// So many numbers, with a norm of about one half.
    Vector(u32),
}

macro_rules! questions {
    ($($name:literal, $numbers:literal, $epsilon:literal, $values:expr,
        [$($argument:literal),*];)+) => {
        /// All of them.
        pub const QUESTIONS: &[Question] = &[$(Question {
            name: $name,
            arguments: &[$($argument),*],
            values: $values,
            numbers: $numbers,
            epsilon: stringify!($epsilon),
        }),+];
    };
}

use Values::{Below, Bool, Lists, Rare, Vector};

questions! {
    "count", 1, 1.0, Bool, ["--kind", "count", "--population", "1e6"];
    "count of few", 1, 2.0, Bool, ["--kind", "count", "--population", "20000", "--rate", "1/4"];
    "count of many", 1, 0.5, Bool, ["--kind", "count", "--population", "1e8", "--rate", "1/5000"];
    "sum", 1, 1.0, Below(11), ["--kind", "sum", "--max", "10", "--population", "1e6"];
    "sum of large numbers", 1, 2.0, Below(1001),
        ["--kind", "sum", "--max", "1000", "--population", "1e6", "--rate", "1/20"];
    "mean", 1, 1.0, Below(25), ["--kind", "mean", "--max", "24", "--population", "1e6"];
    "mean of few", 1, 4.0, Below(101),
        ["--kind", "mean", "--max", "100", "--population", "10000", "--rate", "1/2"];
    "mean of many", 1, 1.0, Below(61),
        ["--kind", "mean", "--max", "60", "--population", "1e7", "--rate", "1/100"];
    "randomized response, 3", 3, 1.0, Below(3),
        ["--buckets", "3", "--randomizer", "randomized-response", "--population", "1e6"];
    "randomized response, 12", 12, 2.0, Below(12),
        ["--buckets", "12", "--randomizer", "randomized-response", "--population", "200000",
         "--rate", "1/10"];
    "rappor, 100", 100, 1.0, Below(100),
        ["--buckets", "100", "--randomizer", "rappor", "--population", "1e6"];
    "rappor, 1000", 1000, 1.0, Below(1000),
        ["--buckets", "1000", "--randomizer", "rappor", "--population", "1e6", "--rate", "1/100"];
    "rappor with dummies", 50, 2.0, Below(50),
        ["--buckets", "50", "--randomizer", "rappor", "--dummy-rate", "1/100", "--population",
         "1e6"];
    "projective geometry, 50", 50, 1.0, Below(50),
        ["--buckets", "50", "--randomizer", "projective-geometry", "--population", "1e6"];
    "projective geometry, 1000", 1000, 1.0, Below(1000),
        ["--buckets", "1000", "--randomizer", "projective-geometry", "--population", "1e6",
         "--rate", "1/100"];
    "histogram with noise of devices", 100, 1.0, Below(100),
        ["--buckets", "100", "--device-sigma", "1", "--population", "1e6", "--rate", "1/200"];
    "histogram with noise of servers", 40, 1.0, Below(40),
        ["--buckets", "40", "--sigma", "100", "--population", "1e6"];
    "large histogram with noise of servers", 2000, 2.0, Below(2000),
        ["--buckets", "2000", "--sigma", "30", "--population", "1e7", "--rate", "1/500"];
    "apps, rappor", 20, 2.0, Lists(20),
        ["--kind", "multi_histogram", "--most", "3", "--randomizer", "rappor", "--population",
         "1e6"];
    "apps, noise of servers", 30, 1.0, Lists(30),
        ["--kind", "multi_histogram", "--most", "3", "--sigma", "100", "--population", "1e6"];
    "rare faults", 100, 2.0, Rare(101),
        ["--kind", "sparse_histogram", "--buckets", "101", "--randomizer", "rappor",
         "--population", "1e6", "--rate", "1/20"];
    "rare faults, noise of servers", 100, 1.0, Rare(101),
        ["--kind", "sparse_histogram", "--buckets", "101", "--sigma", "50", "--population", "1e6"];
    "rare faults, projective geometry", 60, 2.0, Rare(61),
        ["--kind", "sparse_histogram", "--buckets", "61", "--randomizer", "projective-geometry",
         "--population", "1e6"];
    "rare faults, importance sampling", 100, 2.0, Rare(101),
        ["--kind", "sparse_histogram", "--buckets", "101", "--randomizer", "rappor",
         "--population", "1e6", "--rate", "1/5", "--default-rate", "1/100", "--predicate",
         "value >= 0", "--audience", "1000000", "--certified",
         "0000000000000000000000000000000000000000000000000000000000000000"];
    "rare faults, importance sampling, noise of servers", 40, 1.0, Rare(41),
        ["--kind", "sparse_histogram", "--buckets", "41", "--population", "1e6", "--rate", "1/5",
         "--sigma", "20", "--default-rate", "1/100", "--predicate", "value >= 0", "--audience",
         "1000000", "--certified",
         "0000000000000000000000000000000000000000000000000000000000000000"];
    "quantiles", 6, 1.0, Below(60),
        ["--kind", "quantiles", "--boundaries", "5,10,20,30,45", "--randomizer",
         "randomized-response", "--population", "1e6"];
    "quantiles, noise of servers", 4, 1.0, Below(60),
        ["--kind", "quantiles", "--boundaries", "10,20,40", "--sigma", "50", "--population", "1e6"];
    "vectors", 16, 1.0, Vector(16),
        ["--kind", "vector_sum", "--dimension", "16", "--device-sigma", "4", "--population", "1e6"];
    "mean of vectors", 64, 2.0, Vector(64),
        ["--kind", "vector_mean", "--dimension", "64", "--device-sigma", "3", "--population",
         "1e6", "--rate", "1/100"];
    "vectors, noise of servers", 32, 1.0, Vector(32),
        ["--kind", "vector_sum", "--dimension", "32", "--sigma", "5", "--population", "1e6"];
}

/// What was found about a question.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// How many collections there were.
    pub runs: u64,
    /// The mean squared error over the predicted one, and the standard error of that.
    pub ratio: f64,
    /// The standard error.
    pub deviation: f64,
    /// How far the number of reports is from the expected one, in standard deviations, in the
    /// collection where it is furthest.
    pub furthest: f64,
    /// How far the mean of all collections is from it, in standard deviations of that mean.
    pub mean: f64,
}

impl Outcome {
    /// How far the measured error may be from the predicted one: 10 %, and three of its own standard
    /// errors. The number of reports of one collection is five deviations away in one of 1.7 million
    /// cases, the mean of all four in one of 16,000.
    pub fn holds(&self) -> bool {
        (self.ratio - 1.0).abs() <= 0.1 + 3.0 * self.deviation
            && self.furthest <= 5.0
            && self.mean.abs() <= 4.0
    }
}

impl Question {
    /// Asks so many times, and more often where few numbers are compared: their squared errors vary
    /// more.
    pub fn run(&self, folder: &Path, times: u64, seed: u64) -> Result<Outcome> {
        let recipe = folder.join("recipe.toml");
        let mut arguments = vec!["--json", "recipe", "new", "question", "--force"];
        arguments.extend(["--purpose", "What is it?"]);
        let attribute = self.values.attribute();
        let mapping = if matches!(self.values, Bool) { "value == 1" } else { "value" };
        arguments.extend(["--attribute", &attribute, "--mapping", mapping]);
        let labels = self.values.labels();
        if let Some(labels) = &labels {
            arguments.extend(["--labels", labels]);
        }
        let (recipe, data) = (text(&recipe)?, folder.join("devices.csv"));
        arguments.extend(["--out", &recipe]);
        arguments.extend(self.arguments);
        let given = ["--sigma", "--device-sigma"];
        if !given.iter().any(|option| self.arguments.contains(option)) {
            arguments.extend(["--epsilon", self.epsilon]);
        }
        let made = run_json(arguments).with_context(|| format!("{}: recipe new", self.name))?;
        fs::write(&data, self.values.lines(seed))?;
        let (data, runs) = (text(&data)?, times * u64::from(400 / self.numbers.max(20)).max(1));
        let (repeats, seed) = (runs.to_string(), seed.to_string());
        let mut arguments = vec!["--json", "fleet", &recipe, "--data", &data];
        let population = self.population()?;
        arguments.extend(["--population", &population, "--repeats", &repeats, "--seed", &seed]);
        let found = run_json(arguments).with_context(|| self.name.to_owned())?;
        self.judged(&found["experiments"][0], &made, runs)
    }

    /// `made` is what the author of the recipe was told.
    fn judged(&self, found: &Value, made: &Value, runs: u64) -> Result<Outcome> {
        let number = |value: &Value| value.as_f64().context("a number is missing");
        let error = &found["squared_error"];
        let predicted = number(&error["predicted"])?;
        let sigmas: Vec<f64> = found["runs"]
            .as_array()
            .context("no runs")?
            .iter()
            .map(|run| number(&run["sigmas"]))
            .collect::<Result<_>>()?;
        ensure!(sigmas.len() as u64 == runs, "{} runs", sigmas.len());
        let (epsilon, claimed) = (number(&found["epsilon"])?, number(&made["epsilon"])?);
        ensure!(epsilon <= claimed, "a device computes {epsilon}, and {claimed} is claimed");
        Ok(Outcome {
            runs,
            ratio: number(&error["measured"])? / predicted,
            deviation: number(&error["measured_stderr"])? / predicted,
            furthest: sigmas.iter().map(|sigma| sigma.abs()).fold(0.0, f64::max),
            mean: sigmas.iter().sum::<f64>() / (runs as f64).sqrt(),
        })
    }

    fn population(&self) -> Result<String> {
        let mut arguments = self.arguments.iter();
        arguments.find(|argument| **argument == "--population").context("no population")?;
        Ok((*arguments.next().context("no population")?).to_owned())
    }
}

fn text(path: &Path) -> Result<String> {
    Ok(path.to_str().context("a path is no text")?.to_owned())
}

impl Values {
    fn attribute(self) -> String {
        match self {
            Bool | Below(_) | Rare(_) => "value:int".to_owned(),
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
        let mut rng = rng(seed);
        let mut text = "value\n".to_owned();
        for line in 0..LINES {
            let value = match self {
                Bool => u32::from(line % 10 < 3).to_string(),
                Below(count) => zipf(line, count).to_string(),
                Rare(count) => match line % 40 {
                    0 => (1 + zipf(line, count - 1)).to_string(),
                    _ => "0".to_owned(),
                },
                Lists(count) => {
                    let apps = (0..line % 4).map(|_| format!("app{}", rng.next_u32() % count));
                    apps.collect::<Vec<_>>().join(";")
                }
                Vector(length) => {
                    // The same for several devices, so that there is something to see.
                    let mut rng = crate::plan::rng(seed + u64::from(line % 50));
                    let largest = f64::from(length).sqrt();
                    let one = |number: u32| f64::from(number) / f64::from(u32::MAX) - 0.3;
                    let numbers =
                        (0..length).map(|_| format!("{:.6}", one(rng.next_u32()) / largest));
                    numbers.collect::<Vec<_>>().join(";")
                }
            };
            text.push_str(&value);
            // An empty line is no device.
            text.push_str(if value.is_empty() { "\"\"\n" } else { "\n" });
        }
        text
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
