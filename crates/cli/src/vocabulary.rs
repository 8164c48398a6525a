//! The words of `--json` that several commands share: each quantity has one name and one form.
//! `docs/json.md` explains them, and `schema/output-v1.schema.json` describes every command.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use sotto_dp::mechanism::Estimate;
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

/// One number of a result: what the analyst learns about it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Bucket {
    pub(crate) label: String,
    /// Known to the demo alone, which plays every part.
    #[serde(rename = "true", skip_serializing_if = "Option::is_none")]
    pub(crate) truth: Option<u64>,
    #[serde(serialize_with = "number")]
    pub(crate) estimate: f64,
    /// From noise and sampling together, as the interval is.
    #[serde(serialize_with = "number")]
    pub(crate) stderr: f64,
    #[serde(serialize_with = "number")]
    pub(crate) lo95: f64,
    #[serde(serialize_with = "number")]
    pub(crate) hi95: f64,
    /// From the noise alone, given who took part; absent for exact values.
    #[serde(flatten)]
    pub(crate) noise: Option<Noise>,
}

/// The uncertainty from the noise alone.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Noise {
    noise_stderr: f64,
    pub(crate) noise_lo95: f64,
    pub(crate) noise_hi95: f64,
}

impl Bucket {
    /// The confidence level of the intervals.
    pub(crate) const LEVEL: f64 = 0.95;

    /// A bucket whose value is known exactly.
    pub(crate) fn exact(label: &str, truth: u64, value: u64) -> Self {
        let (label, value) = (label.to_owned(), value as f64);
        let (estimate, lo95, hi95) = (value, value, value);
        Self { label, truth: Some(truth), estimate, stderr: 0.0, lo95, hi95, noise: None }
    }

    /// A bucket whose value is estimated, with intervals of [`Self::LEVEL`].
    pub(crate) fn estimated(label: String, truth: Option<u64>, estimate: &Estimate) -> Self {
        Self {
            label,
            truth,
            estimate: estimate.value,
            stderr: estimate.total_error,
            lo95: estimate.total_low,
            hi95: estimate.total_high,
            noise: Some(Noise {
                noise_stderr: estimate.noise_error,
                noise_lo95: estimate.noise_low,
                noise_hi95: estimate.noise_high,
            }),
        }
    }
}

/// Whole numbers without a fraction: `75`, not `75.0`.
fn number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let whole = value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0;
    if whole { serializer.serialize_i64(*value as i64) } else { serializer.serialize_f64(*value) }
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

    #[test]
    fn fractions_stay_fractions() {
        let bucket = Bucket { estimate: 19.25, lo95: -0.5, ..Bucket::exact("a", 20, 20) };
        let json = json(bucket);
        assert!(json.contains("\"estimate\":19.25") && json.contains("\"lo95\":-0.5"), "{json}");
        assert!(json.contains("\"hi95\":20,") || json.ends_with("\"hi95\":20}"), "{json}");
    }
}
