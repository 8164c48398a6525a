//! `sotto db`: the database of leaders and helpers that share one.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::{Args, Subcommand};
use serde_json::json;
use sotto_server::{PostgresTable, settings};

use crate::output::{Outcome, Output, WithHint};
use crate::private_file;
use crate::serve::database;

/// Manages the PostgreSQL database of leader or helper.
#[derive(Debug, Args)]
pub(crate) struct DbArgs {
    #[command(subcommand)]
    command: DbCommand,
}

#[derive(Debug, Subcommand)]
enum DbCommand {
    /// Make the tables, or bring them to the version of this program.
    Migrate(MigrateArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "A program works with its own version of the tables and with the one before. So \
    replace all processes first, one after the other, and then migrate, while they run."
)]
struct MigrateArgs {
    /// The configuration of the leader or the helper, with a table `postgres`.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only say what would be done.
    #[arg(long)]
    plan: bool,
    /// Allow an unencrypted connection to another machine.
    #[arg(long)]
    insecure_http: bool,
}

impl DbArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        match self.command {
            DbCommand::Migrate(args) => args.run(output),
        }
    }
}

impl MigrateArgs {
    fn run(self, output: &Output) -> Result<Outcome> {
        let table = self.table()?;
        let url = database::url(&table, self.insecure_http)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let plan = match self.plan {
            true => runtime.block_on(sotto_store::migration_plan(&url)),
            false => runtime.block_on(sotto_store::migrate(&url)),
        }?;
        if output.json() {
            output.value(&json!({
                "from_version": plan.from,
                "to_version": plan.to,
                "migrations": plan.steps,
                "migrated": !self.plan,
            }))?;
        } else if plan.steps.is_empty() {
            output
                .prose(format!("The tables have version {}: there is nothing to do.", plan.to))?;
        } else {
            let (would, done) = if self.plan { ("would go", "") } else { ("went", "Done: ") };
            output.prose(format!(
                "{done}the tables {would} from version {} to {}:",
                plan.from, plan.to
            ))?;
            for (number, step) in (plan.from + 1..).zip(&plan.steps) {
                output.prose(format!("- version {number} {step}"))?;
            }
        }
        Ok(Outcome::Yes)
    }

    /// The table in a configuration, whatever else it has.
    fn table(&self) -> Result<PostgresTable> {
        let path = self.config.as_path();
        let text = private_file::read(path)?;
        let mut file: toml::Table =
            text.parse().with_context(|| format!("{} is not TOML", path.display()))?;
        let Some(table) = file.remove("postgres") else {
            return Err(anyhow!("{} has no table [postgres]", path.display()))
                .hint("without it everything is in `data_dir`, and migrates by itself");
        };
        let mut table: PostgresTable =
            table.try_into().with_context(|| path.display().to_string())?;
        let folder = path.parent().unwrap_or(std::path::Path::new(""));
        settings::Settings::each_path(&mut table, &mut |path| *path = folder.join(&*path));
        Ok(table)
    }
}
