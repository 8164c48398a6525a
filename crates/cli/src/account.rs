//! `sotto account`: what a release costs, and how much noise, what sampling rate or how many
//! reports a budget requires.
//!
//! One file per question. Each takes all parameters but one, checks them under the names of their
//! flags ([`flags`]), asks the crate `sotto-dp`, and returns a [`report::Report`], which prints the
//! answer. There is no mathematics here.

mod compose;
mod donation;
mod flags;
mod gaussian;
mod recipes;
mod report;
mod sample;
mod sampled_gaussian;
mod shuffle;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::output::{Outcome, Output};

/// Accounts for privacy.
#[derive(Debug, Args)]
#[command(
    after_help = "Leave out the parameter that you want to know. Every epsilon is an upper bound; if \
    a method also gives a lower bound, both ends are printed.\n\n\
    (epsilon, delta): whatever is concluded from the result is at most e^epsilon times as likely with a \
    given device as without it, plus delta. --adjacency, --count and --honest say for whom and against \
    whom. Sotto judges every recipe with the count seen and half of a batch honest.\n\n\
    Examples:\n  \
    sotto account gaussian --epsilon 1 --delta 1e-8  # the noise for epsilon 1\n  \
    sotto account sampled-gaussian --rate 0.02 --steps 2500 --sigma 5.1 \\\n    \
    --delta 1e-8\n  \
    sotto account shuffle --epsilon0 4 --n 10000 --delta 1e-10\n\n\
    docs/privacy-accounting.md has the theorems and what they assume, docs/json.md the keys of --json."
)]
pub(crate) struct AccountArgs {
    #[command(subcommand)]
    command: AccountCommand,
}

#[derive(Debug, Subcommand)]
enum AccountCommand {
    /// A sum with Gaussian noise.
    Gaussian(gaussian::GaussianArgs),
    /// Repeated sums with Gaussian noise, each over a secret random sample.
    SampledGaussian(sampled_gaussian::SampledGaussianArgs),
    /// An integer sum with discrete Gaussian noise.
    DiscreteGaussian(gaussian::DiscreteGaussianArgs),
    /// Randomized reports in random order.
    Shuffle(shuffle::ShuffleArgs),
    /// Anything that is (epsilon, delta) private, over a secret random sample.
    Sample(sample::SampleArgs),
    /// One release out of many slots, at a secret random time.
    Donation(donation::DonationArgs),
    /// Several releases together, from a file of events.
    Compose(compose::ComposeArgs),
    /// Several recipes in the budget of one device.
    Recipes(recipes::RecipesArgs),
}

impl AccountArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        let report = match self.command {
            AccountCommand::Gaussian(args) => args.report()?,
            AccountCommand::SampledGaussian(args) => args.report(output)?,
            AccountCommand::DiscreteGaussian(args) => args.report()?,
            AccountCommand::Shuffle(args) => args.report()?,
            AccountCommand::Sample(args) => args.report()?,
            AccountCommand::Donation(args) => args.report()?,
            AccountCommand::Recipes(args) => return args.run(output),
            AccountCommand::Compose(args) => match args.converted()? {
                None => args.report()?,
                Some(events) => {
                    // A file of events, as the option says, and nothing else.
                    output.line(serde_json::to_string_pretty(&events)?)?;
                    return Ok(Outcome::Yes);
                }
            },
        };
        report.print(output)?;
        Ok(Outcome::Yes)
    }
}
