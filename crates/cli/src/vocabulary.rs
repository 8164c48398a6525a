//! The words of `--json` that several commands share: each quantity has one name and one form.
//! `docs/json.md` explains them, and `schema/output-v1.schema.json` describes every command.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use sotto_protocol::Task;
use sotto_wire::{ListedInterval, Probability, utc};

/// A time under its name, to be flattened: `opens` as RFC 3339 text, and `opens_s` in seconds since
/// 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    name: &'static str,
    pub(crate) seconds: Option<u64>,
}

impl Time {
    pub(crate) fn new(name: &'static str, seconds: impl Into<Option<u64>>) -> Self {
        Self { name, seconds: seconds.into() }
    }

    /// As text.
    pub(crate) fn text(&self) -> Option<String> {
        self.seconds.map(utc::format)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut both = serializer.serialize_map(Some(2))?;
        both.serialize_entry(self.name, &self.text())?;
        both.serialize_entry(&format!("{}_s", self.name), &self.seconds)?;
        both.end()
    }
}

/// What a batch covers: from `start` up to `end`, which is the first second after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Interval {
    #[serde(flatten)]
    start: Time,
    #[serde(flatten)]
    end: Time,
    duration_s: u64,
}

impl Interval {
    /// In units of the task's time precision.
    pub(crate) fn of(task: &Task, interval: sotto_wire::Interval) -> Self {
        let precision = task.configuration().time_precision();
        Self::from(ListedInterval {
            start: interval.start().start_seconds(precision),
            duration: interval.duration().as_seconds(precision),
        })
    }
}

impl From<ListedInterval> for Interval {
    fn from(interval: ListedInterval) -> Self {
        Self {
            start: Time::new("start", interval.start),
            end: Time::new("end", interval.end()),
            duration_s: interval.duration,
        }
    }
}

/// An epsilon: a number, or `"inf"` if there is no bound. It is not null, which several languages
/// take to be less than every number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Epsilon(pub(crate) f64);

impl Epsilon {
    /// That of a recipe, which counts in millionths.
    pub(crate) fn from_micro(micro: u64) -> Self {
        Self(micro as f64 / 1e6)
    }

    /// No bound if there is none.
    pub(crate) fn or_inf(epsilon: Option<f64>) -> Self {
        Self(epsilon.unwrap_or(f64::INFINITY))
    }
}

impl Serialize for Epsilon {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() { self.0.serialize(serializer) } else { "inf".serialize(serializer) }
    }
}

/// For `#[serde(serialize_with)]`.
pub(crate) fn epsilon<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    Epsilon(*value).serialize(serializer)
}

/// For `#[serde(serialize_with)]`.
pub(crate) fn epsilon_or_inf<S: Serializer>(
    value: &Option<f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    Epsilon::or_inf(*value).serialize(serializer)
}

/// A number: fractions are for recipes. For `#[serde(serialize_with)]`.
pub(crate) fn probability<S: Serializer>(
    value: &Probability,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.to_f64().serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(value: impl Serialize) -> String {
        serde_json::to_string(&value).unwrap()
    }

    #[test]
    fn times_have_both_forms() {
        let interval = ListedInterval { start: 1_795_046_400, duration: 86_400 };
        insta::assert_snapshot!(json(Interval::from(interval)), @r#"{"start":"2026-11-19T00:00:00Z","start_s":1795046400,"end":"2026-11-20T00:00:00Z","end_s":1795132800,"duration_s":86400}"#);
        let unknown = Time::new("closes", None);
        assert_eq!(json(unknown), r#"{"closes":null,"closes_s":null}"#);
    }

    #[test]
    fn no_bound_is_not_null() {
        let all = [0.5, f64::INFINITY, f64::NAN].map(Epsilon);
        assert_eq!(json(all), r#"[0.5,"inf","inf"]"#);
        assert_eq!(json(Epsilon::from_micro(812_345)), "0.812345");
        assert_eq!(json(Epsilon::or_inf(None)), r#""inf""#);
    }
}
