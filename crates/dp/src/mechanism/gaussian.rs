//! Noise that devices bring themselves: each adds its part of the Gaussian noise to a vector of whole
//! numbers.
//!
//! **R.** A vector `x` whose norm is at most the bound `C`, in whole units, gets independent noise
//! `N_Z(0, s^2)` in each coordinate, `s = sigma C/sqrt B`: the noise of `B` contributions together is
//! `sigma C`. It is exact noise on integers, so what adds up is what is accounted for. Below `s = 4`
//! units a recipe is refused: from there on the sum of many such draws cannot be told from one draw
//! of the summed variance ([`crate::discrete::smoothed_sum`]).
//!
//! **The norm of what is sent** is proved to be at most `rho C`. An honest vector with its noise is
//! longer than that with probability at most `e^-t` (Birgé 2001, lemma 8.1, for a noncentral
//! chi-square; discrete noise has at most the moments of the continuous one, but for a factor of
//! `1 + 1e-130`):
//!
//! ```text
//! rho^2 = 1 + d s^2 + 2 s sqrt((d s^2 + 2) t) + 2 s^2 t          s in units of C
//! ```
//!
//! If it is, the noise is drawn again. So the law of a report is not exactly that of the formula, and
//! the difference is charged to delta ([`Law::DistributedGaussian`]): with `T` rounds of at most
//! `k` contributions each, `T k e^-t` for the one neighbour and `e^epsilon` times that for the other.
//! With
//!
//! ```text
//! t = ln(100 T k/delta) + ln(1 + e^epsilon)
//! ```
//!
//! it is a hundredth of delta at the claimed epsilon.
//!
//! **Rho is what one dishonest device may add**, in units of the bound: it can send any vector of that
//! norm. Noise of the servers needs no room: there it is 1 ([`Gaussian::compared`]).
//!
//! **Histograms.** A symbol is a vector with one entry, as large as the bound.

use rand_core::CryptoRng;

use super::estimate::{Sample, each};
use super::vector::is_within;
use super::{
    Collected, Colluding, Encoding, Estimate, Method, Parameter, Sampling, Value, Variance, Words,
};
use crate::error::{at_least_one, delta as target, in_range};
use crate::math::{exp, ln, ln_add, sqrt, up};
use crate::number::up_short;
use crate::recipe::{Contribution, Law};
use crate::sampler::{DiscreteGaussian, Rate};
use crate::{Adjacency, Error, Event};

/// The smallest noise of one device, in units.
pub const LEAST_NOISE: u64 = 4;

/// From this rho on, what one dishonest device can add deserves a warning.
pub const LARGE_RHO: f64 = 2.0;

/// The noise of one device is a multiple of `1/GRID`.
const GRID: u64 = 1 << 20;

/// The largest noise of one device, in units.
const MOST_NOISE: u64 = 1 << 30;

/// The largest norm, in units.
const MOST_NORM: u64 = 1 << 50;

/// How often noise is drawn for one report, at most. Each draw is too long with a probability below
/// `delta/100` ([`tail_micro`]), so that even at a delta of 1/2 all of them are with one below
/// `1e-100`: only a broken source of randomness ends here. The zero vector is sent then, which
/// depends on nobody's value.
const MOST_DRAWS: usize = 64;

/// Covers the roundings of a few dozen operations. Relative.
const MARGIN: f64 = 1e-12;

/// What a recipe says of its noise, and what decides how rarely a report is drawn again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Sigma: the noise of so many contributions together, in millionths of the largest norm.
    pub sigma_micro: u64,
    /// `B`: of how many contributions together. The smallest batch that is released.
    pub contributions: u64,
    /// The most contributions of one round.
    pub most_contributions: u64,
    /// How many rounds there are.
    pub rounds: u64,
    /// What the recipe claims: epsilon, in millionths.
    pub epsilon_micro: u64,
    /// At this delta.
    pub delta: f64,
    /// For these neighbours: presence (add/remove) or the value (replace).
    pub adjacency: Adjacency,
}

/// Vectors, or symbols as vectors, with noise of the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gaussian {
    answers: Encoding,
    unit: u64,
    sigma_micro: u64,
    contributions: u64,
    most_contributions: u64,
    /// The `t` above, in millionths.
    tail_micro: u64,
    adjacency: Adjacency,
    noise: Rate,
    norm_bound: u64,
}

/// What one way of adding noise costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Side {
    /// Standard deviation of the noise in one number of the sum, in units of the largest norm.
    pub error: f64,
    /// The largest norm that is accepted, in units of that of an honest value: what one dishonest
    /// device can add.
    pub rho: f64,
}

/// Two ways of adding noise with the same guarantee.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// Each device adds its part.
    pub devices: Side,
    /// Each of the two servers adds all that is counted.
    pub servers: Side,
}

impl Compared {
    /// Whether one dishonest device can add so much that an author should know.
    pub fn is_rho_large(&self) -> bool {
        self.devices.rho > LARGE_RHO
    }
}

impl Gaussian {
    /// For vectors of so many whole numbers, whose norm is at most `norm_bound`.
    pub fn vectors(length: u32, norm_bound: u64, noise: &Noise) -> Result<Self, Error> {
        Self::new(Encoding::Vector { length, norm_bound }, 1, noise)
    }

    /// For one of several symbols, or some labels. Each counts `unit` in the sum.
    pub fn symbols(answers: Encoding, unit: u64, noise: &Noise) -> Result<Self, Error> {
        match answers {
            Encoding::OneHot { .. } | Encoding::Labels { .. } => Self::new(answers, unit, noise),
            _ => Err(Error::NotAnswered { mechanism: "Gaussian noise", queries: "histograms" }),
        }
    }

    fn new(answers: Encoding, unit: u64, noise: &Noise) -> Result<Self, Error> {
        let Noise { sigma_micro, contributions, most_contributions, adjacency, .. } = *noise;
        at_least_one("the length", answers.numbers().into())?;
        at_least_one("sigma", sigma_micro)?;
        at_least_one("contributions", contributions)?;
        let holds = most_contributions >= contributions && most_contributions <= 1 << 40;
        let range = "from the smallest batch to 2^40";
        in_range("most_contributions", most_contributions as f64, holds, range)?;
        if adjacency == Adjacency::ZeroOut {
            return Err(crate::recipe::ZERO_OUT);
        }
        let mut found = Self {
            answers,
            unit,
            sigma_micro,
            contributions,
            most_contributions,
            tail_micro: tail_micro(noise)?,
            adjacency,
            noise: Rate::new(1, 1)?,
            norm_bound: 0,
        };
        let clip = found.clip_norm();
        let holds = clip >= 1.0 && clip <= MOST_NORM as f64;
        in_range("the largest norm", clip, holds, "from 1 to 2^50 units")?;
        let one = up(found.sigma() * clip / sqrt(contributions as f64), MARGIN);
        let range = "at least 4 units: use more fraction bits, more noise or a smaller batch";
        in_range("the noise of one device", one, one >= LEAST_NOISE as f64, range)?;
        let range = "at most 2^30 units: use fewer fraction bits";
        in_range("the noise of one device", one, one <= MOST_NOISE as f64, range)?;
        found.noise = Rate::new((one * GRID as f64).ceil() as u64, GRID)?;
        let sent = (up(found.exact_rho(), MARGIN) * clip).ceil();
        let range = "at most 2^50 units: use fewer fraction bits";
        in_range("the largest norm with noise", sent, sent <= MOST_NORM as f64, range)?;
        found.norm_bound = sent as u64;
        Ok(found)
    }

    /// The noise of one device in each coordinate, in units.
    pub fn noise(&self) -> DiscreteGaussian {
        DiscreteGaussian::new(self.noise)
    }

    /// The standard deviation of [`Self::noise`], but for less than `1e-60` of it.
    pub fn noise_of_one(&self) -> f64 {
        self.noise.to_f64()
    }

    /// The largest norm that is accepted, in units of that of an honest value: what one dishonest
    /// device can add.
    pub fn rho(&self) -> f64 {
        self.norm_bound as f64 / self.clip_norm()
    }

    /// The probability that a report is drawn again, at most.
    pub fn redrawn(&self) -> f64 {
        up(exp(-(self.tail_micro as f64) / 1e6), MARGIN)
    }

    /// This noise and that of the servers with the same guarantee, on the sum of so many
    /// contributions. Of the noise of the devices half is counted, of that of the servers one.
    pub fn compared(&self, contributions: u64) -> Compared {
        let clip = self.clip_norm();
        let devices = sqrt(contributions as f64) * self.noise.to_f64() / clip;
        let one_server = sqrt(0.5 * self.contributions as f64) * self.noise.to_f64() / clip;
        Compared {
            devices: Side { error: devices, rho: self.rho() },
            servers: Side { error: sqrt(2.0) * one_server, rho: 1.0 },
        }
    }

    /// The largest norm of an honest value, in units.
    fn clip_norm(&self) -> f64 {
        match self.answers {
            Encoding::Vector { norm_bound, .. } => norm_bound as f64,
            Encoding::Labels { most, .. } => self.unit as f64 * sqrt(most.into()),
            _ => self.unit as f64,
        }
    }

    /// How much a label counts in the sum; numbers of vectors count as they are.
    fn counted(&self) -> f64 {
        if let Encoding::Vector { .. } = self.answers { 1.0 } else { self.unit as f64 }
    }

    fn sigma(&self) -> f64 {
        self.sigma_micro as f64 / 1e6
    }

    /// The formula.
    fn exact_rho(&self) -> f64 {
        let (d, t) = (f64::from(self.answers.numbers()), self.tail_micro as f64 / 1e6);
        let s = self.noise.to_f64() / self.clip_norm();
        let noise = d * s * s;
        sqrt(1.0 + noise + 2.0 * s * sqrt((noise + 2.0) * t) + 2.0 * s * s * t)
    }

    /// The value as a vector of whole units.
    fn exact(&self, value: Value) -> Vec<i64> {
        let length = self.answers.numbers();
        let mut found = vec![0; length as usize];
        // At most 2^50.
        let unit = self.unit as i64;
        let mut set = |label: u32| {
            found.get_mut(label as usize).into_iter().for_each(|number| *number = unit);
        };
        match (self.answers, value) {
            (Encoding::Vector { norm_bound, .. }, value) => {
                return value.vector(length, norm_bound);
            }
            // Nothing to say.
            (_, Value::Vector(_)) => {}
            (Encoding::Labels { most, .. }, value) => {
                value.labels(length, most).into_iter().for_each(set);
            }
            (_, value) => set(value.symbol(length)),
        }
        found
    }
}

/// `t`, rounded up.
fn tail_micro(noise: &Noise) -> Result<u64, Error> {
    at_least_one("rounds", noise.rounds)?;
    let reports = noise.rounds as f64 * noise.most_contributions as f64;
    let epsilon = noise.epsilon_micro as f64 / 1e6;
    in_range("epsilon", epsilon, epsilon <= 1e6, "at most 1e6")?;
    let tail = ln(100.0 * reports / target(noise.delta)?) + ln_add(0.0, epsilon);
    Ok((up(tail, MARGIN) * 1e6).ceil() as u64)
}

impl Method for Gaussian {
    fn encoding(&self) -> Encoding {
        Encoding::Vector { length: self.answers.numbers(), norm_bound: self.norm_bound }
    }

    fn randomize(&self, value: Value, rng: &mut dyn CryptoRng) -> Value {
        let (exact, noise) = (self.exact(value), self.noise());
        for _ in 0..MOST_DRAWS {
            // Numbers of at most 2^50, and noise of at most 1001 times 2^30.
            let sent: Vec<i64> = exact.iter().map(|number| number + noise.sample(rng)).collect();
            if is_within(&sent, self.norm_bound) {
                return Value::Vector(sent);
            }
        }
        Value::Vector(vec![0; exact.len()])
    }

    fn event(&self) -> Option<Event> {
        None
    }

    fn law(&self) -> Law {
        let contribution = match self.answers {
            Encoding::Labels { most, .. } => Contribution::Labels { most: most.into() },
            Encoding::Vector { length, norm_bound } => {
                Contribution::Vector { norm: norm_bound as f64, dimension: length.into() }
            }
            _ => Contribution::Labels { most: 1 },
        };
        // The division and the root round to nearest.
        let sigma = self.noise.to_f64() * sqrt(self.contributions as f64) / self.unit as f64;
        Law::DistributedGaussian {
            sigma: crate::math::down(sigma, MARGIN),
            contribution,
            unit: self.unit,
            dimension: self.answers.numbers().into(),
            adjacency: self.adjacency,
            redrawn: up(self.redrawn() * self.most_contributions as f64, MARGIN),
        }
    }

    fn local_epsilon(&self) -> Option<f64> {
        None
    }

    fn colluding(&self, _sampling: &Sampling, _delta: f64) -> Result<Option<Colluding>, Error> {
        Ok(None)
    }

    fn estimates(&self, collected: &Collected<'_>) -> Result<Vec<Estimate>, Error> {
        let variance = self.added_variance(collected.reports)?;
        if let Encoding::Vector { .. } = self.answers {
            return super::vectors::coordinates(collected, self.answers, variance);
        }
        collected.check(self.answers)?;
        let unit = self.unit as f64;
        let noise = self.variance(collected.reports as f64)?;
        let of = |sample: Sample, sum| sample.estimate(sum as f64 / unit, noise, 1.0);
        each(collected, self.answers, of, |_| None)
    }

    fn clip(&self) -> Option<u64> {
        match self.answers {
            Encoding::Vector { norm_bound, .. } => Some(norm_bound),
            _ => None,
        }
    }

    fn variance(&self, reports: f64) -> Result<Variance, Error> {
        let one = self.noise.to_f64() / self.counted();
        Ok(Variance { at_zero: reports * one * one, slope: 0.0 })
    }

    fn labels(&self) -> u32 {
        self.answers.numbers()
    }

    fn reach(&self) -> f64 {
        self.norm_bound as f64 / self.counted()
    }

    fn added_variance(&self, reports: u64) -> Result<f64, Error> {
        let sigma = self.noise.to_f64();
        Ok(reports as f64 * sigma * sigma)
    }

    fn words(&self) -> Words {
        let one = up_short(self.noise.to_f64() / self.clip_norm());
        Words {
            name: "Gaussian noise of the devices",
            parameters: vec![Parameter {
                field: "randomizer.sigma_micro",
                name: "noise of the smallest batch",
                micro: self.sigma_micro,
                more_is_weaker: false,
            }],
            explanation: "Your device adds random noise to each number of its answer, and sends the result in \
                          two parts, which say nothing alone. The noise of one device hides little. In the sum \
                          of all answers the noise of all devices together hides what each of them added."
                .to_owned(),
            effect: format!(
                "each number with noise of {one} times the largest norm; one device can add {} times it",
                up_short(self.rho())
            ),
        }
    }
}
