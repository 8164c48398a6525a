//! Exact samplers: noise and coins from integers alone.
//!
//! Everything is made of fair draws below a bound ([`Draws`]). There is no floating point, no table
//! and no allocation. The laws are those of the formulas, to the last bit, so nothing of them is
//! charged to delta. The one exception is written at [`DiscreteGaussian`]: an event of probability
//! below `e^-500000`.
//!
//! How long a draw takes depends on what is drawn, as in every sampler by rejection. So the time of
//! a single draw must not be observable. A release draws all its noise in one go.
//!
//! A probability `e^-x` is a [`Rate`] x, a fraction. Likewise coins: the probability `1 - e^-x`
//! can be repeated, skipped over and raised to a power exactly, which no fraction can.

mod gaussian;
#[cfg(test)]
pub(crate) mod tests;

use rand_core::CryptoRng;

use crate::Error;
use crate::error::{at_least_one, at_most};
use crate::uniform::uniform_below;

pub use gaussian::DiscreteGaussian;

/// Where samplers get their randomness.
pub trait Draws {
    /// A uniform number below `bound`, which is at least 1.
    fn below(&mut self, bound: u64) -> u64;

    /// True with probability `num/den`.
    fn fraction(&mut self, num: u64, den: u64) -> bool {
        self.below(den) < num
    }
}

impl<R: CryptoRng + ?Sized> Draws for R {
    fn below(&mut self, bound: u64) -> u64 {
        uniform_below(bound, self)
    }
}

/// A positive fraction: the `x` in `e^-x`, a scale or a standard deviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    num: u64,
    den: u64,
}

impl Rate {
    /// The largest numerator and denominator.
    pub const LARGEST: u64 = 1 << 50;

    /// `num/den`; both from 1 to [`Self::LARGEST`].
    pub fn new(num: u64, den: u64) -> Result<Self, Error> {
        for (name, part) in [("the numerator", num), ("the denominator", den)] {
            at_least_one(name, part)?;
            at_most(name, part, Self::LARGEST)?;
        }
        Ok(Self { num, den })
    }

    /// The numerator.
    pub fn num(self) -> u64 {
        self.num
    }

    /// The denominator.
    pub fn den(self) -> u64 {
        self.den
    }

    /// The nearest floating-point number.
    pub fn to_f64(self) -> f64 {
        self.num as f64 / self.den as f64
    }
}

/// True with probability `e^-x`.
pub fn bernoulli_exp(x: Rate, draws: &mut (impl Draws + ?Sized)) -> bool {
    let (whole, rest) = (x.num / x.den, x.num % x.den);
    (0..whole).all(|_| unit_exp(draws)) && forsythe(draws, |draws| draws.fraction(rest, x.den))
}

/// The number of successes before the first failure, where each is a success with probability
/// `e^-x`. Takes a few draws, however small x is (Canonne, Kamath, Steinke 2020, algorithm 2).
pub fn geometric(x: Rate, draws: &mut (impl Draws + ?Sized)) -> u64 {
    // For the rate 1/den: the remainder by den, then the quotient.
    let remainder = loop {
        let candidate = draws.below(x.den);
        if forsythe(draws, |draws| draws.fraction(candidate, x.den)) {
            break candidate;
        }
    };
    let mut quotient = 0_u64;
    while unit_exp(draws) {
        quotient += 1;
    }
    // Of `num` neighbours one is left: the rate is `num` times as large.
    quotient.saturating_mul(x.den).saturating_add(remainder) / x.num
}

/// The places, in order, of the successes among `trials` coins that each succeed with probability
/// `1 - e^-x`. The time grows with the successes and not with the trials.
pub fn successes<D: Draws + ?Sized>(
    trials: u64,
    x: Rate,
    draws: &mut D,
) -> impl Iterator<Item = u64> {
    let mut next = 0_u64;
    std::iter::from_fn(move || {
        let place = next.saturating_add(geometric(x, draws));
        next = place.saturating_add(1);
        (place < trials).then_some(place)
    })
}

/// The number of successes among `trials` coins that each succeed with probability `1 - e^-x`.
pub fn binomial(trials: u64, x: Rate, draws: &mut (impl Draws + ?Sized)) -> u64 {
    successes(trials, x, draws).fold(0, |count, _| count + 1)
}

/// Discrete Laplace noise: probability proportional to `e^(-|n| x)`.
pub fn discrete_laplace(x: Rate, draws: &mut (impl Draws + ?Sized)) -> i64 {
    loop {
        let magnitude = i64::try_from(geometric(x, draws)).unwrap_or(i64::MAX);
        match draws.fraction(1, 2) {
            // Zero has only one sign.
            true if magnitude == 0 => {}
            true => return -magnitude,
            false => return magnitude,
        }
    }
}

/// True with probability `e^-1`.
fn unit_exp(draws: &mut (impl Draws + ?Sized)) -> bool {
    forsythe(draws, |_| true)
}

/// True with probability `e^-g`, given coins of probability `g`, at most 1 (von Neumann, Forsythe).
///
/// Coins of probability `g/1`, `g/2`, ... are tossed up to the first failure. More than n succeed
/// with probability `g^n/n!`, so an even number with probability `1 - g + g^2/2! - ...`.
fn forsythe<D: Draws + ?Sized>(draws: &mut D, mut coin: impl FnMut(&mut D) -> bool) -> bool {
    let mut even = true;
    let mut count = 1_u64;
    while (count == 1 || draws.fraction(1, count)) && coin(draws) {
        even = !even;
        count += 1;
    }
    even
}
