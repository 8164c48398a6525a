//! `sotto result show`: a result that was kept, again, or in another format.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::file::OutArgs;
use super::{file, shown};
use crate::output::{Outcome, Output};

/// Shows a result that was kept.
#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The file, in JSON.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    out: OutArgs,
}

impl ShowArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        self.out.check()?;
        let result = self.out.prepared(file::read(&self.file)?);
        if output.json() {
            output.value(&result)?;
        } else {
            shown::print(output, &result)?;
            output.heading("Where it comes from")?;
            shown::origin(output, &result)?;
        }
        self.out.write(&result, output)?;
        Ok(Outcome::Yes)
    }
}
