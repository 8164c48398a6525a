//! Projective geometry response (Feldman, Nelson, Nguyen, Talwar, "Private Frequency Estimation via
//! Projective Geometry", 2022), calibrated by deletion.
//!
//! Symbols and messages are points of a projective geometry ([`space`], chosen by [`choice`]). A
//! device sends a point that is incident to its symbol with probability `T/2^63`, each such point
//! alike; otherwise one of the others, each alike.
//!
//! **Local epsilon.** An incident point is `w` times as likely as another one. Against the uniform
//! law, which does not depend on the symbol, the ratios are `w/D` and `1/D`, `D = 1 + (w - 1) own`,
//! `own` the part of all points that is incident to one. Both are kept within `e^epsilon0` and
//! `e^-epsilon0`: epsilon0 under *deletion*, as for RAPPOR. Under *replacement* it is `ln w`, at most
//! `2 epsilon0`. (The original is calibrated by replacement, `w = e^epsilon`. At the same number that
//! has about four times the variance of RAPPOR, which is calibrated by deletion.)
//!
//! **Exact arithmetic.** `T` is rounded down, and at least `2^63 own`. So the smaller `w'` makes the
//! mechanism a mixture of that of `w` and the uniform law: a post-processing, and every bound for `w`
//! holds. A message takes `t` coordinates: all but one are drawn, and the last follows from the
//! product that the message should have with the symbol. As many random words are drawn whatever
//! the symbol is and whether the message is incident to it.
//!
//! **Estimates.** The servers count messages. Of those that are incident to a symbol `v`, a report of
//! `v` is one with probability `p = T/2^63`, one of another symbol with probability `s`, which is the
//! same for all others since any two points share the same number of incident points. So the sum of
//! the messages incident to `v` is the count of [`super::estimate`]. All sums together take
//! `points q t` additions. A dishonest device moves as many estimates as an honest one, those of the
//! symbols incident to its message: every message is valid.
//!
//! There is no message of a device without a symbol: no dummies.

mod choice;
mod space;

use rand_core::CryptoRng;

use self::space::Space;
use super::collusion::colluding;
use super::estimate::{Shows, Spread, counted, of_messages};
use super::{
    Collected, Colluding, Encoding, Estimate, Method, Parameter, Sampling, Value, Variance, Words,
};
use crate::error::at_least_one;
use crate::math::{down, up};
use crate::number::up_short;
use crate::recipe::Law;
use crate::sampler::Draws;
use crate::shuffle::Randomizer;
use crate::{Error, Event};

/// A probability of one.
const ONE: u64 = 1 << 63;

/// Covers the roundings between epsilon and a probability: two functions, a dozen operations.
/// Relative.
const MARGIN: f64 = 64.0 * f64::EPSILON;

/// Projective geometry response for a number of symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProjectiveGeometry {
    epsilon_micro: u64,
    symbols: u32,
    space: Space,
    /// `T`.
    threshold: u64,
}

impl ProjectiveGeometry {
    /// With the local epsilon under deletion, in micro-units (at least one), and at least two
    /// symbols.
    pub fn new(epsilon_micro: u64, symbols: u32) -> Result<Self, Error> {
        at_least_one("epsilon_micro", epsilon_micro)?;
        let space = choice::geometry(epsilon_micro as f64 / 1e6, symbols)?;
        Ok(Self::within(epsilon_micro, symbols, space))
    }

    fn within(epsilon_micro: u64, symbols: u32, space: Space) -> Self {
        let epsilon = (epsilon_micro as f64 / 1e6).next_down();
        let threshold = threshold(choice::excess(epsilon, space), space);
        Self { epsilon_micro, symbols, space, threshold }
    }

    /// For values of this encoding, which must be one-hot.
    pub fn of(epsilon_micro: u64, encoding: Encoding) -> Result<Self, Error> {
        match encoding {
            Encoding::OneHot { length } => Self::new(epsilon_micro, length),
            _ => Err(Error::NotAnswered {
                mechanism: "projective geometry response",
                queries: "histograms",
            }),
        }
    }

    /// The order of the field and the number of coordinates.
    pub fn geometry(&self) -> (u64, u64) {
        (self.space.order, self.space.dimension.into())
    }

    /// How many messages there are.
    pub fn messages(&self) -> u32 {
        // At most 2^18.
        self.space.points() as u32
    }

    /// The `T` of the probability `T/2^63` that a message is incident to its symbol.
    pub fn hit_threshold(&self) -> u64 {
        self.threshold
    }

    /// How many messages are incident to one symbol, and how many to two.
    pub fn incidences(&self) -> (u64, u64) {
        (self.space.own(), self.space.shared())
    }

    /// For each message the sum of `values`, one for each message, over those that are incident to
    /// the symbol of the same number.
    pub fn incident_sums(&self, values: &[f64]) -> Vec<f64> {
        self.space.incident(values)
    }

    /// The message to send for a symbol, which is below the number of symbols.
    pub(crate) fn message<D: Draws + ?Sized>(&self, symbol: u32, draws: &mut D) -> u32 {
        let Space { order, dimension } = self.space;
        let own = self.space.reversed(symbol.into());
        let all = order.saturating_pow(dimension - 1);
        let hit = u64::from(draws.fraction(self.threshold, ONE));
        // All coordinates but one: not all zero if the product is.
        let (some, any) = (1 + draws.below(all - 1), draws.below(all));
        let product = (1 + draws.below(order - 1)) * (1 - hit);
        let mask = hit.wrapping_neg();
        let mut digits = (some & mask) | (any & !mask);
        // The last coordinate of the symbol that is not 0, which is 1.
        let pivot = own.iter().rposition(|c| *c != 0).unwrap_or(0);
        let mut message = vec![0; own.len()];
        let mut left = product;
        for (place, c) in own.iter().enumerate().filter(|(place, _)| *place != pivot) {
            message[place] = digits % order;
            digits /= order;
            left += order - message[place] * c % order;
        }
        message[pivot] = left % order;
        // Below the number of messages.
        self.space.point(&message) as u32
    }

    /// The local epsilon under deletion. The division rounds to nearest.
    fn epsilon0(&self) -> f64 {
        (self.epsilon_micro as f64 / 1e6).next_up()
    }

    fn randomizer(&self) -> Option<Randomizer> {
        self.event().as_ref().and_then(Randomizer::of)
    }

    fn shows(&self) -> Shows {
        let [all, own, shared] =
            [self.space.points(), self.space.own(), self.space.shared()].map(u128::from);
        let (one, hit) = (u128::from(ONE), u128::from(self.threshold));
        let (hit_part, miss_part) = (hit as f64 / ONE as f64, (one - hit) as f64 / ONE as f64);
        let (apart, others) = ((own - shared) as f64, (all - own) as f64);
        let lie = hit_part * (shared as f64 / own as f64) + miss_part * (apart / others);
        // (own - shared) (p/own - (1 - p)/(all - own)); T is not below 2^63 own/all.
        let excess = (hit * all).saturating_sub(one * own) as f64 / ONE as f64;
        let gap = apart * excess / (own as f64 * others);
        Shows { miss: miss_part, lie, gap, neither: miss_part - lie }
    }

    /// How many messages are incident to each symbol.
    fn counts(&self, collected: &Collected<'_>) -> Result<Vec<i128>, Error> {
        collected.check_sums(self.encoding())?;
        // Whole numbers up to 2^53.
        let values: Vec<f64> = collected.sums.iter().map(|sum| *sum as f64).collect();
        let sums = self.space.incident(&values).into_iter().take(self.symbols as usize);
        Ok(sums.map(|sum| sum as i128).collect())
    }

    /// The encoding of the values.
    fn answers(&self) -> Encoding {
        Encoding::OneHot { length: self.symbols }
    }
}

impl Method for ProjectiveGeometry {
    fn encoding(&self) -> Encoding {
        Encoding::OneHot { length: self.messages() }
    }

    fn randomize(&self, value: Value, rng: &mut dyn CryptoRng) -> Value {
        Value::OneHot(self.message(value.symbol(self.symbols), rng))
    }

    fn event(&self) -> Option<Event> {
        let (order, dimension) = self.geometry();
        Some(Event::ProjectiveGeometry { epsilon0: self.epsilon0(), order, dimension })
    }

    fn law(&self) -> Law {
        let (order, dimension) = self.geometry();
        Law::ProjectiveGeometry { epsilon0: self.epsilon0(), order, dimension }
    }

    fn local_epsilon(&self) -> Option<f64> {
        self.randomizer().map(Randomizer::local_epsilon)
    }

    fn colluding(&self, sampling: &Sampling, delta: f64) -> Result<Option<Colluding>, Error> {
        self.randomizer().map(|randomizer| colluding(sampling, delta, randomizer)).transpose()
    }

    fn estimates(&self, collected: &Collected<'_>) -> Result<Vec<Estimate>, Error> {
        let counts = self.counts(collected)?;
        let counted_of = Collected { sums: &counts, ..*collected };
        counted_of.check(self.answers())?;
        counted(&counted_of, self.answers(), self.shows())
    }

    fn spread(&self, weights: &[f64], collected: &Collected<'_>) -> Result<Spread, Error> {
        let counts = self.counts(collected)?;
        let rates = || collected.rates(self.answers());
        let weights: Vec<f64> = weights.iter().zip(rates()).map(|(w, rate)| w / rate).collect();
        let shows = self.shows();
        let expected = shows.lie * weights.iter().sum::<f64>();
        let mut padded = weights.clone();
        padded.resize(collected.sums.len(), 0.0);
        let sums = self.space.incident(&padded);
        let shown: Vec<f64> = sums.iter().map(|sum| (sum - expected) / shows.gap).collect();
        let taken = counts.iter().map(|count| shows.taken(*count as f64, collected.reports));
        Ok(of_messages(collected, &shown, taken, rates(), &weights))
    }

    fn variance(&self, reports: f64) -> Result<Variance, Error> {
        Ok(self.shows().noise(reports))
    }

    fn labels(&self) -> u32 {
        self.symbols
    }

    fn reach(&self) -> f64 {
        self.shows().reach()
    }

    fn words(&self) -> Words {
        let hit = self.threshold as f64 / ONE as f64;
        let messages = self.messages();
        Words {
            name: "projective geometry response",
            parameters: vec![Parameter {
                field: "randomizer.epsilon_micro",
                name: "local epsilon (deletion)",
                micro: self.epsilon_micro,
                more_is_weaker: true,
            }],
            explanation: format!(
                "There are {messages} groups of answers, and every answer is in {} of them. Your device sends \
                 the number of one group. It rolls dice: in {:.1} of 100 cases it is a group with your \
                 answer, otherwise one without it. Whatever was sent, it may have been the dice.",
                self.space.own(),
                100.0 * hit
            ),
            effect: format!(
                "one of {messages} messages is sent, incident to the value with probability {}",
                up_short(hit)
            ),
        }
    }
}

/// The largest `T` known to be safe: `T/2^63 <= w own/(1 + (w - 1) own)`.
fn threshold(excess: f64, space: Space) -> u64 {
    let part = space.own() as f64 / space.points() as f64;
    let all = 1.0 + excess * part;
    let (hit, miss) = ((1.0 + excess) * part / all, (1.0 - part) / all);
    // Each is precise where it is small. Multiplying by 2^63 is exact, and so is rounding the
    // result, which is then an integer.
    let from_below = (down(hit, MARGIN) * ONE as f64).floor() as u64;
    let miss = ((up(miss, MARGIN) * ONE as f64).ceil() as u64).clamp(1, ONE);
    // Never less than the uniform law. Rounding that up costs less than 2^-40 in epsilon.
    let uniform = (u128::from(ONE) * u128::from(space.own())).div_ceil(u128::from(space.points()));
    from_below.max(ONE - miss).max(uniform as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::tests::law;

    /// All geometries with up to 40 points, every symbol, every message, every path through the
    /// code: the law is the formula, and its ratios are bounded in both notions.
    #[test]
    fn the_law_is_the_formula_and_keeps_both_epsilons() {
        for (order, dimension) in [(2, 2), (2, 3), (3, 2), (3, 3), (5, 2), (7, 2), (3, 4), (5, 3)] {
            let space = Space { order, dimension };
            for micro in [1, 300_000, 1_000_000, 2_500_000, 6_000_000, 40_000_000] {
                let response = ProjectiveGeometry::within(micro, space.points() as u32, space);
                let hit = response.threshold as f64 / ONE as f64;
                let (all, own) = (space.points() as f64, space.own() as f64);
                let epsilon = micro as f64 / 1e6;
                let (likely, unlikely) = (hit / own, (1.0 - hit) / (all - own));
                // Deletion: against the uniform law. Replacement: against each other.
                let slack = 1e-9;
                assert!((likely * all).ln() <= epsilon + slack, "{space:?} {micro}");
                assert!(
                    hit > 1.0 - 1e-12 || -(unlikely * all).ln() <= epsilon + slack,
                    "{space:?} {micro}"
                );
                let replaced = response.local_epsilon().unwrap();
                assert!(hit > 1.0 - 1e-12 || (likely / unlikely).ln() <= replaced + slack);
                assert!(likely >= unlikely && replaced <= 2.0 * epsilon * (1.0 + 1e-12));
                if micro != 1_000_000 {
                    continue;
                }
                for symbol in 0..space.points() as u32 {
                    let (found, missing) = law(0.0, |tape| response.message(symbol, tape).into());
                    assert!(missing.abs() < 1e-9, "{missing}");
                    let hits = found.values().filter(|mass| (**mass - likely).abs() < 1e-12);
                    let others = found.values().filter(|mass| (**mass - unlikely).abs() < 1e-12);
                    assert_eq!((found.len(), hits.count()), (all as usize, own as usize));
                    assert_eq!(others.count(), all as usize - own as usize);
                    let of_symbol = |message: i64| {
                        let mut values = vec![0.0; all as usize];
                        values[message as usize] = 1.0;
                        space.incident(&values)[symbol as usize]
                    };
                    for (message, mass) in found {
                        let expected = if of_symbol(message) > 0.0 { likely } else { unlikely };
                        assert!((mass - expected).abs() < 1e-12, "{symbol} {message}");
                    }
                }
            }
        }
    }

    #[test]
    fn parameters_out_of_range() {
        assert!(ProjectiveGeometry::new(0, 10).is_err());
        assert!(ProjectiveGeometry::new(1, 1).is_err());
        assert!(ProjectiveGeometry::new(1, u32::MAX).is_err());
        assert!(ProjectiveGeometry::of(1, Encoding::Bit).is_err());
        let labels = Encoding::Labels { length: 5, most: 2 };
        assert!(ProjectiveGeometry::of(1_000_000, labels).is_err());
        let certain = ProjectiveGeometry::new(u64::MAX, 100).unwrap();
        assert_eq!(certain.threshold, ONE - 1);
    }
}
