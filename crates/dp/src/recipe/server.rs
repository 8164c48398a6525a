//! Noise that an honest server adds to the sum, in full.
//!
//! Devices contribute whole numbers without noise. Dishonest devices then cannot take any noise
//! away; they only make the crowd smaller that hides the count. What a recipe protects is either
//! presence (add/remove: the count counts, and needs a certified population) or the value (replace:
//! the count says nothing about it). The claim names one of them.
//!
//! The noise is a discrete Gaussian in each coordinate. For vectors no direction is known to be the
//! worst, so it is judged as the continuous noise of which it is nearly a post-processing
//! ([`crate::discrete::smoothed`]). That bound also covers continuous noise of the same sigma.

use serde::{Deserialize, Serialize};

use super::local::largest_rate;
use super::{IMPROBABLE, Judgement, Rule, Terms, best};
use crate::discrete::{Smoothed, smoothed};
use crate::error::{at_least_one, positive};
use crate::math::{down, exp, sqrt};
use crate::{Adjacency, Error, Event, Shape};

/// What one device may add to a sum of whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Contribution {
    /// Numbers from 0 to `max`. A count is one number, at most 1.
    Numbers {
        /// The largest.
        max: u64,
        /// How many.
        length: u64,
    },
    /// Some of several labels, each counted once. A histogram has one label.
    Labels {
        /// How many at most.
        most: u64,
    },
    /// Numbers from 0 on that add up to at most `most`.
    Total {
        /// Their largest sum.
        most: u64,
    },
    /// A vector.
    Vector {
        /// Its largest norm (L2), in units of the sum.
        norm: f64,
        /// Its coordinates.
        dimension: u64,
    },
}

impl Contribution {
    pub(super) fn check(self) -> Result<(), Error> {
        match self {
            Self::Numbers { max, length } => {
                at_least_one("max", max)?;
                at_least_one("length", length).map(|_| ())
            }
            Self::Labels { most } | Self::Total { most } => at_least_one("most", most).map(|_| ()),
            Self::Vector { norm, dimension } => {
                positive("norm", norm)?;
                at_least_one("dimension", dimension).map(|_| ())
            }
        }
    }

    /// The largest norm of a contribution: in units of it, its shape says how far apart two are.
    pub fn norm(self) -> f64 {
        match self {
            Self::Numbers { max, length } => max as f64 * sqrt(length as f64),
            Self::Labels { most } => sqrt(most as f64),
            Self::Total { most } => most as f64,
            Self::Vector { norm, .. } => norm,
        }
    }

    /// The shape: two lists of numbers from 0 to `max` are at most their largest norm apart, two
    /// that have nothing in common (`w` labels and `w` others) `sqrt 2` times that, two vectors
    /// twice.
    pub fn shape(self) -> Shape {
        match self {
            Self::Numbers { .. } => Shape::Number,
            Self::Labels { .. } | Self::Total { .. } => Shape::OneHot,
            Self::Vector { .. } => Shape::Vector,
        }
    }

    /// In how many coordinates two contributions can differ.
    fn coordinates(self) -> f64 {
        match self {
            Self::Numbers { length, .. } => length as f64,
            Self::Labels { most } | Self::Total { most } => 2.0 * most as f64,
            Self::Vector { dimension, .. } => dimension as f64,
        }
    }

    /// What tells contributions apart: the kind, and its numbers.
    pub(super) fn key(self) -> (u64, u64, u64) {
        match self {
            Self::Numbers { max, length } => (0, max, length),
            Self::Labels { most } => (1, most, 0),
            Self::Total { most } => (2, most, 0),
            Self::Vector { norm, dimension } => (3, norm.to_bits(), dimension),
        }
    }

    /// The continuous noise for all rounds together, in units of the norm.
    pub(super) fn noise(self, sigma: f64, rounds: u64) -> Result<Smoothed, Error> {
        let found = smoothed(sigma, self.coordinates() * rounds as f64)?;
        Ok(Smoothed { sigma: down(found.sigma / self.norm(), 8.0 * f64::EPSILON), ..found })
    }
}

/// The parts of a population, as whole numbers.
const WHOLE: u64 = 1 << 40;

/// Judges discrete noise, given as the continuous noise that it is nearly a rounding of, in units of
/// the norm: what is counted of it, and all of it, for the paper's figure.
pub(super) fn judge(
    terms: &Terms,
    (counted, all): (Smoothed, Smoothed),
    (shape, adjacency): (Shape, Adjacency),
    certified: Option<u64>,
    delta: f64,
) -> Result<Judgement, Error> {
    let Smoothed { sigma, closeness } = counted;
    if !(closeness < 1.0 && all.closeness <= closeness) {
        return Rule::None(adjacency).judge(terms, certified, delta, (f64::INFINITY, None));
    }
    let less = down(delta * exp(-closeness), 1e-14);
    let paper = match adjacency {
        Adjacency::Replace => subset(terms, terms.rate, (all.sigma, shape), less)?,
        _ => super::paper_gaussian(terms, all.sigma, less)?,
    };
    let rule = match adjacency {
        Adjacency::Replace if !terms.has_two_rates() => {
            Rule::Replace(replaced(terms, sigma, shape, less)?)
        }
        _ => terms.release(sigma, shape, adjacency),
    };
    let found = rule.judge(terms, certified, less, (paper, None))?;
    let epsilon = found.epsilon + 2.0 * closeness;
    Ok(Judgement { epsilon, delta, paper_epsilon: paper + 2.0 * closeness, ..found })
}

/// The epsilon under replacement with noise `sigma`, in units of the norm.
///
/// Given the number `k` of honest messages, their senders are a uniform subset of the `n` honest
/// devices, and a message holds a value with probability `q/t`. As for randomized response, except
/// with a small probability either nothing is released or `k/n` is at most [`largest_rate`].
pub(super) fn replaced(terms: &Terms, sigma: f64, shape: Shape, delta: f64) -> Result<f64, Error> {
    let improbable = IMPROBABLE * delta / terms.rounds as f64;
    let sent = largest_rate(terms.sending(), terms.honest_batch(), improbable);
    let value = if terms.dummy_rate > 0.0 { terms.rate / terms.sending() } else { 1.0 };
    subset(terms, sent * value, (sigma, shape), delta * (1.0 - IMPROBABLE))
}

/// All rounds, in each of which a uniform part of the devices takes part.
fn subset(
    terms: &Terms,
    rate: f64,
    (sigma, shape): (f64, Shape),
    delta: f64,
) -> Result<f64, Error> {
    let of = Event::Gaussian { sigma, sensitivity: 1.0 };
    let sample = (rate * WHOLE as f64).ceil() as u64 + 1;
    let round = if sample >= WHOLE {
        of
    } else {
        Event::SampledWithoutReplacement { population: WHOLE, sample, of: Box::new(of) }
    };
    let event = Event::Repeated { times: terms.rounds, of: Box::new(round) };
    best(&event, Adjacency::Replace, shape, delta)
}
