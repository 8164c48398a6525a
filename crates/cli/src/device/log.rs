//! `sotto device log`: what the owner of a device may see.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use sotto_client::StateFile;
use sotto_protocol::Moment;
use sotto_protocol::device::{AuditLine, DeviceState};
use sotto_protocol::recipe::show_micro;

use super::state_key;
use crate::output::{Outcome, Output};
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
        if let Some((spent, budget)) = spent(&state) {
            output.line(format!("\nSpent in this period: epsilon {spent:.4} of {budget}"))?;
        }
        Ok(Outcome::Yes)
    }
}

/// How much of the period's budget is spent.
fn spent(state: &DeviceState) -> Option<(f64, f64)> {
    let ledger = state.ledger()?;
    let budget = ledger.budget();
    Some((ledger.epsilon_spent(budget.delta).ok()?, budget.epsilon))
}

/// What the device remembers.
#[derive(Serialize)]
struct History<'a> {
    considered: Vec<Considered<'a>>,
    epsilon_spent: Option<Epsilon>,
    epsilon_budget: Option<Epsilon>,
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
        let spent = spent(state);
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
            epsilon_spent: spent.map(|(spent, _)| Epsilon(spent)),
            epsilon_budget: spent.map(|(_, budget)| Epsilon(budget)),
            // Before any checkpoint there is none.
            witnessed_time: Time::new(
                "witnessed_time",
                Some(state.time()).filter(|time| *time > 0),
            ),
        }
    }
}
