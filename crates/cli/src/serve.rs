//! `sotto serve`: runs a server of one role until a signal stops it.

mod aggregator;
mod attester;
mod check;
mod config;
pub(crate) mod database;
mod gateway;
mod issuer;
mod key_files;
mod key_history;
mod keyring;
mod log;
mod notify;
#[cfg(test)]
mod reference;
mod relay;
mod status;
mod tasks;
mod watch;
mod witness;

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::Serialize;
use sotto_server::settings::template;
use sotto_server::{
    AttesterFile, BindError, GatewayFile, HelperFile, IssuerFile, LeaderFile, LogFile, RelayFile,
    Server, TaskRefused, WitnessFile,
};
use tracing::Level;

use self::config::{Bound, RoleFile, Start};
pub(crate) use self::tasks::served;
use crate::output::{Outcome, Output, WithHint, hinted};
use crate::private_file;

/// Runs a server.
#[derive(Debug, Args)]
#[command(
    after_help = "SIGTERM and SIGINT stop the server once the requests in flight are finished. A \
    second signal stops it at once; nothing that was acknowledged is lost.\n\nCertificates and keys \
    are read again when their files change, and at SIGHUP.\n\nEnvironment: SOTTO_LISTEN, \
    SOTTO_ADMIN_LISTEN and SOTTO_DATA_DIR override the configuration; SOTTO_LOG sets the log level \
    (error, warn, info, debug).\n\nA configuration to start from, and a check of it:\n  \
    sotto serve leader --print-config > leader.toml\n  \
    sotto serve leader --config leader.toml --check-config"
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
    /// Check the configuration and all files that it names, and exit. Nothing is bound or written,
    /// so the server may be running.
    #[arg(long, conflicts_with = "print_config")]
    check_config: bool,
    /// Ask the running server, over `admin_listen`, what it serves and why not the rest. Exit code 1
    /// if it is not ready.
    #[arg(long, conflicts_with_all = ["print_config", "check_config"])]
    status: bool,
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

/// What a server reports about itself once it has started.
#[derive(Debug, Serialize)]
struct Ready {
    role: &'static str,
    listen: SocketAddr,
    admin_listen: Option<SocketAddr>,
    pid: u32,
    /// How many tasks an aggregator serves.
    #[serde(rename = "task_count", skip_serializing_if = "Option::is_none")]
    tasks: Option<usize>,
}

impl ServeArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        match self.role {
            RoleName::Leader => self.run_as::<LeaderFile>(output),
            RoleName::Helper => self.run_as::<HelperFile>(output),
            RoleName::Log => self.run_as::<LogFile>(output),
            RoleName::Witness => self.run_as::<WitnessFile>(output),
            RoleName::Relay => self.run_as::<RelayFile>(output),
            RoleName::Gateway => self.run_as::<GatewayFile>(output),
            RoleName::Attester => self.run_as::<AttesterFile>(output),
            RoleName::Issuer => self.run_as::<IssuerFile>(output),
        }
    }

    fn run_as<T: RoleFile>(&self, output: &Output) -> Result<Outcome> {
        let Some(path) = self.config.as_deref().filter(|_| !self.print_config) else {
            output.line(template::<T>().trim_end())?;
            return Ok(Outcome::Yes);
        };
        if !self.status
            && !self.check_config
            && let Some(ready_file) = &self.ready_file
        {
            // A file from an earlier run must not announce addresses that are not bound yet.
            let _ = std::fs::remove_file(ready_file);
        }
        let file: T = config::read(path).hint(format!(
            "`sotto serve {} --print-config` prints every setting with its default",
            T::ROLE
        ))?;
        if self.status {
            let admin_listen = file.http().http.admin_listen;
            return status::run(T::ROLE, admin_listen, self.insecure_http, output);
        }
        crate::logging::start(if self.check_config { Level::WARN } else { Level::INFO });
        if file.is_secret() {
            private_file::warn_if_readable(path, "the configuration, and it holds secrets");
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let outcome = match self.check_config {
            true => runtime.block_on(check::run(file, path, self.insecure_http, output)),
            false => runtime.block_on(self.serve(file, output)),
        };
        runtime.shutdown_background();
        outcome
    }

    async fn serve<T: RoleFile>(&self, mut file: T, output: &Output) -> Result<Outcome> {
        // Done before anyone can know that the server is serving: a reader of the ready file may
        // send a signal at once.
        let signals = crate::signals::pair()?;
        let _does_not_kill = crate::signals::Hangups::new()?;
        // The state is taken before the files are read, so that a change in between is noticed.
        let tls = config::TlsFiles::of(file.http())?.map(|files| (files.state(), files));
        let start = Start {
            insecure_http: self.insecure_http,
            check_only: false,
            data_dir: Some(file.data_dir().clone()),
        };
        let (server, tasks) = file.bind(start).await?;
        if let Some((loaded, files)) = tls {
            files.follow(loaded, &server);
        }
        self.announce(T::ROLE, &server, tasks, output)?;
        notify::tell("READY=1");
        until_signalled(signals, server).await
    }

    /// Announces to people and programs where the server listens.
    fn announce(
        &self,
        role: &'static str,
        server: &Server,
        tasks: Option<usize>,
        output: &Output,
    ) -> Result<()> {
        let (listen, admin_listen) = (server.addr(), server.admin_addr());
        let ready = Ready { role, listen, admin_listen, pid: std::process::id(), tasks };
        if let Some(path) = &self.ready_file {
            private_file::write(path, &output.value_line(&ready)?, true)?;
        }
        if output.json() {
            return output.value(&ready);
        }
        let admin_listen = admin_listen.map(tracing::field::display);
        tracing::info!(%listen, admin_listen, tasks, "{role} is serving");
        Ok(())
    }
}

/// Runs until the first signal, then drains. The second signal drops everything.
async fn until_signalled(
    (first, second): (impl Future<Output = ()>, impl Future<Output = ()>),
    server: Server,
) -> Result<Outcome> {
    let stop = async move {
        first.await;
        notify::tell("STOPPING=1");
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

/// The server, or the error with a hint for common mistakes of operators.
fn bound(server: Result<Server, BindError>) -> Result<Bound> {
    let error = match server {
        Ok(server) => return Ok((server, None)),
        Err(error) => error,
    };
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
    Err(match hint {
        Some(hint) => hinted(error, hint),
        None => error.into(),
    })
}
