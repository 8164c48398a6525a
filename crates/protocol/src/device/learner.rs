//! What a device's host knows about models.

use std::fmt;

use rand_core::CryptoRng;
use sotto_wire::recipe::Recipe;

/// Computes a device's update of a model. The host implements it.
pub trait Learner: fmt::Debug {
    /// Whether the model of this round is at hand and is the one that the round names. Asked before
    /// any coin is tossed, so that fetching a model says nothing about the coin.
    fn is_ready(&self, round: &Recipe) -> bool;

    /// The update (not clipped), as many numbers as the query has; `None` counts as zero. Asked only
    /// if the device takes part.
    fn update(&self, round: &Recipe, rng: &mut dyn CryptoRng) -> Option<Vec<f64>>;
}
