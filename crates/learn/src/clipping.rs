//! To which norm updates are clipped: a fixed one, or one that follows a quantile of the norms.
//!
//! **Quantile.** Each device says whether the norm of its update is at most the clip `C`, and the
//! server moves the clip (Andrew, Thakkar, McMahan, Ramaswamy 2021):
//!
//! ```text
//! C <- C e^(-rate (b - quantile))         b: the part of the devices that say yes
//! ```
//!
//! The answer is one more number of the contribution, the *vote*, with a small weight `w`. A dummy,
//! the zero vector, votes neither way.
//!
//! **The norm of a contribution is the same in every round**, because a recipe states it once for
//! all of them. So what moves is not the norm but the scale. With `F`, the clip of the first round,
//! a device whose update is `u` contributes
//!
//! ```text
//! F/C clip(u, C)    and the vote    +w F for yes, -w F for no
//! ```
//!
//! and the server multiplies the mean by `C/F`. The clip is public: it travels with the weights, as
//! the last number of the model.
//!
//! **What it costs.** Update and vote together have a norm of at most `F sqrt(1 + w^2)`. That is the
//! norm that the recipe states, that the proof is about, and that sigma is relative to. So the event
//! is the same as without votes: one Gaussian of noise multiplier sigma in each round. The cost is
//! in the noise: relative to `C`, the noise of the sum is `sigma sqrt(1 + w^2)` instead of `sigma`
//! ([`Stated::noise_factor`]), half a percent more at `w = 0.1`. It is the same as if the updates
//! were released with the noise multiplier `sigma sqrt(1 + w^2)` and the votes, in a sum of their
//! own, with `sigma sqrt(1 + w^2)/w`: the inverse squares of the two add up to that of sigma.
//!
//! The clip of a round is a function of noisy sums of earlier rounds, as the weights are. So the
//! accountant's theorem about adaptive composition covers it.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::error::{below_one, in_range, length, positive};
use crate::math::{exp, norm, sqrt};

/// Between these the clip stays, whatever noise says: far from where an `f32` loses digits.
const SMALLEST: f64 = 1e-20;
const LARGEST: f64 = 1e20;

/// To which norm updates are clipped. Public, and the same for all devices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Clipping {
    /// The same in every round.
    Fixed {
        /// The largest norm of an update.
        clip: f64,
    },
    /// It follows a quantile.
    Quantile {
        /// The largest norm of update and vote together, over which the noise is stated. The clip of
        /// the first round is a little smaller: [`Stated::first_clip`].
        norm: f64,
        /// How many of the devices should not be clipped, as a part of them.
        quantile: f64,
        /// How fast the clip moves.
        rate: f64,
        /// `w`: the weight of a vote.
        weight: f64,
    },
}

/// What a recipe states of it: as much as a device has to know.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stated {
    /// The largest norm of a contribution.
    pub norm: f64,
    /// The weight of a vote, if devices vote.
    pub weight: Option<f64>,
}

impl Clipping {
    /// Rejects nonsense.
    pub fn check(&self) -> Result<(), Error> {
        self.stated().check()?;
        if let Self::Quantile { quantile, rate, .. } = *self {
            below_one("quantile", positive("quantile", quantile)?)?;
            positive("rate", rate)?;
        }
        Ok(())
    }

    /// What devices have to know of it.
    pub fn stated(&self) -> Stated {
        match *self {
            Self::Fixed { clip } => Stated { norm: clip, weight: None },
            Self::Quantile { norm, weight, .. } => Stated { norm, weight: Some(weight) },
        }
    }

    /// The clip of the next round, given that of this one and the noisy mean of the votes over all
    /// devices that were expected to take part.
    pub fn next_clip(&self, clip: f64, mean_vote: f64) -> f64 {
        let Self::Quantile { quantile, rate, weight, .. } = *self else {
            return clip;
        };
        let of_all = weight * self.stated().first_clip();
        // Noise may say that less than nobody or more than everybody voted yes.
        let yes = (0.5 + 0.5 * mean_vote / of_all).clamp(0.0, 1.0);
        published(clip * exp(-rate * (yes - quantile)))
    }
}

impl Stated {
    /// Rejects nonsense.
    pub fn check(&self) -> Result<(), Error> {
        positive("the norm of a contribution", self.norm)?;
        let Some(weight) = self.weight else { return Ok(()) };
        positive("weight", weight)?;
        usable(self.first_clip())?;
        Ok(())
    }

    /// How many numbers a contribution has besides the update, and a model besides the weights.
    pub fn votes(&self) -> usize {
        usize::from(self.weight.is_some())
    }

    /// The norm of update and vote together, over the clip: `sqrt(1 + w^2)`. By so much the noise
    /// grows relative to the clip.
    pub fn noise_factor(&self) -> f64 {
        self.weight.map_or(1.0, |weight| sqrt(1.0 + weight * weight))
    }

    /// `F`: the clip of the first round.
    pub fn first_clip(&self) -> f64 {
        self.norm / self.noise_factor()
    }

    /// The contribution of a device in a round with this clip. Without votes the update as it is,
    /// which the mechanism clips.
    pub fn contribution(&self, mut update: Vec<f64>, clip: f64) -> Vec<f64> {
        let Some(weight) = self.weight else {
            return update;
        };
        let (first, norm) = (self.first_clip(), norm(&update));
        // A norm that is not a number is a no, as an infinite one is; the mechanism takes such a
        // contribution for zero.
        let vote = if norm <= clip { weight * first } else { -weight * first };
        let factor = first / norm.max(clip);
        update.iter_mut().for_each(|number| *number *= factor);
        update.push(vote);
        update
    }

    /// What the mean of contributions is multiplied by to be one of updates.
    pub fn scale(&self, clip: f64) -> f64 {
        clip / self.first_clip()
    }

    /// The numbers of a model: the weights, and the clip of the round if devices vote.
    pub fn to_numbers(&self, weights: &[f64], clip: f64) -> Vec<f64> {
        let clip = self.weight.map(|_| clip);
        weights.iter().copied().chain(clip).collect()
    }

    /// The weights and the clip of a model with so many weights.
    pub fn from_numbers(
        &self,
        mut numbers: Vec<f64>,
        dimension: usize,
    ) -> Result<(Vec<f64>, f64), Error> {
        length("numbers of the model", numbers.len(), dimension.saturating_add(self.votes()))?;
        let clip = self.weight.and_then(|_| numbers.pop()).map(usable).transpose()?;
        Ok((numbers, clip.unwrap_or_else(|| self.first_clip())))
    }
}

/// A clip with the precision in which it is published.
pub(crate) fn published(clip: f64) -> f64 {
    f64::from(clip.clamp(SMALLEST, LARGEST) as f32)
}

/// A clip that a device can use. (Rounded to `f32`, the ends of the range may be a little outside.)
pub(crate) fn usable(clip: f64) -> Result<f64, Error> {
    let holds = (SMALLEST / 2.0..=LARGEST * 2.0).contains(&clip);
    in_range("the clip", clip, holds, "from 1e-20 to 1e20")
}
