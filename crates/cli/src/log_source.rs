//! Finding a log, reading its files, and submitting an entry to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use sotto_client::{HttpLog, HttpRequest, HttpResponse, Method, Transport};
use sotto_crypto::{merkle, note};
use sotto_protocol::Moment;
use sotto_protocol::log::{Fetch, Reader};
use sotto_protocol::trust::Trust;
use sotto_store::FolderFetch;
use sotto_wire::limits::MAX_TLOG_PROOF_LEN;
use sotto_wire::{Checkpoint, Entry, EntryId, TlogPolicy, TlogProof};
use zeroize::Zeroizing;

use crate::connection::ConnectionArgs;
use crate::output::{Output, WithHint};
use crate::problem_words;

/// The number of entries that are read at a time.
const STEP: u64 = 1_024;

/// The number of attempts to submit an entry while the witnesses do not answer.
const ATTEMPTS: u32 = 8;

/// The longest pause between two attempts, whatever the log asks for.
const LONGEST_PAUSE_S: u64 = 30;

/// What a log says that will never publish anything again.
const STOPPED: &str = "has stopped for good";

/// Options of commands that read a log.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LogArgs {
    /// The log: its URL, or a folder with its files.
    #[arg(long = "log", value_name = "URL|DIR")]
    pub(crate) log: Option<String>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

impl LogArgs {
    /// The log given by option, or else the one whose URL is in the trust file's policy.
    pub(crate) fn source(&self, trust: Option<&Trust>) -> Result<Option<LogSource>> {
        let of_policy = || trust?.policy().logs().iter().find_map(|log| log.url.clone());
        match self.log.clone().or_else(of_policy) {
            Some(location) => LogSource::open(&location, &self.connection).map(Some),
            None => Ok(None),
        }
    }

    /// Like [`Self::source`], for commands that need a log.
    pub(crate) fn required(&self, trust: Option<&Trust>) -> Result<LogSource> {
        let source = self.source(trust)?;
        source.ok_or_else(|| anyhow!("--log is missing")).hint("give the log's URL")
    }
}

/// A log that can be read, and written to if it has a URL.
#[derive(Clone)]
pub(crate) enum LogSource {
    Http { url: String, transport: Arc<dyn Transport> },
    Folder(PathBuf),
}

/// The state of a log at one checkpoint.
pub(crate) struct Snapshot {
    tree: Checkpoint,
    fetch: Box<dyn Fetch>,
}

impl LogSource {
    /// The log at a URL or in a folder.
    pub(crate) fn open(location: &str, connection: &ConnectionArgs) -> Result<Self> {
        if location.starts_with("http://") || location.starts_with("https://") {
            return Ok(Self::Http {
                url: location.trim_end_matches('/').to_owned(),
                transport: connection.watched(4)?,
            });
        }
        let folder = Path::new(location);
        if !folder.is_dir() {
            return Err(anyhow!("--log {location}: no such folder, and not a URL"))
                .hint("give the log's address like https://log.example, or a folder of its files");
        }
        Ok(Self::Folder(folder.to_owned()))
    }

    /// The log's files.
    pub(crate) fn fetch(&self) -> Box<dyn Fetch + Send> {
        match self {
            Self::Http { url, transport } => Box::new(HttpLog::new(url, Arc::clone(transport))),
            Self::Folder(folder) => Box::new(FolderFetch::new(folder)),
        }
    }

    /// The log at its newest checkpoint. With a policy, the checkpoint must satisfy it. Without
    /// one, nobody vouches for the checkpoint that the log shows us. `None`: the log has published
    /// nothing yet.
    pub(crate) fn newest(&self, policy: Option<&TlogPolicy>) -> Result<Option<Snapshot>> {
        let mut fetch = self.fetch();
        let newest = Reader::new(&mut *fetch).checkpoint().context("cannot read the log")?;
        let Some(newest) = newest else { return Ok(None) };
        let tree = match policy {
            Some(policy) => {
                note::verify_checkpoint(&newest, policy)
                    .context("the log's checkpoint does not satisfy the trust policy")?
                    .checkpoint
            }
            None => Checkpoint::parse(newest.text()).context("the log's checkpoint")?,
        };
        Ok(Some(Snapshot { tree, fetch }))
    }

    /// Like [`Self::newest`], but an empty log is an error.
    pub(crate) fn snapshot(&self, policy: Option<&TlogPolicy>) -> Result<Snapshot> {
        let newest = self.newest(policy)?;
        newest
            .ok_or_else(|| anyhow!("the log does not exist or is empty"))
            .hint("it has no file `checkpoint`")
    }

    /// Submits an entry and waits until it is published with its cosignatures. Checks that the
    /// proof is for this entry and, with a policy, that it satisfies the policy.
    pub(crate) fn submit(
        &self,
        entry: &Entry,
        policy: Option<&TlogPolicy>,
        output: &Output,
    ) -> Result<TlogProof> {
        let Self::Http { url, transport } = self else {
            return Err(anyhow!("a folder with a log's files is read-only"))
                .hint("give the log's URL with --log");
        };
        let bytes = entry.to_bytes();
        let spinner = output.spinner("waiting for the log and its witnesses");
        let answer = post(url, transport.as_ref(), &bytes);
        spinner.finish_and_clear();
        let proof = TlogProof::parse(&answer?).context("the log's answer is not a proof")?;
        let leaf = merkle::leaf_hash(&bytes);
        let tree = Checkpoint::parse(proof.checkpoint.text())?;
        merkle::verify_inclusion(&leaf, proof.index, tree.size, &proof.hashes, &tree.root)
            .context("the log's proof is not for this entry")?;
        if let Some(policy) = policy {
            note::verify_proof(&leaf, &proof, policy)
                .context("the log's proof does not satisfy the trust policy")?;
        }
        Ok(proof)
    }
}

impl Snapshot {
    /// The checkpoint.
    pub(crate) fn tree(&self) -> &Checkpoint {
        &self.tree
    }

    /// Since when each of these entries has been public at the latest, as the witnesses of the
    /// policy prove it; `None` if they do not.
    pub(crate) fn public_since(
        &mut self,
        indexes: &[u64],
        policy: &TlogPolicy,
    ) -> Vec<Option<Moment>> {
        let mut reader = Reader::new(&mut *self.fetch);
        let mut time = |index| {
            let first = reader.first_checkpoint(index).ok()?;
            let verified = note::verify_checkpoint(&first, policy).ok()?;
            Some(Moment(verified.quorum?.proven))
        };
        indexes.iter().map(|index| time(*index)).collect()
    }

    /// The entry with this id.
    pub(crate) fn by_id(&mut self, id: &EntryId) -> Result<(u64, Entry)> {
        let mut reader = Reader::new(&mut *self.fetch);
        let missing = || anyhow!("the log has no entry {id}");
        let index = reader.find(id)?.ok_or_else(missing)?;
        let entry = Entry::parse(&reader.entry(index, &self.tree)?)?;
        if entry.id() != *id {
            bail!("the log returned a different entry than {id}");
        }
        Ok((index, entry))
    }

    /// All entries that we can parse, with their indexes.
    pub(crate) fn entries(&mut self) -> Result<Vec<(u64, Entry)>> {
        let mut reader = Reader::new(&mut *self.fetch);
        let (mut found, mut from) = (Vec::new(), 0);
        while from < self.tree.size {
            let to = self.tree.size.min(from.saturating_add(STEP));
            let entries = reader.entries(from..to, &self.tree)?;
            found.extend(
                (from..)
                    .zip(entries)
                    .filter_map(|(i, bytes)| Some((i, Entry::parse(&bytes).ok()?))),
            );
            from = to;
        }
        Ok(found)
    }
}

/// Submits the entry repeatedly until the log has published it.
fn post(url: &str, transport: &dyn Transport, entry: &[u8]) -> Result<Vec<u8>> {
    let mut last = String::new();
    for attempt in 1..=ATTEMPTS {
        let request = HttpRequest {
            method: Method::Post,
            url: format!("{url}/add"),
            headers: vec![("content-type", Zeroizing::new("text/plain".to_owned()))],
            body: entry,
            response_limit: MAX_TLOG_PROOF_LEN,
        };
        let response = transport.send(&request).with_context(|| format!("no answer from {url}"))?;
        match response.status {
            200 => return Ok(response.body),
            503 => {
                last = problem_words::of(&response);
                if last.contains(STOPPED) {
                    return Err(anyhow!("the log takes no entries any more: {last}")).hint(
                        "trying again does not help: ask its operator which log takes its place",
                    );
                }
                let asked = response.header("retry-after").and_then(|value| value.parse().ok());
                let pause = asked.unwrap_or(u64::from(attempt)).clamp(1, LONGEST_PAUSE_S);
                if attempt < ATTEMPTS {
                    std::thread::sleep(Duration::from_secs(pause));
                }
            }
            _ => return Err(refusal(&response)),
        }
    }
    Err(anyhow!("the log could not publish the entry yet: {last}")).hint(
        "run the same command again later: an entry that is already in the log keeps its index",
    )
}

fn refusal(response: &HttpResponse) -> anyhow::Error {
    let error = anyhow!(
        "the log refuses the entry (status {}): {}",
        response.status,
        problem_words::of(response)
    );
    let hint = match response.status {
        403 => "ask the log's operator to list your key",
        404 => "is this the URL of a log?",
        409 => "choose another name for the recipe, or a higher sequence number for the key set",
        _ => return error,
    };
    Err::<(), _>(error).hint(hint).err().unwrap_or_else(|| anyhow!("the log refuses the entry"))
}
