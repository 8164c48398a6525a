//! `sotto recipe repeat`: the next round of a header, published like any recipe.

use anyhow::Result;
use clap::Args;

use super::publish::PublishArgs;
use crate::output::{Outcome, Output};

#[derive(Debug, Args)]
#[command(
    after_help = "FILE is a header (`sotto recipe new --rounds`) that is in the log. The command reads from the log which rounds \
    there are, and publishes the one after them. Only the newest round is open, so publish the next one when the time \
    of the last one is over. If rounds have a length (`--round-length`), it refuses to do so before, and leaves out \
    rounds whose time is over. The claim of the header is about all rounds together, and devices pay for it once.\n\n\
    Exit codes: 0 published; 1 not published, because a device would refuse it; 2 error."
)]
pub(super) struct RepeatArgs {
    #[command(flatten)]
    header: PublishArgs,
}

impl RepeatArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        self.header.run_next_round(output)
    }
}
