//! `sotto device`: one real device, which decides by itself what to answer.

mod attestation;
mod attributes;
mod log;
mod run;
mod state_key;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::output::{Outcome, Output};

/// Runs a device.
#[derive(Debug, Args)]
pub(crate) struct DeviceArgs {
    #[command(subcommand)]
    command: DeviceCommand,
}

#[derive(Debug, Subcommand)]
enum DeviceCommand {
    /// Read the log, check recipes, and answer those that pass and that the budget allows.
    Run(Box<run::RunArgs>),
    /// Show which recipes were considered, and how much is spent in this period and in the device's life.
    Log(log::LogArgs),
}

impl DeviceArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        match self.command {
            DeviceCommand::Run(args) => args.run(output),
            DeviceCommand::Log(args) => args.run(output),
        }
    }
}
