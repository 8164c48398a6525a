//! What a relay learns from seeing who sends something.
//!
//! Every device tosses a coin with the sampling rate `q`, whether or not it may answer. Heads: it
//! sends a report, or *cover* if it may not answer. Tails: it sends cover with probability `c`. The
//! relay cannot tell cover from a report, so it sees only that every device sends something with
//! probability `q + (1-q) c`, whatever its data and its budget.
//!
//! **A relay that learns the result** knows the senders. Each of them that may answer took part with
//! probability [`rate_among_senders`], independently. A recipe is judged at this rate as well as at
//! `q`, and the larger epsilon counts.
//!
//! Results are rounded up. A caller that has fractions passes `rate` rounded up and `cover` rounded
//! down: the result grows with the rate and falls with the cover.

use crate::Error;
use crate::error;
use crate::math::up;

/// Covers the roundings of arithmetic, of which there are four. Relative.
const ROUNDINGS: f64 = 8.0 * f64::EPSILON;

/// The probability that a device which sent something took part: `q / (q + (1-q) c)`.
///
/// It is `rate` if everybody sends (`cover` is 1), and 1 without cover.
pub fn rate_among_senders(rate: f64, cover: f64) -> Result<f64, Error> {
    let (q, c) = (error::rate("rate", rate)?, error::rate("cover", cover)?);
    if q == 0.0 || c == 1.0 {
        return Ok(q);
    }
    Ok(up(q / (q + (1.0 - q) * c), ROUNDINGS).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers with 17 digits, computed with fractions of whole numbers.
    #[test]
    fn the_rate_among_senders() {
        for (rate, cover, exact) in [
            (0.02, 1.0, 0.02),
            (0.02, 0.0, 1.0),
            (0.02, 0.5, 2.0 / 51.0),
            (0.5, 0.25, 0.8),
            (0.01, 0.1, 10.0 / 109.0),
            (1e-6, 1e-6, 1_000_000.0 / 1_999_999.0),
            (1.0, 0.3, 1.0),
            (1.0, 0.0, 1.0),
            (0.0, 0.0, 0.0),
            (0.0, 0.7, 0.0),
        ] {
            let found = rate_among_senders(rate, cover).unwrap();
            assert!(found >= exact && found <= exact * (1.0 + 4e-15), "{rate} {cover}: {found}");
        }
    }

    #[test]
    fn more_cover_never_costs_more() {
        let rates = [1e-9, 0.01, 0.3, 0.999, 1.0];
        for rate in rates {
            let mut among = 1.0;
            for step in 0..=1_000 {
                let cover = f64::from(step) / 1_000.0;
                let found = rate_among_senders(rate, cover).unwrap();
                assert!((rate..=among).contains(&found), "{rate} {cover}: {found}");
                among = found;
            }
            assert_eq!(among, rate);
        }
    }

    #[test]
    fn only_probabilities_are_taken() {
        for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            for (rate, cover) in [(bad, 0.5), (0.5, bad)] {
                assert!(rate_among_senders(rate, cover).is_err());
            }
        }
    }
}
