//! How many answers a recipe can expect, and whether they will fill a batch of the required size.

use serde::Serialize;

use crate::math::sqrt;

/// The minimum batch should be this many standard deviations below the expected count.
const MARGIN: f64 = 4.0;

/// A release counts as almost sure above this probability.
const ALMOST_SURE: f64 = 0.9999;

/// What the author can expect.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Crowd {
    /// All answers, if the population is as stated and every device accepts the recipe.
    pub expected: f64,
    /// The answers in one release of the longest window, if they arrive evenly over time.
    pub expected_per_release: f64,
    /// The probability that such a release has enough answers.
    pub release_probability: f64,
    /// The largest minimum batch that is reached almost surely.
    pub safe_min_batch: u64,
}

impl Crowd {
    /// The expectation for `population` devices that each answer with probability `rate`, where a
    /// release covers `share` of the recipe's lifetime and needs `min_batch` answers.
    pub fn new(population: u64, rate: f64, share: f64, min_batch: u64) -> Self {
        let expected = population as f64 * rate;
        let mean = expected * share;
        let deviation = sqrt(mean * (1.0 - rate * share));
        let least = min_batch as f64;
        let release_probability = if deviation > 0.0 {
            // The normal approximation, with continuity correction.
            0.5 * libm::erfc((least - 0.5 - mean) / deviation / std::f64::consts::SQRT_2)
        } else {
            f64::from(u8::from(mean >= least))
        };
        Self {
            expected,
            expected_per_release: mean,
            release_probability,
            safe_min_batch: safe_min_batch(mean),
        }
    }

    /// Whether a release of the longest window is almost sure to have enough answers.
    pub fn is_almost_sure(&self) -> bool {
        self.release_probability > ALMOST_SURE
    }
}

/// Four standard deviations below the expected count: `m - 4 sqrt(m)`, at least 1.
pub fn safe_min_batch(expected: f64) -> u64 {
    (expected - MARGIN * sqrt(expected)).max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_within_reach_is_released_almost_surely() {
        let found = |min_batch| Crowd::new(1_000_000, 0.02, 1.0, min_batch);
        assert_eq!(found(19_434).expected, 20_000.0);
        assert_eq!(found(19_434).safe_min_batch, 19_434);
        assert!(found(19_434).release_probability > 0.9999);
        assert!((found(20_000).release_probability - 0.5).abs() < 0.01);
        assert!(found(25_000).release_probability < 1e-9);
    }

    #[test]
    fn a_high_rate_needs_less_margin_than_the_rule_of_thumb() {
        let found = Crowd::new(60, 0.5, 1.0, 12);
        assert_eq!(found.safe_min_batch, 8);
        assert!(found.is_almost_sure(), "{found:?}");
        assert!(!Crowd::new(60, 0.5, 1.0, 25).is_almost_sure());
    }

    #[test]
    fn a_short_window_gets_its_share() {
        let found = Crowd::new(1_000_000, 0.02, 1.0 / 7.0, 19_434);
        assert!((found.expected_per_release - 20_000.0 / 7.0).abs() < 1.0);
        assert!(found.release_probability < 1e-9);
        assert!(safe_min_batch(0.5) == 1);
        assert!(Crowd::new(1, 0.02, 1.0 / 7.0, 19_434).safe_min_batch == 1);
    }
}
