//! `sotto recipe diff`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::describe::{Change, Effect, changes};
use crate::log_source::LogArgs;
use crate::output::{Outcome, Output};
use crate::{recipe_file, trust_file};

#[derive(Debug, Args)]
#[command(
    after_help = "Each change is judged on its own; `recipe check` shows what all of them cost together. Exit \
    codes: 0 the same, or nothing weaker; 1 something is weaker."
)]
pub(super) struct DiffArgs {
    /// The old recipe: a file, or an id or name in the log.
    #[arg(value_name = "OLD")]
    old: String,
    /// The new recipe.
    #[arg(value_name = "NEW")]
    new: String,
    /// The trust file of a device: the log is checked against it.
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    #[command(flatten)]
    log: LogArgs,
}

impl DiffArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let trust = self.trust.as_deref().map(trust_file::read).transpose()?;
        let load = |recipe: &str| recipe_file::find(recipe, &self.log, trust.as_ref());
        let (old, new) = (load(&self.old)?, load(&self.new)?);
        let mut changes = changes(&old.recipe, &new.recipe);
        if !old.author_known || !new.author_known {
            // A draft without an author says nothing about who will sign it.
            changes.retain(|change| change.field != "author");
        }
        if !old.parties_known || !new.parties_known {
            // Nor does a draft without parties say who they will be.
            changes.retain(|change| !change.field.starts_with("parties"));
        }
        if !old.token_keys_known || !new.token_keys_known {
            let keys = ["parties.tokens.leader", "parties.tokens.helper"];
            changes.retain(|change| !keys.contains(&change.field));
        }
        let weaker = changes.iter().any(|change| change.effect == Effect::Weaker);
        if output.json() {
            output.value(
                &json!({ "same": changes.is_empty(), "weaker": weaker, "changes": changes }),
            )?;
        } else {
            print(&changes, output)?;
        }
        Ok(if weaker { Outcome::No } else { Outcome::Yes })
    }
}

fn print(changes: &[Change], output: &Output) -> Result<()> {
    if changes.is_empty() {
        return output.line("no difference");
    }
    for change in changes {
        let text = change.to_string();
        match change.effect {
            Effect::Weaker => output.title(&text)?,
            _ => output.prose(text)?,
        }
    }
    Ok(())
}
