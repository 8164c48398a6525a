//! To which norm updates are clipped: a fixed one, or one that follows a quantile of the norms.
//!
//! **Quantile.** Each device says whether the norm of its update is at most the clip `C`, and the
//! server moves the clip (Andrew, Thakkar, McMahan, Ramaswamy 2021):
//!
//! ```text
//! C <- C e^(-rate (b - quantile))         b: the part of the devices that say yes
//! ```
//!
//! The answer is one more number of the contribution, the *vote*: `+w C` for yes and `-w C` for no,
//! with a small weight `w`. A dummy, the zero vector, votes neither way.
//!
//! **What it costs.** Update and vote together have a norm of at most `C sqrt(1 + w^2)`. That is the
//! norm that the recipe states, that the proof is about, and that sigma is relative to. So the event
//! is the same as without votes: one Gaussian of noise multiplier sigma in each round. The cost is
//! in the noise: relative to `C`, the noise of the sum is `sigma sqrt(1 + w^2)` instead of `sigma`
//! ([`Clipping::noise_factor`]), half a percent more at `w = 0.1`. It is the same as if the updates
//! were released with the noise multiplier `sigma sqrt(1 + w^2)` and the votes, in a sum of their
//! own, with `sigma sqrt(1 + w^2)/w`: the inverse squares of the two add up to that of sigma.
//!
//! The clip of a round is a function of noisy sums of earlier rounds, as the weights are. So the
//! accountant's theorem about adaptive composition covers it.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::error::{below_one, positive};
use crate::math::{exp, norm, sqrt};

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
        /// The largest norm of an update in the first round.
        first_clip: f64,
        /// How many of the devices should not be clipped, as a part of them.
        quantile: f64,
        /// How fast the clip moves.
        rate: f64,
        /// `w`: the weight of a vote.
        weight: f64,
    },
}

impl Clipping {
    /// Rejects nonsense.
    pub fn check(&self) -> Result<(), Error> {
        match *self {
            Self::Fixed { clip } => positive("clip", clip)?,
            Self::Quantile { first_clip, quantile, rate, weight } => {
                positive("first_clip", first_clip)?;
                below_one("quantile", positive("quantile", quantile)?)?;
                positive("rate", rate)?;
                positive("weight", weight)?
            }
        };
        Ok(())
    }

    /// How many numbers a contribution has besides the update.
    pub fn votes(&self) -> usize {
        usize::from(matches!(self, Self::Quantile { .. }))
    }

    /// The norm of update and vote together, over the clip: `sqrt(1 + w^2)`. By so much the noise
    /// grows relative to the clip.
    pub fn noise_factor(&self) -> f64 {
        match *self {
            Self::Fixed { .. } => 1.0,
            Self::Quantile { weight, .. } => sqrt(1.0 + weight * weight),
        }
    }

    /// The largest norm of update and vote in the first round.
    pub fn first_norm(&self) -> f64 {
        let (Self::Fixed { clip } | Self::Quantile { first_clip: clip, .. }) = *self;
        clip * self.noise_factor()
    }

    /// The contribution of a device, given the largest norm of update and vote together. Without
    /// votes the update as it is, which the mechanism clips.
    pub fn contribution(&self, mut update: Vec<f64>, largest_norm: f64) -> Vec<f64> {
        let Self::Quantile { weight, .. } = *self else {
            return update;
        };
        let clip = largest_norm / self.noise_factor();
        let norm = norm(&update);
        // A norm that is not a number is a no, as an infinite one is; the mechanism takes such a
        // contribution for zero.
        let vote = if norm <= clip { weight * clip } else { -weight * clip };
        if norm > clip {
            let factor = clip / norm;
            update.iter_mut().for_each(|number| *number *= factor);
        }
        update.push(vote);
        update
    }

    /// The largest norm of the next round, given that of this one and the noisy mean of the votes
    /// over all devices that were expected to take part.
    pub fn next_norm(&self, largest_norm: f64, mean_vote: f64) -> f64 {
        let Self::Quantile { quantile, rate, weight, .. } = *self else {
            return largest_norm;
        };
        let clip = largest_norm / self.noise_factor();
        // Noise may say that less than nobody or more than everybody voted yes.
        let yes = (0.5 + 0.5 * mean_vote / (weight * clip)).clamp(0.0, 1.0);
        largest_norm * exp(-rate * (yes - quantile))
    }
}
