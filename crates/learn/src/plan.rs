//! The rounds of a training: what a device contributes to one, and what the server makes of the sum.
//!
//! [`Plan`] is public and fixed before the first round. [`Progress`] is what the server has after
//! some rounds; it can be stored as it is. Both halves deal with whole numbers where the mechanism
//! does, so the rounds of [`fast`](crate::fast) and those between real parties are one code.

use serde::{Deserialize, Serialize};
use sotto_dp::mechanism::vector;

use rand_core::CryptoRng;

use crate::Error;
use crate::clipping::{self, Clipping};
use crate::error::{in_range, length, positive};
use crate::local::LocalTraining;
use crate::model::{Model, to_bytes};
use crate::optimizer::{Optimizer, Server};

/// The largest norm of a contribution, in units.
const LARGEST_BOUND: f64 = 1_125_899_906_842_624.0;

/// What is fixed for all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What a device does with the weights of a round.
    pub training: LocalTraining,
    /// To which norm its update is clipped.
    pub clipping: Clipping,
    /// Numbers of a contribution are multiples of `2^-fraction_bits`.
    pub fraction_bits: u32,
    /// How many devices are expected in a round: their number times the rate. The mean is over so
    /// many. (How many there were is not used: with dummies, count and sum do not belong together.)
    pub expected: f64,
    /// What the server does with the mean.
    pub optimizer: Optimizer,
}

/// What the server has after some rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    server: Server,
    /// The clip of the next round, if it moves.
    clip: Option<f32>,
}

impl Plan {
    /// Rejects nonsense.
    pub fn check(&self) -> Result<(), Error> {
        self.training.check()?;
        self.clipping.check()?;
        self.optimizer.check()?;
        positive("expected", self.expected)?;
        let bits = self.fraction_bits;
        let holds = bits <= vector::MOST_FRACTION_BITS;
        in_range("fraction_bits", f64::from(bits), holds, "at most 40")?;
        let units = self.clipping.stated().norm * self.unit();
        let range = "from 1 to 2^50 units: use other fraction bits";
        in_range("the clip", units, (1.0..=LARGEST_BOUND).contains(&units), range)?;
        Ok(())
    }

    /// Before the first round.
    pub fn start(&self, weights: Vec<f64>) -> Result<Progress, Error> {
        self.check()?;
        let stated = self.clipping.stated();
        let clip = stated.weight.map(|_| clipping::published(stated.first_clip()) as f32);
        Ok(Progress { server: Server::new(self.optimizer, weights)?, clip })
    }

    /// How many numbers a contribution has.
    pub fn length(&self, dimension: usize) -> usize {
        dimension + self.clipping.stated().votes()
    }

    /// The largest norm of a contribution in any round, in units, which the recipe states. Rounded
    /// down: at most what is stated.
    pub fn norm_bound(&self) -> u64 {
        (self.clipping.stated().norm * self.unit()) as u64
    }

    /// The clip of the next round.
    pub fn clip(&self, progress: &Progress) -> f64 {
        progress.clip.map_or_else(|| self.clipping.stated().first_clip(), f64::from)
    }

    /// The model of the next round as a file: the weights, and the clip if devices vote.
    pub fn model_file(&self, progress: &Progress) -> Vec<u8> {
        to_bytes(&self.clipping.stated().to_numbers(progress.weights(), self.clip(progress)))
    }

    /// The contribution of a device with these examples in a round with this clip, in units, before
    /// any noise. Its norm is at most [`norm_bound`](Self::norm_bound).
    pub fn contribution<M: Model + ?Sized>(
        &self,
        model: &M,
        weights: &[f64],
        clip: f64,
        examples: &[M::Example],
        rng: &mut dyn CryptoRng,
    ) -> Vec<i64> {
        let update = self.training.update(model, weights, examples, rng);
        let numbers = self.clipping.stated().contribution(update, clip);
        // A model has fewer weights than that.
        let length = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        vector::clip(&numbers, length, self.fraction_bits, self.norm_bound())
    }

    /// Goes on to the next round, with the noisy sum of the contributions, in units. After an error
    /// the progress is as before.
    pub fn advance(&self, progress: &mut Progress, sum: &[i64]) -> Result<(), Error> {
        let dimension = progress.weights().len();
        length("the sum", sum.len(), self.length(dimension))?;
        let clip = self.clip(progress);
        let (of_votes, of_updates) =
            (self.unit() * self.expected, self.clipping.stated().scale(clip));
        let mean: Vec<f64> = sum.iter().map(|number| *number as f64 / of_votes).collect();
        let (updates, votes) = mean.split_at(dimension);
        let updates: Vec<f64> = updates.iter().map(|number| number * of_updates).collect();
        let mut next = progress.clone();
        next.server.step(&updates)?;
        for vote in votes {
            next.clip = Some(self.clipping.next_clip(clip, *vote) as f32);
        }
        *progress = next;
        Ok(())
    }

    fn unit(&self) -> f64 {
        (1_u64 << self.fraction_bits.min(vector::MOST_FRACTION_BITS)) as f64
    }
}

impl Progress {
    /// The weights for the next round, with the precision in which they are published.
    pub fn weights(&self) -> &[f64] {
        self.server.weights()
    }

    /// How many rounds are over, which is also the index of the next one.
    pub fn rounds(&self) -> u32 {
        self.server.steps()
    }

    /// The progress, if it can be one of this plan and of a model with so many weights: for one that
    /// was stored.
    pub fn checked(self, plan: &Plan, dimension: usize) -> Result<Self, Error> {
        plan.check()?;
        let votes = plan.clipping.stated().votes();
        length("clips", usize::from(self.clip.is_some()), votes)?;
        self.clip.map(|clip| clipping::usable(clip.into())).transpose()?;
        let server = self.server.checked(plan.optimizer, dimension)?;
        Ok(Self { server, clip: self.clip })
    }
}
