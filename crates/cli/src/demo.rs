//! `sotto demo`: everything in one process, and a result in a few seconds.
//!
//! A log with its witnesses, simulated devices, a leader, a helper and a collector talk over real
//! HTTP on loopback ports, with their files in a temporary folder. It needs no configuration and no
//! network.

mod collecting;
mod data;
mod exact;
mod population;
mod question;
mod result;
pub(crate) mod sampled;
mod stories;
mod truth;

use std::path::PathBuf;

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use rand_core::Rng;
use serde_json::json;
use sotto_client::query_result::Row;
use sotto_dp::number::up_short;
use sotto_learn::coins::Coins;
use sotto_wire::Probability;
use sotto_wire::recipe::Sampling;

pub(crate) use self::question::Question;
use self::result::DemoResult;
use self::stories::{STORIES, Story};
use crate::chart::{Shape, chart};
use crate::output::{Outcome, Output, WithHint, columns};
use crate::random;
use crate::recipe::words::{answers, grouped};
use crate::result::{OutArgs, about, curve};

/// Runs everything in one process.
#[derive(Debug, Args)]
#[command(after_help = "Your own question, before any operator exists:\n  \
    sotto recipe new commute --purpose 'How long do people commute?' \\\n    \
    --attribute minutes:int --labels short,long \\\n    \
    --mapping 'minutes < 30 ? \"short\" : \"long\"' --population 1e6\n  \
    sotto demo --recipe commute.toml\n\n`true` is known to the demo alone, which plays every part. docs/json.md \
    has the keys of --json.")]
pub(crate) struct DemoArgs {
    /// What the devices are asked.
    #[arg(value_name = "STORY", default_value = stories::DEFAULT, conflicts_with_all = ["recipe", "exact"], value_parser = stories::parser())]
    story: &'static Story,
    /// List the stories, each with one sentence.
    #[arg(long, conflicts_with_all = ["story", "recipe", "exact"])]
    list: bool,
    /// The number of simulated devices.
    #[arg(long, value_name = "N", default_value_t = 2_000, conflicts_with = "data", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    devices: u32,
    /// Ask this recipe instead of a story.
    #[arg(long, value_name = "FILE", conflicts_with = "exact")]
    recipe: Option<PathBuf>,
    /// The devices that --recipe asks, instead of made-up ones: a CSV file with the names of the
    /// recipe's attributes in the first line, then a line for each device.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Decides what each device holds: the same seed gives the same true values.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Ask for the words by plain DAP, without recipe, sampling and noise: the estimate is the exact
    /// value.
    #[arg(long)]
    exact: bool,
    /// Release no result over fewer reports than this [default: 100 with --exact, else four
    /// standard deviations below the expected number]
    #[arg(long, value_name = "N")]
    min_batch_size: Option<u64>,
    #[command(flatten)]
    out: OutArgs,
}

/// The complete parameters of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) question: Question,
    pub(crate) seed: u64,
    pub(crate) min_batch_size: u64,
    /// The probabilities with which devices take part.
    pub(crate) sampling: Sampling,
    /// Decides the coins and the noise of the devices, in the collection of this number; otherwise
    /// they are random.
    pub(crate) coins: Option<(Coins, u32)>,
}

impl Plan {
    /// The number of devices.
    fn devices(&self) -> u64 {
        self.question.held.len() as u64
    }
}

/// What a demo prints besides its result.
#[derive(Debug)]
pub(crate) struct Explanation {
    /// Each party, and what it saw.
    pub(crate) saw: Vec<(&'static str, String)>,
    /// Where the demo is not private.
    pub(crate) caveats: Vec<&'static str>,
}

impl DemoArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        if self.list {
            return list_stories(output);
        }
        self.out.check()?;
        let plan = self.plan()?;
        let (devices, Story { each, learned, .. }) = (plan.devices(), self.story);
        output.remark(match &self.recipe {
            None => format!(
                "{devices} devices, {each}. Leader, helper and collector will learn {learned}, and nothing \
                 about any single device."
            ),
            Some(_) => format!("{devices} devices: {}", plan.question.draft.purpose),
        });
        // The demo without --exact may change; the one with it must not.
        let run = if self.exact { exact::run } else { sampled::run };
        let (mut result, explanation) = run(&plan, output)?;
        let collected = self.out.prepared(result.collected.clone());
        for (shown, row) in result.buckets.iter_mut().zip(collected.buckets()) {
            shown.consistent = row.consistent;
        }
        if output.json() {
            output.value(&result)?;
        } else {
            self.print(output, &plan, &result, &explanation)?;
        }
        self.out.write(&collected, output)?;
        Ok(Outcome::Yes)
    }

    fn plan(&self) -> Result<Plan> {
        // clap does not require --recipe beside a story, since the two exclude each other.
        if self.data.is_some() && self.recipe.is_none() {
            return Err(anyhow!("--data needs --recipe: a story has devices of its own"))
                .hint("give your question too: --recipe FILE (`sotto recipe new` writes one)");
        }
        let seed = self.seed.unwrap_or_else(|| u64::from(random::system().next_u32()));
        let mut question = match &self.recipe {
            None => question::story(self.story, self.devices, seed)?,
            Some(recipe) => Question::own(recipe, self.data.as_deref(), self.devices, seed)?,
        };
        let (devices, own) = (question.held.len() as f64, question.draft.sampling);
        // A recipe for a million devices does not fit the demo's few.
        let own_batch = self.recipe.as_ref().map(|_| question.draft.min_batch);
        let fits = own_batch.is_none_or(|batch| safe_batch(question.expected()) >= batch);
        let wanted = self.min_batch_size.or(own_batch.filter(|_| fits));
        if fits || self.exact {
            let (sampling, expected) = match self.exact {
                true => (one_rate(own, Probability::ONE), devices),
                false => (own, question.expected()),
            };
            let min_batch_size = self.min_batch_size(&question, expected, wanted)?;
            return Ok(Plan { question, seed, min_batch_size, sampling, coins: None });
        }
        // Two rates stay two, if any epsilon holds for so few devices.
        let scaled = scaled(own)?.and_then(|sampling| {
            let factor = sampling.rate.to_f64() / own.rate.to_f64();
            let size = self.min_batch_size(&question, factor * question.expected(), wanted).ok()?;
            question.is_private(sampling, size).then_some((sampling, size))
        });
        let (sampling, min_batch_size) = match scaled {
            Some(found) => found,
            None => {
                let half = Probability::new(1, 2)?;
                let size = self.min_batch_size(&question, 0.5 * devices, wanted)?;
                (one_rate(own, half), size)
            }
        };
        question.differences.push(format!(
            "{} devices cannot fill its minimum batch. So here {} answer, and nothing is released below \
             {}.",
            grouped(question.held.len() as u64),
            answers(&sampling),
            grouped(min_batch_size),
        ));
        Ok(Plan { question, seed, min_batch_size, sampling, coins: None })
    }

    /// The requested minimum batch size, or one that this many devices reach even in an unlucky
    /// run.
    fn min_batch_size(
        &self,
        question: &Question,
        expected: f64,
        wanted: Option<u64>,
    ) -> Result<u64> {
        let devices = question.held.len() as u64;
        let safe = if self.exact { devices } else { safe_batch(expected) };
        if safe == 0 {
            let few =
                format!("devices are too few: about {expected:.0} of them take part, at random");
            let each = (expected / devices as f64).max(1e-6);
            let enough = (devices..).find(|more| safe_batch(*more as f64 * each) > 0);
            // Of the others the predicate is not true.
            let each = question.all as f64 / devices as f64;
            let enough = enough.map_or(u64::MAX, |enough| (enough as f64 * each).ceil() as u64);
            return Err(anyhow!("{devices} {few}")).hint(match &self.data {
                None => format!("give at least {enough} --devices"),
                Some(_) => format!("give at least {enough} lines of --data"),
            });
        }
        let size = wanted.unwrap_or(if self.exact { safe.min(100) } else { safe });
        ensure!(size > 0, "--min-batch-size must be at least 1");
        if size > safe {
            return Err(anyhow!(
                "{devices} devices cannot reliably fill a batch of {size}: the largest safe size is {safe}"
            ))
            .hint("raise --devices or lower --min-batch-size");
        }
        Ok(size)
    }

    /// Commands to run after a story.
    fn next(&self, seed: u64) -> Vec<(String, &'static str)> {
        let name = self.story.name;
        let exact = (name == stories::DEFAULT)
            .then(|| (format!("sotto demo --exact --seed {seed}"), "no sampling, no noise"));
        let more = (format!("sotto demo {name} --devices 20000 --seed {seed}"), "more devices");
        [more]
            .into_iter()
            .chain(exact)
            .chain([
                ("sotto demo --list".to_owned(), "other questions"),
                ("sotto recipe new".to_owned(), "your own question"),
                ("sotto serve relay --print-config".to_owned(), "what a party runs"),
            ])
            .collect()
    }

    fn print(
        &self,
        output: &Output,
        plan: &Plan,
        result: &DemoResult,
        explanation: &Explanation,
    ) -> Result<()> {
        output.line("")?;
        let heading = if self.recipe.is_some() { "answer" } else { self.story.heading };
        let shape = Shape { noise: false, bars: result.buckets.len() > 1 };
        match &result.coordinates {
            Some(coordinates) => {
                output.line(output.bold(&format!("  {heading}")))?;
                curve(output, coordinates)?;
                output.prose(about(coordinates))?;
            }
            None => print_chart(output, heading, &result.buckets, shape)?,
        }
        if !result.statistics.is_empty() {
            output.line("")?;
            // Their units differ.
            let shape = Shape { bars: false, ..shape };
            print_chart(output, "statistic", &result.statistics, shape)?;
        }
        let refused: u64 = result.reports.rejected.values().sum();
        output.prose(format!(
            "\n{} reports counted, {refused} refused, in {:.1} s. `true` is known to the demo alone, \
             which plays every part.",
            result.reports.accepted, result.elapsed_s
        ))?;
        if let Some(privacy) = &result.privacy {
            let (epsilon, delta) = (up_short(privacy.claimed_epsilon), privacy.delta.to_f64());
            let local = privacy.local_epsilon.map(|local| format!("; the noise alone: {local:.0}"));
            output.prose(format!(
                "Epsilon {epsilon} at delta {delta:.0e}: each device computed it, assuming that up to \
                 {} devices in all are dishonest and that the servers see how many answered (the paper's \
                 figure: {:.2}{}).",
                privacy.dishonest_devices,
                privacy.paper_epsilon,
                local.unwrap_or_default(),
            ))?;
        }
        output.heading("What each party saw")?;
        for (who, what) in &explanation.saw {
            output.entry(format!("  {who:<10} "), what)?;
        }
        list(output, "Not private yet", &explanation.caveats)?;
        let next = match &self.recipe {
            Some(recipe) => {
                list(output, "Not as in your recipe", &plan.question.differences)?;
                let recipe = recipe.display();
                vec![
                    (format!("sotto recipe explain {recipe}"), "what people read"),
                    (format!("sotto recipe check {recipe}"), "what a device says"),
                ]
            }
            None => self.next(plan.seed),
        };
        output.heading("Try next")?;
        let longest = next.iter().map(|(command, _)| columns(command)).max().unwrap_or_default();
        // A comment of the shell, so that the line can be pasted.
        next.iter().try_for_each(|(command, why)| match longest + columns(why) + 6 {
            needed if needed > output.width() => output.line(format!("  {command}")),
            _ => output.line(format!("  {command:<longest$}  # {why}")),
        })
    }
}

/// A chart with a bold head.
fn print_chart(output: &Output, heading: &str, rows: &[Row], shape: Shape) -> Result<()> {
    let mut lines = chart(heading, rows, output.width(), shape).into_iter();
    if let Some(head) = lines.next() {
        output.line(output.bold(&head))?;
    }
    lines.try_for_each(|line| output.line(line))
}

/// The names of the stories, each with what it is about.
fn list_stories(output: &Output) -> Result<Outcome> {
    if output.json() {
        output.value(&json!({ "stories": STORIES }))?;
        return Ok(Outcome::Yes);
    }
    let longest = STORIES.iter().map(|story| columns(story.name)).max().unwrap_or_default();
    for Story { name, about, .. } in &STORIES {
        output.entry(format!("{name:<longest$}  "), about)?;
    }
    Ok(Outcome::Yes)
}

/// The same rate for all devices.
fn one_rate(own: Sampling, rate: Probability) -> Sampling {
    Sampling { rate, default_rate: None, ..own }
}

/// Two rates, in the same proportion, of which the higher one is at least a half. `None` if there is
/// only one.
fn scaled(own: Sampling) -> Result<Option<Sampling>> {
    let half = Probability::new(1, 2)?;
    let Some(least) = own.default_rate.filter(|least| *least != own.rate) else { return Ok(None) };
    if own.rate >= half {
        return Ok(Some(own));
    }
    let num = least.num().checked_mul(own.rate.den());
    let den = own.rate.num().checked_mul(2).and_then(|twice| least.den().checked_mul(twice));
    // Longer fractions than people write.
    let (Some(num), Some(den)) = (num, den) else { return Ok(None) };
    Ok(Some(Sampling { rate: half, default_rate: Some(Probability::reduced(num, den)?), ..own }))
}

/// The largest batch that is filled even in an unlucky run, if this many reports are expected.
fn safe_batch(expected: f64) -> u64 {
    (expected - 4.0 * expected.sqrt()) as u64
}

fn list(output: &Output, title: &str, items: &[impl std::fmt::Display]) -> Result<()> {
    output.heading(title)?;
    items.iter().try_for_each(|item| output.entry("  - ", item))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(devices: u32, min_batch_size: Option<u64>) -> DemoArgs {
        let (recipe, data, out) = (None, None, OutArgs::default());
        let story = &STORIES[0];
        DemoArgs {
            story,
            list: false,
            devices,
            recipe,
            data,
            seed: Some(7),
            exact: true,
            min_batch_size,
            out,
        }
    }

    #[test]
    fn a_sampled_batch_is_filled_on_a_bad_day() {
        let sampled = |devices, asked| DemoArgs { exact: false, ..args(devices, asked) };
        assert_eq!(sampled(2_000, None).plan().unwrap().min_batch_size, 873);
        assert_eq!(sampled(2_000, Some(100)).plan().unwrap().min_batch_size, 100);
        assert!(sampled(2_000, Some(900)).plan().is_err());
        assert!(sampled(30, None).plan().is_err());
    }

    #[test]
    fn a_batch_must_be_fillable() {
        assert_eq!(args(2_000, None).plan().unwrap().min_batch_size, 100);
        assert_eq!(args(30, None).plan().unwrap().min_batch_size, 30);
        assert_eq!(args(30, Some(5)).plan().unwrap().min_batch_size, 5);
        assert!(args(30, Some(31)).plan().is_err());
        assert!(args(30, Some(0)).plan().is_err());
    }

    #[test]
    fn two_rates_are_scaled_together() {
        let part = |num, den| Probability::new(num, den).unwrap();
        let own = |default_rate, rate| {
            let (dummy_rate, cover) = (Probability::ZERO, Probability::ONE);
            Sampling { rate, default_rate, dummy_rate, cover }
        };
        let rates = |default_rate, rate| {
            let found = scaled(own(default_rate, rate)).unwrap();
            found.map(|found| (found.default_rate.unwrap(), found.rate))
        };
        assert_eq!(rates(Some(part(1, 50)), part(1, 5)), Some((part(1, 20), part(1, 2))));
        assert_eq!(rates(Some(part(1, 4)), part(3, 4)), Some((part(1, 4), part(3, 4))));
        assert_eq!(rates(Some(part(1, 50)), part(1, 50)), None);
        assert_eq!(rates(None, part(1, 50)), None);
    }
}
