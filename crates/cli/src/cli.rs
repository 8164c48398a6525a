//! The command line: one table of all commands. Help, completions and man pages come from it.

use anyhow::Result;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::output::{self, Outcome, Output};
use crate::{
    account::AccountArgs,
    collect::CollectArgs,
    completions::{CompletionsArgs, ManArgs},
    db::DbArgs,
    demo::DemoArgs,
    device::DeviceArgs,
    discover::DiscoverArgs,
    figures::FiguresArgs,
    fleet::FleetArgs,
    init::InitArgs,
    interop::InteropArgs,
    keys::KeysArgs,
    log::LogCommandArgs,
    recipe::{RecipeCommandArgs, plan::PlanArgs},
    result::ResultArgs,
    schema::SchemaArgs,
    serve::ServeArgs,
    task::TaskArgs,
    train::TrainArgs,
    upload::UploadArgs,
    vectors::VectorsArgs,
};

/// Private statistics over many devices: sums and histograms that no single server can take apart.
#[derive(Debug, Parser)]
#[command(name = "sotto", version, max_term_width = 100)]
#[command(after_help = "Start here: sotto demo")]
pub(crate) struct Cli {
    /// Print one JSON value to stdout, even for errors.
    #[arg(long, global = true, display_order = 1000)]
    pub(crate) json: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run everything in one process: devices, leader, helper, collector, and a result.
    Demo(DemoArgs),
    /// Run a leader, helper, log, witness, relay, gateway, attester or issuer.
    Serve(ServeArgs),
    /// Make and show tasks.
    Task(TaskArgs),
    /// Plan a question: what error to expect at which epsilon, and what it costs.
    Plan(Box<PlanArgs>),
    /// Write, check and publish recipes: what devices are asked.
    Recipe(RecipeCommandArgs),
    /// Audit a public log: verify a recipe, watch for news, search, check the files.
    Log(LogCommandArgs),
    /// Run a device, which decides by itself what to answer.
    Device(DeviceArgs),
    /// Ask a whole fleet many times in memory, and compare the errors with the prediction.
    Fleet(FleetArgs),
    /// Train a model with devices that show nobody anything.
    Train(TrainArgs),
    /// Find words that nobody lists beforehand, with devices that show nobody anything.
    Discover(DiscoverArgs),
    /// Write configurations, keys and service files for a whole deployment.
    Init(InitArgs),
    /// Make keys, and publish them.
    Keys(KeysArgs),
    /// Manage the PostgreSQL database of leader or helper.
    Db(DbArgs),
    /// Upload measurements to a task, as devices do.
    Upload(UploadArgs),
    /// Collect the result of a batch.
    Collect(CollectArgs),
    /// Show and compare results that were kept.
    Result(ResultArgs),
    /// Compute what a release costs in privacy, or what a privacy budget requires.
    Account(AccountArgs),
    /// Draw the figures of the paper again, with certified numbers.
    Figures(FiguresArgs),
    /// Serve the interoperability test API, to be driven by other implementations.
    #[command(hide = true)]
    Interop(InteropArgs),
    /// Check VDAF and token test vectors.
    #[command(hide = true)]
    Vectors(VectorsArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// Print the JSON Schema of what commands print with --json.
    #[command(hide = true)]
    Schema(SchemaArgs),
    /// Write man pages.
    #[command(hide = true)]
    Man(ManArgs),
}

impl Cli {
    /// The arguments of this process, and the names of the command, like `log list`.
    pub(crate) fn read() -> Result<(Self, String), clap::Error> {
        let mut matches = Self::command().term_width(output::width()).try_get_matches()?;
        let command = names(&matches).join(" ");
        let cli = Self::from_arg_matches_mut(&mut matches);
        Ok((cli.map_err(|error| error.format(&mut Self::command()))?, command))
    }

    /// Runs the command.
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        match self.command {
            Command::Demo(args) => args.run(output),
            Command::Serve(args) => args.run(output),
            Command::Task(args) => args.run(output),
            Command::Plan(args) => args.run(output),
            Command::Recipe(args) => args.run(output),
            Command::Log(args) => args.run(output),
            Command::Device(args) => args.run(output),
            Command::Fleet(args) => args.run(output),
            Command::Train(args) => args.run(output),
            Command::Discover(args) => args.run(output),
            Command::Init(args) => args.run(output),
            Command::Keys(args) => args.run(output),
            Command::Db(args) => args.run(output),
            Command::Upload(args) => args.run(output),
            Command::Collect(args) => args.run(output),
            Command::Result(args) => args.run(output),
            Command::Account(args) => args.run(output),
            Command::Figures(args) => args.run(output),
            Command::Interop(args) => args.run(output),
            Command::Vectors(args) => args.run(output),
            Command::Completions(args) => args.run(output),
            Command::Schema(args) => args.run(output),
            Command::Man(args) => args.run(output),
        }
    }
}

fn names(matches: &ArgMatches) -> Vec<&str> {
    match matches.subcommand() {
        None => Vec::new(),
        Some((name, inner)) => [vec![name], names(inner)].concat(),
    }
}

#[cfg(test)]
mod tests {
    use sotto_crypto::note::NoteKey;

    use super::*;
    use crate::output::columns;
    use crate::pages::{self, Block, command_lines, help_examples, pages};
    use crate::random;

    #[test]
    fn the_table_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The paths of all commands, also of those that are not on the first screen.
    pub(crate) fn paths(command: &clap::Command, path: &[String], all: &mut Vec<Vec<String>>) {
        all.push(path.to_vec());
        for subcommand in command.get_subcommands().filter(|one| one.get_name() != "help") {
            let path = [path, &[subcommand.get_name().to_owned()]].concat();
            paths(subcommand, &path, all);
        }
    }

    fn help(path: &[String]) -> String {
        let arguments = [&["sotto".to_owned()], path, &["--help".to_owned()]].concat();
        let command = Cli::command().term_width(80);
        command.try_get_matches_from(arguments).unwrap_err().to_string()
    }

    /// Every command of the table, so that a new one cannot be forgotten.
    #[test]
    fn help_fits_80_columns() {
        let mut all = Vec::new();
        paths(&Cli::command(), &[], &mut all);
        assert!(all.len() > 40, "{all:?}");
        for path in all {
            let help = help(&path);
            let long: Vec<&str> = help.lines().filter(|line| columns(line) > 80).collect();
            assert!(long.is_empty(), "{path:?}: {long:#?}");
            let name = [&["help".to_owned()], &path[..]].concat().join("_");
            insta::assert_snapshot!(name, help);
        }
    }

    /// No example in help or documents has an unknown option, or lacks an argument. The walkthrough,
    /// which is full of loops, is run as a whole instead.
    #[test]
    fn every_example_is_a_command_line() {
        let mut all = Vec::new();
        paths(&Cli::command(), &[], &mut all);
        let mut blocks: Vec<Block> =
            all.iter().flat_map(|path| help_examples(&path.join(" "), &help(path))).collect();
        let pages = pages().into_iter().filter(|page| !page.ends_with("walkthrough.md"));
        blocks.extend(pages.flat_map(|page| pages::blocks(&page)));
        let (id, key) = (
            "0".repeat(64),
            NoteKey::generate("a.example".parse().unwrap(), &mut random::system()),
        );
        let key = key.verifier().to_string();
        let keys = ["LEADER", "HELPER", "RECEIPTS"].map(|name| (name, key.as_str()));
        let values = [&[("ID", id.as_str())], &keys[..]].concat();
        let mut count = 0;
        for block in &blocks {
            for line in command_lines(&block.text, &values) {
                let parsed = Cli::command().try_get_matches_from(&line);
                assert!(parsed.is_ok(), "{}: {line:?}: {}", block.place, parsed.unwrap_err());
                count += 1;
            }
        }
        assert!(count > 60, "{count}");
    }
}
