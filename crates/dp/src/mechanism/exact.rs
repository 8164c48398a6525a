//! No randomizer: a report carries the exact value. Only who took part is unknown.
//!
//! This is the estimator of [`super::estimate`] with `p = 1` and `s = 0`, so that `A = B = 0`: the
//! noise interval is a point, and the total one comes from sampling alone.

use rand_core::CryptoRng;

use super::estimate::{Sample, Variance, check_counts, counts};
use super::{Colluding, Encoding, Estimate, Method, Sampling, Value, Words};
use crate::error::at_least_one;
use crate::recipe::Law;
use crate::{Error, Event};

const NO_NOISE: Variance = Variance { at_zero: 0.0, slope: 0.0 };

/// Exact values of one encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    encoding: Encoding,
}

impl Exact {
    /// The mechanism for values of this encoding.
    pub fn of(encoding: Encoding) -> Self {
        Self { encoding }
    }
}

impl Method for Exact {
    fn encoding(&self) -> Encoding {
        self.encoding
    }

    fn randomize(&self, value: Value, _rng: &mut dyn CryptoRng) -> Value {
        value
    }

    fn event(&self) -> Option<Event> {
        None
    }

    fn law(&self) -> Law {
        Law::Exact
    }

    fn local_epsilon(&self) -> Option<f64> {
        None
    }

    fn colluding(&self, _sampling: &Sampling, _delta: f64) -> Result<Option<Colluding>, Error> {
        Ok(None)
    }

    fn estimates(
        &self,
        sums: &[u128],
        reports: u64,
        rate: f64,
        level: f64,
    ) -> Result<Vec<Estimate>, Error> {
        let of_sums = |max| sums.iter().map(|sum| estimate_sum(*sum, max, rate, level)).collect();
        match self.encoding {
            Encoding::Bit => of_sums(1),
            Encoding::Number { max } => of_sums(max),
            Encoding::OneHot { .. } => estimate(&counts(sums)?, reports, rate, level),
        }
    }

    fn words(&self) -> Words {
        Words {
            name: "none: the exact value",
            parameters: Vec::new(),
            explanation: "Your device sends its exact answer, without any randomness.".to_owned(),
            effect: "sent as it is".to_owned(),
        }
    }
}

/// How many devices of the population hold each symbol. `reports` devices took part, each with
/// probability `rate`; intervals hold with probability `level` (0.95 for 95 %).
pub fn estimate(
    counts: &[u64],
    reports: u64,
    rate: f64,
    level: f64,
) -> Result<Vec<Estimate>, Error> {
    check_counts(counts, reports)?;
    let sample = Sample::new(rate, level)?;
    Ok(counts.iter().map(|count| sample.estimate(*count as f64, NO_NOISE, 1.0)).collect())
}

/// The sum of a value between 0 and `max` over the population, from the collected sum.
///
/// The variance from sampling is `(1 - q)/q` times the sum of the squares of the values. The
/// squares are not collected. None is above `max` times its value, so `(1 - q)/q max` times the sum
/// is at least as large, and the total interval is too wide unless all values are 0 or `max`.
pub fn estimate_sum(sum: u128, max: u64, rate: f64, level: f64) -> Result<Estimate, Error> {
    at_least_one("max", max)?;
    Ok(Sample::new(rate, level)?.estimate(sum as f64, NO_NOISE, max as f64))
}
