//! The paper's experiments as numbers: the expected squared error of a histogram of which a sample
//! of the devices reports, without privacy, with noise alone, and with noise and a secret sample.
//!
//! `N` devices answer `T` questions over `K` buckets under one budget, and `M` reports are expected
//! to each. A report adds at most 1 to one bucket. The estimate is the noisy sum divided by the
//! *expected* number of reports.
//!
//! - [`Task::Histogram`]: every device reports with probability `M/N`.
//! - [`Task::SparseHistogram`]: a part `1 - gamma` holds the default value, and the error is that of
//!   the other `K - 1` buckets. Under importance sampling the default is reported with probability
//!   `M/2N`, the others with `r = min(M / (2 gamma N), 1)`.
//!
//! **The paper's model**: all are honest, and nobody sees how many reports there are. `Agg` is noise
//! for `ceil(TM/N)` releases without a secret sample, which holds only if no device takes part more
//! often. `SampAgg` is noise for `T` samples at the rate of the worst device. Neighbours differ by a
//! device. Counted with Renyi divergences, these are taken at the orders that are commonly tried
//! ([`ORDERS`]), as other accountants do; with loss distributions the noise is up to half as large.
//!
//! **The rule of devices** ([`crate::recipe`]): half of the others are honest, the count is seen, and
//! neighbours differ by a value, which is what recipes claim. The population is certified to be `N`
//! where the rate depends on the value. The minimum batch is within reach ([`safe_min_batch`]).

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::account::Accountant;
use crate::calibrate::{self, Target};
use crate::closed::{self, ROUNDING};
use crate::crowd::safe_min_batch;
use crate::error::{at_least_one, at_most, delta, in_range, positive};
use crate::math::{ln, sqrt, up};
use crate::recipe::{self, Contribution, Law, Terms};
use crate::{Adjacency, Error, Event, Shape, rdp};

/// What is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub enum Task {
    /// The share of each bucket.
    Histogram,
    /// The share of each bucket but the default one.
    SparseHistogram {
        /// The part of the devices that do not hold the default value.
        gamma: f64,
    },
}

/// A point of a figure, with the paper's letters in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// What is estimated.
    #[serde(flatten)]
    pub task: Task,
    /// How many devices there are.
    #[serde(rename = "N", deserialize_with = "whole")]
    pub population: u64,
    /// How many buckets.
    #[serde(rename = "K", deserialize_with = "whole")]
    pub buckets: u64,
    /// How many such questions share the budget.
    #[serde(rename = "T", deserialize_with = "whole")]
    pub tasks: u64,
    /// How many reports are expected to each.
    #[serde(rename = "M", deserialize_with = "whole")]
    pub reports: u64,
    /// The budget of all questions together.
    pub epsilon: f64,
    /// At this delta.
    pub delta: f64,
}

/// `1e6` is a whole number too.
fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let number = f64::deserialize(from)?;
    let is_whole = (0.0..=1e15).contains(&number) && number.fract() == 0.0;
    is_whole.then_some(number as u64).ok_or_else(|| D::Error::custom("not a whole number"))
}

/// Noise that meets the budget: standard deviations in the sum over a batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Noise {
    /// Without a secret sample.
    pub sigma_agg: f64,
    /// With one, by the requested accountant.
    pub sigma_sampagg: f64,
    /// The same by the rule of devices, if any noise meets the budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigma_device: Option<f64>,
}

/// Expected squared errors, summed over the buckets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// Without privacy, all devices alike.
    pub nonpriv: f64,
    /// Without privacy, with importance sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nonpriv_impsamp: Option<f64>,
    /// Noise alone.
    pub agg: f64,
    /// Noise and a secret sample, in the paper's model.
    pub sampagg: f64,
    /// The same by the rule of devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampagg_device: Option<f64>,
}

/// Devices add whole numbers of noise, of which so many are one report. Coarser ones would do.
const UNIT: u64 = 1 << 20;

/// So that the noise does not depend on the number of buckets, on which next to nothing depends.
const DIMENSION: u64 = 1 << 20;

/// Orders of Renyi divergences: 1.1 to 10.9, whole ones to 63, and these.
pub const ORDERS: [f64; 4] = [128.0, 256.0, 512.0, 1024.0];

/// The epsilon of the best of these orders.
fn by_common_orders(event: &Event, delta: f64) -> f64 {
    let fractional = (1..100_u32).map(|tenths| 1.0 + f64::from(tenths) / 10.0);
    let orders = fractional.chain((11..64_u32).map(f64::from)).chain(ORDERS);
    let epsilon = |order| {
        let loss = rdp::of_event(event, Adjacency::AddRemove, Shape::Vector, order)?;
        closed::rdp_to_epsilon(order, loss.rdp, delta)
    };
    orders.filter_map(|order| epsilon(order).ok()).fold(f64::INFINITY, f64::min)
}

impl Experiment {
    /// Whether there is such an experiment.
    pub fn check(&self) -> Result<(), Error> {
        let Self { population, buckets, tasks, reports, .. } = *self;
        for (name, value) in [
            ("population", population),
            ("buckets", buckets),
            ("tasks", tasks),
            ("reports", reports),
        ] {
            at_least_one(name, value)?;
            at_most(name, value, 1 << 40)?;
        }
        in_range("reports", reports as f64, reports <= population, "at most the population")?;
        if let Task::SparseHistogram { gamma } = self.task {
            in_range("gamma", gamma, gamma > 0.0 && gamma <= 1.0, "above 0 and at most 1")?;
        }
        positive("epsilon", self.epsilon)?;
        delta(self.delta).map(|_| ())
    }

    /// The probability of a report from a device with the default value, and from any other.
    pub fn rates(&self) -> (f64, f64) {
        let uniform = self.reports as f64 / self.population as f64;
        match self.task {
            Task::Histogram => (uniform, uniform),
            Task::SparseHistogram { gamma } => {
                let rate = (self.reports as f64 / (2.0 * gamma * self.population as f64)).min(1.0);
                // Only above one half of the devices is the default rarer than the rest.
                ((0.5 * uniform).min(rate), rate)
            }
        }
    }

    /// In how many releases a device takes part if there is no secret sample.
    pub fn compositions(&self) -> u64 {
        let product = u128::from(self.tasks) * u128::from(self.reports);
        u64::try_from(product.div_ceil(u128::from(self.population))).unwrap_or(u64::MAX)
    }

    /// The noise that the budget requires. `accountant` counts what the paper's model releases.
    pub fn noise(&self, accountant: Accountant) -> Result<Noise, Error> {
        let paper = self.paper_noise(accountant)?;
        let sigma_device = match self.sigma_device(paper.sigma_sampagg) {
            Ok(sigma) => Some(sigma),
            Err(Error::Unreachable { .. }) => None,
            Err(other) => return Err(other),
        };
        Ok(Noise { sigma_device, ..paper })
    }

    /// The same in the paper's model alone, which is faster.
    pub fn paper_noise(&self, accountant: Accountant) -> Result<Noise, Error> {
        self.check()?;
        let (sigma_agg, sigma_sampagg) = (self.sigma_agg()?, self.sigma_sampagg(accountant)?);
        Ok(Noise { sigma_agg, sigma_sampagg, sigma_device: None })
    }

    /// Releases without a sample add up like one with less noise.
    fn sigma_agg(&self) -> Result<f64, Error> {
        let one = closed::gaussian_sigma(self.epsilon, self.delta)?;
        Ok(up(one * sqrt(self.compositions() as f64), ROUNDING))
    }

    /// Depends on the rate, the number of questions and the budget alone.
    fn sigma_sampagg(&self, accountant: Accountant) -> Result<f64, Error> {
        let (_, rate) = self.rates();
        let event = |sigma| {
            let of = Box::new(Event::Gaussian { sigma, sensitivity: 1.0 });
            let of = Box::new(Event::PoissonSampled { rate, of });
            Event::Repeated { times: self.tasks, of }
        };
        let target = Target {
            epsilon: self.epsilon,
            delta: self.delta,
            adjacency: Adjacency::AddRemove,
            shape: Shape::Vector,
            accountant,
        };
        let best = calibrate::sigma(target, event)?;
        if accountant != Accountant::Rdp {
            return Ok(best);
        }
        let epsilon = |sigma| by_common_orders(&event(sigma), self.delta);
        calibrate::noise((best, 1.02 * best), |sigma| ln(epsilon(sigma) / self.epsilon))
    }

    /// The noise of a smallest batch whose recipe the rule of devices finds within the budget, given
    /// that of the paper's model.
    fn sigma_device(&self, paper: f64) -> Result<f64, Error> {
        let (default_rate, rate) = self.rates();
        let excess = |sigma: f64| {
            let law = Law::DistributedGaussian {
                sigma,
                contribution: Contribution::Labels { most: 1 },
                unit: UNIT,
                dimension: self.buckets.max(DIMENSION),
                adjacency: Adjacency::Replace,
                redrawn: 0.0,
            };
            let terms = Terms::new(law, rate, self.min_batch(), self.tasks);
            let terms = Terms { default_rate: Some(default_rate), ..terms };
            match recipe::judge(&terms, Some(self.population), self.delta) {
                Ok(found) => ln(found.epsilon / self.epsilon),
                Err(_) => f64::INFINITY,
            }
        };
        // A value moves the sum sqrt 2 times as far as a device, and half of the variance counts.
        calibrate::noise((1.98 * paper, 2.04 * paper), excess)
    }

    /// How many reports come, on average.
    pub fn expected_reports(&self) -> f64 {
        let (default_rate, rate) = self.rates();
        let gamma = match self.task {
            Task::Histogram => 1.0,
            Task::SparseHistogram { gamma } => gamma,
        };
        self.population as f64 * (gamma * rate + (1.0 - gamma) * default_rate)
    }

    /// The minimum batch of the recipe.
    pub fn min_batch(&self) -> u64 {
        safe_min_batch(self.expected_reports())
    }

    /// What the estimates are off by.
    pub fn errors(&self, noise: &Noise) -> Errors {
        let (_, rate) = self.rates();
        let (share, buckets) = match self.task {
            Task::Histogram => (1.0, self.buckets as f64),
            Task::SparseHistogram { gamma } => (gamma, self.buckets as f64 - 1.0),
        };
        // As many reports as if every device had this rate.
        let (reports, sampled) = (self.reports as f64, rate * self.population as f64);
        let of_noise = |variance: f64, reports: f64| buckets * variance / (reports * reports);
        let nonpriv_impsamp = share / sampled;
        Errors {
            nonpriv: share / reports,
            nonpriv_impsamp: (self.task != Task::Histogram).then_some(nonpriv_impsamp),
            agg: share / reports + of_noise(noise.sigma_agg * noise.sigma_agg, reports),
            sampagg: nonpriv_impsamp + of_noise(noise.sigma_sampagg * noise.sigma_sampagg, sampled),
            sampagg_device: noise.sigma_device.map(|sigma| {
                // Each report brings its part, and there are more than in the smallest batch.
                let more = self.expected_reports() / self.min_batch() as f64;
                nonpriv_impsamp + of_noise(sigma * sigma * more, sampled)
            }),
        }
    }
}
