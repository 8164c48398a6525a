//! What a relay learns from seeing who sends something.
//!
//! Every device tosses a coin with the sampling rate `q`, whether or not it may answer. Heads: it
//! sends a report, or *cover* if it may not answer. Tails: it sends cover with probability `c`. The
//! relay cannot tell cover from a report, so it sees only that every device sends something with
//! probability `q + (1-q) c`, whatever its data and its budget.
//!
//! **A relay that learns the result** knows the senders. Each of them that may answer took part
//! with probability [`rate_among_senders`], independently. A recipe is judged at this rate as well
//! as at `q`, and the larger epsilon counts.
//!
//! **Rates that depend on the value** (importance sampling) let the relay learn about the value
//! from the fact that a device sends: [`epsilon_of_sending`]. Dummies and cover make it less.
//!
//! Results are rounded up. A caller that has fractions passes `rate` rounded up and `cover` rounded
//! down: the result grows with the rate and falls with the cover.

use crate::Error;
use crate::error;
use crate::error::in_range;
use crate::math::{ln, up};

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

/// What seeing whether a device sends something in one round says about its value, as an epsilon at
/// `delta` (which may be 0), between the default value and any other.
///
/// A device with the default value takes part with probability `default_rate`, one with another
/// value with probability `rate`. One that does not sends a dummy with probability `dummy_rate`,
/// and if not that, cover with probability `cover`. So it is silent with probability
/// `(1 - r)(1 - q')(1 - c)`: two laws of one bit, whose divergence is the larger one of the two
/// outcomes. If all send (`cover` is 1), nothing is learnt. Several rounds compose, as `pure_dp` or
/// `approximate_dp`.
pub fn epsilon_of_sending(
    (default_rate, rate): (f64, f64),
    dummy_rate: f64,
    cover: f64,
    delta: f64,
) -> Result<f64, Error> {
    let (r0, r1) = (error::rate("default_rate", default_rate)?, error::rate("rate", rate)?);
    let (q, c) = (error::rate("dummy_rate", dummy_rate)?, error::rate("cover", cover)?);
    in_range("delta", delta, (0.0..1.0).contains(&delta), "0 or more, and below 1")?;
    let silent = |r: f64| (1.0 - r) * (1.0 - q) * (1.0 - c);
    // One minus the above, without a difference.
    let sends = |r: f64| r + (1.0 - r) * (q + (1.0 - q) * c);
    let ratio = |more: f64, less: f64| {
        let more = up(more, ROUNDINGS) - delta;
        // What is possible in one case only tells everything.
        if !(more > less) {
            0.0
        } else if less > 0.0 {
            up(ln(more / less), ROUNDINGS) + ROUNDINGS
        } else {
            f64::INFINITY
        }
    };
    // The same law, whatever the value.
    if r0 == r1 || q == 1.0 || c == 1.0 {
        return Ok(0.0);
    }
    let (low, high) = if r0 < r1 { (r0, r1) } else { (r1, r0) };
    Ok(ratio(sends(high), sends(low)).max(ratio(silent(low), silent(high))))
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

    /// Both outcomes, by their definition, at the epsilon that is found and a little below.
    #[test]
    fn sending_says_this_much_about_the_value() {
        let mut least = f64::INFINITY;
        for (r0, r1) in [(0.005, 0.5), (0.01, 0.02), (0.0, 0.3), (0.2, 1.0), (0.3, 0.1)] {
            for q in [0.0, 0.1, 0.7] {
                for c in [0.0, 0.5, 0.99] {
                    for delta in [0.0, 1e-6, 0.05] {
                        let found = epsilon_of_sending((r0, r1), q, c, delta).unwrap();
                        let silent = [r0, r1].map(|r| (1.0 - r) * (1.0 - q) * (1.0 - c));
                        let stick = |epsilon: f64| {
                            let way = |a: f64, b: f64| {
                                let over = |p: f64, q: f64| {
                                    if q > 0.0 { (p - epsilon.exp() * q).max(0.0) } else { p }
                                };
                                over(a, b) + over(1.0 - a, 1.0 - b)
                            };
                            way(silent[0], silent[1]).max(way(silent[1], silent[0]))
                        };
                        if found == f64::INFINITY {
                            assert!(stick(700.0) > delta, "{r0} {r1} {q} {c} {delta}");
                            continue;
                        }
                        assert!(stick(found) <= delta + 1e-15, "{r0} {r1} {q} {c} {delta}");
                        let below = found * (1.0 - 1e-9) - 1e-12;
                        assert!(below < 0.0 || stick(below) > delta, "{r0} {r1} {q} {c} {delta}");
                        least = least.min(found);
                    }
                }
            }
        }
        assert_eq!(least, 0.0);
        for (rates, cover) in [((0.01, 0.5), 1.0), ((0.3, 0.3), 0.0)] {
            assert_eq!(epsilon_of_sending(rates, 0.0, cover, 0.0).unwrap(), 0.0);
        }
        // A device that always sends with one value and not always with another.
        assert_eq!(epsilon_of_sending((0.2, 1.0), 0.0, 0.0, 1e-9).unwrap(), f64::INFINITY);
    }

    #[test]
    fn only_probabilities_are_taken() {
        for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            for (rate, cover) in [(bad, 0.5), (0.5, bad)] {
                assert!(rate_among_senders(rate, cover).is_err());
                assert!(epsilon_of_sending((rate, 0.5), cover, 0.5, 0.0).is_err());
                assert!(epsilon_of_sending((0.5, rate), 0.5, cover, 0.0).is_err());
            }
        }
    }
}
