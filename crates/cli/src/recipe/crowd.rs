//! How many answers a recipe can expect, and whether a batch of the required size will come together.

use serde::Serialize;
use sotto_wire::Recipe;

/// Standard deviations that the minimum batch should lie below the expected count.
const MARGIN: f64 = 4.0;

/// The probability from which on a release counts as sure.
const ALMOST_SURE: f64 = 0.9999;

/// What the author can expect.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Crowd {
    /// Answers in all, if the population is as stated and every device takes the recipe.
    pub(super) expected: f64,
    /// Those in one release of the longest window, if they come evenly over time.
    pub(super) expected_per_release: f64,
    /// The probability that such a release has enough answers.
    pub(super) release_probability: f64,
    /// The largest minimum batch that is reached almost surely.
    pub(super) safe_min_batch: u64,
}

impl Crowd {
    /// Whether a release of the longest window comes together, but for bad luck that nobody meets.
    pub(super) fn is_almost_sure(&self) -> bool {
        self.release_probability > ALMOST_SURE
    }
}

/// What the author can expect of a recipe.
pub(super) fn crowd(recipe: &Recipe) -> Crowd {
    let population = recipe.who.population as f64;
    let rate = recipe.sampling.rate.to_f64();
    let length = recipe.when.closes.saturating_sub(recipe.when.opens).max(1) as f64;
    let share = (recipe.when.max_window_s as f64 / length).min(1.0);
    let mean = population * rate * share;
    let deviation = (mean * (1.0 - rate * share)).sqrt();
    let least = recipe.aggregation.min_batch as f64;
    let release_probability = if deviation > 0.0 {
        // The normal law, with the correction for whole numbers.
        0.5 * libm::erfc((least - 0.5 - mean) / deviation / std::f64::consts::SQRT_2)
    } else {
        f64::from(u8::from(mean >= least))
    };
    Crowd {
        expected: population * rate,
        expected_per_release: mean,
        release_probability,
        safe_min_batch: safe_min_batch(mean),
    }
}

/// Four standard deviations below the expected count: `m - 4 sqrt(m)`, at least 1.
pub(super) fn safe_min_batch(expected: f64) -> u64 {
    (expected - MARGIN * expected.sqrt()).max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::new::testing;

    #[test]
    fn a_batch_within_reach_is_released_almost_surely() {
        let mut recipe = testing::recipe();
        let found = crowd(&recipe);
        assert_eq!(found.expected, 20_000.0);
        assert_eq!(found.safe_min_batch, 19_434);
        assert!(found.release_probability > 0.9999);
        recipe.aggregation.min_batch = 20_000;
        assert!((crowd(&recipe).release_probability - 0.5).abs() < 0.01);
        recipe.aggregation.min_batch = 25_000;
        assert!(crowd(&recipe).release_probability < 1e-9);
    }

    #[test]
    fn a_high_rate_needs_less_margin_than_the_rule_of_thumb() {
        let mut recipe = testing::recipe();
        recipe.who.population = 60;
        recipe.sampling.rate = sotto_wire::recipe::Probability::new(1, 2).unwrap();
        recipe.aggregation.min_batch = 12;
        let found = crowd(&recipe);
        assert_eq!(found.safe_min_batch, 8);
        assert!(found.is_almost_sure(), "{found:?}");
        recipe.aggregation.min_batch = 25;
        assert!(!crowd(&recipe).is_almost_sure());
    }

    #[test]
    fn a_short_window_gets_its_share() {
        let mut recipe = testing::recipe();
        recipe.when.max_window_s = (recipe.when.closes - recipe.when.opens) / 7;
        let found = crowd(&recipe);
        assert!((found.expected_per_release - 20_000.0 / 7.0).abs() < 1.0);
        assert!(found.release_probability < 1e-9);
        recipe.who.population = 1;
        assert!(safe_min_batch(0.5) == 1 && crowd(&recipe).safe_min_batch == 1);
    }
}
