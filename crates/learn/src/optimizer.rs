//! What the server does with the noisy mean of the updates.
//!
//! An update points to where the loss is smaller, so it is added. A server that gets the same means
//! in the same order has the same weights, to the last bit. Its state can be stored: floating-point
//! numbers are written by their bits ([`exact`]), which no format rounds.

pub mod exact;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::error::{below_one, in_range, length, positive};
use crate::math::sqrt;
use crate::model::round_to_published;

/// How the server moves the weights.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Optimizer {
    /// `w += rate m` for the mean `m`.
    Sgd {
        /// The learning rate of the server.
        rate: f64,
    },
    /// `v = decay v + m`, `w += rate v`.
    Momentum {
        /// The learning rate of the server.
        rate: f64,
        /// How much of the velocity stays.
        decay: f64,
    },
    /// Adam (Kingma and Ba, 2015), with corrected moments: `w += rate m1/(sqrt(m2) + epsilon)`.
    Adam {
        /// The learning rate of the server.
        rate: f64,
        /// How much of the first moment stays.
        first_decay: f64,
        /// How much of the second moment stays.
        second_decay: f64,
        /// Keeps the quotient finite. With noise it should be of the size of an ordinary mean.
        epsilon: f64,
    },
}

impl Optimizer {
    /// Rejects nonsense: rates that are not above zero, decays that do not decay.
    pub fn check(&self) -> Result<(), Error> {
        match *self {
            Self::Sgd { rate } => positive("rate", rate)?,
            Self::Momentum { rate, decay } => {
                below_one("decay", decay)?;
                positive("rate", rate)?
            }
            Self::Adam { rate, first_decay, second_decay, epsilon } => {
                below_one("first_decay", first_decay)?;
                below_one("second_decay", second_decay)?;
                positive("epsilon", epsilon)?;
                positive("rate", rate)?
            }
        };
        Ok(())
    }
}

/// The weights, and what the optimizer remembers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Server {
    optimizer: Optimizer,
    #[serde(with = "exact")]
    weights: Vec<f64>,
    steps: u32,
    /// The velocity or the first moment. Empty if there is none.
    #[serde(with = "exact")]
    first: Vec<f64>,
    #[serde(with = "exact")]
    second: Vec<f64>,
}

impl Server {
    /// Before the first step.
    pub fn new(optimizer: Optimizer, mut weights: Vec<f64>) -> Result<Self, Error> {
        optimizer.check()?;
        round_to_published(&mut weights);
        let zeros = |needed: bool| if needed { vec![0.0; weights.len()] } else { Vec::new() };
        let first = zeros(!matches!(optimizer, Optimizer::Sgd { .. }));
        let second = zeros(matches!(optimizer, Optimizer::Adam { .. }));
        Ok(Self { optimizer, weights, steps: 0, first, second })
    }

    /// The weights, with the precision in which they are published.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// How many steps were made.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// One step, with the mean of the updates. After an error there is no next step.
    pub fn step(&mut self, mean: &[f64]) -> Result<(), Error> {
        length("the mean", mean.len(), self.weights.len())?;
        self.steps = self.steps.saturating_add(1);
        match self.optimizer {
            Optimizer::Sgd { rate } => {
                for (weight, mean) in self.weights.iter_mut().zip(mean) {
                    *weight += rate * mean;
                }
            }
            Optimizer::Momentum { rate, decay } => {
                let state = self.weights.iter_mut().zip(&mut self.first);
                for ((weight, velocity), mean) in state.zip(mean) {
                    *velocity = decay * *velocity + mean;
                    *weight += rate * *velocity;
                }
            }
            Optimizer::Adam { rate, first_decay, second_decay, epsilon } => {
                let (first_left, second_left) =
                    (power(first_decay, self.steps), power(second_decay, self.steps));
                let moments = self.first.iter_mut().zip(&mut self.second);
                for ((weight, (first, second)), mean) in
                    self.weights.iter_mut().zip(moments).zip(mean)
                {
                    *first = first_decay * *first + (1.0 - first_decay) * mean;
                    *second = second_decay * *second + (1.0 - second_decay) * (mean * mean);
                    let size = sqrt(*second / (1.0 - second_left)) + epsilon;
                    *weight += rate * (*first / (1.0 - first_left)) / size;
                }
            }
        }
        round_to_published(&mut self.weights);
        let range = "a finite number: use smaller learning rates";
        let mut weights = self.weights.iter();
        weights.try_for_each(|weight| {
            in_range("a weight", *weight, weight.is_finite(), range).map(|_| ())
        })
    }

    /// The state, if it is one of this optimizer for so many weights: for one that was stored.
    pub fn checked(self, optimizer: Optimizer, dimension: usize) -> Result<Self, Error> {
        if self.optimizer != optimizer {
            let reason = "it is the state of another optimizer";
            return Err(Error::Malformed { format: "a state of this training", reason });
        }
        length("weights", self.weights.len(), dimension)?;
        let fresh = Self::new(optimizer, vec![0.0; dimension])?;
        length("first moments", self.first.len(), fresh.first.len())?;
        length("second moments", self.second.len(), fresh.second.len())?;
        Ok(self)
    }
}

/// `base^exponent` by repeated squaring: the same on every platform, which `powi` is not.
fn power(base: f64, exponent: u32) -> f64 {
    let (mut result, mut square, mut left) = (1.0, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result *= square;
        }
        square *= square;
        left >>= 1;
    }
    result
}
