//! A plan in words, and as JSON.

use std::path::PathBuf;

use anyhow::Result;
use comfy_table::Table;
use serde::Serialize;
use sotto_dp::mechanism::Mechanism;
use sotto_dp::mechanism::gaussian::LARGE_RHO;
use sotto_dp::number::{up, up_short};
use sotto_protocol::plan::{Aim, Plan, central_error, reach};
use sotto_protocol::recipe::{mechanism, show_micro};
use sotto_wire::recipe::{Privacy, Recipe, Sampling};

use super::costs::Costs;
use super::expected::{Expected, number, rows};
use super::frontier::{FrontierPoint, claimed};
use super::is_small;
use crate::output::Output;
use crate::recipe::new::planned::{LEAST_BATCH, Planning};
use crate::recipe::words::{self, grouped};
use crate::vocabulary::{self, Epsilon};

/// What a device spends in a period by default.
const BUDGET: f64 = 2.0;

/// One more way to answer the question.
#[derive(Clone, Debug, Serialize)]
struct Alternative {
    mechanism: &'static str,
    #[serde(serialize_with = "vocabulary::epsilon")]
    epsilon: f64,
    rate: f64,
    expected: f64,
    stderr: f64,
    noise_stderr: f64,
    report_bytes: usize,
    server_cpu_s: f64,
}

/// All about a plan.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    population: u64,
    mechanism: &'static str,
    rate: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_rate: Option<f64>,
    expected: f64,
    min_batch: u64,
    epsilon: Epsilon,
    delta: f64,
    #[serde(serialize_with = "vocabulary::epsilon")]
    paper_epsilon: f64,
    #[serde(serialize_with = "vocabulary::epsilon_or_inf")]
    local_epsilon: Option<f64>,
    expected_errors: Vec<Expected>,
    sampling_error: f64,
    central_error: f64,
    report_bytes: usize,
    device_bytes: usize,
    server_cpu_s: f64,
    disk_bytes: f64,
    token_count: u64,
    device_moves: f64,
    batch_full_s: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    epsilon_left: Option<Epsilon>,
    alternatives: Vec<Alternative>,
    more_answers: Vec<Alternative>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) frontier: Option<Vec<FrontierPoint>>,
    sentences: Vec<String>,
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<PathBuf>,
    #[serde(skip)]
    pub(super) mapping_is_known: bool,
    #[serde(skip)]
    shown: Shown,
}

/// What only people read.
#[derive(Clone, Debug, Default)]
struct Shown {
    question: String,
    protection: String,
    who: String,
    delta: String,
    costs: Vec<(&'static str, String)>,
}

impl Report {
    pub(super) fn new(planning: &Planning<'_>, plan: &Plan) -> Result<Self> {
        let Planning { wish, .. } = planning;
        let (recipe, devices) = (&plan.recipe, wish.devices);
        let reports = answers(recipe, devices, wish.answers.defaults);
        let costs = Costs::of(recipe, devices, reports)?;
        let expected_errors = rows(&recipe.query, devices, &wish.answers, &plan.errors);
        let sampling_error = wish.sampling_error(plan)?.average.total;
        let central_error = central_error(recipe, devices)?.unwrap_or(0.0);
        let (epsilon, delta) = match &recipe.privacy {
            Privacy::Claim { delta, .. } => (claimed(recipe), *delta),
            Privacy::InsecureUnbounded => return Err(anyhow::anyhow!("a plan claims something")),
        };
        let when = recipe.answer_times();
        let life_s = when.closes.saturating_sub(when.opens) as f64;
        let part = (recipe.aggregation.min_batch as f64 / reports).min(1.0);
        let device_moves = reach(recipe, devices)?;
        let mut report = Self {
            population: devices,
            mechanism: plan.protection.kind(),
            rate: recipe.sampling.rate.to_f64(),
            default_rate: recipe.sampling.default_rate.map(|rate| rate.to_f64()),
            expected: reports,
            min_batch: recipe.aggregation.min_batch,
            epsilon: Epsilon(epsilon),
            delta: delta.to_f64(),
            paper_epsilon: plan.judgement.paper_epsilon,
            local_epsilon: plan.judgement.local_epsilon,
            sampling_error,
            central_error,
            report_bytes: costs.report_bytes,
            device_bytes: costs.device_bytes,
            server_cpu_s: costs.server_s(),
            disk_bytes: costs.disk_bytes,
            token_count: costs.tokens,
            device_moves,
            batch_full_s: (life_s * part) as u64,
            epsilon_left: None,
            alternatives: alternatives(planning)?,
            more_answers: more_answers(planning, plan, epsilon)?,
            frontier: None,
            sentences: Vec::new(),
            warnings: warnings(planning, plan, &expected_errors),
            file: None,
            mapping_is_known: false,
            shown: Shown {
                question: words::query(&recipe.query),
                protection: mechanism(recipe)?.words().effect,
                who: words::answers(&recipe.sampling),
                delta: words::delta(delta),
                costs: cost_rows(&costs, device_moves, life_s, part),
            },
            expected_errors,
        };
        report.sentences = report.explained(plan, planning.aim);
        Ok(report)
    }

    /// What the other recipes of the same devices leave.
    pub(super) fn left(&mut self, left: Option<u64>) {
        self.epsilon_left = left.map(Epsilon::from_micro);
        self.sentences.extend(left.map(|left| {
            format!(
                "The other recipes leave epsilon {} of the budget of a device for this question.",
                show_micro(left)
            )
        }));
    }

    /// Why it is as it is.
    fn explained(&self, plan: &Plan, aim: Aim) -> Vec<String> {
        let Some(average) = self.expected_errors.first() else { return Vec::new() };
        let (epsilon, error) = (up(self.epsilon.0), number(average.stderr));
        let first = match aim {
            Aim::Budget(_) => format!("With epsilon {epsilon} the least error is +-{error}"),
            Aim::Sparing(_) => format!(
                "Epsilon {epsilon} is enough for an error of +-{error}, 5 % above the least with epsilon 1"
            ),
            Aim::Error(_) => format!("An error of +-{error} needs no more than epsilon {epsilon}"),
        };
        let mut found = vec![format!(
            "{first}, where about {} of {} devices answer.",
            grouped(self.expected as u64),
            grouped(self.population)
        )];
        let sampling = number(self.sampling_error);
        found.push(match average.noise_stderr > self.sampling_error {
            true => format!(
                "Most of it is noise: the sample alone would be off by +-{sampling}. More epsilon, or more answers, \
                 would help."
            ),
            false => format!(
                "Most of it is the sample, which alone would be off by +-{sampling}. More answers would help, more \
                 epsilon hardly."
            ),
        });
        found.push(format!(
            "One trusted server that sees all {} exact answers would add +-{} for the same epsilon. Here nobody \
             sees them.",
            grouped(self.population),
            number(self.central_error)
        ));
        if plan.is_local_limit {
            found.push(
                "The randomizer is as weak as --most-epsilon0 allows: a larger one would lower the error, and \
                 protect less if both aggregators collude."
                    .to_owned(),
            );
        }
        found
    }

    pub(super) fn print(&self, output: &Output) -> Result<()> {
        if output.json() {
            return output.value(self);
        }
        let row = |name: &str, value: &str| output.entry(format!("  {name:<17} "), value);
        let Shown { question, protection, who, delta, costs } = &self.shown;
        output.title(&format!("plan for a {question}"))?;
        row("mechanism", &format!("{}: {protection}", self.mechanism.replace('_', " ")))?;
        let (all, reports) = (grouped(self.population), grouped(self.expected as u64));
        row("who answers", &format!("{who} of {all}: about {reports}"))?;
        row("minimum batch", &grouped(self.min_batch))?;
        let epsilon = up(self.epsilon.0);
        row(
            "epsilon",
            &format!(
                "{epsilon} at delta {delta}, as a device computes it: half of a batch honest, the count seen, the \
                 worst population"
            ),
        )?;
        let paper = up(self.paper_epsilon);
        row("paper's figure", &format!("{paper} (all honest, count hidden)"))?;
        let local = match self.local_epsilon {
            Some(local) => format!("{}, even if everybody else is malicious", up(local)),
            None => "none: the noise of one device hides little, or the exact value is sent".into(),
        };
        row("randomizer alone", &local)?;
        output.heading("expected error (standard error, sampling included)")?;
        for expected in &self.expected_errors {
            row(expected.label(), &expected.words())?;
        }
        row("without privacy", &format!("+-{}: the sample alone", number(self.sampling_error)))?;
        row(
            "central noise",
            &format!("+-{}: one trusted server, all devices", number(self.central_error)),
        )?;
        output.heading("costs")?;
        costs.iter().try_for_each(|(name, value)| row(name, value))?;
        output.heading("protections")?;
        output.table(table("protection", &self.alternatives, |one| {
            one.mechanism.replace('_', " ")
        }))?;
        output.heading("if more devices answered")?;
        let of_answers = |one: &Alternative| grouped(one.expected as u64);
        output.table(table("answers", &self.more_answers, of_answers))?;
        if let Some(points) = &self.frontier {
            output.heading("frontier")?;
            output.table(frontier_table(points))?;
        }
        output.heading("in words")?;
        output.prose(self.sentences.join(" "))?;
        for warning in &self.warnings {
            output.entry("warning: ", warning)?;
        }
        if let Some(file) = &self.file {
            output.remark(format!("the recipe is in {}", file.display()));
            if !self.mapping_is_known {
                output.remark("its purpose, attribute and mapping stand in for yours: edit them");
            }
            output.next(&[format!("sotto recipe check {}", file.display())]);
        }
        Ok(())
    }
}

/// How many answers are expected.
fn answers(recipe: &Recipe, devices: u64, defaults: f64) -> f64 {
    let Sampling { rate, dummy_rate, .. } = &recipe.sampling;
    let sending = |rate: f64| rate + (1.0 - rate) * dummy_rate.to_f64();
    let least = sending(recipe.sampling.least_rate().to_f64());
    devices as f64 * (defaults * least + (1.0 - defaults) * sending(rate.to_f64()))
}

fn alternative(planning: &Planning<'_>, plan: &Plan) -> Result<Alternative> {
    let (recipe, devices) = (&plan.recipe, planning.wish.devices);
    let expected = answers(recipe, devices, planning.wish.answers.defaults);
    let costs = Costs::of(recipe, devices, expected)?;
    Ok(Alternative {
        mechanism: plan.protection.kind(),
        epsilon: claimed(recipe),
        rate: recipe.sampling.rate.to_f64(),
        expected,
        stderr: plan.errors.average.total,
        noise_stderr: plan.errors.average.noise,
        report_bytes: costs.report_bytes,
        server_cpu_s: costs.server_s(),
    })
}

/// The best of each protection.
fn alternatives(planning: &Planning<'_>) -> Result<Vec<Alternative>> {
    planning.plans.iter().map(|plan| alternative(planning, plan)).collect()
}

/// The same protection and epsilon with 5 and 25 times as many answers, and with all.
fn more_answers(planning: &Planning<'_>, plan: &Plan, epsilon: f64) -> Result<Vec<Alternative>> {
    let devices = planning.wish.devices;
    let reports = answers(&plan.recipe, devices, planning.wish.answers.defaults) as u64;
    let mut counts: Vec<u64> = [5, 25]
        .iter()
        .map(|times| reports.saturating_mul(*times))
        .filter(|one| *one < devices)
        .collect();
    counts.extend((reports < devices).then_some(devices));
    let budget = (epsilon * 1e6).round() as u64;
    let mut found = vec![alternative(planning, plan)?];
    for count in counts {
        if let Some(plan) = planning.wish.with_reports(count).at_most(plan.protection, budget) {
            found.push(alternative(planning, &plan)?);
        }
    }
    Ok(found)
}

fn warnings(planning: &Planning<'_>, plan: &Plan, expected: &[Expected]) -> Vec<String> {
    let mut list: Vec<String> = expected.iter().take(1).filter_map(Expected::warning).collect();
    if plan.judgement.epsilon > BUDGET {
        list.push(format!(
            "devices have epsilon {BUDGET} for four weeks, unless their trust file says so: they would not answer"
        ));
    }
    let least = grouped(LEAST_BATCH);
    if is_small(&plan.recipe) {
        list.push(format!(
            "devices accept no batch below {least}, unless their trust file says so"
        ));
    }
    if planning.wish.certified.is_none() && planning.wish.answers.defaults > 0.0 {
        list.push(
            "all devices have one rate: with a certified audience (--audience) those with the default could \
             answer less often, and the others more often"
                .to_owned(),
        );
    }
    if let Ok(Mechanism::Gaussian(noise)) = mechanism(&plan.recipe)
        && noise.rho() > LARGE_RHO
    {
        list.push(format!(
            "one lying device can add {} times what an honest one can: a larger minimum batch, fewer numbers, or \
             noise of the aggregators (--mechanism server_gaussian) help",
            up_short(noise.rho())
        ));
    }
    let others = planning.plans.iter().filter(|one| one.error() < 0.5 * plan.error());
    let better = others.min_by(|one, other| one.error().total_cmp(&other.error()));
    list.extend(better.map(|better| {
        format!(
            "--mechanism {} would have an error of +-{}, but needs more trust",
            better.protection.kind(),
            number(better.error())
        )
    }));
    list
}

fn cost_rows(costs: &Costs, moves: f64, life_s: f64, part: f64) -> Vec<(&'static str, String)> {
    let hours = |seconds: f64| up_short(seconds / 3_600.0);
    let days = life_s / 86_400.0;
    vec![
        (
            "a device sends",
            format!(
                "{} bytes, whether it answers or not (a report has {}); it gets 2 tokens per round",
                grouped(costs.device_bytes as u64),
                grouped(costs.report_bytes as u64)
            ),
        ),
        (
            "servers",
            format!(
                "{} CPU hours: reports {}, relay and cover {}, {} tokens {}",
                hours(costs.server_s()),
                hours(costs.reports_s),
                hours(costs.cover_s),
                grouped(costs.tokens),
                hours(costs.tokens_s)
            ),
        ),
        (
            "disk",
            format!("{} MB are written by leader and helper", up_short(costs.disk_bytes / 1e6)),
        ),
        ("a lying device", format!("moves one number of the result by {} at most", number(moves))),
        (
            "a full batch",
            format!(
                "after about {} of {} days, if answers come evenly",
                up_short(days * part),
                up_short(days)
            ),
        ),
    ]
}

fn table(first: &str, rows: &[Alternative], name: impl Fn(&Alternative) -> String) -> Table {
    let mut table = Table::new();
    table.set_header([
        first,
        "epsilon",
        "error",
        "noise alone",
        "rate",
        "report bytes",
        "CPU hours",
    ]);
    for row in rows {
        table.add_row([
            name(row),
            up_short(row.epsilon),
            number(row.stderr),
            number(row.noise_stderr),
            up_short(row.rate),
            grouped(row.report_bytes as u64),
            up_short(row.server_cpu_s / 3_600.0),
        ]);
    }
    table
}

fn frontier_table(points: &[FrontierPoint]) -> Table {
    let mut table = Table::new();
    table.set_header([
        "protection",
        "epsilon",
        "error",
        "noise alone",
        "central noise",
        "paper's epsilon",
    ]);
    for point in points {
        table.add_row([
            point.mechanism.replace('_', " "),
            up_short(point.epsilon),
            number(point.stderr),
            number(point.noise_stderr),
            number(point.central_error),
            up_short(point.paper_epsilon),
        ]);
    }
    table
}
