//! What is true of the whole population, and the error to expect of estimates of it.
//!
//! The prediction is that of `sotto plan` ([`Prediction`]), with what the devices really hold in place
//! of what a plan assumes about them. Nothing that is collected is in it.

use anyhow::Result;
use sotto_dp::mechanism::{
    Collected as Sums, Entry, Estimate, Mechanism, Value, mean, vector_mean,
};
use sotto_protocol::plan::{Prediction, is_mean, unit};
use sotto_protocol::recipe::{Assessment, rates};
use sotto_wire::Recipe;
use sotto_wire::recipe::{Query, VectorQuery};

use super::devices::Devices;
use super::memory::{Group, Memory};

/// What is true of the whole population.
#[derive(Clone, Debug)]
pub(super) struct Truth {
    /// The numbers that are estimated.
    pub(super) numbers: Vec<f64>,
    /// Those of them that count for the error: all but the default of a sparse histogram.
    pub(super) compared: Vec<usize>,
    /// The squared error to expect.
    pub(super) predicted: f64,
    /// The same of the exact answers of those who take part.
    pub(super) non_private: f64,
    /// What one unit of a sum stands for.
    pub(super) unit: f64,
    /// Of how many devices a mean is estimated; 1 for a sum.
    pub(super) devices: f64,
    /// How many reports are expected, and their standard deviation.
    pub(super) expected: f64,
    pub(super) deviation: f64,
}

impl Truth {
    fn new(recipe: &Recipe, memory: &Memory) -> Result<Self> {
        let (mut expected, mut variance, mut all) = (0.0, 0.0, 0.0);
        let mut held = vec![(0.0, 0.0); count(&recipe.query)];
        for group in &memory.groups {
            let (count, rate) = (group.devices as f64, group.rate.to_f64());
            let sends = rate + (1.0 - rate) * memory.dummy_rate.to_f64();
            expected += count * sends;
            variance += count * sends * (1.0 - sends);
            all += count;
            for (at, value) in &group.held {
                if let Some((sum, squares)) = held.get_mut(*at) {
                    *sum += count * value;
                    *squares += count * value * value;
                }
            }
        }
        let default = rates(recipe).default.map(|default| default as usize);
        let defaults = default.and_then(|at| held.get(at)).map_or(0.0, |(sum, _)| *sum);
        let compared: Vec<usize> = (0..held.len()).filter(|at| Some(*at) != default).collect();
        let is_mean = is_mean(&recipe.query);
        let typical = typical(compared.iter().filter_map(|at| held.get(*at)), is_mean);
        let devices = if is_mean { all } else { 1.0 };
        Ok(Self {
            numbers: held.iter().map(|(sum, _)| sum / devices).collect(),
            compared,
            predicted: Prediction::new(recipe, all, defaults)?.error(&typical)?.total.powi(2),
            non_private: Prediction::without_privacy(recipe, all, defaults)?
                .error(&typical)?
                .total
                .powi(2),
            unit: unit(&recipe.query),
            devices,
            expected,
            deviation: variance.sqrt(),
        })
    }

    pub(super) fn is_mean(&self) -> bool {
        self.devices > 1.0
    }

    /// The squared error of these numbers.
    pub(super) fn error(&self, values: &[f64]) -> f64 {
        let of = |values: &[f64], at: usize| values.get(at).copied().unwrap_or_default();
        self.mean(|at| (of(values, at) - of(&self.numbers, at)).powi(2))
    }

    /// The mean over what is compared.
    pub(super) fn mean(&self, each: impl Fn(usize) -> f64) -> f64 {
        self.compared.iter().map(|at| each(*at)).sum::<f64>() / self.compared.len().max(1) as f64
    }

    /// The estimates of the numbers, in their units.
    pub(super) fn estimates(
        &self,
        query: &Query,
        mechanism: &Mechanism,
        found: &Sums<'_>,
    ) -> Result<Vec<Estimate>> {
        let estimates = match query {
            Query::Mean { .. } => vec![mean(mechanism, found)?.mean],
            Query::VectorMean(_) => vector_mean(mechanism, found)?.numbers,
            _ => mechanism.estimates(found)?,
        };
        Ok(estimates.into_iter().map(|one| one.scaled(self.unit)).collect())
    }
}

/// The entry whose squared error is the mean of those of all: squared errors are linear in the sum
/// and in the squares, those of a mean in the square of the sum.
fn typical<'a>(held: impl Iterator<Item = &'a (f64, f64)>, is_mean: bool) -> Entry {
    let (mut count, mut sums, mut squares) = (0.0_f64, 0.0, 0.0);
    for (sum, square) in held {
        count += 1.0;
        sums += if is_mean { sum * sum } else { *sum };
        squares += square;
    }
    let sum = sums / count.max(1.0);
    let sum = if is_mean { sum.sqrt() } else { sum };
    Entry { sum, squares: squares / count.max(1.0), is_default: false }
}

/// The devices of a recipe in memory, and the truth about them.
pub(super) fn of(assessment: &Assessment, devices: &Devices) -> Result<(Memory, Truth)> {
    let (recipe, mechanism) = (assessment.recipe(), *assessment.mechanism());
    let unit = unit(&recipe.query);
    let asked = devices.kinds.iter().filter(|(kind, _)| assessment.is_for(kind));
    let groups = asked.map(|(kind, devices)| Group {
        value: assessment.input(kind),
        held: held(assessment.answer(kind), unit),
        rate: assessment.rate(kind),
        devices: *devices,
    });
    let dummy_rate = recipe.sampling.dummy_rate;
    let memory = Memory { mechanism, dummy_rate, groups: groups.collect() };
    let truth = Truth::new(recipe, &memory)?;
    Ok((memory, truth))
}

/// How many numbers are estimated.
fn count(query: &Query) -> usize {
    let vectors = query.vectors().map(VectorQuery::sent);
    vectors.or(query.buckets()).unwrap_or(1) as usize
}

/// What a device adds to the true numbers.
fn held(answer: Value, unit: f64) -> Vec<(usize, f64)> {
    match answer {
        Value::Bit(bit) => vec![(0, f64::from(u8::from(bit)))],
        Value::Number(number) => vec![(0, number as f64)],
        Value::OneHot(bucket) => vec![(bucket as usize, 1.0)],
        Value::Labels(labels) => labels.into_iter().map(|label| (label as usize, 1.0)).collect(),
        Value::Vector(numbers) => {
            numbers.into_iter().enumerate().map(|(at, one)| (at, unit * one as f64)).collect()
        }
    }
}
