//! The JSON form of a result: what `sotto collect --json` prints, and what is kept in a file.
//! `docs/json.md` explains every key.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::{self, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use sotto_vdaf::AggregateResult;
use sotto_wire::{BatchMode, ListedInterval, TaskId, utc};

use super::{LEVEL, Meaning, QueryResult};

/// The version of the form.
pub const FORMAT: &str = "sotto/1";

/// The commands that print a result.
const COMMANDS: [&str; 2] = ["collect", "result show"];

/// Numbers have this many digits: far more than their errors leave, and few enough to be read back
/// as they were written.
const DIGITS: usize = 12;

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
    Ok(())
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

/// Text that is shown to people: without control characters, which could command a terminal, and
/// without marks that turn the direction of writing.
pub(super) fn visible<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let hidden =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    match text.contains(hidden) {
        true => Err(de::Error::custom("a text has characters that cannot be seen")),
        false => Ok(text),
    }
}

/// A number as it is written: whole numbers without a fraction, `75`, not `75.0`.
pub(super) mod number {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        value: &f64,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let whole = value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0;
        match whole {
            true => serializer.serialize_i64(*value as i64),
            false => serializer.serialize_f64(rounded(*value)),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<f64, D::Error> {
        f64::deserialize(deserializer)
    }
}

/// The same, or null.
pub(super) mod optional {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        value: &Option<f64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => number::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<f64>, D::Error> {
        Option::deserialize(deserializer)
    }
}

/// An epsilon: `"inf"` if there is no bound. Not null, which several languages take to be less than
/// every number.
pub(super) mod epsilon {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        value: &f64,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value.is_finite() {
            true => number::serialize(value, serializer),
            false => serializer.serialize_str("inf"),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<f64, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) if text == "inf" => Ok(f64::INFINITY),
            value => {
                value.as_f64().ok_or_else(|| de::Error::custom("expected a number or \"inf\""))
            }
        }
    }
}

mod text {
    use super::*;

    pub(in super::super) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(in super::super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

mod mode {
    use super::*;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Name {
        TimeInterval,
        LeaderSelected,
    }

    pub(in super::super) fn serialize<S: Serializer>(
        mode: &BatchMode,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let name = match mode {
            BatchMode::TimeInterval => Name::TimeInterval,
            BatchMode::LeaderSelected => Name::LeaderSelected,
        };
        name.serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BatchMode, D::Error> {
        Ok(match Name::deserialize(deserializer)? {
            Name::TimeInterval => BatchMode::TimeInterval,
            Name::LeaderSelected => BatchMode::LeaderSelected,
        })
    }
}

mod interval {
    use super::*;

    #[derive(Serialize)]
    struct Written {
        start: String,
        start_s: u64,
        end: String,
        end_s: u64,
        duration_s: u64,
    }

    /// The other keys say the same again.
    #[derive(Deserialize)]
    struct Read {
        start_s: u64,
        duration_s: u64,
    }

    pub(in super::super) fn serialize<S: Serializer>(
        interval: &ListedInterval,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let (start_s, end_s) = (interval.start, interval.end());
        let (start, end) = (utc::format(start_s), utc::format(end_s));
        Written { start, start_s, end, end_s, duration_s: interval.duration }.serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<ListedInterval, D::Error> {
        let Read { start_s, duration_s } = Read::deserialize(deserializer)?;
        Ok(ListedInterval { start: start_s, duration: duration_s })
    }
}

mod sums {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        sums: &AggregateResult,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        sums.to_json().serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<AggregateResult, D::Error> {
        AggregateResult::from_json(&Value::deserialize(deserializer)?)
            .ok_or_else(|| de::Error::custom("expected a whole number, or a list of them"))
    }
}

/// The nearest number with [`DIGITS`] digits.
pub(super) fn rounded(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}
