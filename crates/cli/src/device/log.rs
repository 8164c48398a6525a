//! `sotto device log`: what the owner of a device may see.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::json;
use sotto_client::StateFile;
use sotto_protocol::Moment;
use sotto_protocol::device::DeviceState;
use sotto_protocol::recipe::show_micro;

use super::state_key;
use crate::output::{Outcome, Output};
use crate::time_text::show_moment;

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
            output.value(&value(&state))?;
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
            output.line(format!("{}  {:<32} {cost}", show_moment(Moment(line.at)), line.name))?;
            output.line(format!("    {}", line.purpose))?;
            if let Some(reason) = &line.fallback {
                output.line(format!("    fallback used: {reason}"))?;
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

fn value(state: &DeviceState) -> serde_json::Value {
    let spent = spent(state);
    json!({
        "considered": state.audit(),
        "epsilon_spent": spent.map(|(spent, _)| spent),
        "epsilon_budget": spent.map(|(_, budget)| budget),
        "witnessed_time": state.time(),
    })
}
