//! `sotto interop`: the interoperability test API, through which other implementations drive ours.
//!
//! One party per process: client, aggregator (leader or helper, by task) or collector. Every call
//! is a POST of JSON below `/internal/test/` and is answered with status 200 and a `status` field,
//! even if the DAP operation failed. For tests only: whoever reaches the port controls the party.

mod aggregator;
mod api;
mod client;
mod collector;
mod forward;

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result};
use axum::Router;
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::output::{Outcome, Output, WithHint};

/// Serves the interoperability test API.
#[derive(Debug, Args)]
#[command(
    after_help = "For tests only: whoever reaches the port controls the party, and plain http is \
    used throughout.\n\nThe task's task_info is \"task-info\", and tokens are sent in \
    DAP-Auth-Token, as in other implementations."
)]
pub(crate) struct InteropArgs {
    /// The party to run.
    #[arg(value_enum)]
    party: InteropParty,
    /// The port; 0 lets the system choose. The address is printed once the party is serving.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// The address to listen on; 0.0.0.0 accepts other machines.
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum InteropParty {
    /// Uploads reports.
    Client,
    /// Leader or helper, depending on the task.
    Aggregator,
    /// Collects batches.
    Collector,
}

impl InteropArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        crate::logging::start(tracing::Level::INFO);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let outcome = runtime.block_on(self.serve(output));
        runtime.shutdown_background();
        outcome
    }

    async fn serve(&self, output: &Output) -> Result<Outcome> {
        let address = SocketAddr::new(self.host, self.port);
        let listener = tokio::net::TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}"))
            .hint("choose another --port, or 0")?;
        let router = self.router().await?;
        let address = listener.local_addr()?;
        if output.json() {
            output.value(&json!({ "listen": address, "port": address.port() }))?;
        } else {
            output.line(format!("listening at http://{address}/"))?;
        }
        let (first, _second) = crate::signals::pair()?;
        // Not drained: a test that stops us has seen what it needs.
        tokio::select! {
            served = async { axum::serve(listener, router).await } => served?,
            () = first => {}
        }
        Ok(Outcome::Yes)
    }

    async fn router(&self) -> Result<Router> {
        Ok(match self.party {
            InteropParty::Client => client::router()?,
            InteropParty::Aggregator => aggregator::router().await?,
            InteropParty::Collector => collector::router()?,
        })
    }
}
