//! How devices and collectors reach the aggregators: the options that their commands share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use sotto_client::{HttpOptions, HttpTransport, RetryPolicy, Transport};

use crate::patience::Patience;
use crate::private_file::read_bytes;

/// Options of commands that talk to aggregators.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConnectionArgs {
    /// Trust the authorities in this PEM file instead of the public ones.
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub(crate) ca: Option<PathBuf>,
    /// Allow plain http to other machines. Others can then read tokens and replace keys.
    #[arg(long, help_heading = "Connection")]
    pub(crate) insecure_http: bool,
    /// How long the command waits, if it says so.
    #[arg(skip)]
    pub(crate) patience: Option<Patience>,
}

impl ConnectionArgs {
    /// A transport that keeps up to `connections` connections alive.
    pub(crate) fn transport(&self, connections: usize) -> Result<Arc<HttpTransport>> {
        let ca_certificates_pem = self.ca.as_deref().map(read_bytes).transpose()?;
        Ok(Arc::new(HttpTransport::new(HttpOptions {
            max_idle_connections: connections.max(1),
            // A busy aggregator answers late. A lost connection is still noticed.
            request_timeout: Duration::from_secs(120),
            insecure_http: self.insecure_http,
            ca_certificates_pem,
            crypto_provider: Some(Arc::new(rustls::crypto::aws_lc_rs::default_provider())),
            ..HttpOptions::default()
        })?))
    }

    /// The same, within the command's patience, if it has one.
    pub(crate) fn watched(&self, connections: usize) -> Result<Arc<dyn Transport>> {
        let transport = self.transport(connections)?;
        Ok(match &self.patience {
            Some(patience) => patience.watch(transport),
            None => transport,
        })
    }
}

/// Tries each exchange up to `attempts` times, with the default pauses.
pub(crate) fn retry(attempts: u32) -> RetryPolicy {
    let mut policy = RetryPolicy::default();
    policy.attempts = attempts.max(1);
    policy
}
