//! `sotto schema`: what `--json` prints, as a JSON Schema.

use anyhow::Result;
use clap::Args;

use crate::output::{Outcome, Output};

/// A definition for each command, and one for errors.
const OUTPUT_SCHEMA: &str = include_str!("../schema/output-v1.schema.json");

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {}

impl SchemaArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        output.line(OUTPUT_SCHEMA.trim_end())?;
        Ok(Outcome::Yes)
    }
}

#[cfg(test)]
mod tests;
