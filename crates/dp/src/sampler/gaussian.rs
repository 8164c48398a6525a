//! Discrete Gaussian noise (Karney, "Sampling exactly from the normal distribution", 2016,
//! algorithm D).
//!
//! The magnitude is `n = sigma (k + x)` with a whole `k` and `0 <= x < 1`, and
//!
//! ```text
//! e^(-n^2/(2 sigma^2)) = e^(-k^2/2) e^(-x (2k + x)/2).
//! ```
//!
//! So: draw `k` with probability proportional to the first factor; draw an integer between
//! `k sigma` and `(k + 1) sigma`, all equally likely; accept it with the probability of the second.
//! With `sigma = a/b` the numerator of `x` over `a` is an integer, and all coins are fractions of
//! 64-bit numbers.

use super::{Draws, Rate, forsythe};

/// The largest `k`. A larger one has probability below `e^-500000`; it is drawn again.
const LARGEST: u64 = 1000;

/// Integers with probability proportional to `e^(-n^2/(2 sigma^2))`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscreteGaussian {
    sigma: Rate,
    /// `sigma`, rounded up: how many integers can be between `k sigma` and `(k + 1) sigma`.
    width: u64,
}

impl DiscreteGaussian {
    /// Noise of the parameter `sigma`, which is nearly its standard deviation, and from 1 on to
    /// within 1e-6 of it.
    pub fn new(sigma: Rate) -> Self {
        Self { sigma, width: sigma.num.div_ceil(sigma.den) }
    }

    /// One draw.
    pub fn sample(&self, draws: &mut (impl Draws + ?Sized)) -> i64 {
        loop {
            if let Some(number) = self.attempt(draws) {
                return number;
            }
        }
    }

    /// A number with a probability proportional to its own, or nothing.
    pub(super) fn attempt(&self, draws: &mut (impl Draws + ?Sized)) -> Option<i64> {
        let Rate { num, den } = self.sigma;
        let whole = whole(draws)?;
        let negative = draws.fraction(1, 2);
        // The first integer from `whole * sigma` on, and one of those after it. At most 1001 * 2^50,
        // as is everything below.
        let magnitude = (whole * num).div_ceil(den) + draws.below(self.width);
        let part = self.part(magnitude, whole)?;
        if negative && magnitude == 0 {
            // Zero has only one sign.
            return None;
        }
        // e^(-x (2k + x)/2), as the power k + 1 of e^-g with g = x (2k + x)/(2k + 2) below 1.
        let accepted = (0..=whole).all(|_| {
            forsythe(draws, |draws| {
                draws.fraction(part, num)
                    && draws.fraction(2 * whole * num + part, (2 * whole + 2) * num)
            })
        });
        let magnitude = magnitude as i64;
        accepted.then_some(if negative { -magnitude } else { magnitude })
    }

    /// The numerator over `num` of `x = magnitude/sigma - whole`, if that is below 1.
    fn part(&self, magnitude: u64, whole: u64) -> Option<u64> {
        let Rate { num, den } = self.sigma;
        let scaled = u128::from(magnitude) * u128::from(den) - u128::from(whole * num);
        u64::try_from(scaled).ok().filter(|part| *part < num)
    }
}

/// A whole number with probability proportional to `e^(-k^2/2)`, or nothing.
fn whole(draws: &mut (impl Draws + ?Sized)) -> Option<u64> {
    let mut candidate = 0_u64;
    while candidate <= LARGEST && half_exp(draws) {
        candidate += 1;
    }
    // e^(-k/2) so far; e^(-k (k - 1)/2) is left.
    let rest = candidate * candidate.saturating_sub(1);
    (candidate <= LARGEST && (0..rest).all(|_| half_exp(draws))).then_some(candidate)
}

/// True with probability `e^(-1/2)`.
fn half_exp(draws: &mut (impl Draws + ?Sized)) -> bool {
    forsythe(draws, |draws| draws.fraction(1, 2))
}
