//! What a device does with the model of a round: some steps of gradient descent on its own examples.
//! Its answer is how far its weights have moved, the *update*.
//!
//! The update is clipped afterwards, by the mechanism.

use rand_core::CryptoRng;
use serde::{Deserialize, Serialize};
use sotto_dp::uniform::shuffle;

use crate::Error;
use crate::error::{in_range, positive};
use crate::math::add_scaled;
use crate::model::Model;

/// How a device trains. Public, and the same for all devices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LocalTraining {
    /// How many steps of gradient descent.
    pub steps: u32,
    /// What the mean gradient of a step is multiplied by.
    pub learning_rate: f64,
    /// How many examples a step uses at most; all of them if there is no number. Examples come in a
    /// random order, each once before one comes again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
}

impl LocalTraining {
    /// One step with all examples: the update is minus the gradient.
    pub const ONE_STEP: Self = Self { steps: 1, learning_rate: 1.0, batch: None };

    /// Rejects nonsense: no steps, no examples, no finite rate.
    pub fn check(&self) -> Result<(), Error> {
        in_range("steps", f64::from(self.steps), self.steps >= 1, "at least 1")?;
        positive("learning_rate", self.learning_rate)?;
        let batch = self.batch.unwrap_or(1);
        in_range("batch", f64::from(batch), batch >= 1, "at least 1")?;
        Ok(())
    }

    /// The update of a device with these examples: where training leads to, minus `weights`. Zero
    /// if there are no examples.
    pub fn update<M: Model + ?Sized>(
        &self,
        model: &M,
        weights: &[f64],
        examples: &[M::Example],
        rng: &mut dyn CryptoRng,
    ) -> Vec<f64> {
        let mut moved = weights.to_vec();
        let mut gradient = vec![0.0; weights.len()];
        let mut order = Order::new(examples.len());
        for _ in 0..self.steps {
            let chosen = order.next(self.batch, rng);
            gradient.fill(0.0);
            for example in chosen.iter().filter_map(|place| examples.get(*place)) {
                model.gradient(&moved, example, &mut gradient);
            }
            if !chosen.is_empty() {
                add_scaled(&mut moved, -self.learning_rate / chosen.len() as f64, &gradient);
            }
        }
        moved.iter().zip(weights).map(|(moved, weight)| moved - weight).collect()
    }
}

/// In which order examples come.
struct Order {
    places: Vec<usize>,
    next: usize,
}

impl Order {
    fn new(examples: usize) -> Self {
        Self { places: (0..examples).collect(), next: 0 }
    }

    /// The places of the examples of the next step. Fewer at the end of a pass through the examples.
    fn next(&mut self, batch: Option<u32>, rng: &mut dyn CryptoRng) -> &[usize] {
        let count = batch.map_or(usize::MAX, |batch| batch as usize);
        if count >= self.places.len() {
            return &self.places;
        }
        if self.next >= self.places.len() {
            self.next = 0;
        }
        if self.next == 0 {
            shuffle(&mut self.places, rng);
        }
        let start = self.next;
        self.next = self.places.len().min(start + count);
        self.places.get(start..self.next).unwrap_or_default()
    }
}
