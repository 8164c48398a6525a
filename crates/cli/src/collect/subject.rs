//! What to collect: the task in a file, or the task of a recipe.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::Task;
use sotto_protocol::recipe::derive_task;
use sotto_wire::{EntryId, Recipe};

use crate::log_source::LogArgs;
use crate::output::WithHint;
use crate::task_file::{CollectorPart, TaskFile};
use crate::{keys, private_file, recipe_file, trust_file};

/// How the task is given.
#[derive(Debug, Args)]
pub(super) struct SubjectArgs {
    /// The collector's task file.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "recipe",
        required_unless_present = "recipe"
    )]
    task: Option<PathBuf>,
    /// A recipe: a file, or its id or name in the log. The result is then an estimate with
    /// intervals.
    #[arg(long, value_name = "RECIPE", requires = "collector_key", requires = "token_file")]
    recipe: Option<String>,
    /// With --recipe: the collector's HPKE key file, whose public half is in the recipe.
    #[arg(long, value_name = "FILE")]
    collector_key: Option<PathBuf>,
    /// With --recipe: a file with the token that the leader expects from the collector.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// With --recipe: the trust file, to verify the log.
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    #[command(flatten)]
    pub(super) log: LogArgs,
}

/// What to collect, and with which credentials.
pub(super) struct Subject {
    pub(super) task: Task,
    pub(super) key: HpkeKeypair,
    pub(super) token: Secret<String>,
    pub(super) recipe: Option<Recipe>,
    /// The recipe's index in the log, if it came from there.
    pub(super) index: Option<u64>,
}

impl SubjectArgs {
    pub(super) fn load(&self) -> Result<Subject> {
        if let Some(path) = &self.task {
            let CollectorPart { task, token, key } = TaskFile::read_collector(path)?;
            return Ok(Subject { task, key, token, recipe: None, index: None });
        }
        let trust = self.trust.as_deref().map(trust_file::read).transpose()?;
        let name = self.recipe.as_deref().unwrap_or_default();
        // An id determines the recipe. With a name, the log decides which recipe it is, and the
        // token is sent where that recipe says.
        if trust.is_none() && !Path::new(name).is_file() && name.parse::<EntryId>().is_err() {
            return Err(anyhow!("a recipe found by its name needs a log that can be verified"))
                .hint("give --trust, or the recipe's id or file");
        }
        let recipe = recipe_file::find(name, &self.log, trust.as_ref())?;
        ensure!(
            recipe.id_known(),
            "the recipe has no author or no token keys yet, so it has no id and no task"
        );
        let (recipe, index) = (recipe.recipe, recipe.index);
        if recipe.is_header() {
            return Err(anyhow!("{name} is the header of a series, which nobody answers"))
                .hint("give the id of a round: `sotto log list`");
        }
        let task = derive_task(&recipe).map_err(|reason| anyhow!("{name}: {reason}"))?;
        let key = keys::read(self.collector_key.as_deref().unwrap_or(Path::new("")))?;
        if *key.config() != recipe.parties.collector_config()? {
            return Err(anyhow!("the recipe is for another collector key"))
                .hint("give the key whose public half is the recipe's collector_hpke_config");
        }
        let token = private_file::read(self.token_file.as_deref().unwrap_or(Path::new("")))
            .context("the collector's token")?;
        let token = Secret::new(token.trim().to_owned());
        Ok(Subject { task, key, token, recipe: Some(recipe), index })
    }
}
