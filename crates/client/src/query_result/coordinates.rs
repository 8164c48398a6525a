//! The coordinates of a vector, as columns: there may be a million of them.

use serde::{Deserialize, Serialize};
use sotto_dp::Error;
use sotto_dp::mechanism::{
    Collected, Estimate, Mechanism, Norm, norm, projected_back, vector_mean,
};
use sotto_dp::projection::Projection;
use sotto_protocol::recipe::projection;
use sotto_wire::recipe::{Query, VectorQuery};

use super::row::{self, Row};
use super::{LEVEL, ReadError, json};

/// How many standard errors the intervals of [`super::LEVEL`] have on either side.
const ERRORS: f64 = 1.96;

/// What is known of each coordinate of a vector, in order. All columns have the same length, but
/// those that there are not, which are empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Coordinates {
    /// What they really are: known to a simulation, which plays every part.
    #[serde(default, with = "json::numbers", skip_serializing_if = "Vec::is_empty")]
    pub truths: Vec<f64>,
    /// The unbiased estimates.
    #[serde(with = "json::numbers")]
    pub estimates: Vec<f64>,
    /// Their standard errors, from noise and sampling together, at most: as if all vectors pointed
    /// along this axis.
    #[serde(with = "json::numbers")]
    pub errors: Vec<f64>,
    /// The low ends of the total intervals.
    #[serde(with = "json::low_ends")]
    pub lows: Vec<f64>,
    /// Their high ends.
    #[serde(with = "json::high_ends")]
    pub highs: Vec<f64>,
    /// The standard errors from the noise alone.
    #[serde(with = "json::numbers")]
    pub noise_errors: Vec<f64>,
    /// The low ends of the intervals from the noise alone.
    #[serde(with = "json::low_ends")]
    pub noise_lows: Vec<f64>,
    /// Their high ends.
    #[serde(with = "json::high_ends")]
    pub noise_highs: Vec<f64>,
    /// The root of the mean, over all coordinates, of their squared errors from noise and sampling
    /// together, at most. Vectors cannot point along all axes, so it is smaller than the errors of
    /// single coordinates.
    #[serde(with = "json::number")]
    pub rms_error: f64,
}

/// The coordinates of a sum or a mean, and what is computed from them.
pub(super) fn of(
    query: &Query,
    mechanism: &Mechanism,
    collected: &Collected<'_>,
) -> Result<Option<(Coordinates, Vec<Row>)>, Error> {
    let Some(vectors) = query.vectors() else { return Ok(None) };
    let unit = unit(vectors);
    let (estimates, norm, devices) = match query {
        Query::VectorMean(_) => {
            let found = vector_mean(mechanism, collected)?;
            (found.numbers, found.norm, Some(found.devices))
        }
        _ => (mechanism.estimates(collected)?, norm(mechanism, collected)?, None),
    };
    let (mut estimates, mut rms_error) = (estimates, norm.total_error);
    let projection = projection(query)?;
    if let Some(projection) = &projection {
        estimates = projected_back(projection, &estimates, &norm, LEVEL)?;
        // What the projection hides, in the mean over all coordinates.
        let hidden = Projection::squared_error(projection.length(), projection.kept())?;
        rms_error = (rms_error * rms_error + hidden * norm.square.max(0.0)).sqrt();
    }
    // A projection changes the norm, by how much depends on the vector: nothing is said about it.
    let norm = projection.is_none().then(|| norm_row(&norm.scaled(unit)));
    let mut found = Coordinates { rms_error: rms_error * unit, ..Coordinates::default() };
    estimates.into_iter().for_each(|one| found.push(&one.scaled(unit)));
    let devices = devices.map(|devices| Row::estimated("devices", &devices));
    Ok(Some((found, devices.into_iter().chain(norm).collect())))
}

/// The value of one unit of a coordinate.
fn unit(vectors: &VectorQuery) -> f64 {
    // A power of two: exact.
    1.0 / (1_u64 << vectors.fraction_bits.min(63)) as f64
}

/// Intervals of norms come without an error; theirs is the one that the interval implies.
fn norm_row(norm: &Norm) -> Row {
    let error = |low: f64, high: f64| (high - low) / (2.0 * ERRORS);
    let (low, high) = (norm.noise_low, norm.noise_high);
    let noise = row::Noise { stderr: error(low, high), low, high };
    Row {
        stderr: error(norm.total_low, norm.total_high),
        low: norm.total_low,
        high: norm.total_high,
        noise: Some(noise),
        ..Row::exact("norm", norm.value)
    }
}

impl Coordinates {
    fn push(&mut self, one: &Estimate) {
        self.estimates.push(one.value);
        self.errors.push(one.total_error);
        self.lows.push(one.total_low);
        self.highs.push(one.total_high);
        self.noise_errors.push(one.noise_error);
        self.noise_lows.push(one.noise_low);
        self.noise_highs.push(one.noise_high);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.estimates.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.estimates.is_empty()
    }

    /// Each coordinate as a row of a table. Its label is its index, from 0.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        let at = |column: &[f64], index: usize| column.get(index).copied().unwrap_or_default();
        (0..self.len()).map(move |index| Row {
            truth: self.truths.get(index).copied(),
            stderr: at(&self.errors, index),
            low: at(&self.lows, index),
            high: at(&self.highs, index),
            noise: Some(row::Noise {
                stderr: at(&self.noise_errors, index),
                low: at(&self.noise_lows, index),
                high: at(&self.noise_highs, index),
            }),
            ..Row::exact(index.to_string(), at(&self.estimates, index))
        })
    }

    /// As `most` rows or fewer: each is the mean of several coordinates that follow each other. An
    /// interval is the mean of theirs, which is wider than that of the mean.
    pub fn binned(&self, most: usize) -> Vec<Row> {
        let size = self.len().div_ceil(most.max(1)).max(1);
        let mean = |column: &[f64], from: usize| {
            let part = column.iter().skip(from).take(size);
            let count = part.len().max(1) as f64;
            part.sum::<f64>() / count
        };
        let from = (0..self.len()).step_by(size);
        from.map(|from| Row {
            truth: self.truths.get(from).map(|_| mean(&self.truths, from)),
            stderr: mean(&self.errors, from),
            low: mean(&self.lows, from),
            high: mean(&self.highs, from),
            noise: Some(row::Noise {
                stderr: mean(&self.noise_errors, from),
                low: mean(&self.noise_lows, from),
                high: mean(&self.noise_highs, from),
            }),
            ..Row::exact(from.to_string(), mean(&self.estimates, from))
        })
        .collect()
    }

    /// Whether all columns have the same length.
    pub(super) fn check(&self) -> Result<(), ReadError> {
        let columns = [
            &self.errors,
            &self.lows,
            &self.highs,
            &self.noise_errors,
            &self.noise_lows,
            &self.noise_highs,
        ];
        let truths = [0, self.len()].contains(&self.truths.len());
        match truths && columns.iter().all(|column| column.len() == self.len()) {
            true => Ok(()),
            false => Err(ReadError::Value("its coordinates have columns of different lengths")),
        }
    }
}
