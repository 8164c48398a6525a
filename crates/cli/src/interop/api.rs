//! Common parts of the calls of the test API: numbers, tasks, answers.
//!
//! Two generations of field names are accepted: `query_type` and `batch_mode`, `bits` and
//! `max_measurement`. Numbers may be strings. What DAP no longer has (`max_batch_size`,
//! `max_batch_query_count`, `task_expiration`) is ignored, and so are `task_start` and `task_end`: the
//! upload call does not carry them, so the parties could not agree on a task that has them.

use anyhow::{Context, Result, anyhow, bail};
use axum::Json;
use axum::body::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use sotto_protocol::Task;
use sotto_vdaf::VdafConfig;
use sotto_wire::{
    BatchMode, TaskConfiguration, TaskId, TaskParameters, TimePrecision, Url, VdafType,
};

/// The `task_info` that all implementations use.
const TASK_INFO: &[u8] = b"task-info";

/// The fields that describe a task.
#[derive(Debug, Deserialize)]
pub(super) struct TaskDescription {
    task_id: String,
    leader: String,
    helper: String,
    vdaf: Map<String, Value>,
    #[serde(alias = "query_type")]
    batch_mode: Integer,
    min_batch_size: Integer,
    time_precision: Integer,
}

impl TaskDescription {
    /// The task, encoded to exactly the same bytes as by the other implementations.
    pub(super) fn task(&self) -> Result<Task> {
        let vdaf = vdaf_config(&self.vdaf)?;
        let configuration = TaskConfiguration::new(TaskParameters {
            task_info: TASK_INFO.to_vec(),
            leader_aggregator_endpoint: Url::new(&*self.leader).context("leader")?,
            helper_aggregator_endpoint: Url::new(&*self.helper).context("helper")?,
            time_precision: TimePrecision::from_seconds(self.time_precision.0)?,
            min_batch_size: self.min_batch_size.0,
            batch_mode: batch_mode(self.batch_mode)?,
            vdaf_type: VdafType::new(vdaf.vdaf_type()),
            vdaf_configuration: vdaf.encode_configuration(),
            extensions: Vec::new(),
        })?;
        Ok(Task::new(task_id(&self.task_id)?, configuration)?)
    }
}

/// Parses a task id.
pub(super) fn task_id(text: &str) -> Result<TaskId> {
    text.parse().map_err(|error| anyhow!("task_id: {error}"))
}

/// Parses a batch mode.
pub(super) fn batch_mode(number: Integer) -> Result<BatchMode> {
    match number.0 {
        1 => Ok(BatchMode::TimeInterval),
        2 => Ok(BatchMode::LeaderSelected),
        other => Err(anyhow!("there is no batch mode {other}")),
    }
}

fn vdaf_config(vdaf: &Map<String, Value>) -> Result<VdafConfig> {
    let mut vdaf = vdaf.clone();
    if let Some(bits) = vdaf.remove("bits") {
        let bits = as_integer(&bits).filter(|bits| (1..=64).contains(bits));
        let bits = bits.ok_or_else(|| anyhow!("vdaf: bits must be in 1..=64"))?;
        let max = u64::MAX >> (64 - bits);
        vdaf.entry("max_measurement").or_insert(max.to_string().into());
    }
    serde_json::from_value(vdaf.into()).context("vdaf")
}

/// Reads the body of a call.
pub(super) fn request<T: DeserializeOwned>(body: &Bytes) -> Result<T> {
    serde_json::from_slice(body).context("the request cannot be read")
}

/// The answer to a call: its fields, or the reason of its failure.
pub(super) fn answer(result: Result<Value>) -> Json<Value> {
    Json(result.unwrap_or_else(|error| json!({ "status": "error", "error": format!("{error:#}") })))
}

/// The answer to a call without other fields.
pub(super) fn success() -> Value {
    json!({ "status": "success" })
}

/// The answer to `ready`.
pub(super) async fn ready() -> Json<Value> {
    Json(json!({}))
}

/// Runs a blocking step of client or collector outside the listener's threads.
pub(super) async fn blocking(
    step: impl FnOnce() -> Result<Value> + Send + 'static,
) -> Result<Value> {
    match tokio::task::spawn_blocking(step).await {
        Ok(result) => result,
        Err(_) => bail!("the call panicked"),
    }
}

/// A number, or a string that holds one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Integer(pub(super) u64);

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(d)?;
        let number = as_integer(&value).map(Self);
        number.ok_or_else(|| serde::de::Error::custom("expected an integer"))
    }
}

fn as_integer(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(extra: Value) -> Result<TaskDescription> {
        let mut value = json!({
            "task_id": TaskId::new([5; 32]).to_string(),
            "leader": "http://127.0.0.1:18091/",
            "helper": "http://127.0.0.1:18092/",
            "vdaf": { "type": "Prio3Histogram", "length": "8", "chunk_length": "3" },
            "min_batch_size": 20,
            "time_precision": 3600,
        });
        for (key, field) in extra.as_object().unwrap() {
            value[key] = field.clone();
        }
        request(&Bytes::from(value.to_string()))
    }

    #[test]
    fn both_generations_make_the_same_bytes() {
        let new = description(json!({ "batch_mode": 1 })).unwrap().task().unwrap();
        let old = json!({
            "query_type": 1, "max_batch_query_count": 1, "max_batch_size": null,
            "task_expiration": 9999999999u64, "min_batch_size": "20", "time_precision": "3600",
        });
        let old = description(old).unwrap().task().unwrap();
        assert_eq!(new.encoded_configuration(), old.encoded_configuration());
        // The first bytes, as other implementations have them: the length of task_info, and
        // task_info.
        assert_eq!(&new.encoded_configuration()[..10], b"\x09task-info");
    }

    #[test]
    fn bits_are_a_largest_measurement() {
        let config = |vdaf: Value| vdaf_config(vdaf.as_object().unwrap());
        let bits = |bits: Value| config(json!({ "type": "Prio3Sum", "bits": bits }));
        assert_eq!(bits(json!("8")).unwrap(), VdafConfig::sum(255));
        assert_eq!(bits(json!(64)).unwrap(), VdafConfig::sum(u64::MAX));
        for bad in [json!(0), json!(65), json!("x")] {
            assert!(bits(bad).is_err());
        }
        let vec = json!({ "type": "Prio3SumVec", "bits": 1, "length": "10", "chunk_length": "4" });
        let VdafConfig::Prio3SumVec { length, max_measurement, chunk_length } =
            config(vec).unwrap()
        else {
            panic!("another VDAF");
        };
        assert_eq!((length, max_measurement, chunk_length), (10, 1, 4));
    }

    #[test]
    fn failures_are_answers() {
        let Json(value) = answer(Err(anyhow!("inner").context("outer")));
        assert_eq!(value, json!({ "status": "error", "error": "outer: inner" }));
        assert!(description(json!({ "batch_mode": 3 })).unwrap().task().is_err());
        assert!(description(json!({ "batch_mode": 1, "leader": 5 })).is_err());
    }
}
