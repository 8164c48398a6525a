//! The error that an estimate will have, before anything is collected: for plans, and to compare
//! with what simulations measure.
//!
//! It is the root of the mean of the squared error, over all that is random: who takes part, the
//! dummies, the randomizers and the noise. The variances of [`super::estimate`] are linear in what
//! is estimated and in the number of reports, so their means are exact: put the truth in. With `v`
//! the sum of an entry over the population, `Q` the sum of the squares of the devices' numbers, `m`
//! the number of reports in the mean, and noise of the variance `A(m) + B x` on an estimate of `x`,
//!
//! ```text
//! Var = (A(m) + B q v + q (1 - q) Q)/q^2
//! ```
//!
//! The three exceptions. The **default** value that is sent as no label is what is left of all
//! others, so its variance has theirs in it. A **mean** divides by the number of reports: its error
//! is that of the linear part, which holds for many reports. Estimates of **RAPPOR** are biased by
//! `2^-80`.

use super::{Encoding, Mechanism, Rates, Spread};
use crate::Error;
use crate::math::sqrt;

/// The variance `at_zero + slope * x` of an estimate of `x`, from the noise alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variance {
    /// Where nobody holds what is estimated.
    pub at_zero: f64,
    /// What each holder adds.
    pub slope: f64,
}

/// What is true of a whole population.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Population {
    /// How many devices there are.
    pub devices: f64,
    /// How many of them have the default value; it matters only where the rates differ, and for the
    /// estimate of the default itself.
    pub defaults: f64,
    /// The probabilities with which they send something.
    pub rates: Rates,
}

/// What is true of one entry of the answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// The sum over all devices: how many hold a label, or the sum of their numbers.
    pub sum: f64,
    /// The sum of the squares. Where each counts one, that is the sum.
    pub squares: f64,
    /// Whether it is the default value.
    pub is_default: bool,
}

impl Entry {
    /// A label that so many devices hold.
    pub const fn held_by(devices: f64) -> Self {
        Self { sum: devices, squares: devices, is_default: false }
    }
}

impl Population {
    /// The number of reports, in the mean.
    pub fn reports(&self) -> f64 {
        let Self { devices, defaults, rates } = *self;
        rates.sending(rates.rate) * (devices - defaults)
            + rates.sending(rates.default_rate) * defaults
    }

    /// The expected error of the estimate of an entry over the population: the roots of its mean
    /// squared error, from the noise alone (against those who took part) and in all.
    pub fn expected(&self, mechanism: &Mechanism, entry: &Entry) -> Result<Spread, Error> {
        let Self { devices, defaults, rates } = *self;
        let noise = mechanism.variance(self.reports())?;
        let sent = matches!(mechanism.encoding(), Encoding::OneHot { .. });
        if entry.is_default && !sent && rates.default.is_some() {
            return Ok(self.rest(noise, mechanism.labels().saturating_sub(1)));
        }
        let rate = if entry.is_default { rates.default_rate } else { rates.rate };
        let of = |variance: f64| sqrt(variance.max(0.0)) / rate;
        debug_assert!(defaults <= devices);
        let each = noise.at_zero + noise.slope * rate * entry.sum;
        Ok(Spread { noise: of(each), total: of(each + rate * (1.0 - rate) * entry.squares) })
    }

    /// The default as what is left: `(m - t_1 sum M_v/q)/t_0`.
    fn rest(&self, noise: Variance, labels: u32) -> Spread {
        let Self { devices, defaults, rates } = *self;
        let (q, weight) = (rates.rate, rates.sending(rates.rate));
        let none = rates.sending(rates.default_rate);
        let others = devices - defaults;
        let each = noise.at_zero * f64::from(labels) + noise.slope * q * others;
        let known = (weight / q) * (weight / q) * each;
        let part = 1.0 - weight / q;
        let sampled = others * (q * part * part + (1.0 - q) * rates.dummy_rate)
            + defaults * none * (1.0 - none);
        let total = sqrt(known + sampled) / none;
        // Dummies cannot be told from those without a label.
        let noise = if rates.dummy_rate > 0.0 { total } else { sqrt(known) / none };
        Spread { noise, total }
    }

    /// The expected error of a mean over the population, of a sum that is divided by the number of
    /// those who gave it.
    pub fn expected_mean(&self, mechanism: &Mechanism, entry: &Entry) -> Result<Spread, Error> {
        let Self { devices, rates, .. } = *self;
        let reports = self.reports();
        let noise = mechanism.variance(reports)?.at_zero;
        let (q, sending) = (rates.rate, rates.sending(rates.rate));
        let (mean, part) = (entry.sum / devices, q / sending);
        // A device adds v - x g if it takes part, and -x g as a dummy: q (v - x) in the mean.
        let shift = mean * part;
        let mut total = q * (entry.squares - 2.0 * shift * entry.sum + shift * shift * devices);
        total += (sending - q) * shift * shift * devices;
        total -= q * q * (entry.squares - 2.0 * mean * entry.sum + mean * mean * devices);
        let dummies = reports * part * (1.0 - part) * mean * mean;
        let of = |variance: f64| sqrt(variance.max(0.0)) / (q * devices);
        Ok(Spread { noise: of(noise + dummies), total: of(noise + total) })
    }
}
