//! Several recipes in the budget of one device: what each costs, and what is left.
//!
//! The ledger is that of a device: charges add up by their divergences, not by their epsilons, and
//! what the budget does not cover is not answered and costs nothing.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use sotto_dp::filter::{Budget, Charge, Filter};
use sotto_dp::number::{down, up};
use sotto_protocol::recipe::Assessment;

use crate::log_source::LogArgs;
use crate::output::{Outcome, Output};
use crate::recipe::words::grouped;
use crate::recipe_file::{self, AudienceArgs};
use crate::trust_file;
use crate::vocabulary;

/// Further times are counted up to this.
const MOST_TIMES: u64 = 10_000;

#[derive(Debug, Args)]
#[command(
    after_help = "Recipes are answered in the given order, all in one period. A series of rounds costs once. \
    The ledger adds up divergences, so several recipes cost less than the sum of their epsilons.\n\n\
    Exit codes: 0 a device can answer all of them; 1 it cannot; 2 error."
)]
pub(super) struct RecipesArgs {
    /// Files (TOML, canonical JSON or signed entries), or ids or names of recipes in the log.
    #[arg(value_name = "RECIPE", required = true)]
    recipes: Vec<String>,
    /// The trust file of a device, which has its budgets.
    #[arg(long, value_name = "FILE")]
    trust: PathBuf,
    #[command(flatten)]
    audience: AudienceArgs,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    epsilon_budget: f64,
    delta: f64,
    lifetime_epsilon_cap: f64,
    lifetime_delta: f64,
    recipes: Vec<Line>,
}

/// One recipe, and the ledger after it.
#[derive(Serialize)]
struct Line {
    name: String,
    /// Whether a device can answer it; if not, why.
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// That of the recipe alone, at the delta of its claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    computed_epsilon: Option<f64>,
    /// What a new ledger with this recipe alone would say.
    #[serde(skip_serializing_if = "Option::is_none")]
    epsilon_alone: Option<f64>,
    #[serde(serialize_with = "vocabulary::epsilon")]
    epsilon_spent: f64,
    epsilon_left: f64,
    /// Of claims, which may use half of the budget's delta.
    delta_spent: f64,
    #[serde(serialize_with = "vocabulary::epsilon")]
    lifetime_epsilon_spent: f64,
    lifetime_epsilon_left: f64,
    /// How often it could be asked again after all recipes.
    #[serde(skip_serializing_if = "Option::is_none")]
    more_in_period: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    more_in_life: Option<u64>,
    #[serde(skip)]
    charge: Option<Charge>,
}

/// The ledger of a device: of a period, and of its life.
struct Ledger {
    period: Filter,
    life: Filter,
    series: BTreeSet<String>,
}

impl Ledger {
    fn new(period: Budget, life: Budget) -> Result<Self> {
        let (period, life) = (Filter::new(period, 0)?, Filter::new(life, 0)?);
        Ok(Self { period, life, series: BTreeSet::new() })
    }

    /// Charges both, or nothing.
    fn charge(&mut self, charge: &Charge) -> Result<(), String> {
        self.life
            .may_afford(0, charge)
            .map_err(|refused| format!("in a device's whole life {refused}"))?;
        self.period.charge(0, charge).map_err(|refused| refused.to_string())?;
        self.life.charge(0, charge).map_err(|refused| refused.to_string())
    }

    fn line(&self, name: String) -> Result<Line> {
        let read = |filter: &Filter| -> Result<(f64, f64)> {
            let budget = filter.budget();
            let spent = filter.epsilon_spent(budget.delta)?;
            Ok((spent, (budget.epsilon - spent).max(0.0)))
        };
        let (epsilon_spent, epsilon_left) = read(&self.period)?;
        let (lifetime_epsilon_spent, lifetime_epsilon_left) = read(&self.life)?;
        Ok(Line {
            name,
            ok: true,
            reason: None,
            computed_epsilon: None,
            epsilon_alone: None,
            epsilon_spent,
            epsilon_left,
            delta_spent: self.period.delta_spent(),
            lifetime_epsilon_spent,
            lifetime_epsilon_left,
            more_in_period: None,
            more_in_life: None,
            charge: None,
        })
    }
}

impl RecipesArgs {
    /// Whether a device can answer all.
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let trust = trust_file::read(&self.trust)?;
        let (period, life) = (trust.budget(), trust.lifetime());
        let mut ledger = Ledger::new(period, life)?;
        let mut lines = Vec::new();
        for recipe in &self.recipes {
            let loaded = recipe_file::find(recipe, &self.log, Some(&trust))?;
            let audience = self.audience.of(&loaded.recipe, &self.log)?;
            let name = loaded.recipe.name.clone();
            // The rounds of a series are paid with the first one.
            let series = loaded.recipe.series.as_ref().map(|_| match loaded.id_known() {
                true => loaded.recipe.series_id().to_string(),
                false => name.clone(),
            });
            let is_paid = series.is_some_and(|series| !ledger.series.insert(series));
            lines.push(match Assessment::certified(loaded.recipe, audience) {
                Err(silence) => {
                    Line { ok: false, reason: Some(silence.reason), ..ledger.line(name)? }
                }
                Ok(_) if is_paid => {
                    Line { reason: Some("paid with its series".to_owned()), ..ledger.line(name)? }
                }
                Ok(assessment) => charged(&mut ledger, name, &assessment)?,
            });
        }
        for line in &mut lines {
            let Some(charge) = &line.charge else { continue };
            line.more_in_period = Some(times(&ledger.period, charge));
            line.more_in_life = Some(times(&ledger.life, charge));
        }
        let ok = lines.iter().all(|line| line.ok);
        let report = Report {
            ok,
            epsilon_budget: period.epsilon,
            delta: period.delta,
            lifetime_epsilon_cap: life.epsilon,
            lifetime_delta: life.delta,
            recipes: lines,
        };
        match output.json() {
            true => output.value(&report)?,
            false => report.print(output)?,
        }
        Ok(if ok { Outcome::Yes } else { Outcome::No })
    }
}

fn charged(ledger: &mut Ledger, name: String, assessment: &Assessment) -> Result<Line> {
    let Some(cost) = assessment.cost() else {
        let reason =
            "it claims no privacy: only devices that allow it answer, and nothing is charged";
        return Ok(Line { reason: Some(reason.to_owned()), ..ledger.line(name)? });
    };
    let mut alone = Filter::new(ledger.period.budget(), 0)?;
    alone.add(&cost.charge);
    let epsilon_alone = alone.epsilon_spent(alone.budget().delta)?;
    let refused = ledger.charge(&cost.charge).err();
    Ok(Line {
        ok: refused.is_none(),
        reason: refused,
        computed_epsilon: Some(cost.judgement.epsilon),
        epsilon_alone: Some(epsilon_alone).filter(|epsilon| epsilon.is_finite()),
        charge: Some(cost.charge.clone()),
        ..ledger.line(name)?
    })
}

/// How often a filter could still pay this.
fn times(filter: &Filter, charge: &Charge) -> u64 {
    let mut filter = filter.clone();
    let paid = (0..MOST_TIMES).take_while(|_| filter.charge(0, charge).is_ok());
    paid.count() as u64
}

impl Report {
    fn print(&self, output: &Output) -> Result<()> {
        for line in &self.recipes {
            output.title(&format!("recipe {}", line.name))?;
            let row = |name: &str, text: &str| output.entry(format!("  {name:<15} "), text);
            if let Some(epsilon) = line.computed_epsilon {
                let alone = line.epsilon_alone.map_or("more than any budget".to_owned(), up);
                row("costs", &format!("epsilon {} (the ledger counts {alone})", up(epsilon)))?;
            }
            if let Some(reason) = &line.reason {
                row(if line.ok { "note" } else { "NOT ANSWERED" }, reason)?;
            }
            let period = of(line.epsilon_spent, line.epsilon_left, self.epsilon_budget);
            let deltas =
                format!("deltas of claims {} of {}", up(line.delta_spent), down(0.5 * self.delta));
            row("period so far", &format!("{period}; {deltas}"))?;
            row(
                "life so far",
                &of(
                    line.lifetime_epsilon_spent,
                    line.lifetime_epsilon_left,
                    self.lifetime_epsilon_cap,
                ),
            )?;
            if let (Some(period), Some(life)) = (line.more_in_period, line.more_in_life) {
                let words = format!("{} in this period, {} in a life", shown(period), shown(life));
                row("after all, again", &words)?;
            }
        }
        let last = self.recipes.last().context("no recipe was given")?;
        output.prose(format!(
            "\n{} Of the period's epsilon {} is left, of the life's {}.",
            match self.ok {
                true => "A device can answer all of them in one period.",
                false => "A device does not answer all of them.",
            },
            down(last.epsilon_left),
            down(last.lifetime_epsilon_left)
        ))
    }
}

fn of(spent: f64, left: f64, budget: f64) -> String {
    format!("epsilon {} of {}, {} left", up(spent), sotto_dp::number::exact(budget), down(left))
}

fn shown(times: u64) -> String {
    match times {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        MOST_TIMES => format!("{} times or more", grouped(times)),
        _ => format!("{} times", grouped(times)),
    }
}
