//! What the author of a series needs to run its rounds: keys, the collector's token, the log.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use sotto_client::{AuthToken, Collector, HttpTransport, RetryPolicy};
use sotto_crypto::note::NoteKey;
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::Task;
use sotto_protocol::trust::Trust;
use sotto_wire::{BatchMode, Recipe};

use crate::log_source::{LogArgs, LogSource};
use crate::output::WithHint;
use crate::{keys, private_file, recipe_file, signer_file, trust_file};

/// The author's files.
#[derive(Debug, Args)]
pub(crate) struct AuthorArgs {
    /// The author's key file (`sotto keys signer`).
    #[arg(long, value_name = "FILE", conflicts_with = "story")]
    signer: Option<PathBuf>,
    /// The collector's HPKE key file.
    #[arg(long, value_name = "FILE", conflicts_with = "story")]
    collector_key: Option<PathBuf>,
    /// A file with the token that the leader expects from the collector.
    #[arg(long, value_name = "FILE", conflicts_with = "story")]
    token_file: Option<PathBuf>,
    /// The trust file, to verify the log.
    #[arg(long, value_name = "FILE", conflicts_with = "story")]
    trust: Option<PathBuf>,
}

/// The author of a series whose header is in the log.
pub(crate) struct Author {
    pub(crate) header: Recipe,
    pub(crate) trust: Option<Trust>,
    pub(crate) log: LogSource,
    pub(crate) signer: NoteKey,
    key: HpkeKeypair,
    token: String,
    transport: Arc<HttpTransport>,
}

impl AuthorArgs {
    /// Reads the files, and the header from a file or the log.
    pub(crate) fn open(&self, header: &str, log: &LogArgs) -> Result<Author> {
        let trust = self.trust.as_deref().map(trust_file::read).transpose()?;
        let source = log.required(trust.as_ref())?;
        let header = recipe_file::find(header, log, trust.as_ref())?.recipe;
        ensure!(
            header.is_header(),
            "the recipe is not the header of a series: it has no [series], or is a round"
        );
        if header.aggregation.batch_mode != BatchMode::LeaderSelected {
            return Err(anyhow!("the series is collected by time, so a round would take days"))
                .hint("write `batch_mode = \"leader_selected\"` under [aggregation], and publish a new header");
        }
        let signer = signer_file::read(needed(&self.signer, "--signer")?)?;
        ensure!(
            signer_file::public(&signer) == header.author,
            "the signer is not the author of the series"
        );
        let key = keys::read(needed(&self.collector_key, "--collector-key")?)?;
        if *key.config() != header.parties.collector_config()? {
            return Err(anyhow!("the series is for another collector key"))
                .hint("give the key whose public half is the recipe's collector_hpke_config");
        }
        let token = private_file::read(needed(&self.token_file, "--token-file")?)
            .context("the collector's token")?;
        let token = token.trim().to_owned();
        let transport = log.connection.transport(1)?;
        Ok(Author { header, trust, log: source, signer, key, token, transport })
    }
}

impl Author {
    /// The collector of a task.
    pub(crate) fn collector(&self, task: Task) -> Result<Collector> {
        let token = AuthToken::Bearer(Secret::new(self.token.clone()));
        let key = keys::duplicate(&self.key)?;
        let collector = Collector::new(task, key, token, self.transport.clone());
        Ok(collector.with_retry(RetryPolicy::default()))
    }
}

/// A file that the rounds of real devices need.
pub(crate) fn needed<'a>(path: &'a Option<PathBuf>, name: &str) -> Result<&'a PathBuf> {
    path.as_ref().ok_or_else(|| anyhow!("the rounds of real devices need {name}"))
}
