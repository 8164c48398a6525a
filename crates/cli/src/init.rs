//! `sotto init`: writes all that the operators of a deployment need to begin.
//!
//! Everything is made in memory and checked first. Then it is written into a new folder, so a
//! mistake leaves nothing behind.

mod compose;
mod configs;
mod files;
mod guides;
mod keys;
mod parties;
mod trust;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, Subcommand};
use serde_json::json;
use sotto_wire::KeyName;

use self::files::Files;
use self::keys::Keys;
use self::parties::{Parties, Party};
use crate::output::{Outcome, Output, WithHint};
use crate::private_file;

/// Writes configurations, keys and service files.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    #[command(subcommand)]
    command: InitCommand,
}

#[derive(Debug, Subcommand)]
enum InitCommand {
    /// Write everything for a leader, a helper and all that devices need around them.
    TwoOperators(Box<TwoOperatorsArgs>),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Leader and helper are two operators. Devices also demand that the relay, two attesters \
    and two issuers are run by others, so DIR gets a folder for each of seven operators. The helper's \
    operator also runs the log; three of the others run a witness each. README.md in a folder says what \
    to do with it; `run.sh` starts and stops a trial (--local).\n\n\
    Whoever runs this command sees all keys. That is right for a trial. Operators who must not trust \
    each other replace the keys in their folders by their own (`sotto keys`).\n\n\
    A trial on this machine:\n  sotto init two-operators trial --local"
)]
struct TwoOperatorsArgs {
    /// The folder to write. It must not exist yet, or be empty.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// For a trial on this machine: plain http on loopback, no waiting, devices that say who they
    /// are, and small crowds.
    #[arg(long)]
    local: bool,
    /// With --local, the first of 35 ports.
    #[arg(long, value_name = "PORT", default_value_t = 7000, requires = "local",
        value_parser = clap::value_parser!(u16).range(1024..=65_500))]
    port: u16,
    /// The end of the names of all parties, as in leader.example. They are the names of hosts, too.
    #[arg(long, value_name = "NAME", default_value = "example")]
    domain: String,
    /// The name of one party: leader, helper, relay, attester-a, attester-b, issuer-a, issuer-b, log
    /// or author; with keeper=NAME, an eighth operator runs the log. May be repeated.
    #[arg(long, value_name = "PARTY=NAME", value_parser = parse_name)]
    name: Vec<(Party, KeyName)>,
    /// Leader and helper keep everything in PostgreSQL; the compose file runs two processes of each
    /// behind one address. SERVER says how to reach the server, without `dbname`.
    #[arg(long, value_name = "SERVER", num_args = 0..=1, require_equals = true,
        default_missing_value = "host=/run/postgresql user=sotto")]
    postgres: Option<String>,
    /// The manufacturer that certifies devices.
    #[arg(long, value_name = "NAME", requires_all = ["device_roots", "device_usage"],
        conflicts_with_all = ["local", "insecure_attestation"])]
    manufacturer: Option<String>,
    /// Its root certificates, PEM.
    #[arg(long, value_name = "FILE", requires = "manufacturer")]
    device_roots: Option<PathBuf>,
    /// The extended key usage of its certificates of devices, as numbers with dots.
    #[arg(long, value_name = "OID", requires = "manufacturer")]
    device_usage: Option<String>,
    /// Devices say who they are, for tests: anybody can be any number of devices.
    #[arg(long)]
    insecure_attestation: bool,
}

fn parse_name(text: &str) -> Result<(Party, KeyName), String> {
    let (party, name) = text.split_once('=').ok_or("write it like leader=a.example")?;
    let party = <Party as clap::ValueEnum>::from_str(party, false)?;
    Ok((party, name.parse().map_err(|error| format!("{name:?}: {error}"))?))
}

/// What an attester accepts from devices.
enum Attestation {
    Insecure,
    X509 { manufacturer: String, roots: String, usage: String },
}

/// What decides the contents of the files.
struct Plan {
    parties: Parties,
    keys: Keys,
    attestation: Attestation,
    /// How to reach the PostgreSQL server.
    postgres: Option<String>,
}

impl InitArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        match self.command {
            InitCommand::TwoOperators(args) => args.run(output),
        }
    }
}

impl TwoOperatorsArgs {
    fn run(self, output: &Output) -> Result<Outcome> {
        check_empty(&self.folder)?;
        let attestation = self.attestation()?;
        let parties = Parties::new(&self.domain, &self.name, self.local.then_some(self.port))?;
        let keys = Keys::generate(&parties);
        let plan = Plan { parties, keys, attestation, postgres: self.postgres };
        let mut files = Files::default();
        trust::add(&plan, &mut files)?;
        configs::add(&plan, &mut files);
        plan.keys.add(&plan, &mut files);
        compose::add(&plan, &mut files);
        guides::add(&plan, &mut files);
        files.write(&self.folder)?;
        let next = guides::next(&plan, &self.folder);
        if output.json() {
            output.value(&json!({
                "folder": self.folder,
                "operators": plan.parties.operators().iter()
                    .map(|party| plan.parties.name(*party).as_str()).collect::<Vec<_>>(),
                "written": files.listed(),
            }))?;
        } else {
            for operator in plan.parties.operators() {
                let operator = plan.parties.name(operator);
                let duties = plan.parties.duties(operator);
                output.entry(format!("  {operator}  "), duties.join(", "))?;
            }
            let count = files.len();
            output.remark(format!("wrote {count} files into {}", self.folder.display()));
            output.next(&next);
        }
        Ok(Outcome::Yes)
    }

    fn attestation(&self) -> Result<Attestation> {
        if self.local || self.insecure_attestation {
            return Ok(Attestation::Insecure);
        }
        let given = (&self.manufacturer, &self.device_roots, &self.device_usage);
        let (Some(manufacturer), Some(roots), Some(usage)) = given else {
            return Err(anyhow!("attesters have no way to identify devices")).hint(
                "give --manufacturer, --device-roots and --device-usage; for a trial --local, or \
                 --insecure-attestation",
            );
        };
        let text = String::from_utf8(private_file::read_bytes(roots)?);
        let roots = text.ok().filter(|text| text.contains("BEGIN CERTIFICATE"));
        let roots = roots.context("--device-roots has no certificate in PEM")?;
        Ok(Attestation::X509 { manufacturer: manufacturer.clone(), roots, usage: usage.clone() })
    }
}

fn check_empty(folder: &Path) -> Result<()> {
    let Ok(mut entries) = std::fs::read_dir(folder) else {
        ensure!(folder.symlink_metadata().is_err(), "{} is not a folder", folder.display());
        return Ok(());
    };
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(anyhow!("{} is not empty", folder.display()))
            .hint("choose another folder: nothing is overwritten"),
    }
}
