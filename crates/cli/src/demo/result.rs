//! The result of a demo run: `--json` prints it, and the tables are made from it.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use sotto_dp::mechanism::Estimate;

/// One run. The keys are a contract with readers of the JSON.
#[derive(Debug, Serialize)]
pub(crate) struct DemoResult {
    /// Simulated devices.
    pub(crate) devices: u64,
    /// Devices that sent a report.
    pub(crate) participated: u64,
    /// Nothing is released over fewer reports than this.
    pub(crate) min_batch: u64,
    /// What was collected.
    pub(crate) batches: Vec<DemoBatch>,
    /// One for each word.
    pub(crate) buckets: Vec<DemoBucket>,
    /// The outcome of the reports.
    pub(crate) reports: DemoReports,
    /// The privacy that the devices computed; absent if none is claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) privacy: Option<DemoPrivacy>,
    /// What devices sent through the relay; absent without a relay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) relay: Vec<DemoSize>,
    /// Tokens that devices got; absent without tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tokens: Option<u64>,
    /// Wall-clock seconds.
    pub(crate) elapsed_s: f64,
}

/// How many sealed requests had this length. The relay sees no more than this.
#[derive(Debug, Serialize)]
pub(crate) struct DemoSize {
    pub(crate) bytes: usize,
    pub(crate) requests: u64,
}

/// The recipe's privacy, as each device computed it.
#[derive(Debug, Serialize)]
pub(crate) struct DemoPrivacy {
    pub(crate) recipe_id: String,
    /// The index of the recipe in the log.
    pub(crate) log_index: u64,
    /// How many devices, in total, may be dishonest: half of the minimum batch.
    pub(crate) dishonest_devices: u64,
    /// If as many devices are dishonest and the servers see how many answered.
    pub(crate) epsilon: f64,
    pub(crate) delta: f64,
    /// The paper's figure for the same recipe: all honest, count hidden.
    pub(crate) paper_epsilon: f64,
    /// The bound that remains if everybody else is malicious.
    pub(crate) local_epsilon: Option<f64>,
    /// The probability of taking part.
    pub(crate) sampling_rate: f64,
}

/// A collected batch, named by its interval.
#[derive(Debug, Serialize)]
pub(crate) struct DemoBatch {
    pub(crate) interval: DemoInterval,
    pub(crate) count: u64,
}

/// POSIX seconds, half-open.
#[derive(Debug, Serialize)]
pub(crate) struct DemoInterval {
    pub(crate) start: u64,
    pub(crate) duration: u64,
}

/// A word: how many devices really hold it, and what the analyst learns.
#[derive(Debug, Serialize)]
pub(crate) struct DemoBucket {
    pub(crate) label: String,
    /// Known to the demo alone, which plays every part.
    #[serde(rename = "true")]
    pub(crate) truth: u64,
    #[serde(serialize_with = "number")]
    pub(crate) estimate: f64,
    #[serde(serialize_with = "number")]
    pub(crate) stderr: f64,
    #[serde(serialize_with = "number")]
    pub(crate) lo95: f64,
    #[serde(serialize_with = "number")]
    pub(crate) hi95: f64,
    /// The interval from the noise alone, given who took part; absent for exact values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) noise_lo95: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) noise_hi95: Option<f64>,
}

/// Counts of reports.
#[derive(Debug, Default, Serialize)]
pub(crate) struct DemoReports {
    /// In the result.
    pub(crate) accepted: u64,
    /// Refused, by reason.
    pub(crate) rejected: BTreeMap<String, u64>,
}

impl DemoBucket {
    /// A bucket whose value is known exactly.
    pub(crate) fn exact(label: &str, truth: u64, value: u64) -> Self {
        let value = value as f64;
        Self {
            label: label.to_owned(),
            truth,
            estimate: value,
            stderr: 0.0,
            lo95: value,
            hi95: value,
            noise_lo95: None,
            noise_hi95: None,
        }
    }

    /// A bucket whose value is estimated. `stderr`, `lo95` and `hi95` count noise and sampling.
    pub(crate) fn estimated(label: &str, truth: u64, estimate: &Estimate) -> Self {
        Self {
            label: label.to_owned(),
            truth,
            estimate: estimate.value,
            stderr: estimate.total_error,
            lo95: estimate.total_low,
            hi95: estimate.total_high,
            noise_lo95: Some(estimate.noise_low),
            noise_hi95: Some(estimate.noise_high),
        }
    }
}

/// Whole numbers without a fraction: `75`, not `75.0`.
fn number<S: Serializer>(value: &f64, s: S) -> Result<S::Ok, S::Error> {
    let whole = value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0;
    if whole { s.serialize_i64(*value as i64) } else { s.serialize_f64(*value) }
}

#[cfg(test)]
pub(super) fn sample() -> DemoResult {
    DemoResult {
        devices: 30,
        participated: 30,
        min_batch: 10,
        batches: vec![DemoBatch {
            interval: DemoInterval { start: 86_400, duration: 86_400 },
            count: 30,
        }],
        buckets: vec![DemoBucket::exact("queen", 20, 20), DemoBucket::exact("dodo", 10, 10)],
        reports: DemoReports { accepted: 30, rejected: BTreeMap::new() },
        privacy: None,
        relay: Vec::new(),
        tokens: None,
        elapsed_s: 0.5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_exactly_the_agreed_keys() {
        insta::assert_snapshot!(serde_json::to_string(&sample()).unwrap(), @r#"{"devices":30,"participated":30,"min_batch":10,"batches":[{"interval":{"start":86400,"duration":86400},"count":30}],"buckets":[{"label":"queen","true":20,"estimate":20,"stderr":0,"lo95":20,"hi95":20},{"label":"dodo","true":10,"estimate":10,"stderr":0,"lo95":10,"hi95":10}],"reports":{"accepted":30,"rejected":{}},"elapsed_s":0.5}"#);
    }

    #[test]
    fn fractions_stay_fractions() {
        let bucket = DemoBucket { estimate: 19.25, lo95: -0.5, ..DemoBucket::exact("a", 20, 20) };
        let json = serde_json::to_string(&bucket).unwrap();
        assert!(json.contains("\"estimate\":19.25") && json.contains("\"lo95\":-0.5"), "{json}");
    }
}
