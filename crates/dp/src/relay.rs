//! What a relay learns from seeing who sends something.
//!
//! Every device that does not answer a recipe, eligible or not, sends *cover* with probability `c`:
//! the relay cannot tell it from a report. An eligible device answers with probability `q`, so it
//! sends something with probability `q + (1-q) c`.
//!
//! - **A relay that learns the result** knows the senders, and each of them took part with
//!   probability [`rate_among_senders`], independently. A recipe is judged at this rate as well as
//!   at `q`, and the larger epsilon counts.
//! - **What sending says about a predicate**: a device that is not eligible sends with probability
//!   `c` only. [`epsilon_of_sending`] compares the two.
//!
//! Results are rounded up. A caller that has fractions passes `rate` rounded up and `cover` rounded
//! down: both results grow with the rate and fall with the cover.

use crate::Error;
use crate::error;
use crate::math::{log1p, up};

/// Covers the roundings of arithmetic, of which there are four, and of one logarithm. Relative.
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

/// What the relay learns about a predicate by seeing whether a device sends, as an epsilon at delta
/// 0: the larger of `ln((q + (1-q) c)/c)`, if it sends, and `ln(1/(1-q))`, if it does not.
///
/// It is 0 if everybody sends (`cover` is 1), and infinite without cover.
pub fn epsilon_of_sending(rate: f64, cover: f64) -> Result<f64, Error> {
    let (q, c) = (error::rate("rate", rate)?, error::rate("cover", cover)?);
    if q == 0.0 || c == 1.0 {
        return Ok(0.0);
    }
    // (q + (1-q) c)/c = 1 + q (1-c)/c; (1-c)/((1-q) (1-c)) = 1/(1-q).
    let (sends, silent) = (log1p(q * (1.0 - c) / c), -log1p(-q));
    Ok(up(sends.max(silent), ROUNDINGS))
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
    fn what_sending_says() {
        let infinite = f64::INFINITY;
        for (rate, cover, exact) in [
            // Everybody sends, or nobody answers.
            (0.02, 1.0, 0.0),
            (1.0, 1.0, 0.0),
            (0.0, 0.0, 0.0),
            (0.0, 0.5, 0.0),
            // Without cover only eligible devices send.
            (0.02, 0.0, infinite),
            // An eligible device is never silent.
            (1.0, 0.5, infinite),
            // Sending says more: ln 1.18.
            (0.02, 0.1, 0.165_514_438_477_573_4),
            // Silence says more: ln(1/0.98). Sending says ln 1.02.
            (0.02, 0.5, 0.020_202_707_317_519_45),
            (0.02, 0.8, 0.020_202_707_317_519_45),
            (0.5, 0.5, 2f64.ln()),
        ] {
            let found = epsilon_of_sending(rate, cover).unwrap();
            let close = found >= exact && (found == exact || found <= exact * (1.0 + 4e-15));
            assert!(close, "{rate} {cover}: {found}");
        }
    }

    #[test]
    fn more_cover_never_costs_more() {
        let rates = [1e-9, 0.01, 0.3, 0.999, 1.0];
        for rate in rates {
            let (mut among, mut sending) = (1.0, f64::INFINITY);
            for step in 0..=1_000 {
                let cover = f64::from(step) / 1_000.0;
                let found = rate_among_senders(rate, cover).unwrap();
                assert!((rate..=among).contains(&found), "{rate} {cover}: {found}");
                among = found;
                let found = epsilon_of_sending(rate, cover).unwrap();
                assert!((0.0..=sending).contains(&found), "{rate} {cover}: {found}");
                sending = found;
            }
            assert!(among == rate && sending == 0.0);
        }
    }

    #[test]
    fn only_probabilities_are_taken() {
        for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            for (rate, cover) in [(bad, 0.5), (0.5, bad)] {
                assert!(rate_among_senders(rate, cover).is_err());
                assert!(epsilon_of_sending(rate, cover).is_err());
            }
        }
    }
}
