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

/// What to do about a failed connection, by a part of its message. It fits the cause better than
/// what the command itself can say.
const CAUSES: [(&str, &str); 5] = [
    (
        "UnknownIssuer",
        "the server's certificate is not from a public authority: if you trust it, give the \
         authority's certificate with `--ca FILE`",
    ),
    ("NotValidForName", "the server's certificate is for another name: is the URL right?"),
    ("peer certificate: Expired", "the server's certificate has expired: its operator renews it"),
    ("received corrupt message", "no TLS is spoken there: is it an http:// URL, or another port?"),
    (
        "plain http to another machine",
        "use https, or give `--insecure-http`: others can then read tokens and replace keys",
    ),
];

/// The hint for a failed connection, if the message is about one.
pub(crate) fn hint(message: &str) -> Option<&'static str> {
    CAUSES.iter().find(|(part, _)| message.contains(part)).map(|(_, hint)| *hint)
}

/// Tries each exchange up to `attempts` times, with the default pauses.
pub(crate) fn retry(attempts: u32) -> RetryPolicy {
    let mut policy = RetryPolicy::default();
    policy.attempts = attempts.max(1);
    policy
}
