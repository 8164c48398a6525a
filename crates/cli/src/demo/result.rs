//! The result of a demo run: `--json` prints it, and the tables are made from it.

use std::collections::BTreeMap;

use serde::Serialize;
use sotto_client::QueryResult;
use sotto_client::query_result::{Coordinates, Row};

use crate::recipe::examine::Guarantee;
use crate::vocabulary::Interval;

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
    /// What was counted or summed.
    pub(crate) buckets: Vec<Row>,
    /// The vector, if vectors were summed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) coordinates: Option<Coordinates>,
    /// What is computed from it; absent if there is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) statistics: Vec<Row>,
    /// The outcome of the reports.
    pub(crate) reports: DemoReports,
    /// Absent without a recipe.
    #[serde(flatten)]
    pub(crate) recipe: Option<DemoRecipe>,
    /// The privacy that the devices computed; absent if none is claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) privacy: Option<Guarantee>,
    /// What devices sent through the relay; absent without a relay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) relay: Vec<DemoSize>,
    /// Absent without tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tokens: Option<DemoTokens>,
    /// Wall-clock seconds.
    pub(crate) elapsed_s: f64,
    /// What the collector got, which knows no true values.
    #[serde(skip)]
    pub(crate) collected: QueryResult,
}

/// How many sealed requests had this length. The relay sees no more than this.
#[derive(Debug, Serialize)]
pub(crate) struct DemoSize {
    pub(crate) bytes: usize,
    pub(crate) requests: u64,
}

/// The recipe in the log.
#[derive(Debug, Serialize)]
pub(crate) struct DemoRecipe {
    pub(crate) recipe_id: String,
    pub(crate) index: u64,
    /// The probability of taking part.
    pub(crate) rate: f64,
}

/// Tokens that devices got.
#[derive(Debug, Serialize)]
pub(crate) struct DemoTokens {
    pub(crate) granted: u64,
}

/// A collected batch, named by its interval.
#[derive(Debug, Serialize)]
pub(crate) struct DemoBatch {
    pub(crate) interval: Interval,
    pub(crate) count: u64,
}

/// Counts of reports.
#[derive(Debug, Default, Serialize)]
pub(crate) struct DemoReports {
    /// In the result.
    pub(crate) accepted: u64,
    /// Refused, by reason.
    pub(crate) rejected: BTreeMap<String, u64>,
}

#[cfg(test)]
mod tests {
    use sotto_vdaf::AggregateResult;
    use sotto_wire::{BatchMode, ListedInterval, TaskId};

    use super::*;

    fn sample() -> DemoResult {
        let interval = ListedInterval { start: 86_400, duration: 86_400 };
        let held = |label, truth| Row { truth: Some(truth), ..Row::exact(label, truth) };
        DemoResult {
            devices: 30,
            participated: 30,
            min_batch: 10,
            batches: vec![DemoBatch { interval: interval.into(), count: 30 }],
            buckets: vec![held("queen", 20.0), held("dodo", 10.0)],
            coordinates: None,
            statistics: Vec::new(),
            reports: DemoReports { accepted: 30, rejected: BTreeMap::new() },
            recipe: None,
            privacy: None,
            relay: Vec::new(),
            tokens: None,
            elapsed_s: 0.5,
            collected: QueryResult {
                task_id: TaskId::new([7; 32]),
                batch_mode: BatchMode::TimeInterval,
                job_id: "job".to_owned(),
                count: 30,
                interval,
                sums: AggregateResult::Vector(vec![20, 10]),
                meaning: None,
            },
        }
    }

    #[test]
    fn the_json_has_exactly_the_agreed_keys() {
        insta::assert_snapshot!(serde_json::to_string(&sample()).unwrap(), @r#"{"devices":30,"participated":30,"min_batch":10,"batches":[{"interval":{"start":"1970-01-02T00:00:00Z","start_s":86400,"end":"1970-01-03T00:00:00Z","end_s":172800,"duration_s":86400},"count":30}],"buckets":[{"label":"queen","true":20,"estimate":20,"stderr":0,"lo95":20,"hi95":20},{"label":"dodo","true":10,"estimate":10,"stderr":0,"lo95":10,"hi95":10}],"reports":{"accepted":30,"rejected":{}},"elapsed_s":0.5}"#);
    }
}
