//! What a collection says: estimates with intervals, and everything that is needed to understand
//! them later, without the recipe and without the log. It can be kept as a file.
//!
//! [`QueryResult`] is the one type for all kinds of queries. [`QueryResult::to_json`] is what `sotto
//! collect --json` prints, and what is kept; [`QueryResult::table`] and [`QueryResult::to_csv`] are
//! for other programs, [`QueryResult::to_svg`] is a chart. [`Comparison`] says whether two results
//! differ by more than noise.
//!
//! Nobody knows which reports the aggregators refused in a batch, so that is not in here: below the
//! minimum batch nobody learns anything, and above it only the count.

mod compare;
mod coordinates;
mod json;
mod row;
mod statistics;
mod svg;
mod table;

use serde::{Deserialize, Serialize};
use sotto_dp::Error;
use sotto_dp::mechanism::{Collected as Batch, Mechanism, onto_simplex};
use sotto_protocol::Task;
use sotto_protocol::recipe::{mechanism, rates};
use sotto_vdaf::AggregateResult;
use sotto_wire::recipe::{Adjacency, Privacy, Query};
use sotto_wire::{BatchMode, EntryId, KeyName, ListedInterval, Recipe, TaskId};

use crate::Collected;

pub use compare::{Comparison, Incomparable, RowDifference};
pub use coordinates::Coordinates;
pub use json::{FORMAT, ReadError};
pub use row::{Noise, Row};
pub use svg::{axis, text};
pub use table::{Cells, Column};

/// The level of all intervals.
pub const LEVEL: f64 = 0.95;

/// The result of one collection.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryResult {
    /// The DAP task.
    pub task_id: TaskId,
    /// How its reports are grouped.
    pub batch_mode: BatchMode,
    /// The collection job at the leader.
    pub job_id: String,
    /// How many reports were summed.
    pub count: u64,
    /// What the batch covers, in seconds.
    pub interval: ListedInterval,
    /// What leader and helper summed.
    pub sums: AggregateResult,
    /// What that means; `None` for a plain DAP task.
    pub meaning: Option<Meaning>,
}

/// The answer to the question of a recipe. The fields are in the order of the JSON form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meaning {
    /// The recipe.
    pub recipe_id: EntryId,
    /// Its name.
    #[serde(deserialize_with = "json::visible")]
    pub name: String,
    /// Its purpose, in the author's words.
    #[serde(deserialize_with = "json::visible")]
    pub purpose: String,
    /// The origin of the log that holds it.
    #[serde(deserialize_with = "json::visible")]
    pub log: String,
    /// Its index there, if that is known.
    pub index: Option<u64>,
    /// Who ran the leader.
    pub leader_operator: KeyName,
    /// Who ran the helper.
    pub helper_operator: KeyName,
    /// What was asked.
    pub kind: Kind,
    /// How many devices there are, as the author stated it.
    pub population: u64,
    /// Nothing was released below this number of reports.
    pub min_batch: u64,
    /// The probability that a device took part.
    #[serde(with = "json::number")]
    pub rate: f64,
    /// The same for devices with the default value, if it differs.
    #[serde(default, with = "json::optional", skip_serializing_if = "Option::is_none")]
    pub default_rate: Option<f64>,
    /// The probability that another device sent a report of nothing, if that is not zero.
    #[serde(default, with = "json::optional", skip_serializing_if = "Option::is_none")]
    pub dummy_rate: Option<f64>,
    /// The probability that a device that sent no report sent cover.
    #[serde(with = "json::number")]
    pub cover: f64,
    /// The kind of the mechanism, as recipes spell it.
    #[serde(deserialize_with = "json::visible")]
    pub mechanism: String,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// The privacy loss that the recipe claims; infinite if it claims none.
    #[serde(with = "json::epsilon")]
    pub epsilon: f64,
    /// Its delta; `None` if nothing is claimed.
    #[serde(with = "json::optional")]
    pub delta: Option<f64>,
    /// Which data sets are neighbours; `None` if nothing is claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adjacency: Option<Neighbours>,
    /// The level of the intervals, [`LEVEL`].
    pub level: f64,
    /// What was counted or summed; empty for vectors.
    pub buckets: Vec<Row>,
    /// The vector, if vectors were summed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinates: Option<Coordinates>,
    /// What is computed from it: a mean, quantiles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statistics: Vec<Row>,
}

/// The kind of a query, as recipes spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// How many devices say yes.
    Count,
    /// The sum of a number per device.
    Sum,
    /// Sum, number of participants and their ratio.
    Mean,
    /// How many devices fall into each bucket.
    Histogram,
    /// The same for ordered buckets, and quantiles.
    Quantiles,
    /// How many devices have each of several labels.
    MultiHistogram,
    /// How many devices have each label other than one that almost all have.
    SparseHistogram,
    /// The sum of a vector per device.
    VectorSum,
    /// The mean of a vector per device.
    VectorMean,
}

/// Which data sets are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbours {
    /// One device's data is replaced.
    Replace,
    /// One device is added or removed.
    AddRemove,
}

impl Neighbours {
    /// What happens to one device's data, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Replace => "replaced",
            Self::AddRemove => "added or removed",
        }
    }
}

/// A parameter of a mechanism.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name.
    #[serde(deserialize_with = "json::visible")]
    pub name: String,
    /// Its value.
    #[serde(with = "json::number")]
    pub value: f64,
}

impl QueryResult {
    /// The result of a batch. With a recipe, and its index in the log if that is known, it says what
    /// the sums mean.
    pub fn new(
        task: &Task,
        recipe: Option<(&Recipe, Option<u64>)>,
        collected: &Collected,
    ) -> Result<Self, Error> {
        let collection = &collected.collection;
        let precision = task.configuration().time_precision();
        let meaning =
            recipe.map(|(recipe, index)| Meaning::new(recipe, index, collected)).transpose()?;
        Ok(Self {
            task_id: *task.id(),
            batch_mode: task.configuration().batch_mode(),
            job_id: collected.job.id().to_owned(),
            count: collection.report_count,
            interval: ListedInterval {
                start: collection.interval.start().start_seconds(precision),
                duration: collection.interval.duration().as_seconds(precision),
            },
            sums: collection.result.clone(),
            meaning,
        })
    }

    /// What was counted or summed. Without a recipe, the sums themselves, which are exact.
    pub fn buckets(&self) -> Vec<Row> {
        match &self.meaning {
            Some(Meaning { coordinates: Some(coordinates), .. }) => coordinates.rows().collect(),
            Some(meaning) => meaning.buckets.clone(),
            None => {
                let sums = self.sums.as_slice().iter().enumerate();
                sums.map(|(index, sum)| Row::exact(index.to_string(), *sum as f64)).collect()
            }
        }
    }

    /// The estimates alone, in order: of the coordinates, or of the buckets.
    pub fn estimates(&self) -> Vec<f64> {
        match &self.meaning {
            Some(Meaning { coordinates: Some(coordinates), .. }) => coordinates.estimates.clone(),
            _ => self.buckets().into_iter().map(|row| row.estimate).collect(),
        }
    }

    /// Adds consistent estimates beside the unbiased ones: not negative, not more than there are
    /// devices, and adding up to the number of devices where each device is in exactly one bucket.
    /// Vectors have none.
    ///
    /// That number is the one that the count of reports implies. The author's `population` is a
    /// guess, and estimates must not be bent towards it.
    pub fn add_consistent(&mut self) {
        let Some(meaning) = &mut self.meaning else { return };
        let devices = meaning.devices(self.count);
        let values: Vec<f64> = meaning.buckets.iter().map(|row| row.estimate).collect();
        let clamped = |most: f64| values.iter().map(|value| value.clamp(0.0, most)).collect();
        let consistent: Vec<f64> = match (meaning.kind, devices) {
            (Kind::Histogram | Kind::Quantiles | Kind::SparseHistogram, Some(devices)) => {
                onto_simplex(&values, devices)
            }
            (Kind::Count | Kind::MultiHistogram, Some(devices)) => clamped(devices),
            _ => clamped(f64::INFINITY),
        };
        for (row, value) in meaning.buckets.iter_mut().zip(consistent) {
            row.consistent = Some(value);
        }
    }
}

impl Meaning {
    fn new(recipe: &Recipe, index: Option<u64>, collected: &Collected) -> Result<Self, Error> {
        let collection = &collected.collection;
        let sums = collection.result.as_slice();
        let reports = collection.report_count;
        let batch = Batch { sums, reports, sampling: rates(recipe), level: LEVEL };
        let mechanism = mechanism(recipe)?;
        let (coordinates, buckets, statistics) =
            match coordinates::of(&recipe.query, &mechanism, &batch)? {
                Some((coordinates, statistics)) => (Some(coordinates), Vec::new(), statistics),
                None => {
                    let found = mechanism.estimates(&batch)?;
                    let row = |(at, one)| Row::estimated(label(&recipe.query, at), one);
                    let rows = found.iter().enumerate().map(row).collect();
                    (None, rows, statistics::of(&recipe.query, &mechanism, &batch)?)
                }
            };
        let (epsilon, delta, adjacency) = match &recipe.privacy {
            Privacy::Claim { epsilon_micro, delta, adjacency, .. } => {
                let neighbours = match adjacency {
                    Adjacency::Replace => Neighbours::Replace,
                    Adjacency::AddRemove => Neighbours::AddRemove,
                };
                (*epsilon_micro as f64 / 1e6, Some(delta.to_f64()), Some(neighbours))
            }
            Privacy::InsecureUnbounded => (f64::INFINITY, None, None),
        };
        Ok(Self {
            recipe_id: recipe.id(),
            name: recipe.name.clone(),
            purpose: recipe.purpose.clone(),
            log: recipe.parties.log.clone(),
            index,
            leader_operator: recipe.parties.leader.operator.clone(),
            helper_operator: recipe.parties.helper.operator.clone(),
            kind: kind(&recipe.query),
            population: recipe.who.population,
            min_batch: recipe.aggregation.min_batch,
            rate: recipe.sampling.rate.to_f64(),
            default_rate: recipe.sampling.default_rate.map(|rate| rate.to_f64()),
            dummy_rate: Some(recipe.sampling.dummy_rate.to_f64()).filter(|rate| *rate > 0.0),
            cover: recipe.sampling.cover.to_f64(),
            mechanism: mechanism.kind().to_owned(),
            parameters: parameters(recipe, &mechanism),
            epsilon,
            delta,
            adjacency,
            level: LEVEL,
            buckets,
            coordinates,
            statistics,
        })
    }

    /// How many devices there are, according to the number of reports; `None` if the reports do not
    /// say that, because the devices had different rates.
    fn devices(&self, count: u64) -> Option<f64> {
        let one_rate = self.default_rate.is_none_or(|rate| rate == self.rate);
        let sending = self.rate + (1.0 - self.rate) * self.dummy_rate.unwrap_or(0.0);
        one_rate.then_some(count as f64 / sending)
    }
}

fn kind(query: &Query) -> Kind {
    match query {
        Query::Count { .. } => Kind::Count,
        Query::Sum { .. } => Kind::Sum,
        Query::Mean { .. } => Kind::Mean,
        Query::Histogram { .. } | Query::Nearest { .. } => Kind::Histogram,
        Query::Quantiles { .. } => Kind::Quantiles,
        Query::MultiHistogram { .. } => Kind::MultiHistogram,
        Query::SparseHistogram { .. } => Kind::SparseHistogram,
        Query::VectorSum(_) => Kind::VectorSum,
        Query::VectorMean(_) => Kind::VectorMean,
    }
}

/// The parameters of the mechanism, and how vectors became whole numbers.
fn parameters(recipe: &Recipe, mechanism: &Mechanism) -> Vec<Parameter> {
    let named = |name: &str, value| Parameter { name: name.to_owned(), value };
    let own = mechanism.words().parameters;
    let own = own.into_iter().map(|one| named(one.name, one.micro as f64 / 1e6));
    let vectors = recipe.query.vectors().into_iter().flat_map(|vectors| {
        let sent = vectors.compression.map(|one| named("numbers sent", one.dimension.into()));
        let seed = vectors.compression.map(|one| named("seed", one.seed as f64));
        [
            Some(named("clip", vectors.clip_micro as f64 / 1e6)),
            Some(named("fraction bits", vectors.fraction_bits.into())),
            sent,
            seed,
        ]
    });
    own.chain(vectors.flatten()).collect()
}

fn label(query: &Query, index: usize) -> String {
    match query {
        Query::Count { .. } => "count".to_owned(),
        Query::Sum { .. } | Query::Mean { .. } => "sum".to_owned(),
        _ => {
            let bucket = u32::try_from(index).ok().and_then(|bucket| query.bucket_name(bucket));
            bucket.unwrap_or_else(|| index.to_string())
        }
    }
}

#[cfg(test)]
mod tests;
