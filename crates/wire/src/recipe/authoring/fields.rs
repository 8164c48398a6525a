//! TOML tables that are read key by key, so that every error knows its path and no key is left
//! over.

use std::str::FromStr;

use toml::{Table, Value};

use super::AuthoringError;
use super::number;
use super::place::position;
use crate::recipe::Probability;
use crate::utc;

/// A table, and the keys that were read.
pub(super) struct Fields {
    path: String,
    table: Table,
    asked: Vec<&'static str>,
}

impl Fields {
    /// The table of the whole document.
    pub(super) fn document(text: &str) -> Result<Self, AuthoringError> {
        let table = text.parse().map_err(|error: toml::de::Error| {
            let offset = error.span().map_or(0, |span| span.start);
            let (line, column) = position(text, offset);
            let message = error.message().lines().next().unwrap_or_default();
            let known = SLIPS.iter().find(|(part, _)| message.contains(part));
            let reason = known.map_or(message, |(_, words)| words).to_owned();
            AuthoringError::Toml { line, column, reason }
        })?;
        Ok(Self { path: String::new(), table, asked: Vec::new() })
    }

    /// The value of a key that may be missing.
    pub(super) fn optional(&mut self, key: &'static str) -> Option<Field> {
        self.asked.push(key);
        self.table.remove(key).map(|value| Field { path: joined(&self.path, key), value })
    }

    /// The value of a key.
    pub(super) fn required(&mut self, key: &'static str) -> Result<Field, AuthoringError> {
        self.optional(key).ok_or_else(|| self.missing(key))
    }

    /// The error for a key that is not there.
    pub(super) fn missing(&self, key: &str) -> AuthoringError {
        missing(joined(&self.path, key))
    }

    /// Every remaining key with its value: for tables whose keys the author chooses.
    pub(super) fn rest(self) -> impl Iterator<Item = (String, Field)> {
        let path = self.path;
        self.table.into_iter().map(move |(key, value)| {
            let field = Field { path: joined(&path, &key), value };
            (key, field)
        })
    }

    /// Rejects unknown keys.
    pub(super) fn finish(self) -> Result<(), AuthoringError> {
        match self.table.keys().next() {
            None => Ok(()),
            Some(key) => Err(error(
                joined(&self.path, key),
                format!("is unknown; use one of: {}", self.asked.join(", ")),
            )),
        }
    }
}

/// A value and its path.
pub(super) struct Field {
    path: String,
    value: Value,
}

impl Field {
    pub(super) fn table(self) -> Result<Fields, AuthoringError> {
        match self.value {
            Value::Table(table) => Ok(Fields { path: self.path, table, asked: Vec::new() }),
            _ => {
                let reason = format!("must be a table: begin it with [{}]", self.path);
                Err(error(self.path, reason))
            }
        }
    }

    pub(super) fn text(self) -> Result<String, AuthoringError> {
        match self.value {
            Value::String(text) => Ok(text),
            _ => Err(error(self.path, "must be text in quotes, like \"text\"")),
        }
    }

    /// A list, with each element read in the same way.
    pub(super) fn list<T>(
        self,
        element: impl Fn(Self) -> Result<T, AuthoringError>,
    ) -> Result<Vec<T>, AuthoringError> {
        let Value::Array(values) = self.value else {
            return Err(error(self.path, "must be a list, like [1, 2] or [\"a\", \"b\"]"));
        };
        let elements = values.into_iter().enumerate();
        elements
            .map(|(index, value)| element(Self { path: format!("{}[{index}]", self.path), value }))
            .collect()
    }

    /// Text that is parsed as this type.
    pub(super) fn parsed<T: FromStr<Err: ToString>>(self) -> Result<T, AuthoringError> {
        let path = self.path.clone();
        self.text()?.parse().map_err(|reason: T::Err| error(path, reason.to_string()))
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(self, choices: &[(&str, T)]) -> Result<T, AuthoringError> {
        let path = self.path.clone();
        let text = self.text()?;
        choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            error(path, format!("{text:?} is unknown; use one of: {}", names.join(", ")))
        })
    }

    pub(super) fn boolean(self) -> Result<bool, AuthoringError> {
        match self.value {
            Value::Boolean(value) => Ok(value),
            _ => Err(error(self.path, "must be true or false")),
        }
    }

    pub(super) fn integer<T: TryFrom<i64>>(self) -> Result<T, AuthoringError> {
        match self.value {
            Value::Integer(value) => {
                let reason =
                    format!("{value} is out of range: write a number that is not negative");
                T::try_from(value).map_err(|_| error(self.path, reason))
            }
            _ => Err(error(self.path, "must be a whole number without quotes, like 1000")),
        }
    }

    /// A whole number that may be negative.
    pub(super) fn signed(self) -> Result<i64, AuthoringError> {
        match self.value {
            Value::Integer(value) => Ok(value),
            _ => Err(error(self.path, "must be a whole number without quotes, like 18 or -5")),
        }
    }

    /// A moment: a TOML date, text, or POSIX seconds.
    pub(super) fn moment(self) -> Result<u64, AuthoringError> {
        let text = match self.value {
            Value::Integer(_) => return self.integer(),
            Value::Datetime(moment) => moment.to_string(),
            Value::String(text) => text,
            _ => String::new(),
        };
        utc::parse(&text).ok_or_else(|| {
            error(self.path, "must be a moment in UTC like 2026-11-20T08:00:00Z, or POSIX seconds")
        })
    }

    /// A duration: `"1h"`, or seconds.
    pub(super) fn length(self) -> Result<u64, AuthoringError> {
        match self.value {
            Value::Integer(_) => self.integer(),
            Value::String(text) => {
                utc::parse_length(&text).map_err(|reason| error(self.path, reason.to_string()))
            }
            _ => Err(error(self.path, "must be a length of time like \"1h\", or seconds")),
        }
    }

    /// A probability: `"1/50"`, `[1, 50]`, `0.02` or `"1e-9"`.
    pub(super) fn probability(self) -> Result<Probability, AuthoringError> {
        let parsed = match &self.value {
            Value::String(text) => number::probability(text),
            Value::Integer(value) => number::probability(&value.to_string()),
            // The shortest decimal for this float is what the author wrote.
            Value::Float(value) => number::probability(&value.to_string()),
            Value::Array(pair) => match pair[..] {
                [Value::Integer(num), Value::Integer(den)] => {
                    number::probability(&format!("{num}/{den}"))
                }
                _ => Err("a fraction as a list has two whole numbers".to_owned()),
            },
            _ => Err("must be a probability like \"1/50\" or 0.02".to_owned()),
        };
        parsed.map_err(|reason| error(self.path, reason))
    }

    /// A decimal in millionths, rounded up: a privacy parameter is never understated.
    pub(super) fn micro(self) -> Result<u64, AuthoringError> {
        let parsed = match &self.value {
            Value::String(text) => number::micro(text),
            Value::Integer(value) => number::micro(&value.to_string()),
            Value::Float(value) => number::micro(&value.to_string()),
            _ => Err("must be a number, like 4.0".to_owned()),
        };
        parsed.map_err(|reason| error(self.path, reason))
    }

    /// An error about this value.
    pub(super) fn refused(&self, reason: impl Into<String>) -> AuthoringError {
        error(self.path.clone(), reason)
    }
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Common slips in TOML, by a part of the parser's message: what to write.
const SLIPS: [(&str, &str); 6] = [
    ("unclosed table", "the name of the table is not closed: write `]`"),
    ("string values must be quoted", "text must be in quotes: write it like \"text\""),
    ("duplicate key", "this name was there before: keep one of the two"),
    ("key with no value", "a value is missing: write `name = value`"),
    ("unclosed array", "the list is not closed: write `]`"),
    ("invalid basic string", "the text is not closed: write `\"` at its end"),
];

/// Its line is found later, in the text.
fn error(key: String, reason: impl Into<String>) -> AuthoringError {
    AuthoringError::Key { line: 0, column: 0, key, reason: reason.into() }
}

/// The error for a key that is not there, with what to write.
pub(super) fn missing(key: String) -> AuthoringError {
    let example = EXAMPLES.iter().find(|(known, _)| *known == key);
    let name = key.rsplit('.').next().unwrap_or_default();
    let reason = match example {
        Some((_, value)) => format!("is missing: write it like `{name} = {value}`"),
        None => format!("is missing: add the table [{key}]"),
    };
    error(key, reason)
}

/// What people may write for each value that must be there.
const EXAMPLES: &[(&str, &str)] = &[
    ("name", "\"commute\""),
    ("purpose", "\"How long do people commute?\""),
    ("author.name", "\"analytics.example\""),
    ("author.key", "\"...\", from `sotto keys show FILE`"),
    ("series.rounds", "30"),
    ("series.training.models", "\"https://models.example/\""),
    ("series.training.steps", "1"),
    ("series.training.learning_rate", "1.0"),
    ("series.training.model.kind", "\"softmax\""),
    ("series.training.model.features", "65"),
    ("series.training.model.hidden", "16"),
    ("series.training.model.classes", "10"),
    ("series.training.model.name", "\"my-model\""),
    ("series.training.model.weights", "1000"),
    ("series.discovery.lists", "\"https://lists.example/\""),
    ("series.discovery.list_len", "200000"),
    ("series.round.index", "0"),
    ("who.population", "1000000"),
    ("who.targeting.predicate", "\"country == 'CH'\""),
    ("who.targeting.certified", "\"...\", the id of a result in the log"),
    ("when.opens", "2026-11-20T00:00:00Z"),
    ("when.closes", "2026-11-27T00:00:00Z"),
    ("when.window", "\"1h\""),
    ("when.max_window", "\"7d\""),
    ("sampling.rate", "\"1/50\""),
    ("sampling.default_rate", "\"1/1000\""),
    ("sampling.other_rate", "\"1/2\""),
    ("query.kind", "\"histogram\""),
    ("query.mapping", "\"minutes < 15 ? 0 : 1\""),
    ("query.fallback", "2"),
    ("query.buckets", "3"),
    ("query.candidates", "[[10, -20], [0, 30]]"),
    ("query.fraction_bits", "10"),
    ("query.max", "100"),
    ("query.most", "5"),
    ("query.default", "0"),
    ("query.boundaries", "[18, 30, 45, 65]"),
    ("randomizer.kind", "\"randomized_response\""),
    ("randomizer.epsilon", "4.0"),
    ("noise.kind", "\"server_gaussian\""),
    ("noise.sigma", "1000"),
    ("aggregation.min_batch", "10000"),
    ("aggregation.batch_mode", "\"time_interval\""),
    ("aggregation.vdaf.type", "\"Prio3Histogram\""),
    ("aggregation.vdaf.length", "3"),
    ("aggregation.vdaf.chunk_length", "1"),
    ("aggregation.vdaf.max_measurement", "100"),
    ("aggregation.vdaf.max_weight", "5"),
    ("privacy.kind", "\"claim\""),
    ("privacy.epsilon", "0.05"),
    ("privacy.delta", "\"1e-9\""),
    ("parties.collector_hpke_config", "\"...\", which `sotto keys new` prints"),
    ("parties.log", "\"log.example\""),
    ("parties.leader.operator", "\"leader.example\""),
    ("parties.leader.url", "\"https://leader.example/\""),
    ("parties.helper.operator", "\"helper.example\""),
    ("parties.helper.url", "\"https://helper.example/\""),
    ("parties.tokens.kind", "\"rate_limited\""),
    ("parties.tokens.leader.issuer", "\"issuer-a.example\""),
    ("parties.tokens.leader.expires", "2026-11-27T00:00:00Z"),
    ("parties.tokens.leader.endorsement", "\"...\", from `sotto recipe tokens`"),
    ("parties.tokens.helper.issuer", "\"issuer-b.example\""),
    ("parties.tokens.helper.expires", "2026-11-27T00:00:00Z"),
    ("parties.tokens.helper.endorsement", "\"...\", from `sotto recipe tokens`"),
];
