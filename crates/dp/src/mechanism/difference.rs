//! Whether two estimates differ by more than their uncertainty.
//!
//! The two are independent, and each has an interval for the same level, which need not be
//! symmetric: a count of zero has room above and none below. So the uncertainty of the difference
//! comes from those ends of the intervals that lie towards each other (Zou, Donner 2008, "MOVER").
//! With `z` standard deviations to either side in the intervals, and `a > b`,
//!
//! ```text
//! z_difference = z (a - b)/sqrt((a - low a)^2 + (high b - b)^2)
//! ```
//!
//! which is the usual z-test where the intervals are the estimates plus and minus `z` standard
//! errors. The p-value is that of a standard normal number. It assumes that the ends of intervals
//! for other levels lie in proportion, which is true of normal noise, and nearly so of counts.

use crate::Error;
use crate::error::in_range;
use crate::math::normal::{quantile_of_ln_upper_tail, upper_tail};
use crate::math::{ln, sqrt};

/// An estimate with the ends of its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranged {
    /// The estimate.
    pub value: f64,
    /// The low end.
    pub low: f64,
    /// The high end.
    pub high: f64,
}

/// What can be said of the difference of two estimates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The second minus the first, with an interval of the same level as theirs.
    pub ranged: Ranged,
    /// How probable a difference at least as large would be if there were none.
    pub p: f64,
}

/// Compares two independent estimates whose intervals hold with probability `level`.
pub fn difference(first: Ranged, second: Ranged, level: f64) -> Result<Difference, Error> {
    in_range("level", level, level > 0.0 && level < 1.0, "above 0 and below 1")?;
    let z = quantile_of_ln_upper_tail(ln((1.0 - level) / 2.0));
    let root = |a: f64, b: f64| sqrt(a * a + b * b);
    let below = root(second.value - second.low, first.high - first.value);
    let above = root(second.high - second.value, first.value - first.low);
    let value = second.value - first.value;
    let towards = if value > 0.0 { below } else { above };
    let p = match towards {
        _ if value == 0.0 => 1.0,
        // Both are known exactly.
        0.0 => 0.0,
        _ => (2.0 * upper_tail(z * value.abs() / towards)).min(1.0),
    };
    Ok(Difference { ranged: Ranged { value, low: value - below, high: value + above }, p })
}

/// Holm's correction: the p-values of several tests, adjusted so that the probability that any of
/// them is at most `alpha`, if nothing differs, is at most `alpha`. The tests need not be
/// independent (Holm 1979).
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        least = least.max((p.len() - rank) as f64 * p[index]).min(1.0);
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranged(value: f64, low: f64, high: f64) -> Ranged {
        Ranged { value, low, high }
    }

    #[test]
    fn symmetric_intervals_give_the_z_test() {
        let z = 1.959_963_984_540_054;
        let of = |value: f64, error: f64| ranged(value, value - z * error, value + z * error);
        let found = difference(of(100.0, 3.0), of(110.0, 4.0), 0.95).unwrap();
        // Two standard errors: 2 (1 - Phi(2)).
        assert!((found.p - 0.045_500_263_896_358).abs() < 1e-12, "{found:?}");
        assert!((found.ranged.low - (10.0 - 5.0 * z)).abs() < 1e-9, "{found:?}");
        assert!((found.ranged.high - (10.0 + 5.0 * z)).abs() < 1e-9, "{found:?}");
        let back = difference(of(110.0, 4.0), of(100.0, 3.0), 0.95).unwrap();
        assert!((back.p - found.p).abs() < 1e-15 && back.ranged.value == -10.0, "{back:?}");
    }

    /// The ends towards each other count: here those that leave no room.
    #[test]
    fn the_ends_between_the_two_decide() {
        let (zero, four) = (ranged(0.0, 0.0, 3.0), ranged(4.0, 0.0, 90.0));
        let found = difference(zero, four, 0.95).unwrap();
        assert_eq!((found.ranged.low, found.ranged.high), (4.0 - 5.0, 4.0 + 86.0));
        let z = 1.959_963_984_540_054 * 4.0 / 5.0;
        assert!((found.p - 2.0 * upper_tail(z)).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn exact_values_differ_or_do_not() {
        let exact = |value: f64| ranged(value, value, value);
        assert_eq!(difference(exact(1.0), exact(1.0), 0.95).unwrap().p, 1.0);
        assert_eq!(difference(exact(1.0), exact(2.0), 0.95).unwrap().p, 0.0);
        let open = ranged(9.0, f64::NEG_INFINITY, f64::INFINITY);
        assert_eq!(difference(exact(1.0), open, 0.95).unwrap().p, 1.0);
        assert!(difference(exact(1.0), exact(1.0), 1.0).is_err());
    }

    #[test]
    fn holm_multiplies_by_what_is_left() {
        // The third is not below the second, which it could not beat.
        assert_eq!(holm(&[0.01, 0.25, 0.125, 0.75]), [0.04, 0.5, 0.375, 0.75]);
        assert_eq!(holm(&[0.5, 0.4]), [0.8, 0.8]);
        assert_eq!(holm(&[]), [0.0; 0]);
        assert_eq!(holm(&[0.9, 0.9]), [1.0, 1.0]);
    }
}
