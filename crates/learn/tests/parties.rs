//! What the tests train: the digits that ship with the crate.

use std::num::NonZero;

use sotto_learn::clipping::Clipping;
use sotto_learn::coins::Coins;
use sotto_learn::data::{Preparation, Users, digits};
use sotto_learn::fast::{Fast, Noise};
use sotto_learn::local::LocalTraining;
use sotto_learn::model::{Labelled, Softmax};
use sotto_learn::optimizer::Optimizer;
use sotto_learn::plan::Plan;

/// Digits by user, and those for tests.
pub(crate) struct Digits {
    pub(crate) users: Users<Labelled>,
    pub(crate) test: Vec<Labelled>,
    pub(crate) model: Softmax,
}

impl Digits {
    /// One digit for each user, 299 for tests.
    pub(crate) fn new() -> Self {
        let (training, test) = digits().unwrap().split_every(6);
        let preparation = Preparation::new(&training, Some(0.3));
        Self {
            users: Users::one_each(preparation.apply(&training).unwrap()),
            test: preparation.apply(&test).unwrap(),
            model: Softmax::new(preparation.features(), 10).unwrap(),
        }
    }

    pub(crate) fn fast(&self, rate: f64, noise: Noise, seed: u64) -> Fast<'_, Softmax> {
        Fast {
            model: &self.model,
            users: &self.users,
            plan: Plan {
                training: LocalTraining::ONE_STEP,
                clipping: Clipping::Fixed { clip: 0.5 },
                fraction_bits: 15,
                expected: rate * self.users.len() as f64,
                optimizer: Optimizer::Sgd { rate: 20.0 },
            },
            rate,
            noise,
            coins: Coins::from_number(seed),
            threads: NonZero::<usize>::MIN,
        }
    }
}
