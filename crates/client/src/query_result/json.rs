//! The JSON form of a result: what `sotto collect --json` prints, and what is kept in a file.
//! `docs/json.md` explains every key.

mod forms;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use sotto_vdaf::AggregateResult;
use sotto_wire::{BatchMode, ListedInterval, TaskId};

pub(super) use self::forms::{
    epsilon, high_ends, low_ends, number, numbers, optional, rounded, visible,
};
use self::forms::{interval, mode, sums, text};

use super::{Coordinates, LEVEL, Meaning, QueryResult};

/// The version of the form.
pub const FORMAT: &str = "sotto/1";

/// The commands that print a result.
const COMMANDS: [&str; 2] = ["collect", "result show"];

/// Why bytes are not a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Not JSON, or a value is missing or of another form. The error has the line and the column.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// Another version, or no version.
    #[error("it has the version {found}, and this program reads {FORMAT:?}")]
    Version {
        /// The version in JSON.
        found: String,
    },
    /// JSON of another command.
    #[error("it is what `sotto {command}` printed, not the result of a collection")]
    Command {
        /// The command.
        command: String,
    },
    /// The JSON of a collection that gave no result.
    #[error("the collection gave no result")]
    NoResult,
    /// A value is impossible.
    #[error("{0}")]
    Value(&'static str),
}

/// The keys that every result has.
#[derive(Serialize, Deserialize)]
struct Batch {
    #[serde(with = "text")]
    task_id: TaskId,
    #[serde(with = "mode")]
    batch_mode: BatchMode,
    #[serde(deserialize_with = "visible")]
    job_id: String,
    count: u64,
    #[serde(with = "interval")]
    interval: ListedInterval,
    #[serde(with = "sums")]
    result: AggregateResult,
}

/// What decides how the rest is read.
#[derive(Deserialize)]
struct Head {
    schema: Option<Value>,
    command: Option<String>,
    result: Option<IgnoredAny>,
    recipe_id: Option<IgnoredAny>,
}

/// With [`FORMAT`] and the command.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    command: &'static str,
    #[serde(flatten)]
    result: &'a QueryResult,
}

impl QueryResult {
    /// As JSON, on several lines.
    pub fn to_json(&self) -> String {
        let document = Document { schema: FORMAT, command: COMMANDS[0], result: self };
        // Only maps with keys that are not text cannot be written.
        serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
    }

    /// A result that was kept.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ReadError> {
        let head: Head = serde_json::from_slice(bytes)?;
        let found = head.schema.unwrap_or_default();
        if found != FORMAT {
            return Err(ReadError::Version { found: found.to_string() });
        }
        match head.command {
            Some(command) if !COMMANDS.contains(&command.as_str()) => {
                return Err(ReadError::Command { command });
            }
            _ if head.result.is_none() => return Err(ReadError::NoResult),
            _ => {}
        }
        let batch: Batch = serde_json::from_slice(bytes)?;
        let meaning = match head.recipe_id {
            Some(_) => Some(serde_json::from_slice::<Meaning>(bytes)?),
            None => None,
        };
        meaning.as_ref().map_or(Ok(()), check)?;
        Ok(Self {
            task_id: batch.task_id,
            batch_mode: batch.batch_mode,
            job_id: batch.job_id,
            count: batch.count,
            interval: batch.interval,
            sums: batch.result,
            meaning,
        })
    }
}

fn check(meaning: &Meaning) -> Result<(), ReadError> {
    let probability = |value: f64| (0.0..=1.0).contains(&value);
    let others = [meaning.default_rate, meaning.dummy_rate, meaning.delta, Some(meaning.cover)];
    if meaning.rate == 0.0 || !probability(meaning.rate) {
        return Err(ReadError::Value("its rate is not above 0 and at most 1"));
    }
    if !others.into_iter().flatten().all(probability) {
        return Err(ReadError::Value("a probability is not between 0 and 1"));
    }
    if meaning.level != LEVEL {
        return Err(ReadError::Value("its intervals have another level than 0.95"));
    }
    if meaning.epsilon < 0.0 {
        return Err(ReadError::Value("its epsilon is negative"));
    }
    meaning.coordinates.as_ref().map_or(Ok(()), Coordinates::check)
}

/// All keys but the first two.
impl Serialize for QueryResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct All<'a> {
            #[serde(flatten)]
            batch: Batch,
            #[serde(flatten)]
            meaning: Option<&'a Meaning>,
        }
        let batch = Batch {
            task_id: self.task_id,
            batch_mode: self.batch_mode,
            job_id: self.job_id.clone(),
            count: self.count,
            interval: self.interval,
            result: self.sums.clone(),
        };
        All { batch, meaning: self.meaning.as_ref() }.serialize(serializer)
    }
}
