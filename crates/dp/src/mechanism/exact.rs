//! No randomizer: a report carries the exact value. Only who took part is unknown.
//!
//! This is the estimator of [`super::estimate`] with `p = 1` and `s = 0`, so that `A = B = 0`: the
//! noise interval is a point, and the total one comes from sampling alone.
//!
//! For a sum of values between 0 and `max`, the variance from sampling is `(1 - q)/q` times the sum
//! of the squares of the values. The squares are not collected. None is above `max` times its
//! value, so `(1 - q)/q max` times the sum is at least as large, and the total interval is too wide
//! unless all values are 0 or `max`.

use rand_core::CryptoRng;

use super::estimate::{NO_NOISE, Sample, Shows, counted, each};
use super::{Collected, Colluding, Encoding, Estimate, Method, Sampling, Value, Variance, Words};
use crate::recipe::Law;
use crate::{Error, Event};

/// Exact values of one encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    encoding: Encoding,
}

impl Exact {
    /// The mechanism for values of this encoding.
    pub const fn of(encoding: Encoding) -> Self {
        Self { encoding }
    }
}

impl Method for Exact {
    fn encoding(&self) -> Encoding {
        self.encoding
    }

    fn randomize(&self, value: Value, _rng: &mut dyn CryptoRng) -> Value {
        value.of(self.encoding)
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

    fn estimates(&self, collected: &Collected<'_>) -> Result<Vec<Estimate>, Error> {
        collected.check_sums(self.encoding)?;
        match self.encoding {
            Encoding::Number { max } if max > 1 => {
                let of = |sample: Sample, sum| sample.estimate(sum as f64, NO_NOISE, max as f64);
                each(collected, self.encoding, of, |_| None)
            }
            Encoding::Vector { .. } => super::vectors::coordinates(collected, self.encoding, 0.0),
            encoding => counted(collected, encoding, Shows::TRUTH),
        }
    }

    fn variance(&self, _reports: f64) -> Result<Variance, Error> {
        Ok(NO_NOISE)
    }

    fn reach(&self) -> f64 {
        self.encoding.largest()
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
