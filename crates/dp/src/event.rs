//! What happened. An event says nothing about how it is counted: the accountants do that.

use serde::{Deserialize, Serialize};

use crate::error::{Error, at_least_one, at_most, in_range, non_negative, positive, rate, symbols};
use crate::{Shape, shuffle};

/// One release, or several. The JSON form carries the kind in the field `event`:
/// `{"event":"poisson_sampled","rate":0.02,"of":{"event":"gaussian","sigma":5.1}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// A sum plus Gaussian noise.
    Gaussian {
        /// Standard deviation of the noise.
        sigma: f64,
        /// Norm of one contribution.
        #[serde(default = "one")]
        sensitivity: f64,
    },
    /// One integer plus discrete Gaussian noise. (For vectors use `distributed_discrete_gaussian`,
    /// with one party if need be. No direction is known to be the worst there, so an integer of the
    /// same norm is not a bound.)
    DiscreteGaussian {
        /// The parameter sigma of the noise (for large values its standard deviation).
        sigma: f64,
        /// The largest contribution to that number.
        #[serde(default = "one_unit")]
        sensitivity: u64,
    },
    /// An integer vector in which each of `parties` contributions carries its own discrete Gaussian
    /// noise.
    DistributedDiscreteGaussian {
        /// The parameter sigma of each party's noise, in integer units.
        sigma: f64,
        /// How many parties add noise.
        parties: u64,
        /// Coordinates of the sum.
        #[serde(default = "one_unit")]
        dimension: u64,
        /// Norm of one contribution, in integer units.
        #[serde(default = "one")]
        sensitivity: f64,
    },
    /// A sum plus Laplace noise.
    Laplace {
        /// Scale of the noise.
        scale: f64,
        /// Norm (L1) of one contribution.
        #[serde(default = "one")]
        sensitivity: f64,
    },
    /// k-ary randomized response: the true symbol with probability
    /// `e^epsilon0 / (e^epsilon0 + k - 1)`, otherwise another one.
    RandomizedResponse {
        /// The local epsilon, under replacement.
        epsilon0: f64,
        /// Number of symbols.
        k: u64,
    },
    /// RAPPOR over `k` symbols: the one-hot vector of the symbol, each bit flipped with probability
    /// `1/(e^epsilon0 + 1)`.
    Rappor {
        /// The local epsilon, under *deletion*: against the law of the zero vector with the same
        /// flips. Under replacement it is twice that.
        epsilon0: f64,
        /// Number of symbols.
        k: u64,
    },
    /// Projective geometry response: one point, `w` times as likely if it is orthogonal to the
    /// device's own.
    ProjectiveGeometry {
        /// The local epsilon, under *deletion*: against the uniform law. `w` is the largest weight
        /// that it allows, at most `e^(2 epsilon0)`.
        epsilon0: f64,
        /// The order of the field, a prime power.
        order: u64,
        /// The number of coordinates of a point.
        dimension: u64,
    },
    /// Anything that is `epsilon`-differentially private.
    PureDp {
        /// Its epsilon.
        epsilon: f64,
    },
    /// Anything that is `(epsilon, delta)`-differentially private.
    ApproximateDp {
        /// Its epsilon.
        epsilon: f64,
        /// Its delta.
        delta: f64,
    },
    /// Anything that is `rho`-zero-concentrated differentially private.
    Zcdp {
        /// Its rho.
        rho: f64,
    },
    /// Each device takes part with probability `rate`, independently and in secret.
    PoissonSampled {
        /// The probability.
        rate: f64,
        /// What is done with the devices that take part.
        of: Box<Event>,
    },
    /// A secret uniform subset of fixed size takes part.
    SampledWithoutReplacement {
        /// How many devices there are.
        population: u64,
        /// How many take part.
        sample: u64,
        /// What is done with them.
        of: Box<Event>,
    },
    /// Poisson sampling by a leader that stops at `max_batch` contributions (a uniform subset of
    /// those that arrived). Only the sum is seen, not the count.
    TruncatedPoisson {
        /// The probability of taking part.
        rate: f64,
        /// How many *other* devices there are.
        population: u64,
        /// Where the leader stops.
        max_batch: u64,
        /// Standard deviation of the Gaussian noise, in units of the clip.
        sigma: f64,
        /// Shape of one contribution.
        #[serde(default)]
        shape: Shape,
    },
    /// Poisson sampling where the adversary sees the noisy sum and exactly how many took part.
    SampledCountSeen {
        /// The probability of taking part.
        rate: f64,
        /// How many *other* devices there are.
        population: u64,
        /// The probability that a device that does not take part sends a dummy.
        #[serde(default)]
        dummy_rate: f64,
        /// Standard deviation of the Gaussian noise, in units of the clip.
        sigma: f64,
        /// Shape of one contribution.
        #[serde(default)]
        shape: Shape,
    },
    /// Sampling at a rate that depends on the value, where the adversary sees the noisy sum and
    /// exactly how many messages there are. A device with the default value contributes the zero
    /// vector; under zero-out a device holds that or another value. (If the count is hidden, this
    /// is `poisson_sampled` at the larger rate.)
    ImportanceSampled {
        /// The probability that a device with the default value takes part.
        default_rate: f64,
        /// The probability that a device with any other value takes part; not smaller.
        rate: f64,
        /// How many *other* devices there are, with any values.
        population: u64,
        /// How many of them are known to hold the default value.
        #[serde(default)]
        defaults: u64,
        /// The probability that a device that does not take part sends a dummy.
        #[serde(default)]
        dummy_rate: f64,
        /// Standard deviation of the Gaussian noise, in units of the clip.
        sigma: f64,
        /// Shape of one contribution.
        #[serde(default)]
        shape: Shape,
    },
    /// The number of contributions and nothing else: what an aggregator sees of a batch that is
    /// never released.
    CountOnly {
        /// The probability that a device sends anything, a value or a dummy.
        rate: f64,
        /// How many *other* devices there are; there may be none.
        population: u64,
    },
    /// Reports of a local randomizer in an order that reveals nothing.
    Shuffled {
        /// How many reports there are, including the device's own.
        n: u64,
        /// The local randomizer: `pure_dp` (any randomizer with that *replacement* epsilon),
        /// `randomized_response`, `rappor` or `projective_geometry`. Or `poisson_sampled` of one of
        /// these: then each of `n` *devices* sends a report with that probability, and the number
        /// of reports is seen.
        of: Box<Event>,
    },
    /// Only the sum of the reports of a local randomizer is seen.
    Summed {
        /// How many reports there are, including the device's own.
        n: u64,
        /// The local randomizer: `rappor`. (A sum of reports of the others is their histogram: for
        /// those use `shuffled`.)
        of: Box<Event>,
    },
    /// Each device takes part in exactly `selected` of `slots` releases, chosen uniformly and in
    /// secret.
    RandomAllocation {
        /// How many releases.
        slots: u64,
        /// In how many of them a device takes part.
        #[serde(default = "one_unit")]
        selected: u64,
        /// Not uniformly: in the first of them for which a coin of probability `1/slots` comes up
        /// heads, if it ever does.
        #[serde(default, skip_serializing_if = "is_false")]
        donation: bool,
        /// If given, the number of contributions to every release is seen, and this is how many
        /// *other* devices there are, which all choose in the same way.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        population: Option<u64>,
        /// Shape of one contribution, which matters only if the counts are seen.
        #[serde(default)]
        shape: Shape,
        /// Each release. A `shuffled` one stands for the reports of all slots together.
        of: Box<Event>,
    },
    /// Several events in any order. Each may depend on the results of the earlier ones.
    Composed {
        /// The events.
        of: Vec<Event>,
    },
    /// The same event several times.
    Repeated {
        /// How often.
        times: u64,
        /// The event.
        of: Box<Event>,
    },
}

fn one() -> f64 {
    1.0
}

fn one_unit() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Event {
    /// Rejects nonsense: negative or infinite noise, rates above 1, empty crowds.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Self::Gaussian { sigma, sensitivity } => {
                positive("sigma", *sigma)?;
                positive("sensitivity", *sensitivity)?;
            }
            Self::DiscreteGaussian { sigma, sensitivity } => {
                positive("sigma", *sigma)?;
                at_least_one("sensitivity", *sensitivity)?;
            }
            Self::DistributedDiscreteGaussian { sigma, parties, dimension, sensitivity } => {
                positive("sigma", *sigma)?;
                at_least_one("parties", *parties)?;
                at_least_one("dimension", *dimension)?;
                positive("sensitivity", *sensitivity)?;
            }
            Self::Laplace { scale, sensitivity } => {
                positive("scale", *scale)?;
                positive("sensitivity", *sensitivity)?;
            }
            Self::RandomizedResponse { epsilon0, k } | Self::Rappor { epsilon0, k } => {
                positive("epsilon0", *epsilon0)?;
                symbols(*k)?;
            }
            Self::ProjectiveGeometry { epsilon0, order, dimension } => {
                positive("epsilon0", *epsilon0)?;
                at_most("order", *order, LARGEST_ORDER)?;
                let holds = shuffle::is_prime_power(*order);
                in_range("order", *order as f64, holds, "a prime power")?;
                let holds = (2..=LARGEST_DIMENSION).contains(dimension);
                in_range("dimension", *dimension as f64, holds, "a whole number between 2 and 64")?;
            }
            Self::PureDp { epsilon } => {
                non_negative("epsilon", *epsilon)?;
            }
            Self::ApproximateDp { epsilon, delta } => {
                non_negative("epsilon", *epsilon)?;
                rate("delta", *delta)?;
            }
            Self::Zcdp { rho } => {
                non_negative("rho", *rho)?;
            }
            Self::TruncatedPoisson { rate: q, population, max_batch, sigma, .. } => {
                rate("rate", *q)?;
                at_least_one("population", *population)?;
                at_most("population", *population, LARGEST_POPULATION)?;
                at_least_one("max_batch", *max_batch)?;
                positive("sigma", *sigma)?;
            }
            Self::SampledCountSeen { rate: q, population, dummy_rate, sigma, .. } => {
                rate("rate", *q)?;
                at_least_one("population", *population)?;
                rate("dummy_rate", *dummy_rate)?;
                positive("sigma", *sigma)?;
            }
            Self::ImportanceSampled {
                default_rate,
                rate: q,
                population,
                defaults,
                dummy_rate,
                sigma,
                ..
            } => {
                rate("rate", *q)?;
                let range = "between 0 and the rate of other values";
                let least = rate("default_rate", *default_rate)?;
                in_range("default_rate", least, default_rate <= q, range)?;
                at_least_one("population", *population)?;
                let known = *defaults as f64;
                in_range("defaults", known, defaults <= population, "at most the population")?;
                rate("dummy_rate", *dummy_rate)?;
                positive("sigma", *sigma)?;
            }
            Self::CountOnly { rate: q, .. } => {
                rate("rate", *q)?;
            }
            Self::PoissonSampled { rate: q, of } => {
                rate("rate", *q)?;
                of.check()?;
            }
            Self::SampledWithoutReplacement { population, sample, of } => {
                at_least_one("population", *population)?;
                at_least_one("sample", *sample)?;
                let value = *sample as f64;
                in_range("sample", value, sample <= population, "at most the population")?;
                of.check()?;
            }
            Self::Shuffled { n, of } | Self::Summed { n, of } => {
                at_least_one("n", *n)?;
                of.check()?;
            }
            Self::RandomAllocation { slots, selected, population, of, .. } => {
                at_least_one("slots", *slots)?;
                at_least_one("selected", *selected)?;
                in_range("selected", *selected as f64, selected <= slots, "at most the slots")?;
                if let Some(population) = population {
                    at_least_one("population", *population)?;
                    at_most("population", *population, LARGEST_POPULATION)?;
                }
                of.check()?;
            }
            Self::Composed { of } => of.iter().try_for_each(Self::check)?,
            Self::Repeated { times, of } => {
                at_least_one("times", *times)?;
                of.check()?;
            }
        }
        Ok(())
    }

    /// The event inside compositions of one and repetitions of one.
    pub(crate) fn unwrapped(&self) -> &Self {
        match self {
            Self::Composed { of } => match &of[..] {
                [only] => only.unwrapped(),
                _ => self,
            },
            Self::Repeated { times: 1, of } => of.unwrapped(),
            _ => self,
        }
    }
}

/// The largest population whose counts are examined one by one.
const LARGEST_POPULATION: u64 = 1 << 40;

/// The largest order of a field, and the most coordinates of its points.
const LARGEST_ORDER: u64 = 1 << 32;
const LARGEST_DIMENSION: u64 = 64;
