//! How far estimates are from the truth, in collections from the coin to the result, against what
//! the result says about itself.
//!
//! A histogram under RAPPOR, projective geometry response and noise of the aggregators. The squared
//! errors of all buckets are added up, and so are the squares of the standard errors that the result
//! prints: from noise and sampling together, against the true histogram of all devices, and from the
//! noise alone, against that of those who took part. The two sums should be equal.

use anyhow::{Context, Result};
use sotto_client::query_result::Row;
use sotto_dp::mechanism::Value;
use sotto_protocol::expression::Value as Attribute;
use sotto_wire::recipe::{Noise, Probability, Query, Randomizer, Sampling};

use crate::pipeline::{Batch, Group, Pipeline, asking};

/// Of RAPPOR and of projective geometry response, under deletion: the flip probability of the first
/// is 0.03.
const EPSILON_MICRO: u64 = 3_500_000;
/// Of each aggregator.
const SIGMA_MICRO: u64 = 10_000_000;

/// The size of a collection.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// All devices, those that do not take part included.
    pub devices: u64,
    /// The probability with which each takes part.
    pub rate: Probability,
    /// Buckets of the histogram.
    pub buckets: u32,
}

/// Sums over all buckets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Errors {
    /// The squares of the differences.
    pub measured: f64,
    /// The squares of the standard errors.
    pub predicted: f64,
}

impl Errors {
    /// What the measured errors are of the predicted ones.
    pub fn ratio(&self) -> f64 {
        self.measured / self.predicted
    }

    fn add(&mut self, difference: f64, error: f64) {
        self.measured += difference * difference;
        self.predicted += error * error;
    }
}

/// One collection with one mechanism.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The mechanism, as recipes spell it.
    pub mechanism: &'static str,
    /// How many reports were counted.
    pub reports: u64,
    /// Against all devices.
    pub total: Errors,
    /// Against those who took part.
    pub noise: Errors,
}

/// One collection with each mechanism.
pub fn run(scale: Scale, seed: u64) -> Result<Vec<Outcome>> {
    let (sampling, buckets) = (Sampling::new(scale.rate), scale.buckets);
    let geometry = Randomizer::ProjectiveGeometry { epsilon_micro: EPSILON_MICRO };
    let servers = Noise::ServerGaussian { sigma_micro: SIGMA_MICRO };
    let recipes = [
        (Randomizer::Rappor { epsilon_micro: EPSILON_MICRO }, None),
        (geometry, None),
        (Randomizer::None, Some(servers)),
    ];
    let recipe = |(index, (randomizer, noise))| {
        let mapping = "region".to_owned();
        let query = Query::Histogram { buckets, labels: None, mapping, fallback: 0 };
        asking(&format!("errors-{index}"), query, sampling, randomizer, noise)
    };
    let recipes = (0..3).zip(recipes).map(recipe).collect::<Result<Vec<_>>>()?;
    let (pipeline, groups) = (Pipeline::start(recipes)?, groups(scale));
    let batches = (0..3).map(|index| {
        // Other devices for each mechanism and run.
        let seed = (3 * seed + index as u64) * scale.devices;
        pipeline.send(index, 0, &groups, true, seed)
    });
    let batches = batches.collect::<Result<Vec<_>>>()?;
    let results = pipeline.collect(&batches)?;
    let outcomes = (0..).zip(batches.iter().zip(&results)).map(|(index, (batch, result))| {
        let mechanism = pipeline.question(index).mechanism().kind();
        let (total, noise) = errors(&groups, batch, &result.buckets(), scale)?;
        Ok(Outcome { mechanism, reports: result.count, total, noise })
    });
    outcomes.collect()
}

/// Devices by bucket: the next bucket holds less than the one before, as words do (Zipf).
fn groups(scale: Scale) -> Vec<Group> {
    let weight = |bucket: u32| 1.0 / f64::from(bucket + 1);
    let all: f64 = (0..scale.buckets).map(weight).sum();
    let group = |bucket: u32| Group {
        attributes: [("region".to_owned(), Attribute::Int(bucket.into()))].into(),
        value: Value::OneHot(bucket),
        rate: scale.rate,
        devices: (weight(bucket) / all * scale.devices as f64) as u64,
    };
    let mut groups: Vec<_> = (0..scale.buckets).map(group).collect();
    // Who is left by rounding down.
    let counted: u64 = groups.iter().map(|group| group.devices).sum();
    groups[0].devices += scale.devices - counted;
    groups
}

fn errors(groups: &[Group], batch: &Batch, rows: &[Row], scale: Scale) -> Result<(Errors, Errors)> {
    let (mut total, mut noise) = (Errors::default(), Errors::default());
    for ((group, taking_part), row) in groups.iter().zip(&batch.taking_part).zip(rows) {
        total.add(row.estimate - group.devices as f64, row.stderr);
        let alone = row.noise.context("an estimate has noise")?;
        noise.add(row.estimate - *taking_part as f64 / scale.rate.to_f64(), alone.stderr);
    }
    Ok((total, noise))
}
