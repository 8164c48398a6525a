//! `sotto device log`: what the owner of a device may see.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use sotto_client::StateFile;
use sotto_dp::filter::{Budget, Filter};
use sotto_dp::number::{exact, up};
use sotto_protocol::Moment;
use sotto_protocol::device::{AuditLine, DeviceState};
use sotto_protocol::recipe::show_micro;

use super::state_key;
use crate::output::{Outcome, Output};
use crate::recipe::words::certainty;
use crate::time_text::show_moment;
use crate::vocabulary::{Epsilon, Time};

#[derive(Debug, Args)]
#[command(
    after_help = "A line says that a recipe was considered and paid for. Whether it was answered is \
    decided by a coin and never shown, and the device itself forgets an answer once it is \
    delivered. This protects you."
)]
pub(super) struct LogArgs {
    /// The device's state.
    #[arg(long, value_name = "FILE")]
    state: PathBuf,
}

impl LogArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        ensure!(self.state.exists(), "there is no state file {}", self.state.display());
        let key = state_key::open(&self.state)?;
        let state =
            StateFile::read(&self.state, &key).with_context(|| self.state.display().to_string())?;
        if output.json() {
            output.value(&History::of(&state))?;
            return Ok(Outcome::Yes);
        }
        if state.audit().is_empty() {
            output.line("No recipe has been considered yet.")?;
        }
        for line in state.audit() {
            let cost = line.epsilon_micro.map_or_else(
                || "no promise".to_owned(),
                |micro| format!("epsilon {}", show_micro(micro)),
            );
            let time = show_moment(Moment(line.at));
            output.prose(format!("{time}  {:<32} {cost}", line.name))?;
            output.entry("    ", &line.purpose)?;
            if let Some(reason) = &line.fallback {
                output.entry("    ", format!("fallback used: {reason}"))?;
            }
        }
        for line in totals(&state) {
            output.prose(line)?;
        }
        Ok(Outcome::Yes)
    }
}

/// What has been spent at a budget's delta, and the budget.
fn spent(filter: Option<&Filter>) -> Option<(f64, Budget)> {
    let budget = filter?.budget();
    Some((filter?.epsilon_spent(budget.delta).ok()?, budget))
}

/// What has been spent in the device's life.
fn lifetime(state: &DeviceState) -> Option<(f64, Budget)> {
    spent(state.lifetime()?.ok().as_ref())
}

/// How much is spent, for people.
fn totals(state: &DeviceState) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some((spent, budget)) = spent(state.ledger()) {
        let budget = exact(budget.epsilon);
        lines.push(String::new());
        lines.push(format!("Spent in this period: epsilon {} of {budget}", up(spent)));
    }
    if let Some((spent, cap)) = lifetime(state) {
        let (shown, limit) = (up(spent), exact(cap.epsilon));
        lines.push(format!("Spent in this device's life: epsilon {shown} of {limit}"));
        lines.push(String::new());
        lines.push(format!(
            "Suppose somebody considers two versions of your data equally likely (50 in 100 each). From \
             everything that this device has ever answered they can become {} of one \
             of them. This can fail with a chance of less than {}. A new period does not change this \
             total. When it reaches {limit}, the device answers nothing more.",
            certainty(spent),
            exact(cap.delta),
        ));
    }
    lines
}

/// What the device remembers.
#[derive(Serialize)]
struct History<'a> {
    considered: Vec<Considered<'a>>,
    epsilon_spent: Option<Epsilon>,
    epsilon_budget: Option<Epsilon>,
    lifetime_epsilon_spent: Option<Epsilon>,
    lifetime_epsilon_cap: Option<Epsilon>,
    lifetime_delta: Option<f64>,
    #[serde(flatten)]
    witnessed_time: Time,
}

/// A recipe that was considered.
#[derive(Serialize)]
struct Considered<'a> {
    #[serde(flatten)]
    at: Time,
    recipe_id: String,
    name: &'a str,
    purpose: &'a str,
    /// What was charged; without a bound if the recipe promises nothing.
    epsilon: Epsilon,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<&'a str>,
}

impl<'a> History<'a> {
    fn of(state: &'a DeviceState) -> Self {
        let (period, lifetime) = (spent(state.ledger()), lifetime(state));
        let considered = |line: &'a AuditLine| Considered {
            at: Time::new("at", line.at),
            recipe_id: line.recipe.to_string(),
            name: &line.name,
            purpose: &line.purpose,
            epsilon: line.epsilon_micro.map_or(Epsilon(f64::INFINITY), Epsilon::from_micro),
            fallback: line.fallback.as_deref(),
        };
        Self {
            considered: state.audit().iter().map(considered).collect(),
            epsilon_spent: period.map(|(spent, _)| Epsilon(spent)),
            epsilon_budget: period.map(|(_, budget)| Epsilon(budget.epsilon)),
            lifetime_epsilon_spent: lifetime.map(|(spent, _)| Epsilon(spent)),
            lifetime_epsilon_cap: lifetime.map(|(_, cap)| Epsilon(cap.epsilon)),
            lifetime_delta: lifetime.map(|(_, cap)| cap.delta),
            // Before any checkpoint there is none.
            witnessed_time: Time::new(
                "witnessed_time",
                Some(state.time()).filter(|time| *time > 0),
            ),
        }
    }
}
