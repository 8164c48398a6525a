//! `sotto task`: makes the files of a new task, and shows a task file.

mod new;
mod show;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::output::{Outcome, Output};

pub(crate) use new::{NewTask, new_task, same_server};
pub(crate) use show::{recipe_report_bytes, upload_bytes};

/// Makes and shows tasks.
#[derive(Debug, Args)]
pub(crate) struct TaskArgs {
    #[command(subcommand)]
    command: TaskCommand,
}

#[derive(Debug, Subcommand)]
enum TaskCommand {
    /// Make a task: one file for each of leader, helper, client and collector.
    New(new::NewArgs),
    /// Show a task file, without its secrets.
    Show(show::ShowArgs),
}

impl TaskArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        match self.command {
            TaskCommand::New(args) => args.run(output),
            TaskCommand::Show(args) => args.run(output),
        }
    }
}
