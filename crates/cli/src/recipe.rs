//! `sotto recipe`: writes, checks, publishes and explains recipes.

mod certify;
mod check;
mod coalitions;
pub(crate) mod describe;
mod diff;
pub(crate) mod examine;
pub(crate) mod example;
mod explain;
#[cfg(test)]
mod mechanisms;
mod new;
pub(crate) mod plan;
mod publish;
mod repeat;
mod schema;
mod series;
mod show;
mod tokens;
pub(crate) mod words;

#[cfg(test)]
pub(crate) use new::testing;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::output::{Outcome, Output};

/// Writes, checks, publishes and explains recipes.
#[derive(Debug, Args)]
pub(crate) struct RecipeCommandArgs {
    #[command(subcommand)]
    command: RecipeCommand,
}

#[derive(Debug, Subcommand)]
enum RecipeCommand {
    /// Write a recipe: asks questions on a terminal, takes options in scripts.
    New(Box<new::NewArgs>),
    /// Check a recipe as a device would, and show what it yields and costs.
    Check(check::CheckArgs),
    /// Show what each party, and each pair of parties, learns, and the epsilon that remains.
    Coalitions(coalitions::CoalitionsArgs),
    /// Get the keys for checking tokens from the issuers.
    Tokens(tokens::TokensArgs),
    /// Sign a recipe and put it into the log.
    Publish(publish::PublishArgs),
    /// Ask a question again: publish the next round of a header.
    Repeat(repeat::RepeatArgs),
    /// Show a recipe.
    Show(show::ShowArgs),
    /// Describe how two recipes differ, and which changes weaken privacy.
    Diff(diff::DiffArgs),
    /// Explain to the owner of a device what is sent, how often, and what it costs.
    Explain(explain::ExplainArgs),
    /// Certify how many devices a predicate selects, as the operators of leader and helper.
    Certify(certify::CertifyArgs),
    /// Print the JSON Schema of log entries.
    Schema(schema::SchemaArgs),
}

impl RecipeCommandArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        match self.command {
            RecipeCommand::New(args) => args.run(output),
            RecipeCommand::Check(args) => args.run(output),
            RecipeCommand::Coalitions(args) => args.run(output),
            RecipeCommand::Tokens(args) => args.run(output),
            RecipeCommand::Publish(args) => args.run(output),
            RecipeCommand::Repeat(args) => args.run(output),
            RecipeCommand::Show(args) => args.run(output),
            RecipeCommand::Diff(args) => args.run(output),
            RecipeCommand::Explain(args) => args.run(output),
            RecipeCommand::Certify(args) => args.run(output),
            RecipeCommand::Schema(args) => args.run(output),
        }
    }
}
