//! `sotto plan`: what will be seen, and at what price, before any device is asked.
//!
//! The question becomes the draft of a recipe, as `sotto recipe new` makes it, and the plan is that of
//! [`sotto_protocol::plan`]. This module turns options into both, and leaves words, costs and
//! charts to the files beside it.

mod budget;
mod costs;
pub(super) mod expected;
mod frontier;
mod report;

use std::path::PathBuf;

use anyhow::{Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use sotto_protocol::plan::{Answers, Plan, Protection};
use sotto_wire::RecipeDraft;
use sotto_wire::recipe::{Recipe, parse_probability, parse_whole};
use sotto_wire::utc;

use self::report::Report;
use super::new::planned::{LEAST_BATCH, Planning, Wanted, apply};
use super::new::{Inquiry, Kind, NewArgs, with_claim};
use crate::output::{Outcome, Output, WithHint};
use crate::recipe_file;
use crate::time_text::now;

const DAY_S: u64 = 86_400;

#[derive(Debug, Args)]
#[command(
    after_help = "Without --epsilon and --error, at most epsilon 1 is spent, and no more than the error needs. For \
    example:\n  sotto plan --buckets 200 --population 1e6 --epsilon 1\n  sotto plan --buckets 200 --population 1e6 \
    --error 10%\n  sotto plan --kind mean --max 240 --population 1e6 --epsilon 0.5 --frontier"
)]
pub(crate) struct PlanArgs {
    /// What is measured [default: histogram]
    #[arg(long, value_enum, help_heading = "Question")]
    kind: Option<Kind>,
    /// The names of the buckets: a,b,c.
    #[arg(long, value_name = "A,B,C", help_heading = "Question")]
    labels: Option<String>,
    /// The number of buckets, or of ranges for quantiles.
    #[arg(long, value_name = "K", conflicts_with = "labels", help_heading = "Question")]
    buckets: Option<String>,
    /// The largest number of a sum or a mean.
    #[arg(long, value_name = "N", help_heading = "Question")]
    max: Option<String>,
    /// In how many buckets of a multi_histogram one device may be.
    #[arg(long, value_name = "N", help_heading = "Question")]
    most: Option<String>,
    /// How many numbers a vector has.
    #[arg(long, value_name = "D", help_heading = "Question")]
    dimension: Option<String>,
    /// The largest norm (L2) of a vector [default: 1]
    #[arg(long, value_name = "C", help_heading = "Question")]
    clip: Option<String>,
    /// An attribute that the device may read, for the recipe: name:int.
    #[arg(long, value_name = "NAME:TYPE", requires = "mapping", help_heading = "Question")]
    attribute: Vec<String>,
    /// The expression that gives the bucket or the number, for the recipe.
    #[arg(long, value_name = "EXPRESSION", requires = "attribute", help_heading = "Question")]
    mapping: Option<String>,
    /// The answer if the mapping gives none; see `sotto recipe new`.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true, help_heading = "Question")]
    fallback: Option<String>,
    /// The approximate number of devices, like 1000000 or 1e6.
    #[arg(long, value_name = "N", help_heading = "Devices")]
    population: String,
    /// How many of them a logged result certifies. A sparse_histogram may then have two rates.
    #[arg(long, value_name = "N", value_parser = parse_whole, help_heading = "Devices")]
    audience: Option<u64>,
    /// The part of the devices that says yes to a count [default: 10%], or that does not have the
    /// default value of a sparse_histogram [default: 1%]
    #[arg(long, value_name = "PART", value_parser = part, help_heading = "Devices")]
    rare: Option<f64>,
    /// The part of the devices in the largest bucket [default: as of words, where the bucket i has
    /// 1/i of the devices of the first one]
    #[arg(long, value_name = "PART", value_parser = part, help_heading = "Devices")]
    largest: Option<f64>,
    /// The part of the devices in the rarest bucket.
    #[arg(long, value_name = "PART", value_parser = part, help_heading = "Devices")]
    rarest: Option<f64>,
    /// The largest epsilon; the error is made small.
    #[arg(long, value_name = "EPSILON", conflicts_with = "error", help_heading = "Aim")]
    epsilon: Option<String>,
    /// The largest error (standard error of an average bucket), as a number or in percent; the epsilon
    /// is made small.
    #[arg(long, value_name = "ERROR", help_heading = "Aim")]
    error: Option<String>,
    /// The delta of the claim [default: 1e-9]
    #[arg(long, value_name = "DELTA", help_heading = "Aim")]
    delta: Option<String>,
    /// Another recipe that the same devices answer: at most what it leaves of --budget is spent.
    #[arg(long = "with", value_name = "FILE", help_heading = "Aim")]
    others: Vec<PathBuf>,
    /// The epsilon that a device spends on all recipes of a period, at delta 1e-6.
    #[arg(long, value_name = "EPSILON", default_value = "2", help_heading = "Aim")]
    budget: f64,
    /// The most answers that are expected [default: 20,000]
    #[arg(long, value_name = "N", value_parser = parse_whole, help_heading = "Limits")]
    reports: Option<u64>,
    /// The probability that a device answers, instead of --reports.
    #[arg(long, value_name = "Q", conflicts_with = "reports", help_heading = "Limits")]
    rate: Option<String>,
    /// Only this protection.
    #[arg(long, value_enum, help_heading = "Limits")]
    mechanism: Option<MechanismName>,
    /// The largest epsilon of a randomizer alone, which holds even if everybody else is malicious.
    #[arg(long, value_name = "EPSILON", default_value = "8", help_heading = "Limits")]
    most_epsilon0: f64,
    /// Ask in up to N rounds; the claim is about all of them.
    #[arg(long, value_name = "N", value_parser = parse_whole, help_heading = "Limits")]
    rounds: Option<u64>,
    /// For how many days devices may answer.
    #[arg(long, value_name = "DAYS", default_value = "7", value_parser = parse_whole, help_heading = "Limits")]
    days: u64,
    /// Also the error for other epsilons, of every protection.
    #[arg(long)]
    frontier: bool,
    /// Draw the frontier.
    #[arg(long, value_name = "FILE", requires = "frontier")]
    svg: Option<PathBuf>,
    /// Write the recipe. Only its parties are missing then.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace existing files.
    #[arg(long)]
    force: bool,
}

/// A way to protect answers, as recipes spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum MechanismName {
    /// One of the buckets, most likely the true one.
    RandomizedResponse,
    /// For each bucket a bit, each flipped with the same probability.
    Rappor,
    /// A point of a projective geometry.
    ProjectiveGeometry,
    /// Noise of the devices.
    Gaussian,
    /// Noise of the aggregators.
    ServerGaussian,
}

fn part(text: &str) -> Result<f64, String> {
    Ok(parse_probability(text)?.to_f64())
}

impl PlanArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        let (mut draft, wanted, args) = self.draft()?;
        let recipe = recipe_file::with_stand_ins(draft.clone())?;
        let left = budget::left(&self.others, self.budget, &recipe.privacy)?;
        let mut wish = args.wish(&recipe)?;
        wish.answers = Answers::usual(&recipe.query, self.rare).sized(self.largest, self.rarest);
        wish.most_local_micro = (self.most_epsilon0.clamp(0.01, 100.0) * 1e6) as u64;
        let wanted = match (wanted, left) {
            (Wanted::Epsilon(micro), Some(left)) => Wanted::Epsilon(micro.min(left)),
            (Wanted::Anything, Some(left)) => Wanted::Epsilon(left),
            (other, _) => other,
        };
        let protections: Vec<Protection> = match self.mechanism {
            Some(name) => {
                let (protection, kind) = (protection(name), recipe.query.kind());
                ensure!(protection.answers(&recipe.query), "--mechanism does not answer a {kind}");
                vec![protection]
            }
            None => Protection::ALL.to_vec(),
        };
        let planning = Planning::new(wish, &protections, wanted)?;
        let plan = planning.proposed()?.clone();
        apply(&plan, &mut draft);
        let report = self.report(&planning, &plan, left)?;
        if let Some(out) = &self.out {
            with_claim(&mut draft, self.audience)?;
            recipe_file::write(out, draft.to_toml().as_bytes(), self.force)?;
        }
        report.print(output)?;
        Ok(Outcome::Yes)
    }

    fn report(&self, planning: &Planning<'_>, plan: &Plan, left: Option<u64>) -> Result<Report> {
        let mut report = Report::new(planning, plan)?;
        report.left(left);
        if self.frontier {
            report.frontier = Some(frontier::points(planning)?);
        }
        if let (Some(path), Some(points)) = (&self.svg, &report.frontier) {
            let chart = frontier::chart(planning, points);
            recipe_file::write(path, chart.as_bytes(), self.force)?;
        }
        report.file = self.out.clone();
        report.mapping_is_known = self.mapping.is_some();
        Ok(report)
    }

    /// The question as a draft.
    fn draft(&self) -> Result<(RecipeDraft, Wanted, NewArgs)> {
        let args = self.question()?;
        let (draft, wanted) = args.question_draft(&mut Inquiry::new(None), now()?.0)?;
        let wanted = wanted.ok_or_else(|| anyhow!("nothing is left to be planned"))?;
        Ok((draft, wanted, args))
    }

    fn question(&self) -> Result<NewArgs> {
        let kind = self.kind.unwrap_or_default();
        let dimension = self.dimension.clone().unwrap_or_default();
        let (attribute, mapping) = match kind {
            Kind::Count => ("answer:bool".to_owned(), "answer"),
            Kind::MultiHistogram => ("answers:strings".to_owned(), "answers"),
            Kind::VectorSum | Kind::VectorMean => (format!("answer:vector({dimension})"), "answer"),
            _ => ("answer:int".to_owned(), "answer"),
        };
        let (mut buckets, mut boundaries) = (self.buckets.clone(), None);
        if kind == Kind::Quantiles {
            let ranges = buckets.take().ok_or_else(|| anyhow!("missing: --buckets"));
            let ranges = ranges.hint("say how many ranges there are")?;
            let ranges = parse_whole(&ranges).map_err(|reason| anyhow!("--buckets: {reason}"))?;
            ensure!((2..=100_000).contains(&ranges), "--buckets: from 2 to 100,000 ranges");
            let ends: Vec<String> = (1..ranges).map(|end| end.to_string()).collect();
            boundaries = Some(ends.join(","));
        }
        let first = now()?.0.saturating_add(2 * DAY_S).div_ceil(DAY_S) * DAY_S;
        let last = first.saturating_add(self.days.clamp(1, 3_650) * DAY_S);
        let attributes =
            if self.attribute.is_empty() { vec![attribute] } else { self.attribute.clone() };
        let args = NewArgs {
            name: Some("planned".to_owned()),
            purpose: Some("What is asked, in one sentence for people.".to_owned()),
            kind: Some(kind),
            labels: self.labels.clone(),
            buckets,
            boundaries,
            max: self.max.clone(),
            most: self.most.clone(),
            dimension: self.dimension.clone(),
            clip: self.clip.clone(),
            attribute: attributes,
            mapping: Some(self.mapping.clone().unwrap_or_else(|| mapping.to_owned())),
            fallback: self.fallback.clone(),
            rounds: self.rounds,
            population: Some(self.population.clone()),
            // They stand in for the audience and for the result that counts it.
            predicate: self.audience.map(|_| "true".to_owned()),
            certified: self.audience.map(|_| "0".repeat(64)),
            audience: self.audience,
            reports: self.reports,
            rate: self.rate.clone(),
            epsilon: self.epsilon.clone(),
            error: self.error.clone(),
            delta: self.delta.clone(),
            opens: Some(utc::format(first)),
            closes: Some(utc::format(last)),
            window: 3_600,
            ..NewArgs::default()
        };
        args.nothing_missing()?;
        Ok(args)
    }
}

fn protection(name: MechanismName) -> Protection {
    match name {
        MechanismName::RandomizedResponse => Protection::RandomizedResponse,
        MechanismName::Rappor => Protection::Rappor,
        MechanismName::ProjectiveGeometry => Protection::ProjectiveGeometry,
        MechanismName::Gaussian => Protection::Gaussian,
        MechanismName::ServerGaussian => Protection::ServerGaussian,
    }
}

/// Whether devices accept such a batch by default.
fn is_small(recipe: &Recipe) -> bool {
    recipe.aggregation.min_batch < LEAST_BATCH
}
