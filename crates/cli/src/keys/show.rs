//! `sotto keys show`: the public half of a key file, for others to pin.

use std::path::PathBuf;

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use serde_json::json;
use sotto_wire::KeySet;

use crate::output::{Outcome, Output, WithHint};
use crate::signer_file;

#[derive(Debug, Args)]
#[command(
    after_help = "Nothing secret is printed. A signer's line is name+hash+key, as policies, \
    trust files and configurations name it."
)]
pub(super) struct ShowArgs {
    /// A key file from `sotto keys signer` or `sotto keys new`.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print the line of a witness: the key of its cosignatures.
    #[arg(long)]
    witness: bool,
}

impl ShowArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let file = self.file.display();
        if let Ok(key) = signer_file::read(&self.file) {
            let (verifier, cosigner) = (key.verifier(), key.cosigner());
            match output.json() {
                true => output.value(&json!({
                    "name": key.name().as_str(),
                    "verifier": verifier.to_string(),
                    "cosigner": cosigner.to_string(),
                }))?,
                false => output.line(if self.witness { cosigner } else { verifier })?,
            }
            return Ok(Outcome::Yes);
        }
        ensure!(self.file.is_file(), "there is no file {file}");
        let key = super::read(&self.file)
            .map_err(|_| anyhow!("{file} is not a key file"))
            .hint("keys are made with `sotto keys signer` and `sotto keys new`")?;
        ensure!(!self.witness, "{file} is an HPKE key, but a witness has a signing key");
        let config = KeySet::config_text(key.config());
        match output.json() {
            true => {
                let id = key.config().id().value();
                output.value(&json!({ "key_id": id, "hpke_config": config }))
            }
            false => output.line(config),
        }?;
        Ok(Outcome::Yes)
    }
}
