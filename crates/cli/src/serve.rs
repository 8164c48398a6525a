//! `sotto serve`: runs a server of one role until a signal stops it.

mod aggregator;
mod attester;
mod config;
mod gateway;
mod issuer;
mod key_files;
mod key_history;
mod keyring;
mod log;
#[cfg(test)]
mod reference;
mod relay;
mod tasks;
mod witness;

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use serde::Serialize;
use sotto_server::settings::template;
use sotto_server::{
    AttesterFile, BindError, GatewayFile, Helper, HelperConfig, HelperFile, IssuerFile, Leader,
    LeaderConfig, LeaderFile, LogFile, RelayFile, Server, TaskRefused, WitnessFile,
};
use sotto_store::{SqliteOptions, SqliteStore};
use sotto_wire::Role;

use self::aggregator::{Loaded, Settings};
use self::attester::AttesterSettings;
use self::gateway::GatewaySettings;
use self::issuer::IssuerSettings;
use self::log::LogSettings;
use self::relay::RelaySettings;
pub(crate) use self::tasks::served;
use self::witness::WitnessSettings;
use crate::output::{Outcome, Output, WithHint};
use crate::private_file;

/// Runs a server.
#[derive(Debug, Args)]
#[command(
    after_help = "SIGTERM and SIGINT stop the server once the requests in flight are finished. A \
    second signal stops it at once; nothing that was acknowledged is lost.\n\nEnvironment: SOTTO_LISTEN, \
    SOTTO_ADMIN_LISTEN and SOTTO_DATA_DIR override the configuration; SOTTO_LOG sets the log level \
    (error, warn, info, debug).\n\nA configuration to start from: sotto serve ROLE --print-config"
)]
pub(crate) struct ServeArgs {
    /// The server to run.
    #[arg(value_enum)]
    role: RoleName,
    /// The configuration, TOML.
    #[arg(long, value_name = "FILE", required_unless_present = "print_config")]
    config: Option<PathBuf>,
    /// Allow plain http to and from other machines. Others can then read tokens.
    #[arg(long)]
    insecure_http: bool,
    /// Once serving, write the bound addresses to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// Print a configuration with every setting at its default, and exit.
    #[arg(long)]
    print_config: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RoleName {
    /// Takes uploads, drives the aggregation, answers the collector.
    Leader,
    /// Answers the leader.
    Helper,
    /// Publishes recipes and keys, witnessed, as plain files.
    Log,
    /// Cosigns logs that only ever grow.
    Witness,
    /// Forwards devices' sealed requests without their addresses.
    Relay,
    /// Opens requests from relays, for servers that have no gateway.
    Gateway,
    /// Identifies devices, and gets each of them one pair of tokens per recipe.
    Attester,
    /// Blindly signs tokens, and endorses the token keys in recipes.
    Issuer,
}

/// A configuration, as read from its file.
enum Plan {
    Aggregator(Role, Box<Settings>),
    Log(Box<LogSettings>),
    Witness(Box<WitnessSettings>),
    Relay(Box<RelaySettings>),
    Gateway(Box<GatewaySettings>),
    Attester(Box<AttesterSettings>),
    Issuer(Box<IssuerSettings>),
}

impl Plan {
    /// Whether the file holds secrets.
    fn is_secret(&self) -> bool {
        match self {
            Self::Aggregator(_, settings) => settings.is_secret(),
            Self::Attester(_) | Self::Issuer(_) => true,
            Self::Log(_) | Self::Witness(_) | Self::Relay(_) | Self::Gateway(_) => false,
        }
    }

    /// Binds the server. Also returns the number of tasks that an aggregator was configured with.
    async fn bind(self, insecure_http: bool) -> Result<(Server, Option<usize>)> {
        let server = match self {
            Self::Aggregator(role, settings) => {
                let (server, tasks) = bind_aggregator(role, *settings, insecure_http).await?;
                return Ok((server, Some(tasks)));
            }
            Self::Log(settings) => settings.bind(insecure_http).await,
            Self::Witness(settings) => settings.bind(insecure_http).await,
            Self::Relay(settings) => settings.bind(insecure_http).await,
            Self::Gateway(settings) => settings.bind(insecure_http).await,
            Self::Attester(settings) => settings.bind(insecure_http).await,
            Self::Issuer(settings) => settings.bind(insecure_http).await,
        };
        Ok((server?, None))
    }
}

/// What a server reports about itself once it has started.
#[derive(Debug, Serialize)]
struct Ready {
    role: &'static str,
    listen: SocketAddr,
    admin_listen: Option<SocketAddr>,
    pid: u32,
    /// The tasks of an aggregator.
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<usize>,
}

impl RoleName {
    fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Helper => "helper",
            Self::Log => "log",
            Self::Witness => "witness",
            Self::Relay => "relay",
            Self::Gateway => "gateway",
            Self::Attester => "attester",
            Self::Issuer => "issuer",
        }
    }

    /// The configuration that `--print-config` prints.
    fn template(self) -> String {
        match self {
            Self::Leader => template::<LeaderFile>(),
            Self::Helper => template::<HelperFile>(),
            Self::Log => template::<LogFile>(),
            Self::Witness => template::<WitnessFile>(),
            Self::Relay => template::<RelayFile>(),
            Self::Gateway => template::<GatewayFile>(),
            Self::Attester => template::<AttesterFile>(),
            Self::Issuer => template::<IssuerFile>(),
        }
    }

    fn read(self, path: &Path) -> Result<Plan> {
        let aggregator = |role| Ok(Plan::Aggregator(role, Box::new(Settings::read(path, role)?)));
        match self {
            Self::Leader => aggregator(Role::Leader),
            Self::Helper => aggregator(Role::Helper),
            Self::Log => Ok(Plan::Log(Box::new(LogSettings::read(path)?))),
            Self::Witness => Ok(Plan::Witness(Box::new(WitnessSettings::read(path)?))),
            Self::Relay => Ok(Plan::Relay(Box::new(RelaySettings::read(path)?))),
            Self::Gateway => Ok(Plan::Gateway(Box::new(GatewaySettings::read(path)?))),
            Self::Attester => Ok(Plan::Attester(Box::new(AttesterSettings::read(path)?))),
            Self::Issuer => Ok(Plan::Issuer(Box::new(IssuerSettings::read(path)?))),
        }
    }
}

impl ServeArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        let Some(path) = self.config.as_deref().filter(|_| !self.print_config) else {
            output.line(self.role.template().trim_end())?;
            return Ok(Outcome::Yes);
        };
        if let Some(ready_file) = &self.ready_file {
            // A file from an earlier run must not announce addresses that are not bound yet.
            let _ = std::fs::remove_file(ready_file);
        }
        let plan = self.role.read(path).hint(format!(
            "`sotto serve {} --print-config` prints every setting with its default",
            self.role.name()
        ))?;
        crate::logging::start();
        if plan.is_secret() && private_file::is_open_to_others(path) {
            tracing::warn!(
                file = %path.display(),
                "others can read the configuration, and it holds secrets: chmod 600"
            );
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let outcome = runtime.block_on(self.serve(plan, output));
        runtime.shutdown_background();
        outcome
    }

    async fn serve(&self, plan: Plan, output: &Output) -> Result<Outcome> {
        // Done before anyone can know that the server is serving: a reader of the ready file may
        // send a signal at once.
        let signals = crate::signals::pair()?;
        let (server, tasks) = plan.bind(self.insecure_http).await?;
        self.announce(output, &server, tasks)?;
        until_signalled(signals, server).await
    }

    /// Announces to people and programs where the server listens.
    fn announce(&self, output: &Output, server: &Server, tasks: Option<usize>) -> Result<()> {
        let (listen, admin_listen) = (server.addr(), server.admin_addr());
        let role = self.role.name();
        let ready = Ready { role, listen, admin_listen, pid: std::process::id(), tasks };
        if let Some(path) = &self.ready_file {
            private_file::write(path, &serde_json::to_string(&ready)?, true)?;
        }
        if output.json() {
            return output.value(&ready);
        }
        let admin_listen = admin_listen.map(tracing::field::display);
        tracing::info!(%listen, admin_listen, tasks, "{role} is serving");
        Ok(())
    }
}

async fn bind_aggregator(
    role: Role,
    settings: Settings,
    insecure_http: bool,
) -> Result<(Server, usize)> {
    let store = open_store(&settings.data_dir())?;
    let Loaded { server, aggregation, peer_certificates } = settings.load(insecure_http)?;
    let tasks = server.tasks.len();
    if tasks == 0 && server.taskprov.is_none() && server.recipes.is_none() {
        tracing::warn!("no task is configured: list task files under `tasks`");
    }
    let bound = match role {
        Role::Leader => {
            let config =
                LeaderConfig { server, aggregation, helper_certificates: peer_certificates };
            Leader::bind(config, Arc::new(store)).await
        }
        _ => Helper::bind(HelperConfig { server }, Arc::new(store)).await,
    };
    Ok((bound.or_else(explain)?, tasks))
}

fn open_store(data_dir: &Path) -> Result<SqliteStore> {
    private_file::make_folder(data_dir)?;
    SqliteStore::open(data_dir, SqliteOptions::default())
        .with_context(|| format!("cannot open the store in {}", data_dir.display()))
        .hint("is another server running on this folder, or does it belong to another user?")
}

/// Runs until the first signal, then drains. The second signal drops everything.
async fn until_signalled(
    (first, second): (impl Future<Output = ()>, impl Future<Output = ()>),
    server: Server,
) -> Result<Outcome> {
    let stop = async move {
        first.await;
        tracing::info!("stopping: requests in flight are finished first; signal again to stop now");
    };
    tokio::select! {
        ended = server.run(stop) => {
            ended?;
            Ok(Outcome::Yes)
        }
        () = second => Ok(Outcome::No),
    }
}

/// Adds hints to common mistakes of operators.
fn explain<T>(error: BindError) -> Result<T> {
    let hint = match &error {
        BindError::PlainHttp { .. } => Some("configure [tls], or start with --insecure-http"),
        BindError::Task(TaskRefused::Plain(_)) => {
            Some("set `insecure_plain_tasks = true` in the configuration if that is what you want")
        }
        BindError::Task(TaskRefused::HelperUrl { .. }) => {
            Some("use https, or start with --insecure-http")
        }
        BindError::Listen { .. } => {
            Some("is something else listening there? change `listen` or `admin_listen`")
        }
        BindError::ForgetServed(_) => Some("remove it from `tasks` or from `forget_tasks`"),
        BindError::MissingKeys(_) => Some("list the old key files under `hpke_keys` again"),
        _ => None,
    };
    match hint {
        Some(hint) => Err(anyhow!(error)).hint(hint),
        None => Err(anyhow!(error)),
    }
}
