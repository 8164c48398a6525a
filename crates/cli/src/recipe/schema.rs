//! `sotto recipe schema`.

use anyhow::Result;
use clap::{Args, ValueEnum};
use sotto_wire::recipe::{KEY_SET_SCHEMA, POPULATION_RESULT_SCHEMA, RECEIPT_SCHEMA, RECIPE_SCHEMA};

use crate::output::{Outcome, Output};

#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    /// What it describes.
    #[arg(value_enum, default_value_t = Kind::Recipe)]
    kind: Kind,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// What devices are asked.
    Recipe,
    /// An operator's keys.
    KeySet,
    /// A certified population.
    Result,
    /// What an aggregator released.
    Receipt,
}

impl SchemaArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let schema = match self.kind {
            Kind::Recipe => RECIPE_SCHEMA,
            Kind::KeySet => KEY_SET_SCHEMA,
            Kind::Result => POPULATION_RESULT_SCHEMA,
            Kind::Receipt => RECEIPT_SCHEMA,
        };
        output.line(schema.trim_end())?;
        Ok(Outcome::Yes)
    }
}
