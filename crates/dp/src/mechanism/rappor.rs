//! RAPPOR: a list of all labels, in which those of the device are set; then each bit is flipped with
//! probability `p = 1/(e^epsilon0 + 1)`.
//!
//! **Local epsilon.** A device has `w` labels at most. Against the law of a device without any (the
//! same flips of zeros), only the bits of its labels count, each with a ratio of at most
//! `(1 - p)/p = e^epsilon0`: `w epsilon0` under *deletion*. Two devices with `w` labels each, none in
//! common, differ in `2 w` bits: `2 w epsilon0` under *replacement*, which is reached. So for a
//! histogram (`w = 1`) it is `epsilon0` and `2 epsilon0`. Recipes are judged under replacement.
//!
//! **Exact arithmetic.** A flip is a coin `1 - e^-x` of [`crate::sampler`], `x = num/2^50`. `num` is
//! rounded up, so that `e^x - 1 >= e^-epsilon0`, which is `p/(1 - p)`: no ratio is above
//! `e^epsilon0`. Only the flips are drawn, by the gaps between them. How many there are, and where,
//! does not depend on the labels. The estimator has the probabilities of the rounded `x`.
//!
//! **Bounded weight.** The servers check that a report sets at most `W` bits, so a dishonest device
//! moves at most `W` estimates. An honest report is heavier with a probability of at most `2^-80`
//! ([`weight_bound`]). Then it is replaced by a report of a device without labels, drawn until it is
//! light enough. What replaces it does not depend on the labels, so this is a post-processing of the
//! report: neither epsilon grows, nor does any delta of shuffled reports. (To draw again *with* the
//! labels would be a condition, not a post-processing: ratios would grow by `1/(1 - 2^-80)` where
//! values differ in the number of labels.)
//!
//! What is summed is not post-processed: a theorem about the *sum* of RAPPOR reports, whose bits are
//! independent, does not hold as it is. It holds except with a small probability. Compare two values
//! of one device, each one label, `x` and `x'`. Of each of `k` honest reports look at the *rest*, all
//! bits but `x` and `x'`, before anything is replaced. The law of the rests is the same in both
//! cases. If none of them has more than `W - 2` bits set, no report is replaced whatever bits `x` and
//! `x'` are, and these are independent of the rests: the theorem holds. A rest is heavier with
//! probability at most `2^-80`, so by the union over the reports this adds at most `k 2^-80` to
//! delta. `k` is the number of reports on which the theorem is used, as the adversary may be given
//! all others. The rule for recipes charges [`HEAVY`] for each.
//!
//! **Several labels** are judged as any randomizer with their epsilon under replacement.
//!
//! The estimates are biased by what is replaced: relatively by `2^-80`.

use rand_core::CryptoRng;

use super::collusion::colluding;
use super::estimate::{Shows, counted};
use super::{
    Collected, Colluding, Encoding, Estimate, Method, Parameter, Sampling, Value, Variance, Words,
};
use crate::error::{at_least_one, in_range};
use crate::math::search::last_where;
use crate::math::{binomial, exp, expm1, log1p, up};
use crate::number::up_short;
use crate::recipe::Law;
use crate::sampler::{Draws, Rate, successes};
use crate::shuffle::Randomizer;
use crate::{Error, Event};

/// With this probability at most a report would set more bits than allowed.
pub(crate) const HEAVY: f64 = 1.0 / (1_u128 << 80) as f64;

/// Covers the roundings between epsilon and the rate of flips: two functions, two operations.
/// Relative.
const MARGIN: f64 = 16.0 * f64::EPSILON;

/// RAPPOR over `length` labels, of which a device has up to `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rappor {
    epsilon_micro: u64,
    length: u32,
    most: u32,
    flips: Rate,
    weight: u32,
}

impl Rappor {
    /// With the local epsilon of one label under deletion, in micro-units (at least one), at least
    /// two labels, and up to `most` labels per device.
    pub fn new(epsilon_micro: u64, length: u32, most: u32) -> Result<Self, Error> {
        at_least_one("epsilon_micro", epsilon_micro)?;
        in_range("the number of labels", length.into(), length >= 2, "a whole number, 2 or more")?;
        let holds = (1..=length).contains(&most);
        in_range("most", most.into(), holds, "from 1 to the number of labels")?;
        let flips = flips(epsilon_micro)?;
        let weight = weight_bound(length, most, probability(flips));
        Ok(Self { epsilon_micro, length, most, flips, weight })
    }

    /// For values of this encoding: one symbol, or some labels.
    pub fn of(epsilon_micro: u64, encoding: Encoding) -> Result<Self, Error> {
        match encoding {
            Encoding::OneHot { length } => Self::new(epsilon_micro, length, 1),
            Encoding::Labels { length, most } => Self::new(epsilon_micro, length, most),
            _ => Err(Error::NotAnswered { mechanism: "RAPPOR", queries: "histograms" }),
        }
    }

    /// The `x` with which a bit is flipped with probability `1 - e^-x`.
    pub fn flips(&self) -> Rate {
        self.flips
    }

    /// The probability of a flip.
    pub fn flip_probability(&self) -> f64 {
        probability(self.flips)
    }

    /// How many bits a report sets at most.
    pub fn max_weight(&self) -> u32 {
        self.weight
    }

    /// The report for these labels, which are in order: the bits that it sets.
    pub(crate) fn report<D: Draws + ?Sized>(&self, labels: &[u32], draws: &mut D) -> Vec<u32> {
        let mut found = self.flipped(labels, draws);
        while found.len() > self.weight as usize {
            found = self.flipped(&[], draws);
        }
        found
    }

    /// The labels without those that are flipped, and the others that are.
    fn flipped<D: Draws + ?Sized>(&self, labels: &[u32], draws: &mut D) -> Vec<u32> {
        // Below the number of labels, which came from a `u32`.
        let places = successes(self.length.into(), self.flips, draws).map(|place| place as u32);
        let mut found: Vec<u32> = labels.iter().copied().chain(places).collect();
        found.sort_unstable();
        // What is there twice is a label that was flipped.
        let mut set = Vec::with_capacity(found.len());
        for place in found {
            if set.last() == Some(&place) {
                set.pop();
            } else {
                set.push(place);
            }
        }
        set
    }

    /// The local epsilon of one label under deletion. The division rounds to nearest.
    fn epsilon0(&self) -> f64 {
        (self.epsilon_micro as f64 / 1e6).next_up()
    }

    fn shows(&self) -> Shows {
        let flip = self.flip_probability();
        // 1 - 2p = 2 e^-x - 1.
        let gap = 2.0 * exp(-self.flips.to_f64()) - 1.0;
        Shows { miss: flip, lie: flip, gap, neither: 0.0 }
    }

    /// Under replacement, for all labels of a device.
    fn replacing(&self) -> f64 {
        (2.0 * f64::from(self.most) * self.epsilon0()).next_up()
    }
}

impl Method for Rappor {
    fn encoding(&self) -> Encoding {
        Encoding::Labels { length: self.length, most: self.weight }
    }

    fn randomize(&self, value: Value, rng: &mut dyn CryptoRng) -> Value {
        Value::Labels(self.report(&value.labels(self.length, self.most), rng))
    }

    fn event(&self) -> Option<Event> {
        let (epsilon0, k) = (self.epsilon0(), u64::from(self.length));
        Some(match self.most {
            1 => Event::Rappor { epsilon0, k },
            _ => Event::PureDp { epsilon: self.replacing() },
        })
    }

    fn law(&self) -> Law {
        let (epsilon0, k) = (self.epsilon0(), u64::from(self.length));
        match self.most {
            1 => Law::Rappor { epsilon0, k },
            _ => Law::PureDp { epsilon0: self.replacing() },
        }
    }

    fn local_epsilon(&self) -> Option<f64> {
        Some(self.replacing())
    }

    fn colluding(&self, sampling: &Sampling, delta: f64) -> Result<Option<Colluding>, Error> {
        let randomizer = self.event().as_ref().and_then(Randomizer::of);
        randomizer.map(|randomizer| colluding(sampling, delta, randomizer)).transpose()
    }

    fn estimates(&self, collected: &Collected<'_>) -> Result<Vec<Estimate>, Error> {
        collected.check_sums(self.encoding())?;
        counted(collected, self.encoding(), self.shows())
    }

    fn variance(&self, reports: f64) -> Result<Variance, Error> {
        Ok(self.shows().noise(reports))
    }

    fn reach(&self) -> f64 {
        self.shows().reach()
    }

    fn words(&self) -> Words {
        let percent = 100.0 * self.flip_probability();
        Words {
            name: "RAPPOR",
            parameters: vec![Parameter {
                field: "randomizer.epsilon_micro",
                name: "local epsilon (deletion)",
                micro: self.epsilon_micro,
                more_is_weaker: true,
            }],
            explanation: format!(
                "Your device ticks what applies to you in a list of {}. Then it rolls dice for each line, \
                 and in {percent:.1} of 100 cases turns a tick into none or none into a tick. Whatever \
                 is ticked in the end, it may have been the dice.",
                self.length
            ),
            effect: format!(
                "each of {} bits flipped with probability {}",
                self.length,
                up_short(self.flip_probability())
            ),
        }
    }
}

/// The smallest `x = num/2^50` known to be safe: `e^x - 1 >= e^-epsilon`.
fn flips(epsilon_micro: u64) -> Result<Rate, Error> {
    let epsilon = (epsilon_micro as f64 / 1e6).next_down();
    // Multiplying by 2^50 is exact.
    let num = (up(log1p(exp(-epsilon)), MARGIN) * Rate::LARGEST as f64).ceil();
    Rate::new((num as u64).max(1), Rate::LARGEST)
}

/// `1 - e^-x`.
fn probability(flips: Rate) -> f64 {
    -expm1(-flips.to_f64())
}

/// How many bits a report may set: `W` with `W - 2` not below the `most` labels and the false bits,
/// except with probability [`HEAVY`].
fn weight_bound(length: u32, most: u32, flip: f64) -> u32 {
    let n = u64::from(length);
    // The tail is computed to 1e-12; the hundredth that is left out covers the error.
    let heavy = |false_bits: u64| binomial::upper_tail(n, flip, false_bits + 1) > 0.99 * HEAVY;
    let least = if heavy(0) { last_where(0, n, heavy) + 1 } else { 0 };
    // At most the number of labels, which came from a `u32`.
    (least + u64::from(most) + 2).min(n) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::tests::law;

    /// The bits of a report as a number.
    fn bits(labels: &[u32]) -> usize {
        labels.iter().fold(0, |bits, label| bits | 1 << label)
    }

    /// The probability of each report, from the definition.
    fn formula(rappor: &Rappor, labels: &[u32]) -> Vec<f64> {
        let (n, p) = (rappor.length, rappor.flip_probability());
        let flipped = |from: usize, to: usize| {
            let flips = (from ^ to).count_ones() as i32;
            p.powi(flips) * (1.0 - p).powi(n as i32 - flips)
        };
        let light = |report: &usize| report.count_ones() <= rappor.weight;
        let of_none: f64 = (0..1 << n).filter(light).map(|report| flipped(0, report)).sum();
        let heavy: f64 =
            (0..1 << n).filter(|r| !light(r)).map(|report| flipped(bits(labels), report)).sum();
        let law = |report: usize| match light(&report) {
            true => flipped(bits(labels), report) + heavy * flipped(0, report) / of_none,
            false => 0.0,
        };
        (0..1 << n).map(law).collect()
    }

    /// The sum over all paths through the code, also where reports are too heavy.
    #[test]
    fn the_law_is_the_formula() {
        for (weight, labels) in
            [(3, vec![]), (3, vec![1]), (3, vec![0, 2]), (2, vec![2]), (2, vec![0, 1])]
        {
            let flips = Rate::new(1, 1).unwrap();
            let rappor = Rappor { epsilon_micro: 1, length: 3, most: 2, flips, weight };
            let (found, missing) = law(1e-6, |tape| bits(&rappor.report(&labels, tape)) as i64);
            assert!((0.0..0.1).contains(&missing), "{missing} of the probability is missing");
            for (report, expected) in (0..).zip(formula(&rappor, &labels)) {
                let found = found.get(&report).copied().unwrap_or(0.0);
                assert!(found <= expected + 1e-12, "{labels:?} {report}: {found}, {expected}");
                assert!(expected <= found + missing + 1e-12, "{labels:?} {report}");
            }
        }
    }

    /// Every pair of values, every report. Heavy reports are frequent here, and change nothing.
    #[test]
    fn ratios_keep_the_local_epsilon_in_both_notions() {
        for micro in [10_000, 700_000, 2_000_000, 5_000_000] {
            for (length, most) in [(2, 1), (3, 2), (5, 1), (5, 2), (6, 3)] {
                for weight in 1..=length {
                    let made = Rappor::new(micro, length, most).unwrap();
                    assert_eq!(made.weight, length, "no bound for so few labels");
                    let rappor = Rappor { weight, ..made };
                    let values: Vec<Vec<u32>> = (0..1_u32 << length)
                        .filter(|set| set.count_ones() <= most)
                        .map(|set| (0..length).filter(|label| set >> label & 1 == 1).collect())
                        .collect();
                    let laws: Vec<_> = values.iter().map(|value| formula(&rappor, value)).collect();
                    let deletion = f64::from(most) * micro as f64 / 1e6;
                    let replacement = rappor.local_epsilon().unwrap();
                    assert!((replacement / (2.0 * deletion) - 1.0).abs() < 1e-12);
                    let (mut reached, none) = (0.0_f64, &laws[0]);
                    for one in &laws {
                        for (report, a) in one.iter().enumerate().filter(|(_, a)| **a > 0.0) {
                            let ratio = (a / none[report]).ln().abs();
                            assert!(ratio <= deletion + 1e-9, "{micro} {length} {most} {weight}");
                            for other in &laws {
                                let ratio = (a / other[report]).ln();
                                reached = reached.max(ratio);
                                assert!(ratio <= replacement + 1e-9, "{micro} {length} {weight}");
                            }
                        }
                    }
                    // Two disjoint sets are as far apart as claimed.
                    let disjoint = 2 * most <= length && weight == length;
                    assert!(!disjoint || reached > replacement - 1e-6, "{reached} {replacement}");
                }
            }
        }
    }

    #[test]
    fn weights_are_bounded_where_that_is_all_but_certain() {
        for (length, micro, expected) in
            [(1_000, 4_000_000, 78), (1_000, 2_000_000, 239), (10_000, 5_000_000, 169)]
        {
            let rappor = Rappor::new(micro, length, 1).unwrap();
            assert_eq!(rappor.weight, expected, "{length} {micro}");
            let p = rappor.flip_probability();
            let (n, rest) = (u64::from(length), u64::from(rappor.weight - 2));
            assert!(binomial::upper_tail(n, p, rest) <= HEAVY);
            assert!(binomial::upper_tail(n, p, rest - 1) > HEAVY, "larger than needed");
        }
        assert_eq!(Rappor::new(1_000_000, 20, 3).unwrap().weight, 20);
    }
}
