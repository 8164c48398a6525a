//! Task files: what one party needs to take part in a task, as TOML.
//!
//! All four files of a task have the same `[task]` table. Every byte of the encoded
//! `TaskConfiguration` is bound into the ciphertexts. So the table also holds the encoded form, as a
//! check: an edited URL is an error here, not an HPKE failure hours later.
//! The aggregators' files add `[aggregator]`, the collector's `[collector]`; these are secret.

mod text;

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::ValueEnum;
use serde::{Deserialize, Deserializer, Serialize};
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::Task;
use sotto_vdaf::VdafConfig;
use sotto_wire::{
    BatchMode, Decode, Duration, Encode, HpkeConfig, Interval, Role, TaskConfiguration,
    TaskExtension, TaskId, TaskParameters, Time, TimePrecision, Url, VdafType,
};
use zeroize::Zeroizing;

use crate::output::WithHint;
use crate::toml_text;

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Party {
    Leader,
    Helper,
    Client,
    Collector,
}

/// A task file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskFile {
    pub(crate) party: Party,
    pub(crate) task_id: String,
    pub(crate) task: TaskFields,
    pub(crate) aggregator: Option<AggregatorFields>,
    pub(crate) collector: Option<CollectorFields>,
}

/// The table `[task]`: the fields of the `TaskConfiguration`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskFields {
    pub(crate) leader: String,
    pub(crate) helper: String,
    pub(crate) vdaf: VdafConfig,
    pub(crate) batch_mode: BatchModeName,
    pub(crate) min_batch_size: u64,
    /// Seconds.
    pub(crate) time_precision: u64,
    /// POSIX seconds, multiples of the precision. Either both are set or neither is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) task_start: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) task_end: Option<u64>,
    pub(crate) task_info: String,
    /// The encoded `TaskConfiguration`.
    pub(crate) encoded: String,
}

/// A batch mode, as files and options name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BatchModeName {
    /// The collector names an interval of time.
    #[default]
    TimeInterval,
    /// The leader fills one batch after the other.
    LeaderSelected,
}

impl BatchModeName {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TimeInterval => "time-interval",
            Self::LeaderSelected => "leader-selected",
        }
    }
}

impl From<BatchMode> for BatchModeName {
    fn from(mode: BatchMode) -> Self {
        match mode {
            BatchMode::TimeInterval => Self::TimeInterval,
            BatchMode::LeaderSelected => Self::LeaderSelected,
        }
    }
}

impl From<BatchModeName> for BatchMode {
    fn from(name: BatchModeName) -> Self {
        match name {
            BatchModeName::TimeInterval => Self::TimeInterval,
            BatchModeName::LeaderSelected => Self::LeaderSelected,
        }
    }
}

/// The table `[aggregator]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AggregatorFields {
    #[serde(deserialize_with = "secret")]
    pub(crate) vdaf_verify_key: Secret<String>,
    #[serde(deserialize_with = "secret")]
    pub(crate) leader_authentication_token: Secret<String>,
    #[serde(default, deserialize_with = "optional_secret")]
    pub(crate) collector_authentication_token: Option<Secret<String>>,
    pub(crate) collector_hpke_config: String,
}

/// The table `[collector]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CollectorFields {
    #[serde(deserialize_with = "secret")]
    pub(crate) authentication_token: Secret<String>,
    pub(crate) hpke_config: String,
    #[serde(deserialize_with = "secret")]
    pub(crate) hpke_private_key: Secret<String>,
}

/// What an aggregator knows of a task.
#[derive(Debug)]
pub(crate) struct AggregatorPart {
    pub(crate) task: Task,
    pub(crate) role: Role,
    pub(crate) verify_key: Secret<[u8; 32]>,
    /// The leader authenticates to the helper with it.
    pub(crate) leader_token: Secret<String>,
    /// The collector authenticates to the leader with it. The helper has none.
    pub(crate) collector_token: Option<Secret<String>>,
    pub(crate) collector_hpke_config: HpkeConfig,
}

/// What the collector knows of a task.
#[derive(Debug)]
pub(crate) struct CollectorPart {
    pub(crate) task: Task,
    pub(crate) token: Secret<String>,
    pub(crate) key: HpkeKeypair,
}

impl TaskFile {
    /// Reads a task file of any party and checks its `[task]` table.
    pub(crate) fn read(path: &Path) -> Result<(Self, Task)> {
        let file: Self = toml_text::read(path)?;
        let task = file.task().with_context(|| format!("{} cannot be used", path.display()))?;
        Ok((file, task))
    }

    /// The public part, from the file of any party.
    pub(crate) fn read_task(path: &Path) -> Result<Task> {
        Self::read(path).map(|(_, task)| task)
    }

    /// The part of the leader or the helper.
    pub(crate) fn read_aggregator(path: &Path) -> Result<AggregatorPart> {
        let (file, task) = Self::read(path)?;
        let Some(role) = file.party.aggregator() else {
            return Err(file.wrong_party(path, "an aggregator"));
        };
        file.aggregator(task, role).with_context(|| format!("{} cannot be used", path.display()))
    }

    /// The collector's part.
    pub(crate) fn read_collector(path: &Path) -> Result<CollectorPart> {
        let (file, task) = Self::read(path)?;
        if file.party != Party::Collector {
            return Err(file.wrong_party(path, "the collector"));
        }
        file.collector(task).with_context(|| format!("{} cannot be used", path.display()))
    }

    fn task(&self) -> Result<Task> {
        let id: TaskId = self.task_id.parse().map_err(|error| anyhow!("task_id: {error}"))?;
        let configuration = self.task.configuration()?;
        let encoded = URL_SAFE_NO_PAD.encode(configuration.to_bytes());
        if encoded != self.task.encoded {
            return Err(anyhow!("the fields of [task] do not match `encoded`")).hint(
                "a task cannot be edited, because all parties must have the same bytes; make a new one with \
                 `sotto task new`",
            );
        }
        Ok(Task::new(id, configuration)?)
    }

    fn aggregator(self, task: Task, role: Role) -> Result<AggregatorPart> {
        let fields = self.aggregator.ok_or_else(|| anyhow!("the table [aggregator] is missing"))?;
        ensure!(
            fields.collector_authentication_token.is_some() == (role == Role::Leader),
            "collector_authentication_token belongs only in the leader's file",
        );
        Ok(AggregatorPart {
            task,
            role,
            verify_key: secret_array(&fields.vdaf_verify_key).context("vdaf_verify_key")?,
            leader_token: fields.leader_authentication_token,
            collector_token: fields.collector_authentication_token,
            collector_hpke_config: hpke_config(&fields.collector_hpke_config)
                .context("collector_hpke_config")?,
        })
    }

    fn collector(self, task: Task) -> Result<CollectorPart> {
        let fields = self.collector.ok_or_else(|| anyhow!("the table [collector] is missing"))?;
        let config = hpke_config(&fields.hpke_config).context("hpke_config")?;
        let private_key = secret_array(&fields.hpke_private_key).context("hpke_private_key")?;
        Ok(CollectorPart {
            task,
            token: fields.authentication_token,
            key: HpkeKeypair::from_parts(config, private_key)?,
        })
    }

    fn wrong_party(&self, path: &Path, wanted: &str) -> anyhow::Error {
        anyhow!("{} is the {}'s file, not that of {wanted}", path.display(), self.party.name())
    }
}

impl Party {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Helper => "helper",
            Self::Client => "client",
            Self::Collector => "collector",
        }
    }

    /// The role of an aggregator.
    pub(crate) fn aggregator(self) -> Option<Role> {
        match self {
            Self::Leader => Some(Role::Leader),
            Self::Helper => Some(Role::Helper),
            Self::Client | Self::Collector => None,
        }
    }
}

impl TaskFields {
    /// The fields of an existing configuration.
    pub(crate) fn new(configuration: &TaskConfiguration) -> Result<Self> {
        let precision = configuration.time_precision();
        let interval = configuration.task_interval();
        Ok(Self {
            leader: configuration.leader_aggregator_endpoint().to_string(),
            helper: configuration.helper_aggregator_endpoint().to_string(),
            vdaf: VdafConfig::decode(
                configuration.vdaf_type().value(),
                configuration.vdaf_configuration(),
            )?,
            batch_mode: configuration.batch_mode().into(),
            min_batch_size: configuration.min_batch_size(),
            time_precision: precision.as_seconds(),
            task_start: interval.map(|interval| interval.start().start_seconds(precision)),
            task_end: interval.map(|interval| interval.end().start_seconds(precision)),
            task_info: URL_SAFE_NO_PAD.encode(configuration.task_info()),
            encoded: URL_SAFE_NO_PAD.encode(configuration.to_bytes()),
        })
    }

    /// The configuration that the fields describe. Ignores `encoded`.
    pub(crate) fn configuration(&self) -> Result<TaskConfiguration> {
        let time_precision = TimePrecision::from_seconds(self.time_precision)?;
        let interval = task_interval(time_precision, self.task_start, self.task_end)?;
        Ok(TaskConfiguration::new(TaskParameters {
            task_info: URL_SAFE_NO_PAD.decode(&self.task_info).context("task_info")?,
            leader_aggregator_endpoint: Url::new(&*self.leader).context("leader")?,
            helper_aggregator_endpoint: Url::new(&*self.helper).context("helper")?,
            time_precision,
            min_batch_size: self.min_batch_size,
            batch_mode: self.batch_mode.into(),
            vdaf_type: VdafType::new(self.vdaf.vdaf_type()),
            vdaf_configuration: self.vdaf.encode_configuration(),
            extensions: interval.map(TaskExtension::TaskInterval).into_iter().collect(),
        })?)
    }
}

/// The task interval between two POSIX times, which must be multiples of the precision.
pub(crate) fn task_interval(
    precision: TimePrecision,
    start: Option<u64>,
    end: Option<u64>,
) -> Result<Option<Interval>> {
    let (start, end) = match (start, end) {
        (None, None) => return Ok(None),
        (Some(start), Some(end)) => (start, end),
        _ => bail!("task_start and task_end must be set together"),
    };
    ensure!(start < end, "task_start must be before task_end");
    let unit = precision.as_seconds();
    if !start.is_multiple_of(unit) || !end.is_multiple_of(unit) {
        return Err(anyhow!("task_start and task_end must be multiples of the time precision"))
            .hint(format!("use {} and {}", start - start % unit, end - end % unit));
    }
    Ok(Some(Interval::new(Time::new(start / unit), Duration::new((end - start) / unit))?))
}

/// Decodes an encoded `HpkeConfig`.
pub(crate) fn hpke_config(text: &str) -> Result<HpkeConfig> {
    let bytes = URL_SAFE_NO_PAD.decode(text).context("not unpadded base64url")?;
    Ok(HpkeConfig::from_bytes(&bytes)?)
}

/// Decodes 32 secret bytes.
pub(crate) fn secret_array(text: &Secret<String>) -> Result<Secret<[u8; 32]>> {
    let bytes = URL_SAFE_NO_PAD
        .decode(text.expose())
        .map(Zeroizing::new)
        .map_err(|_| anyhow!("not unpadded base64url"))?;
    let array = <[u8; 32]>::try_from(bytes.as_slice())
        .map_err(|_| anyhow!("{} bytes, expected 32", bytes.len()))?;
    Ok(Secret::new(array))
}

/// For `#[serde(deserialize_with)]`.
pub(crate) fn secret<'de, D: Deserializer<'de>>(d: D) -> Result<Secret<String>, D::Error> {
    String::deserialize(d).map(Secret::new)
}

/// For `#[serde(deserialize_with)]`.
pub(crate) fn optional_secret<'de, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<Secret<String>>, D::Error> {
    Ok(Option::<String>::deserialize(d)?.map(Secret::new))
}

pub(crate) use text::{aggregator_text, client_text, collector_text, key_lines};

#[cfg(test)]
mod tests;
