//! `sotto keys signer`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use sotto_crypto::note::NoteKey;
use sotto_wire::KeyName;

use crate::output::{Outcome, Output};
use crate::{random, signer_file};

#[derive(Debug, Args)]
#[command(after_help = "The printed line is public: others pin it. The name is part of the key; \
    for a log, it is the origin. `sotto keys show FILE` prints it again.")]
pub(super) struct SignerArgs {
    /// The name that signatures carry, like analytics.example: no spaces and no plus.
    #[arg(long)]
    name: KeyName,
    /// The file to write, readable only by its owner.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The key is for a witness: print the line by which logs and devices name it.
    #[arg(long)]
    witness: bool,
    /// Replace an existing file. Nothing can be signed with the old key any more.
    #[arg(long)]
    force: bool,
}

impl SignerArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let key = NoteKey::generate(self.name, &mut random::system());
        signer_file::write(&self.out, &key, self.force)?;
        let (verifier, cosigner) = (key.verifier(), key.cosigner());
        if output.json() {
            output.value(&json!({
                "file": self.out,
                "name": key.name().as_str(),
                "verifier": verifier.to_string(),
                "cosigner": cosigner.to_string(),
            }))?;
        } else {
            output.line(if self.witness { cosigner } else { verifier })?;
            output
                .remark(format!("wrote {} (secret); above is its public half", self.out.display()));
        }
        Ok(Outcome::Yes)
    }
}
