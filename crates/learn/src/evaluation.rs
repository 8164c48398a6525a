//! Federated evaluation: how good a model is on what devices know, from two bounded sums.
//!
//! A device evaluates the model on its own examples and answers two whole numbers from 0 to `max`:
//! its mean loss, cut off at a largest one, and the part of its examples that the model gets right.
//! A recipe sums them as a vector of two whole numbers, with the noise that it states.
//! [`Scale::found`] is what the sums mean.
//!
//! **What is estimated** is the mean over devices: one with many examples counts as much as one with
//! few. A device without examples has no answer, so it must not be in the audience: as an answer of
//! zero it would count as a small loss.
//!
//! **Errors.** Noise has the standard deviation that the recipe states. Which devices answered is
//! random too. The sum does not show how much they differ, but numbers from 0 to 1 with the mean `p`
//! have at most the variance `p (1 - p)` (Bhatia and Davis, 2000), and exactly that if all are 0 or
//! 1, as with one example each. Rounding moves a mean by at most half a unit. How much the cut takes
//! from the loss cannot be seen.

use crate::Error;
use crate::error::{in_range, positive};
use crate::math::sqrt;
use crate::model::{Model, evaluate};

/// The most units, so that sums over a billion devices are whole numbers of an `f64`.
const MOST_UNITS: u64 = 1 << 22;

/// How numbers from 0 to 1 become whole ones. Public, and the same for all devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The loss that counts as the largest.
    pub largest_loss: f64,
    /// What stands for 1.
    pub max: u64,
}

/// What a device answers. Both are at most `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its mean loss.
    pub loss: u64,
    /// The part of its examples that are right.
    pub right: u64,
}

/// What was collected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sums {
    /// The sum of the losses, in units, with noise.
    pub loss: f64,
    /// The sum of the right parts, in units, with noise.
    pub right: f64,
    /// The standard deviation of the noise in each sum, in units.
    pub noise: f64,
    /// How many devices answered. (Dummies do not count.)
    pub answers: u64,
}

/// A mean over devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The estimate. Noise may take it out of the range of what is possible.
    pub value: f64,
    /// The standard deviation of the noise in it.
    pub noise: f64,
    /// The standard deviation because of who answered, at most, if who answers is random and has
    /// nothing to do with the answer.
    pub sampling: f64,
    /// How far rounding can have moved it.
    pub rounding: f64,
}

/// How good a model is on what devices know.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The mean loss, of which each was cut off at the largest one.
    pub loss: Mean,
    /// The mean part of right predictions.
    pub accuracy: Mean,
}

impl Mean {
    /// The standard error: noise and sampling together.
    pub fn standard_error(&self) -> f64 {
        sqrt(self.noise * self.noise + self.sampling * self.sampling)
    }
}

impl Scale {
    /// Rejects nonsense.
    pub fn check(&self) -> Result<(), Error> {
        positive("largest_loss", self.largest_loss)?;
        let holds = (1..=MOST_UNITS).contains(&self.max);
        in_range("max", self.max as f64, holds, "from 1 to 2^22")?;
        Ok(())
    }

    /// The answer of a device with these examples; `None` if it has none. A loss that is not a
    /// number counts as the largest: a broken model must not look good.
    pub fn answer<M: Model + ?Sized>(
        &self,
        model: &M,
        weights: &[f64],
        examples: &[M::Example],
    ) -> Option<Answer> {
        if examples.is_empty() {
            return None;
        }
        let found = evaluate(model, weights, examples);
        let loss = found.loss / self.largest_loss;
        let loss = if loss.is_nan() { 1.0 } else { loss };
        Some(Answer { loss: self.units(loss), right: self.units(found.accuracy) })
    }

    /// What the sums say.
    pub fn found(&self, sums: &Sums) -> Result<Found, Error> {
        self.check()?;
        in_range("answers", sums.answers as f64, sums.answers >= 1, "at least 1")?;
        let holds = sums.noise >= 0.0 && sums.noise.is_finite();
        in_range("noise", sums.noise, holds, "a finite number, at least 0")?;
        Ok(Found {
            loss: self.mean("the sum of losses", sums.loss, sums, self.largest_loss)?,
            accuracy: self.mean("the sum of right predictions", sums.right, sums, 1.0)?,
        })
    }

    fn mean(&self, name: &'static str, sum: f64, sums: &Sums, one: f64) -> Result<Mean, Error> {
        in_range(name, sum, sum.is_finite(), "a finite number")?;
        let count = sums.answers as f64;
        let mean = sum / count / self.max as f64;
        let within = mean.clamp(0.0, 1.0);
        Ok(Mean {
            value: one * mean,
            noise: one * (sums.noise / count / self.max as f64),
            sampling: one * sqrt(within * (1.0 - within) / count),
            rounding: one * 0.5 / self.max as f64,
        })
    }

    /// Rounds to the nearest unit.
    fn units(&self, part: f64) -> u64 {
        (part.clamp(0.0, 1.0) * self.max as f64).round_ties_even() as u64
    }
}
