//! `sotto keys store`: the key of a store in PostgreSQL.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use zeroize::Zeroizing;

use crate::output::{Outcome, Output};
use crate::{private_file, random};

#[derive(Debug, Args)]
#[command(
    after_help = "List the file under `postgres.keys` in the configuration of every process \
    that shares the database. To replace a key, put the new file first; remove the old one once no \
    report from its time waits. Whoever has a copy of the database and the key can read what the \
    database keeps of reports: never store the two together."
)]
pub(super) struct StoreArgs {
    /// The file to write, readable only by its owner.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

impl StoreArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        private_file::write(&self.out, &store_key(), false)?;
        match output.json() {
            true => output.value(&json!({ "file": self.out }))?,
            false => output.remark(format!("wrote {} (secret)", self.out.display())),
        }
        Ok(Outcome::Yes)
    }
}

/// The text of a new key file.
pub(crate) fn store_key() -> Zeroizing<String> {
    Zeroizing::new(format!("{}\n", *random::text::<32>()))
}
