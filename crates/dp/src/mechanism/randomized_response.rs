//! k-ary randomized response: the true symbol with probability
//! `p = e^epsilon0/(e^epsilon0 + k - 1)`, otherwise one of the others, each with the same
//! probability `s = (1 - p)/(k - 1)`.
//!
//! **Exact arithmetic.** A device keeps its symbol if 63 random bits are below a threshold `T`, so
//! with probability exactly `T/2^63`. The other symbol is drawn by rejection, without bias. `T` is
//! rounded down: the ratio `T (k - 1)/(2^63 - T)` of any two likelihoods is at most `e^epsilon0`.
//! It is never below `2^63/k`, where the report says nothing.
//!
//! **Every bound for `p` holds for the smaller `p' = T/2^63`.** With `u` the uniform law,
//! `p' >= 1/k` makes the mechanism of `p'` the mixture `a R_p + (1 - a) u`,
//! `a = (p' - 1/k)/(p - 1/k)`: a post-processing of that of `p` (replace the report by a uniform
//! symbol with probability `1 - a`), and so no less private, sampled, shuffled or composed.
//!
//! **Side channels.** Both random words are always drawn, the number of words after them does not
//! depend on the value, and the choice is made without a branch. So neither the state of the
//! generator nor the path through the code reveals whether the symbol was kept.
//!
//! The formulas of the estimator are in [`super::estimate`], the theorem by which a recipe is
//! judged in [`crate::recipe`], and the one about colluding aggregators in [`super::collusion`].

use rand_core::CryptoRng;

use super::collusion::colluding;
use super::estimate::{Shows, Spread, counted, of_messages};
use super::{
    Collected, Colluding, Encoding, Estimate, Method, Parameter, Sampling, Value, Variance, Words,
};
use crate::error::{at_least_one, in_range};
use crate::math::{down, exp, up};
use crate::number::up_short;
use crate::recipe::Law;
use crate::shuffle::Randomizer;
use crate::uniform::uniform_below;
use crate::{Error, Event};

/// How many random bits decide whether the symbol is kept.
const KEEP_BITS: u32 = 63;

/// A keep probability of one.
const ONE: u64 = 1 << KEEP_BITS;

/// Covers the roundings between epsilon and a probability: one of `exp`, five of arithmetic.
/// Relative.
const MARGIN: f64 = 16.0 * f64::EPSILON;

/// A randomizer over the symbols `0..k` and its estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomizedResponse {
    epsilon_micro: u64,
    symbols: u32,
    threshold: u64,
}

impl RandomizedResponse {
    /// A randomizer with the local epsilon in micro-units (at least one) and the number of symbols
    /// (at least two).
    pub fn new(epsilon_micro: u64, symbols: u64) -> Result<Self, Error> {
        at_least_one("epsilon_micro", epsilon_micro)?;
        let holds = (2..=u64::from(u32::MAX)).contains(&symbols);
        in_range("k", symbols as f64, holds, "a whole number between 2 and 4294967295")?;
        let symbols = symbols as u32;
        Ok(Self { epsilon_micro, symbols, threshold: threshold(epsilon_micro, symbols) })
    }

    /// A randomizer for values of this encoding, which must be one-hot.
    pub fn of(epsilon_micro: u64, encoding: Encoding) -> Result<Self, Error> {
        match encoding {
            Encoding::OneHot { length } => Self::new(epsilon_micro, u64::from(length)),
            _ => {
                Err(Error::NotAnswered { mechanism: "randomized response", queries: "histograms" })
            }
        }
    }

    /// The `T` of the keep probability `T/2^63`.
    pub fn keep_threshold(&self) -> u64 {
        self.threshold
    }

    /// The local epsilon. The division rounds to nearest, so one step up is never below the true
    /// value.
    fn epsilon0(&self) -> f64 {
        (self.epsilon_micro as f64 / 1e6).next_up()
    }

    /// The device's side: the symbol to report for the symbol `value`.
    ///
    /// Values of `k` and above count as `k - 1`, so that the report is a symbol and the guarantee
    /// holds whatever the caller does.
    pub fn respond(&self, value: u32, rng: &mut dyn CryptoRng) -> u32 {
        let value = value.min(self.symbols - 1);
        let keep = u32::from((rng.next_u64() >> (u64::BITS - KEEP_BITS)) < self.threshold);
        // Below the bound, which came from a `u32`.
        let other = uniform_below(u64::from(self.symbols - 1), rng) as u32;
        // The symbols without `value`, in order.
        let other = other + u32::from(other >= value);
        let mask = keep.wrapping_neg();
        (value & mask) | (other & !mask)
    }
}

impl Method for RandomizedResponse {
    fn encoding(&self) -> Encoding {
        Encoding::OneHot { length: self.symbols }
    }

    fn randomize(&self, value: Value, rng: &mut dyn CryptoRng) -> Value {
        // Whatever a caller passes, only a randomized symbol leaves.
        Value::OneHot(self.respond(value.symbol(self.symbols), rng))
    }

    fn event(&self) -> Option<Event> {
        Some(Event::RandomizedResponse { epsilon0: self.epsilon0(), k: u64::from(self.symbols) })
    }

    fn law(&self) -> Law {
        Law::RandomizedResponse { epsilon0: self.epsilon0(), k: u64::from(self.symbols) }
    }

    fn local_epsilon(&self) -> Option<f64> {
        Some(self.epsilon0())
    }

    fn colluding(&self, sampling: &Sampling, delta: f64) -> Result<Option<Colluding>, Error> {
        let (epsilon0, k) = (self.epsilon0(), u64::from(self.symbols));
        colluding(sampling, delta, Randomizer::Response { epsilon0, k }).map(Some)
    }

    fn estimates(&self, collected: &Collected<'_>) -> Result<Vec<Estimate>, Error> {
        collected.check_sums(self.encoding())?;
        counted(collected, self.encoding(), shows(self.threshold, self.symbols))
    }

    fn spread(&self, weights: &[f64], collected: &Collected<'_>) -> Result<Spread, Error> {
        collected.check_sums(self.encoding())?;
        let rates = || collected.rates(self.encoding());
        let weights: Vec<f64> = weights.iter().zip(rates()).map(|(w, rate)| w / rate).collect();
        let shows = shows(self.threshold, self.symbols);
        let expected = shows.lie * weights.iter().sum::<f64>();
        let shown: Vec<f64> =
            weights.iter().map(|weight| (weight - expected) / shows.gap).collect();
        let taken = collected.sums.iter().map(|sum| shows.taken(*sum as f64, collected.reports));
        Ok(of_messages(collected, &shown, taken, rates(), &weights))
    }

    fn variance(&self, reports: f64) -> Result<Variance, Error> {
        Ok(shows(self.threshold, self.symbols).noise(reports))
    }

    fn reach(&self) -> f64 {
        shows(self.threshold, self.symbols).reach()
    }

    fn keep_probability(&self) -> Option<f64> {
        Some(self.threshold as f64 / ONE as f64)
    }

    fn words(&self) -> Words {
        let keep = self.threshold as f64 / ONE as f64;
        Words {
            name: "randomized response",
            parameters: vec![Parameter {
                field: "randomizer.epsilon_micro",
                name: "local epsilon",
                micro: self.epsilon_micro,
                more_is_weaker: true,
            }],
            explanation: format!(
                "Your device rolls dice: in {:.1} of 100 cases it sends its answer, otherwise another one at \
                 random. Whatever was sent, it may have been the dice.",
                100.0 * keep
            ),
            effect: format!(
                "kept with probability {}, otherwise another value at random",
                up_short(keep)
            ),
        }
    }
}

/// The probabilities of a report, each computed from integers: none loses digits to a subtraction.
fn shows(threshold: u64, symbols: u32) -> Shows {
    let (one, k) = (u128::from(ONE), u128::from(symbols));
    let (keep, lose) = (u128::from(threshold), u128::from(ONE - threshold));
    let scale = ONE as f64 * f64::from(symbols - 1);
    Shows {
        miss: lose as f64 / ONE as f64,
        lie: lose as f64 / scale,
        // p - s = (T (k - 1) - (2^63 - T))/(2^63 (k - 1)); T is above 2^63/k.
        gap: (keep * k).saturating_sub(one) as f64 / scale,
        neither: (lose * (k - 2)) as f64 / scale,
    }
}

/// The largest `T` known to be safe: `T/2^63 <= e^epsilon/(e^epsilon + k - 1)`.
fn threshold(epsilon_micro: u64, symbols: u32) -> u64 {
    let epsilon = (epsilon_micro as f64 / 1e6).next_down();
    // The weight of all other symbols together, relative to the true one.
    let others = f64::from(symbols - 1) * exp(-epsilon);
    let (keep, lose) = (1.0 / (1.0 + others), others / (1.0 + others));
    // Each is precise where it is small. Multiplying by 2^63 is exact, and so is rounding the
    // result, which is then an integer.
    let from_below = (down(keep, MARGIN) * ONE as f64).floor() as u64;
    let lose = ((up(lose, MARGIN) * ONE as f64).ceil() as u64).clamp(1, ONE);
    // Never less than 1/k. Rounding it up costs less than 2^-30 in epsilon, which is at least 1e-6.
    let uniform = ONE.div_ceil(u64::from(symbols));
    from_below.max(ONE - lose).max(uniform)
}
