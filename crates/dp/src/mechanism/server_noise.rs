//! Exact values, and noise of the servers on their sum.
//!
//! Each of the two servers adds discrete Gaussian noise of the parameter sigma to its share of every
//! number, once per batch. One of them may be dishonest, so each adds all the noise that the recipe
//! claims: the law ([`Law::ServerGaussian`]) counts the noise of one. Both are in the sum. The
//! estimator counts both: the variance is twice that of one, nearly `2 sigma^2`.
//!
//! What the law protects, presence or the value, is what the recipe claims.
//!
//! **Estimates.** `C = m_v + N`, so the variance of the noise does not depend on what is estimated.
//! Where the noise is small ([`FEW`]), its intervals come from its exact law, and are a little too
//! wide, since it is a whole number. Of a sum of values the squares are not collected; as for exact
//! values, its total interval is too wide unless all values are 0 or `max` or the noise prevails.

use rand_core::CryptoRng;

use super::estimate::{FEW, Sample, each, holding};
use super::interval::Added;
use super::{
    Collected, Colluding, Encoding, Estimate, Method, Parameter, Sampling, Value, Variance, Words,
};
use crate::error::in_range;
use crate::math::sqrt;
use crate::number::up_short;
use crate::recipe::{Contribution, Law};
use crate::sampler::{DiscreteGaussian, Rate};
use crate::{Adjacency, Error, Event, discrete};

/// One, in micro-units.
const ONE: u64 = 1_000_000;

/// The smallest sigma (1/2) and the largest (1e9), in micro-units.
const SIGMA: (u64, u64) = (ONE / 2, 1_000_000_000 * ONE);

/// Exact values of one encoding, and the noise of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerNoise {
    encoding: Encoding,
    sigma_micro: u64,
    adjacency: Adjacency,
}

impl ServerNoise {
    /// The mechanism for values of this encoding, with the sigma of each server in millionths of
    /// the unit of the sum, from 1/2 to 1e9 units. It protects presence (add/remove) or the value
    /// (replace).
    pub fn new(encoding: Encoding, sigma_micro: u64, adjacency: Adjacency) -> Result<Self, Error> {
        let holds = (SIGMA.0..=SIGMA.1).contains(&sigma_micro);
        in_range("sigma", sigma_micro as f64 / 1e6, holds, "from 1/2 to 1e9")?;
        if adjacency == Adjacency::ZeroOut {
            return Err(crate::recipe::ZERO_OUT);
        }
        Ok(Self { encoding, sigma_micro, adjacency })
    }

    /// What each server adds to each number.
    pub fn noise(&self) -> Result<DiscreteGaussian, Error> {
        Ok(DiscreteGaussian::new(Rate::new(self.sigma_micro, ONE)?))
    }

    fn sigma(&self) -> f64 {
        self.sigma_micro as f64 / 1e6
    }

    /// What one device may add to the sum.
    fn contribution(&self) -> Contribution {
        match self.encoding {
            Encoding::Bit => Contribution::Numbers { max: 1, length: 1 },
            Encoding::Number { max } => Contribution::Numbers { max, length: 1 },
            Encoding::OneHot { .. } => Contribution::Labels { most: 1 },
            Encoding::Labels { most, .. } => Contribution::Labels { most: most.into() },
            Encoding::Vector { length, norm_bound } => {
                Contribution::Vector { norm: norm_bound as f64, dimension: length.into() }
            }
        }
    }
}

impl Method for ServerNoise {
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
        // The division rounds to nearest.
        let sigma = self.sigma().next_down();
        Law::ServerGaussian { sigma, contribution: self.contribution(), adjacency: self.adjacency }
    }

    fn local_epsilon(&self) -> Option<f64> {
        None
    }

    fn colluding(&self, _sampling: &Sampling, _delta: f64) -> Result<Option<Colluding>, Error> {
        Ok(None)
    }

    fn estimates(&self, collected: &Collected<'_>) -> Result<Vec<Estimate>, Error> {
        let variance = self.added_variance(collected.reports)?;
        if let Encoding::Vector { .. } = self.encoding {
            return super::vectors::coordinates(collected, self.encoding, variance);
        }
        collected.check(self.encoding)?;
        let noise = self.variance(collected.reports as f64)?;
        let unit = if let Encoding::Number { max } = self.encoding { max } else { 1 };
        let law = (variance < FEW).then(|| Added::new(self.sigma(), 1));
        let of = |sample: Sample, sum: i128| {
            let (taken, rate) = (sum as f64, sample.rate);
            let mut found = sample.estimate(taken, noise, unit as f64);
            let Some(law) = &law else { return found };
            let far = law.distance(sample.tail);
            (found.noise_low, found.noise_high) = ((taken - far) / rate, (taken + far) / rate);
            // The variance of the sum at the high end of the interval.
            let high = variance + (1.0 - rate) * rate * found.total_high.max(0.0);
            if rate == 1.0 {
                (found.total_low, found.total_high) = (found.noise_low, found.noise_high);
            } else if unit == 1 && high < FEW {
                let seen = (sum, collected.reports);
                let all = law.in_population(seen, rate, sample.tail, found.total_high.max(0.0));
                (found.total_low, found.total_high) = holding(found.value, all, 1.0);
            }
            found
        };
        each(collected, self.encoding, of, |rest| {
            let law = || Added::new(self.sigma(), rest.labels).without(&rest);
            (rest.variance < FEW).then(law)
        })
    }

    fn variance(&self, _reports: f64) -> Result<Variance, Error> {
        Ok(Variance { at_zero: self.added_variance(0)?, slope: 0.0 })
    }

    fn reach(&self) -> f64 {
        self.encoding.largest()
    }

    fn added_variance(&self, _reports: u64) -> Result<f64, Error> {
        Ok(2.0 * discrete::variance(self.sigma())?)
    }

    fn words(&self) -> Words {
        // Of vectors the unit is that of the fixed point, which tells nobody anything.
        let (unit, on) = match self.encoding {
            Encoding::Vector { norm_bound, .. } => (norm_bound as f64, "each number of the sum"),
            _ => (1.0, "a sum"),
        };
        let times = if unit > 1.0 { " times the largest norm" } else { "" };
        let both = up_short(sqrt(2.0) * self.sigma() / unit);
        Words {
            name: "noise of the servers",
            parameters: vec![Parameter {
                field: "noise.sigma_micro",
                name: "noise of each server",
                micro: (self.sigma_micro as f64 / unit).round() as u64,
                more_is_weaker: false,
            }],
            explanation: "Your device sends its exact answer in two parts, which say nothing alone. Each of two \
                          operators adds up its parts of all answers, and adds random noise before anybody \
                          sees the result. One honest operator is enough to hide what your device added."
                .to_owned(),
            effect: format!(
                "sent as it is; both servers' noise on {on} is {both}{times} (standard deviation)"
            ),
        }
    }
}
