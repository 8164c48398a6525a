//! Tasks as the binary makes them, and what devices and the collector do with them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sotto_client::{AuthToken, Collector, HttpOptions, HttpTransport, RetryPolicy};
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::{Moment, Task};
use sotto_wire::{Decode, HpkeConfig, TaskConfiguration, Time};

use crate::process::run_json;

/// The folder with the four files of a task.
#[derive(Clone, Debug)]
pub struct TaskFiles {
    folder: PathBuf,
    task: Task,
}

impl TaskFiles {
    /// Makes a task with `sotto task new`, between a leader and a helper at these ports.
    pub fn make(
        folder: &Path,
        leader_url: &str,
        helper_url: &str,
        options: &[&str],
    ) -> Result<Self> {
        let folder = folder.to_path_buf();
        let out = folder.to_str().context("the folder's name is not UTF-8")?;
        let mut arguments = vec!["--json", "task", "new", "--out", out];
        arguments.extend(["--leader", leader_url, "--helper", helper_url]);
        arguments.extend(options);
        run_json(arguments)?;
        Self::open(&folder)
    }

    /// The task in an existing folder.
    pub fn open(folder: &Path) -> Result<Self> {
        let file = table(&folder.join("client.toml"))?;
        let id = text(&file, "task_id")?.parse().map_err(|error| anyhow!("task_id: {error}"))?;
        let encoded = file.get("task").and_then(|task| task.as_table()).context("[task]")?;
        let encoded = URL_SAFE_NO_PAD.decode(text(encoded, "encoded")?)?;
        let task = Task::new(id, TaskConfiguration::from_bytes(&encoded)?)?;
        Ok(Self { folder: folder.to_path_buf(), task })
    }

    /// The file of `leader`, `helper`, `client` or `collector`.
    pub fn path(&self, party: &str) -> PathBuf {
        self.folder.join(format!("{party}.toml"))
    }

    /// What all parties know.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// A timestamp that is well in the past, so that clock differences do not matter.
    pub fn past_time(&self) -> Result<Time> {
        Ok(Time::new(self.task.time(now()?).as_units() - 1))
    }

    /// The secret that leader and helper share.
    pub fn verify_key(&self) -> Result<[u8; 32]> {
        let file = table(&self.path("leader"))?;
        let aggregator = file.get("aggregator").and_then(|part| part.as_table());
        array(text(aggregator.context("[aggregator]")?, "vdaf_verify_key")?)
    }

    /// The collector, in this process.
    pub fn collector(&self) -> Result<Collector> {
        let file = table(&self.path("collector"))?;
        let part = file.get("collector").and_then(|part| part.as_table()).context("[collector]")?;
        let key = keypair(part)?;
        let token = AuthToken::Bearer(Secret::new(text(part, "authentication_token")?.to_owned()));
        let options = HttpOptions {
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            ..HttpOptions::default()
        };
        let transport = Arc::new(HttpTransport::new(options)?);
        let collector = Collector::new(self.task.clone(), key, token, transport);
        // No retries here: tests look at each failure.
        Ok(collector.with_retry(RetryPolicy::never()))
    }
}

/// An HPKE key as `sotto keys new` writes it.
pub fn read_key(path: &Path) -> Result<HpkeKeypair> {
    keypair(&table(path)?)
}

/// The operating system's clock.
fn now() -> Result<Moment> {
    Ok(Moment(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs()))
}

fn keypair(table: &toml::Table) -> Result<HpkeKeypair> {
    let config = HpkeConfig::from_bytes(&URL_SAFE_NO_PAD.decode(text(table, "hpke_config")?)?)?;
    let private_key = array(text(table, "hpke_private_key")?)?;
    Ok(HpkeKeypair::from_parts(config, Secret::new(private_key))?)
}

fn array(encoded: &str) -> Result<[u8; 32]> {
    let bytes = URL_SAFE_NO_PAD.decode(encoded)?;
    bytes.try_into().map_err(|_| anyhow!("not 32 bytes"))
}

fn table(path: &Path) -> Result<toml::Table> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    text.parse().with_context(|| path.display().to_string())
}

fn text<'a>(table: &'a toml::Table, key: &str) -> Result<&'a str> {
    match table.get(key).and_then(|value| value.as_str()) {
        Some(text) => Ok(text),
        None => bail!("`{key}` is missing"),
    }
}
