//! The forms of single values in JSON, for `#[serde(with)]`.

use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;
use sotto_vdaf::AggregateResult;
use sotto_wire::{BatchMode, ListedInterval, utc};

/// Numbers have this many digits: far more than their errors leave, and few enough to be read back
/// as they were written.
const DIGITS: usize = 12;

/// Text that is shown to people: without control characters, which could command a terminal, and
/// without marks that turn the direction of writing.
pub(in super::super) fn visible<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let hidden =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    match text.contains(hidden) {
        true => Err(de::Error::custom("a text has characters that cannot be seen")),
        false => Ok(text),
    }
}

/// A number as it is written: whole numbers without a fraction, `75`, not `75.0`.
pub(in super::super) mod number {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        let whole = value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0;
        match whole {
            true => serializer.serialize_i64(*value as i64),
            false => serializer.serialize_f64(rounded(*value)),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        f64::deserialize(deserializer)
    }
}

/// The same, or null.
pub(in super::super) mod optional {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<f64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => number::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<f64>, D::Error> {
        Option::deserialize(deserializer)
    }
}

/// A list of numbers.
pub(in super::super) mod numbers {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(values: &[f64], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(|value| Number(*value)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
        Vec::deserialize(from)
    }
}

/// A list of low ends of intervals: null where there is none.
pub(in super::super) mod low_ends {
    use super::*;

    pub(crate) use super::ends as serialize;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
        let ends = Vec::<Option<f64>>::deserialize(from)?;
        Ok(ends.into_iter().map(|end| end.unwrap_or(f64::NEG_INFINITY)).collect())
    }
}

/// A list of high ends.
pub(in super::super) mod high_ends {
    use super::*;

    pub(crate) use super::ends as serialize;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
        let ends = Vec::<Option<f64>>::deserialize(from)?;
        Ok(ends.into_iter().map(|end| end.unwrap_or(f64::INFINITY)).collect())
    }
}

pub(crate) fn ends<S: Serializer>(values: &[f64], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(values.iter().map(|value| value.is_finite().then_some(Number(*value))))
}

/// One number of a list.
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        number::serialize(&self.0, to)
    }
}

/// An epsilon: `"inf"` if there is no bound. Not null, which several languages take to be less than
/// every number.
pub(in super::super) mod epsilon {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        match value.is_finite() {
            true => number::serialize(value, serializer),
            false => serializer.serialize_str("inf"),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) if text == "inf" => Ok(f64::INFINITY),
            value => {
                value.as_f64().ok_or_else(|| de::Error::custom("expected a number or \"inf\""))
            }
        }
    }
}

pub(super) mod text {
    use super::*;

    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

pub(super) mod mode {
    use super::*;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Name {
        TimeInterval,
        LeaderSelected,
    }

    pub(crate) fn serialize<S: Serializer>(
        mode: &BatchMode,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let name = match mode {
            BatchMode::TimeInterval => Name::TimeInterval,
            BatchMode::LeaderSelected => Name::LeaderSelected,
        };
        name.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BatchMode, D::Error> {
        Ok(match Name::deserialize(deserializer)? {
            Name::TimeInterval => BatchMode::TimeInterval,
            Name::LeaderSelected => BatchMode::LeaderSelected,
        })
    }
}

pub(super) mod interval {
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

    pub(crate) fn serialize<S: Serializer>(
        interval: &ListedInterval,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let (start_s, end_s) = (interval.start, interval.end());
        let (start, end) = (utc::format(start_s), utc::format(end_s));
        Written { start, start_s, end, end_s, duration_s: interval.duration }.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<ListedInterval, D::Error> {
        let Read { start_s, duration_s } = Read::deserialize(deserializer)?;
        Ok(ListedInterval { start: start_s, duration: duration_s })
    }
}

pub(super) mod sums {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        sums: &AggregateResult,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        sums.to_json().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<AggregateResult, D::Error> {
        AggregateResult::from_json(&Value::deserialize(deserializer)?)
            .ok_or_else(|| de::Error::custom("expected a whole number, or a list of them"))
    }
}

/// The nearest number with [`DIGITS`] digits.
pub(in super::super) fn rounded(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}
