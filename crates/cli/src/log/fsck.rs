//! `sotto log fsck`: checks everything that a log serves by deriving it again from the entries.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::json;
use sotto_store::fsck;

use crate::output::{Outcome, Output, WithHint};

#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 0: nothing is wrong; 1: something is wrong; 2: the check could not be \
    run."
)]
pub(super) struct FsckArgs {
    /// The folder with the log's files: `public` in the data folder of the log, or a mirror.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The policy that the checkpoints must satisfy (C2SP tlog-policy).
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
}

impl FsckArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let policy = super::read_policy(&self.policy)?;
        if !self.folder.is_dir() {
            return Err(anyhow!("{} is not a folder", self.folder.display()))
                .hint("give the folder that the log serves: `public` in its data folder");
        }
        let inner = self.folder.join("public");
        if !self.folder.join("checkpoint").exists() && inner.join("checkpoint").exists() {
            return Err(anyhow!("{} is a log's data folder", self.folder.display()))
                .hint(format!("its files are in {}", inner.display()));
        }
        let bar = output.bar("entries", 0);
        let found = fsck(&self.folder, &policy, &mut |done, size| {
            bar.set_length(size);
            bar.set_position(done);
        })?;
        bar.finish_and_clear();
        if output.json() {
            output.value(&json!({
                "size": found.size,
                "clean": found.is_clean(),
                "differences": found.differences,
                "more": found.more,
            }))?;
        } else {
            for difference in &found.differences {
                output.prose(difference)?;
            }
            if found.more > 0 {
                output.line(format!("and {} more", found.more))?;
            }
            let verdict = if found.is_clean() { "nothing is wrong" } else { "something is wrong" };
            output.line(format!("{} entries checked: {verdict}", found.size))?;
        }
        Ok(if found.is_clean() { Outcome::Yes } else { Outcome::No })
    }
}
