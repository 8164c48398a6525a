//! `sotto serve`: runs one of the roles until it is told to end.

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
    LeaderConfig, LeaderFile, LogFile, RelayFile, TaskRefused, WitnessFile,
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
    after_help = "SIGTERM and SIGINT end it: requests in flight are finished first; a second signal \
    ends it at once, which loses nothing that was acknowledged.\n\nEnvironment: SOTTO_LISTEN, \
    SOTTO_ADMIN_LISTEN and SOTTO_DATA_DIR override the configuration; SOTTO_LOG sets the log level \
    (error, warn, info, debug).\n\nA configuration to start from: sotto serve ROLE --print-config"
)]
pub(crate) struct ServeArgs {
    /// Which server.
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
    /// Print a configuration with every setting at its default, and end.
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
    /// Passes devices' sealed requests on, without who they are from.
    Relay,
    /// Opens what comes through relays, for servers without a gateway of their own.
    Gateway,
    /// Knows devices, and gets each of them one token per recipe.
    Attester,
    /// Signs tokens, blindly, and endorses the keys that recipes hold.
    Issuer,
}

/// A configuration that was read.
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
}

/// What a started server says about itself.
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
            // A file from an earlier run must not tell of addresses that are not there yet.
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
        // Before anybody can know that it serves: whoever reads the ready file may signal at once.
        let signals = crate::signals::pair()?;
        match plan {
            Plan::Aggregator(role, settings) => {
                self.serve_aggregator(role, *settings, signals, output).await
            }
            Plan::Log(settings) => {
                let log = settings.bind(self.insecure_http).await?;
                self.announce(output, log.addr(), log.admin_addr(), None)?;
                until_signalled(signals, |stop| log.run(stop)).await
            }
            Plan::Witness(settings) => {
                let witness = settings.bind(self.insecure_http).await?;
                self.announce(output, witness.addr(), witness.admin_addr(), None)?;
                until_signalled(signals, |stop| witness.run(stop)).await
            }
            Plan::Relay(settings) => {
                let relay = settings.bind(self.insecure_http).await?;
                self.announce(output, relay.addr(), relay.admin_addr(), None)?;
                until_signalled(signals, |stop| relay.run(stop)).await
            }
            Plan::Gateway(settings) => {
                let gateway = settings.bind(self.insecure_http).await?;
                self.announce(output, gateway.addr(), gateway.admin_addr(), None)?;
                until_signalled(signals, |stop| gateway.run(stop)).await
            }
            Plan::Attester(settings) => {
                let attester = settings.bind(self.insecure_http).await?;
                self.announce(output, attester.addr(), attester.admin_addr(), None)?;
                until_signalled(signals, |stop| attester.run(stop)).await
            }
            Plan::Issuer(settings) => {
                let issuer = settings.bind(self.insecure_http).await?;
                self.announce(output, issuer.addr(), issuer.admin_addr(), None)?;
                until_signalled(signals, |stop| issuer.run(stop)).await
            }
        }
    }

    async fn serve_aggregator(
        &self,
        role: Role,
        settings: Settings,
        signals: Signals<
            impl Future<Output = ()> + Send + 'static,
            impl Future<Output = ()> + Send + 'static,
        >,
        output: &Output,
    ) -> Result<Outcome> {
        let data_dir = settings.data_dir();
        let store = open_store(&data_dir)?;
        let Loaded { server, aggregation, peer_certificates } =
            settings.load(self.insecure_http)?;
        let tasks = server.tasks.len();
        if tasks == 0 && server.taskprov.is_none() && server.recipes.is_none() {
            tracing::warn!("no task is configured: list task files under `tasks`");
        }
        match role {
            Role::Leader => {
                let config =
                    LeaderConfig { server, aggregation, helper_certificates: peer_certificates };
                let leader = Leader::bind(config, Arc::new(store)).await.or_else(explain)?;
                self.announce(output, leader.addr(), leader.admin_addr(), Some(tasks))?;
                until_signalled(signals, |stop| leader.run(stop)).await
            }
            _ => {
                let helper = Helper::bind(HelperConfig { server }, Arc::new(store))
                    .await
                    .or_else(explain)?;
                self.announce(output, helper.addr(), helper.admin_addr(), Some(tasks))?;
                until_signalled(signals, |stop| helper.run(stop)).await
            }
        }
    }

    /// Tells people and programs where the server listens.
    fn announce(
        &self,
        output: &Output,
        listen: SocketAddr,
        admin_listen: Option<SocketAddr>,
        tasks: Option<usize>,
    ) -> Result<()> {
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

fn open_store(data_dir: &Path) -> Result<SqliteStore> {
    private_file::make_folder(data_dir)?;
    SqliteStore::open(data_dir, SqliteOptions::default())
        .with_context(|| format!("cannot open the store in {}", data_dir.display()))
        .hint("is another server running on this folder, or does it belong to another user?")
}

/// The first signal, and the second.
type Signals<A, B> = (A, B);

/// Runs until a signal, then drains; a second signal drops everything.
async fn until_signalled<F, E>(
    (first, second): Signals<
        impl Future<Output = ()> + Send + 'static,
        impl Future<Output = ()> + Send + 'static,
    >,
    run: impl FnOnce(std::pin::Pin<Box<dyn Future<Output = ()> + Send>>) -> F,
) -> Result<Outcome>
where
    F: Future<Output = std::result::Result<(), E>>,
    E: std::error::Error + Send + Sync + 'static,
{
    let stop = Box::pin(async move {
        first.await;
        tracing::info!("ending: requests in flight are finished first; signal again to end now");
    });
    tokio::select! {
        ended = run(stop) => {
            ended?;
            Ok(Outcome::Yes)
        }
        () = second => Ok(Outcome::No),
    }
}

/// Adds what to do to the mistakes that operators make.
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
        BindError::ForgetServed(_) => Some("take it out of `tasks` or out of `forget_tasks`"),
        BindError::MissingKeys(_) => Some("list the old key files under `hpke_keys` again"),
        _ => None,
    };
    match hint {
        Some(hint) => Err(anyhow!(error)).hint(hint),
        None => Err(anyhow!(error)),
    }
}
