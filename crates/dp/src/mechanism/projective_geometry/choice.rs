//! Which geometry serves a number of symbols and an epsilon.
//!
//! The number of points jumps with the dimension: the order that is best for epsilon 4 gives 3,541
//! points, then 208,920. Every point is an element of each report. So among all prime orders with a
//! bounded number of points those with nearly the least variance are eligible, and of these the
//! smallest geometry is chosen: where the number would jump, that is one with a smaller or larger
//! order.

use super::space::Space;
use crate::Error;
use crate::error::in_range;
use crate::math::{exp, expm1};

/// There may be so many points, or [`FACTOR`] times as many as symbols.
const MODEST: u64 = 1 << 15;
const FACTOR: u64 = 4;

/// There are never more: the most elements that a report has.
const LARGEST: u64 = 1 << 18;

/// A variance that is larger by this factor is nearly the least.
const NEARLY: f64 = 1.01;

/// A weight above this is certainty.
const CERTAIN: f64 = 1e30;

/// The geometry for so many symbols at the epsilon under deletion.
pub(super) fn geometry(epsilon: f64, symbols: u32) -> Result<Space, Error> {
    let symbols = u64::from(symbols);
    let largest = MODEST.max(FACTOR * symbols).min(LARGEST);
    // Larger orders than both gain nothing.
    let enough = 4.0 * exp(epsilon.min(20.0)) + 16.0;
    let orders = (2..largest).take_while(|q| *q <= symbols + 16 || (*q as f64) < enough);
    let mut eligible: Vec<(f64, u64, Space)> = Vec::new();
    for order in orders.filter(|q| is_prime(*q)) {
        let mut space = Space { order, dimension: 2 };
        while space.points() < symbols {
            space.dimension += 1;
        }
        if space.points() <= largest {
            eligible.push((variance(epsilon, space), space.points(), space));
        }
    }
    let least = eligible.iter().map(|found| found.0).fold(f64::INFINITY, f64::min);
    let nearly = eligible.iter().filter(|found| found.0 <= NEARLY * least);
    let found = nearly.min_by_key(|found| found.1).map(|found| found.2);
    let range = "from 2 to about 2^18";
    in_range("the number of symbols", symbols as f64, symbols >= 2 && found.is_some(), range)?;
    found.ok_or(Error::OutOfRange { name: "the number of symbols", value: symbols as f64, range })
}

/// How much likelier an incident point is than another one, minus 1: the largest weight for which no
/// probability is more than `e^epsilon` times, or less than `e^-epsilon` times, that of the uniform
/// law.
///
/// With `D = 1 + (w - 1) own` these ratios are `w/D` and `1/D`, and `own` is the part of all points
/// that is incident to one. So `(w - 1) own <= e^epsilon - 1` and
/// `(w - 1) (1 - own e^epsilon) <= e^epsilon - 1`; both imply `w <= e^(2 epsilon)`. Rounded down, but
/// for the last bits.
pub(super) fn excess(epsilon: f64, space: Space) -> f64 {
    let own = space.own() as f64 / space.points() as f64;
    let a = expm1(epsilon.min(100.0));
    // The difference is rounded up: where it matters it is above 1/(a + 2), so little is lost.
    let left = 1.0 - own * (a + 1.0) + 8.0 * f64::EPSILON;
    let by_own = if left > 0.0 { a / left } else { f64::INFINITY };
    (a / own).min(by_own).min(expm1(2.0 * epsilon.min(100.0))).min(CERTAIN)
}

/// The variance of the estimate of a rare symbol, per report.
fn variance(epsilon: f64, space: Space) -> f64 {
    weighted(excess(epsilon, space), space)
}

/// The same if an incident point is `1 + x` times as likely as another one.
fn weighted(x: f64, space: Space) -> f64 {
    let [all, own, shared] = [space.points(), space.own(), space.shared()].map(|size| size as f64);
    let part = own / all;
    let hit = (1.0 + x) * part / (1.0 + x * part);
    let miss = (1.0 - part) / (1.0 + x * part);
    let lie = hit * shared / own + miss * (own - shared) / (all - own);
    let gap = (own - shared) * (hit / own - miss / (all - own));
    lie * (1.0 - lie) / (gap * gap)
}

fn is_prime(order: u64) -> bool {
    (2..).take_while(|factor| factor * factor <= order).all(|factor| !order.is_multiple_of(factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(epsilon: f64, symbols: u32) -> (u64, u32, u64) {
        let space = geometry(epsilon, symbols).unwrap();
        (space.order, space.dimension, space.points())
    }

    #[test]
    fn the_number_of_points_does_not_jump() {
        assert_eq!(of(4.0, 1_000), (53, 3, 2_863));
        assert_eq!(of(4.0, 3_000), (59, 3, 3_541));
        // Order 53 would take 151,740 points.
        assert_eq!(of(4.0, 4_096), (67, 3, 4_557));
        assert_eq!(of(5.0, 1_000), (149, 3, 22_351));
        for symbols in [2, 3, 7, 100, 5_000, 50_000, 200_000] {
            for epsilon in [1e-6, 0.5, 2.0, 6.0, 12.0, 1e4] {
                let (order, _, points) = of(epsilon, symbols);
                assert!(is_prime(order) && points >= u64::from(symbols));
                assert!(points <= (4 * u64::from(symbols)).clamp(1 << 15, 1 << 18));
            }
        }
        assert!(geometry(1.0, 0).is_err() && geometry(1.0, 1).is_err());
        assert!(geometry(1.0, u32::MAX).is_err());
    }

    #[test]
    fn variances_are_those_of_the_table() {
        // Of the design: 0.0196 at epsilon 4, 0.0068 at 5, 0.222 at 2, for 1,000 symbols.
        for (epsilon, expected, order, dimension) in
            [(4.0, 0.0196, 53, 3), (5.0, 0.0068, 149, 3), (2.0, 0.222, 7, 5)]
        {
            let found = variance(epsilon, Space { order, dimension });
            assert!((found / expected - 1.0).abs() < 0.01, "{epsilon}: {found}");
        }
    }

    /// Mean squared errors of the original, which is calibrated by replacement (`w = e^epsilon`), in
    /// 300 trials by its authors.
    #[test]
    fn variances_are_those_of_the_reference() {
        for (reports, epsilon, order, dimension, expected) in [
            (10_000.0, 5.0, 151, 3, 272.7),
            (10_000.0, 4_f64.ln(), 5, 8, 17_765.0),
            (1_000.0, 5.0, 151, 3, 27.8),
            (50_000.0, 5.0, 151, 3, 1_378.0),
        ] {
            let found = reports * weighted(epsilon.exp_m1(), Space { order, dimension });
            assert!((found / expected - 1.0).abs() < 0.03, "{reports} {epsilon}: {found}");
            let formula = 4.0 * reports * epsilon.exp() / epsilon.exp_m1().powi(2);
            assert!((found / formula - 1.0).abs() < 0.03, "{reports} {epsilon}: {found}");
        }
    }
}
