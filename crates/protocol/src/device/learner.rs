//! What a device's host knows about the files of rounds: models, and lists of candidates.

use std::fmt;

use rand_core::CryptoRng;
use sotto_wire::recipe::Recipe;

/// Computes a device's update of a model, and under which candidate its words are. The host
/// implements it.
pub trait Learner: fmt::Debug {
    /// Whether the file of this round is at hand and is the one that the round names. Asked before
    /// any coin is tossed, so that fetching a file says nothing about the coin.
    fn is_ready(&self, round: &Recipe) -> bool;

    /// The update (not clipped), as many numbers as the query has; `None` counts as zero. Asked only
    /// if the device takes part.
    fn update(&self, round: &Recipe, rng: &mut dyn CryptoRng) -> Option<Vec<f64>>;

    /// The bucket of a device with these words in a round of a discovery; `None` counts as the
    /// fallback. Asked only if the device takes part.
    fn bucket(&self, round: &Recipe, words: &[String], rng: &mut dyn CryptoRng) -> Option<u32>;
}
