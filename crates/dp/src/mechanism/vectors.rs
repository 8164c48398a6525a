//! Sums of vectors: estimates for each number, for the norm, and the mean.
//!
//! All are in units of the sum: whoever chose a fixed point undoes it ([`Estimate::scaled`]).
//!
//! **Each number.** Noise of the variance `V` is on every number alike, so `S/q` has the standard
//! error `sqrt(V)/q` against those who took part. For the population, sampling adds `(1 - q)` times
//! the sum of the squares of the number over those who took part. The squares are not collected. None
//! is above `C^2`, the square of the largest norm, so `(1 - q) g m C^2` is an upper bound (of `m`
//! reports a part `g` is real). It is reached if all vectors point along this axis. The squares over
//! all numbers together have the same bound, so the root of the mean of the squared errors over all
//! `d` numbers is far smaller: [`Norm::total_error`].
//!
//! **The norm** of the sum over those who took part, `T`. `M = |S|^2 - d V` is unbiased for its
//! square, with the variance `2 d V^2 + 4 V |T|^2`, and the interval is the score interval
//! ([`super::estimate`]). For the population the triangle inequality gives a bound: the sum over those
//! who took part is at most `sqrt(A) (1 + sqrt(2 ln 1/tail))` away from `q` times that over all, with
//! `A = (1 - q) g m C^2` (a norm moves by no more than its argument, so it is concentrated around
//! its mean like one number of the largest variance). A half of what may lie outside is for each of
//! the two.
//!
//! **The mean** is `S/(g m)`, with Fieller's intervals as for numbers ([`super::mean()`]). A device
//! with the value `v` adds `v - x g` if it takes part and `-x g` as a dummy, so with `v^2 <= C^2`
//!
//! ```text
//! Var(S - x g m) = V + N (q (1 - q) C^2 - q (g - q) x^2)           at most
//! ```

use super::estimate::Sample;
use super::mean::{Ratio, devices};
use super::{Collected, Encoding, Estimate, Mechanism, Variance};
use crate::Error;
use crate::error::in_range;
use crate::math::{ln, sqrt};
use crate::projection::Projection;

/// What a sum of vectors says about its norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// The root of the unbiased estimate of the square, or 0 if that is negative.
    pub value: f64,
    /// The unbiased estimate of the square.
    pub square: f64,
    /// Low end of the interval from the noise alone.
    pub noise_low: f64,
    /// High end of the interval from the noise alone.
    pub noise_high: f64,
    /// Low end of the interval from noise and sampling together.
    pub total_low: f64,
    /// High end of the interval from noise and sampling together.
    pub total_high: f64,
    /// The root of the mean, over all numbers, of their squared errors from the noise alone.
    pub noise_error: f64,
    /// The same from noise and sampling together, at most.
    pub total_error: f64,
}

/// What a sum of vectors says about the mean.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorMean {
    /// The number of devices in the population.
    pub devices: Estimate,
    /// The numbers of the mean.
    pub numbers: Vec<Estimate>,
    /// The norm of the mean.
    pub norm: Norm,
}

impl Estimate {
    /// In other units: all of it times a positive `factor`.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        self.mapped(|number| number * factor)
    }

    fn mapped(self, f: impl Fn(f64) -> f64) -> Self {
        let [value, noise_error, noise_low, noise_high] =
            [self.value, self.noise_error, self.noise_low, self.noise_high].map(&f);
        let [total_error, total_low, total_high] =
            [self.total_error, self.total_low, self.total_high].map(&f);
        Self { value, noise_error, noise_low, noise_high, total_error, total_low, total_high }
    }
}

impl Norm {
    /// In other units: all of it times a positive `factor`.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            square: self.square * factor * factor,
            noise_low: self.noise_low * factor,
            noise_high: self.noise_high * factor,
            total_low: self.total_low * factor,
            total_high: self.total_high * factor,
            noise_error: self.noise_error * factor,
            total_error: self.total_error * factor,
        }
    }
}

/// What is known of a collection of vectors.
struct Vectors {
    /// `V`.
    variance: f64,
    /// `A`: the largest sum of the variances of all numbers from sampling.
    sampled: f64,
    /// `g m`.
    real: f64,
    /// The part of the reports that is real, `g`.
    part: f64,
    clip: f64,
    sample: Sample,
}

impl Vectors {
    fn of(collected: &Collected<'_>, clip: u64, variance: f64) -> Result<Self, Error> {
        let rates = &collected.sampling;
        let sample = Sample::new(rates.rate, collected.level)?;
        let part = (rates.rate / rates.sending(rates.rate)).min(1.0);
        let (real, clip) = (part * collected.reports as f64, clip as f64);
        let sampled = (1.0 - rates.rate) * real * clip * clip;
        Ok(Self { variance, sampled, real, part, clip, sample })
    }

    /// The norm of the sum over the population.
    fn norm(&self, sums: &[i128]) -> Norm {
        let (d, rate) = (sums.len() as f64, self.sample.rate);
        let squares: f64 = sums.iter().map(|sum| (*sum as f64) * (*sum as f64)).sum();
        let square = squares - d * self.variance;
        let law = Variance {
            at_zero: 2.0 * d * self.variance * self.variance,
            slope: 4.0 * self.variance,
        };
        let ends = |sample: &Sample| {
            let found = sample.estimate(square, law, 0.0);
            // Of the square of the sum over those who took part.
            [found.noise_low, found.noise_high].map(|end| sqrt((end * rate).max(0.0)))
        };
        let [noise_low, noise_high] = ends(&self.sample);
        let [mut total_low, mut total_high] = [noise_low, noise_high];
        if self.sampled > 0.0 {
            let half = Sample::of_tail(rate, self.sample.tail / 2.0);
            let away = sqrt(self.sampled) * (1.0 + sqrt(-2.0 * ln(half.tail)));
            let [low, high] = ends(&half);
            (total_low, total_high) = ((low - away).max(0.0), high + away);
        }
        Norm {
            value: sqrt(square.max(0.0)),
            square,
            noise_low,
            noise_high,
            total_low,
            total_high,
            noise_error: sqrt(self.variance),
            total_error: sqrt(self.variance + self.sampled / d),
        }
        .scaled(1.0 / rate)
    }
}

/// The estimates of the numbers, from sums with noise of this variance.
pub(super) fn coordinates(
    collected: &Collected<'_>,
    encoding: Encoding,
    variance: f64,
) -> Result<Vec<Estimate>, Error> {
    collected.check(encoding)?;
    let Encoding::Vector { norm_bound, .. } = encoding else { return Err(NOT_VECTORS) };
    let vectors = Vectors::of(collected, norm_bound, variance)?;
    let rate = vectors.sample.rate;
    let of = |at_zero: f64| vectors.sample.estimate(0.0, Variance { at_zero, slope: 0.0 }, 0.0);
    // The same for all of them, as they are independent of what is estimated.
    let (noise, total) = (of(variance), of(variance + vectors.sampled));
    let estimate = |sum: &i128| {
        let value = *sum as f64 / rate;
        Estimate {
            value,
            noise_error: noise.noise_error,
            noise_low: value + noise.noise_low,
            noise_high: value + noise.noise_high,
            total_error: total.noise_error,
            total_low: value + total.noise_low,
            total_high: value + total.noise_high,
        }
    };
    Ok(collected.sums.iter().map(estimate).collect())
}

/// The norm of the sum over the population.
pub fn norm(mechanism: &Mechanism, collected: &Collected<'_>) -> Result<Norm, Error> {
    let clip = mechanism.clip().ok_or(NOT_VECTORS)?;
    collected.check(mechanism.encoding())?;
    let variance = mechanism.added_variance(collected.reports)?;
    Ok(Vectors::of(collected, clip, variance)?.norm(collected.sums))
}

/// The mean of vectors, whose sum was collected.
pub fn vector_mean(mechanism: &Mechanism, collected: &Collected<'_>) -> Result<VectorMean, Error> {
    let norm = norm(mechanism, collected)?;
    let rates = &collected.sampling;
    // Nothing says how many devices have the default value.
    let single = rates.is_single();
    in_range("default_rate", rates.default_rate, single, "the rate, where a mean is asked for")?;
    let reports = collected.reports;
    in_range("reports", reports as f64, reports > 0, "above 0, where a mean is asked for")?;
    let clip = mechanism.clip().ok_or(NOT_VECTORS)?;
    let vectors = Vectors::of(collected, clip, mechanism.added_variance(reports)?)?;
    let Vectors { variance, sampled, real, part, clip, sample } = vectors;
    let q = rates.rate;
    let dummies = reports as f64 * part * (1.0 - part);
    let devices_seen = reports as f64 / rates.sending(q);
    let total = [variance + sampled, 0.0, -devices_seen * q * (part - q)];
    let number = |sum: &i128| {
        let ratio =
            Ratio { taken: *sum as f64, reports: real, low: -clip, high: clip, z: sample.z };
        let (noise_error, noise_low, noise_high) = ratio.spread([variance, 0.0, dummies]);
        let (total_error, total_low, total_high) = ratio.spread(total);
        let value = ratio.value();
        Estimate { value, noise_error, noise_low, noise_high, total_error, total_low, total_high }
    };
    Ok(VectorMean {
        devices: devices(reports, rates, collected.level)?,
        numbers: collected.sums.iter().map(number).collect(),
        norm: norm.scaled(q / real),
    })
}

/// The estimates of the numbers of a vector from those of its projection, and the norm of these.
///
/// Each number of the vector is a sum of the `k` numbers with signs, over `sqrt k`: its variance is
/// the mean of theirs, and that of what the projection hides ([`crate::projection`]), at most `c`
/// times the square of the norm. For intervals that is taken at the high end of its interval. The
/// result is a sum of many terms, so intervals are normal.
pub fn projected_back(
    projection: &Projection,
    numbers: &[Estimate],
    norm: &Norm,
    level: f64,
) -> Result<Vec<Estimate>, Error> {
    let found = numbers.len() as f64;
    let holds = numbers.len() == projection.kept() as usize;
    in_range("the number of sums", found, holds, "that of the numbers that are kept")?;
    let hidden = projection.hidden();
    let z = Sample::new(1.0, level)?.z;
    let mean_square = |error: fn(&Estimate) -> f64| {
        numbers.iter().map(|found| error(found) * error(found)).sum::<f64>() / found
    };
    let spread = |known: f64, high: f64| {
        let at = |norm: f64| sqrt(known + hidden * norm * norm);
        (at(norm.value), z * at(high))
    };
    let (noise_error, noise) = spread(mean_square(|found| found.noise_error), norm.noise_high);
    let (total_error, total) = spread(mean_square(|found| found.total_error), norm.total_high);
    let values: Vec<f64> = numbers.iter().map(|found| found.value).collect();
    let estimate = |value: f64| Estimate {
        value,
        noise_error,
        noise_low: value - noise,
        noise_high: value + noise,
        total_error,
        total_low: value - total,
        total_high: value + total,
    };
    Ok(projection.back(&values).into_iter().map(estimate).collect())
}

const NOT_VECTORS: Error = Error::NotAnswered { mechanism: "a norm", queries: "sums of vectors" };
