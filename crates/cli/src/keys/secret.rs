//! `sotto keys secret`: a value that two parties share.

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::output::{Outcome, Output};
use crate::random;

#[derive(Debug, Args)]
#[command(after_help = "For `verify_key_init` and the authentication tokens of a server's \
    configuration: a new one for each. Give it to the other party over a secure channel.")]
pub(super) struct SecretArgs {}

impl SecretArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let text = random::text::<32>();
        match output.json() {
            true => output.value(&json!({ "secret": *text }))?,
            false => output.line(text.as_str())?,
        }
        Ok(Outcome::Yes)
    }
}
