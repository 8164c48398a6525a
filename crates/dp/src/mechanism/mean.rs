//! The mean of numbers: a sum, divided by the number of devices that gave it.
//!
//! Of `k` reports each is real with probability `g = q/t`, and a dummy otherwise; a device sends
//! something with probability `t = q + (1 - q) q'`. So `g k` is an estimate of those who took part,
//! `k/t` of all devices, and the mean is estimated by `S/(g k)`: the devices' weights cancel.
//!
//! **Intervals** are all `x` for which `S - x g k` is at most `z` of its standard deviations from 0
//! (Fieller 1954), a quadratic inequality in `x`. If the mean of the population is `x`, then `S - x g k` is
//! 0 in the mean. A device with value `v` adds `v - x g` if it takes part, and `-x g` as a dummy; summed
//! over `N = k/t` devices, and with no square above `max` times its value,
//!
//! ```text
//! Var = V + N (q (1 - q) max x - q (g - q) x^2)           V: the noise in S
//! ```
//!
//! The noise interval is for the mean of those who took part. Given `k`, their number is binomial,
//! so `Var = V + k g (1 - g) x^2`. Without dummies `g = 1`.
//!
//! Total intervals are too wide unless all values are 0 or `max`, as for sums, and they are normal
//! approximations: they hold for sums of many values.

use super::estimate::{Sample, Shows};
use super::{Collected, Encoding, Estimate, Mechanism, Rates};
use crate::Error;
use crate::error::in_range;
use crate::math::search::last_where;
use crate::math::{binomial, sqrt};

/// What a sum says about the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The sum over the population.
    pub sum: Estimate,
    /// The number of devices in the population.
    pub devices: Estimate,
    /// Their mean.
    pub mean: Estimate,
}

/// The mean of numbers, whose sum was collected.
pub fn mean(mechanism: &Mechanism, collected: &Collected<'_>) -> Result<Mean, Error> {
    let max = match mechanism.encoding() {
        Encoding::Bit => 1,
        Encoding::Number { max } => max,
        _ => return Err(Error::NotAnswered { mechanism: "a mean", queries: "sums" }),
    };
    let rates = &collected.sampling;
    // Nothing says how many devices have the default value.
    let single = rates.is_single();
    in_range("default_rate", rates.default_rate, single, "the rate, where a mean is asked for")?;
    let [sum] = mechanism.estimates(collected)?[..] else {
        return Err(Error::NotAnswered { mechanism: "a mean", queries: "one sum" });
    };
    let reports = collected.reports;
    in_range("reports", reports as f64, reports > 0, "above 0, where a mean is asked for")?;
    let (q, t) = (rates.rate, rates.sending(rates.rate));
    let (k, g) = (reports as f64, q / t);
    let z = Sample::new(q, collected.level)?.z;
    let noise = (sum.noise_error * q).powi(2);
    let ratio = Ratio { taken: sum.value * q, reports: g * k, low: 0.0, high: max as f64, z };
    let (noise_error, noise_low, noise_high) = ratio.spread([noise, 0.0, k * g * (1.0 - g)]);
    let sampled = [noise, k / t * q * (1.0 - q) * max as f64, -k / t * q * (g - q)];
    let (total_error, total_low, total_high) = ratio.spread(sampled);
    let value = ratio.value();
    let mean =
        Estimate { value, noise_error, noise_low, noise_high, total_error, total_low, total_high };
    Ok(Mean { sum, devices: devices(reports, rates, collected.level)?, mean })
}

/// How many devices there are, each of which sends something with probability `t`. The noise is that
/// of the dummies.
pub(super) fn devices(reports: u64, rates: &Rates, level: f64) -> Result<Estimate, Error> {
    let (q, t) = (rates.rate, rates.sending(rates.rate));
    let sample = Sample::new(t, level)?;
    let all = sample.count(reports, reports, Shows::TRUTH);
    let real = (q / t).min(1.0);
    // What a binomial number is at least, and at most.
    let low =
        last_where(0, reports + 1, |few| binomial::lower_tail(reports, real, few) <= sample.tail);
    let many = |n: u64| binomial::upper_tail(reports, real, n) > sample.tail;
    let high = last_where(0, reports + 1, many);
    Ok(Estimate {
        noise_error: sqrt(reports as f64 * real * (1.0 - real)) / q,
        noise_low: (low as f64 / q).min(all.value),
        noise_high: (high as f64 / q).max(all.value),
        ..all
    })
}

/// `taken` over `reports`.
pub(super) struct Ratio {
    pub(super) taken: f64,
    pub(super) reports: f64,
    /// The smallest mean that is possible.
    pub(super) low: f64,
    /// The largest one.
    pub(super) high: f64,
    pub(super) z: f64,
}

impl Ratio {
    pub(super) fn value(&self) -> f64 {
        self.taken / self.reports
    }

    /// The standard error and the interval, if `taken - x reports` has the variance
    /// `v[0] + v[1] x + v[2] x^2`.
    pub(super) fn spread(&self, v: [f64; 3]) -> (f64, f64, f64) {
        let (value, square) = (self.value(), self.z * self.z);
        let error = sqrt((v[0] + v[1] * value + v[2] * value * value).max(0.0)) / self.reports;
        // (taken - x reports)^2 - z^2 variance = a x^2 - 2 b x + c.
        let a = self.reports * self.reports - square * v[2];
        let b = self.taken * self.reports + 0.5 * square * v[1];
        let c = self.taken * self.taken - square * v[0];
        if a <= 0.0 {
            // There may be nothing but dummies.
            return (error, value.min(self.low), value.max(self.high));
        }
        let root = sqrt((b * b - a * c).max(0.0));
        (error, ((b - root) / a).min(value), ((b + root) / a).max(value))
    }
}
