//! The rounds of a training: what a device contributes to one, and what the server makes of the sum.
//!
//! [`Plan`] is public and fixed before the first round. [`Progress`] is what the server has after
//! some rounds; it can be stored as it is. Both halves deal with whole numbers where the mechanism
//! does, so the rounds of [`fast`](crate::fast) and those between real parties are one code.

use serde::{Deserialize, Serialize};
use sotto_dp::mechanism::vector;

use rand_core::CryptoRng;

use crate::Error;
use crate::clipping::Clipping;
use crate::error::{in_range, length, positive};
use crate::local::LocalTraining;
use crate::model::Model;
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
    norm_bound: u64,
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
        let units = self.clipping.first_norm() * self.unit();
        let range = "from 1 to 2^50 units: use other fraction bits";
        in_range("the clip", units, (1.0..=LARGEST_BOUND).contains(&units), range)?;
        Ok(())
    }

    /// Before the first round.
    pub fn start(&self, weights: Vec<f64>) -> Result<Progress, Error> {
        self.check()?;
        let server = Server::new(self.optimizer, weights)?;
        // Rounded down: at most what is stated.
        Ok(Progress { server, norm_bound: (self.clipping.first_norm() * self.unit()) as u64 })
    }

    /// How many numbers a contribution has.
    pub fn length(&self, dimension: usize) -> usize {
        dimension + self.clipping.votes()
    }

    /// The contribution of a device with these examples, in units, before any noise. Its norm is at
    /// most `norm_bound`, which is what the recipe of the round states.
    pub fn contribution<M: Model + ?Sized>(
        &self,
        model: &M,
        weights: &[f64],
        norm_bound: u64,
        examples: &[M::Example],
        rng: &mut dyn CryptoRng,
    ) -> Vec<i64> {
        let update = self.training.update(model, weights, examples, rng);
        let numbers = self.clipping.contribution(update, norm_bound as f64 / self.unit());
        // A model has fewer weights than that.
        let length = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        vector::clip(&numbers, length, self.fraction_bits, norm_bound)
    }

    /// Goes on to the next round, with the noisy sum of the contributions, in units. After an error
    /// the progress is as before.
    pub fn advance(&self, progress: &mut Progress, sum: &[i64]) -> Result<(), Error> {
        let dimension = progress.weights().len();
        length("the sum", sum.len(), self.length(dimension))?;
        let scale = self.unit() * self.expected;
        let mean: Vec<f64> = sum.iter().map(|number| *number as f64 / scale).collect();
        let (updates, votes) = mean.split_at(dimension);
        let mut next = progress.clone();
        next.server.step(updates)?;
        for vote in votes {
            let norm = self.clipping.next_norm(progress.norm_bound as f64 / self.unit(), *vote);
            next.norm_bound = (norm * self.unit()).clamp(1.0, LARGEST_BOUND) as u64;
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

    /// The largest norm of a contribution to the next round, in units.
    pub fn norm_bound(&self) -> u64 {
        self.norm_bound
    }

    /// How many rounds are over, which is also the index of the next one.
    pub fn rounds(&self) -> u32 {
        self.server.steps()
    }

    /// The progress, if it can be one of this plan and of a model with so many weights: for one that
    /// was stored.
    pub fn checked(self, plan: &Plan, dimension: usize) -> Result<Self, Error> {
        plan.check()?;
        let bound = self.norm_bound as f64;
        let range = "from 1 to 2^50 units";
        in_range("norm_bound", bound, (1.0..=LARGEST_BOUND).contains(&bound), range)?;
        let server = self.server.checked(plan.optimizer, dimension)?;
        Ok(Self { server, norm_bound: self.norm_bound })
    }
}
