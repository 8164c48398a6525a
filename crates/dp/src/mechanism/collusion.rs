//! What remains of a device's privacy if leader and helper collude.
//!
//! They combine the shares and see each randomized report, but not who sent it: the view of a
//! shuffler. Nobody withholds small batches any more, so the crowd is not half of the minimum batch
//! but however many honest devices happened to answer. The only figure for that is the recipe's
//! population, which nobody proves; this guarantee rests on it.
//!
//! With `n` honest devices that each answer with probability `q`, what they see is a shuffle of the
//! reports of those who answer, and how many these are: the bound of [`crate::shuffle`] with the
//! sampling in its sum. How many there are at least (Chernoff) is said for people, and not used.
//!
//! The rate is known between two neighbouring numbers `l <= q <= h`. The others are taken to have
//! `l`: those who answer beyond that can be added afterwards. The device has `h` at most; its laws
//! are then at most `h/l` and at least `(1 - h)/(1 - l)` times those with `l`, so delta grows by the
//! first factor and epsilon by the logarithm of their quotient.
//!
//! It also assumes that the relay hides the senders, and that the time of a report says nothing
//! about them.
//!
//! All rounding is towards more epsilon: the exponent up, the low count down, delta down.

use serde::Serialize;

use crate::Error;
use crate::error::{self, at_least_one, rate};
use crate::math::{down, ln, log1p, up};
use crate::recipe::{HONEST, IMPROBABLE};
use crate::shuffle::{self, Crowd, Randomizer};

/// Covers the roundings of a divergence and of its root. Relative.
const MARGIN: f64 = 1e-9;

/// Covers three roundings of arithmetic. Relative.
const ROUNDINGS: f64 = 4.0 * f64::EPSILON;

/// How many devices there are, and the probability with which each answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// The author's figure.
    pub population: u64,
    /// A number that is not above the sampling rate.
    pub rate_low: f64,
    /// A number that is not below the sampling rate.
    pub rate_high: f64,
}

/// The guarantee that remains if both aggregators collude.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Colluding {
    /// At the recipe's delta, for replacement.
    pub epsilon: f64,
    /// The number of honest devices that it assumes, including this one.
    pub honest_devices: u64,
    /// There are at least so many honest reports, except with a thousandth of delta.
    pub honest_reports: u64,
}

/// The guarantee of a local randomizer.
pub(super) fn colluding(
    sampling: &Sampling,
    delta: f64,
    randomizer: Randomizer,
) -> Result<Colluding, Error> {
    error::delta(delta)?;
    at_least_one("population", sampling.population)?;
    let (low, high) = (rate("rate", sampling.rate_low)?, rate("rate", sampling.rate_high)?);
    let honest_devices = shuffle::honest_crowd(sampling.population, HONEST);
    let n = honest_devices as f64;
    let exponent = up(-ln(IMPROBABLE * delta) / n, MARGIN);
    let reports = down(n * tail(low, 0.0, exponent), MARGIN).floor();
    let honest_reports = (reports as u64).max(1);
    let local = randomizer.local_epsilon();
    // If the crowd may be empty, only the randomizer's own guarantee remains.
    if reports < 1.0 {
        return Ok(Colluding { epsilon: local, honest_devices, honest_reports });
    }
    let crowd = Crowd { reports: honest_devices, rate: low, share: 1.0 };
    let own = down(delta * (low / high), ROUNDINGS);
    let found = shuffle::upper(randomizer, false, &crowd, own);
    // At the rate 1 everybody answers.
    let wider = if high < 1.0 {
        log1p((high - low) / low) - log1p((low - high) / (1.0 - low))
    } else if low < 1.0 {
        f64::INFINITY
    } else {
        0.0
    };
    let epsilon = up(found + wider, ROUNDINGS).min(local);
    Ok(Colluding { epsilon, honest_devices, honest_reports })
}

/// The rate between `q` and `end` with this exponent: `KL(x || q) = exponent`, rounded towards
/// `end`.
fn tail(q: f64, end: f64, exponent: f64) -> f64 {
    let (mut near, mut far) = (q, end);
    if divergence(end, q) <= exponent {
        return end;
    }
    for _ in 0..200 {
        let middle = 0.5 * (near + far);
        *(if divergence(middle, q) < exponent { &mut near } else { &mut far }) = middle;
    }
    far
}

/// `KL(x || q)` of two coins. Precise even where `x` is close to `q`, and `q` close to 0 or 1.
fn divergence(x: f64, q: f64) -> f64 {
    let part = |x: f64, q: f64, gap: f64| if x <= 0.0 { 0.0 } else { x * log1p(gap / q) };
    part(x, q, x - q) + part(1.0 - x, 1.0 - q, q - x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::randomized_response::RandomizedResponse;
    use crate::mechanism::{Encoding, Method, exact::Exact};
    use crate::recipe::{Terms, judge};

    const DELTA: f64 = 1e-9;

    fn response() -> RandomizedResponse {
        RandomizedResponse::of(4_000_000, Encoding::OneHot { length: 3 }).unwrap()
    }

    fn sampling(population: u64) -> Sampling {
        Sampling { population, rate_low: 0.02, rate_high: 0.02 }
    }

    #[test]
    fn it_lies_between_the_sampled_crowd_and_the_randomizer_alone() {
        let found = response().colluding(&sampling(1_000_000), DELTA).unwrap().unwrap();
        assert_eq!(found.honest_devices, 500_000);
        // 10,000 honest reports are expected; six standard deviations are 600.
        assert!((9_200..9_500).contains(&found.honest_reports), "{found:?}");
        let law = response().law();
        let terms = Terms::new(law, 0.02, 19_434, 1);
        let judged = judge(&terms, None, DELTA).unwrap();
        assert!(found.epsilon > 0.5 * judged.epsilon && found.epsilon < 2.0 * judged.epsilon);
    }

    #[test]
    fn a_small_population_leaves_the_local_epsilon() {
        let found = response().colluding(&sampling(100), DELTA).unwrap().unwrap();
        assert!((found.epsilon - 4.0).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn no_randomizer_gives_no_guarantee() {
        for encoding in [Encoding::Bit, Encoding::Number { max: 9 }, Encoding::OneHot { length: 3 }]
        {
            let found = Exact::of(encoding).colluding(&sampling(1_000_000), DELTA).unwrap();
            assert!(found.is_none(), "{encoding:?} {found:?}");
        }
    }

    #[test]
    fn tails_are_on_the_safe_side() {
        for (q, exponent) in [(0.02, 1e-4), (0.5, 0.01), (0.9, 1e-6), (1e-9, 3e-15)] {
            let (low, high) = (tail(q, 0.0, exponent), tail(q, 1.0, exponent));
            assert!(low < q && q < high, "{q} {low} {high}");
            assert!(divergence(low, q) >= exponent && divergence(high, q) >= exponent);
        }
        assert_eq!(tail(0.5, 0.0, 10.0), 0.0);
    }

    #[test]
    fn wider_rates_and_fewer_devices_never_cost_less() {
        let of = |population, rate_low, rate_high| {
            let sampling = Sampling { population, rate_low, rate_high };
            response().colluding(&sampling, DELTA).unwrap().unwrap()
        };
        let base = of(1_000_000, 0.02, 0.02);
        for wider in
            [of(1_000_000, 0.019, 0.02), of(1_000_000, 0.02, 0.021), of(900_000, 0.02, 0.02)]
        {
            assert!(wider.epsilon >= base.epsilon, "{wider:?} {base:?}");
        }
        let all = of(1_000, 1.0, 1.0);
        assert_eq!((all.honest_devices, all.honest_reports), (500, 499));
    }
}
