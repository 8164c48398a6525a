//! The rule by which a recipe is judged: half of the other devices are honest, the count is seen,
//! the worst population.
//!
//! A device does not know how many others there are, and the author's figure must never lower
//! epsilon. What it knows is that no sum is released below the minimum batch `B`. If at most half
//! of the contributions are dishonest, a release has at least `B/2` honest ones. The adversary
//! knows the noise and coins of the dishonest ones, so the noise that counts has half of the
//! variance and the crowd that counts half of the size.
//!
//! **The count is always seen**, at every moment and below the minimum batch too: both aggregators
//! see it. Under replacement it says nothing, since a device is there in both cases and sends with
//! the same probability at the same times. Under add/remove it says who is there if there are few,
//! and no `B` helps; and where the rate depends on the value (importance sampling), what it holds.
//! Only a certified population helps: half of it are honest devices that toss the coin. What is not
//! certified counts as nobody. The rule is in [`counted`].
//!
//! **Local randomizers** (replacement). A release has `h = B/2` honest reports or more; below that
//! there is only the count, whose law is the same for every value. Two bounds hold for every number
//! `n` of honest devices that toss the coin, and the smaller one counts.
//!
//! - *By the population.* Let `j` be the largest number of others for which a release with the
//!   device's own report has probability at most `eta`. With `j` others or fewer, that is all that is
//!   ever seen of the value. With more, everything is a post-processing of what is seen among exactly
//!   `j + 1` others if every count is released: toss the coins of the rest, add their reports,
//!   withhold the sum where it is below the minimum. For one round these are two cases of which one
//!   holds, so `eta` may be all of delta. For several, in which the population may change, each
//!   round also costs `eta`.
//! - *By the batch.* Given the count `k` of honest reports, the senders are a uniform subset of the
//!   `n` honest devices: the device is among them with probability `k/n`, and a shuffle of `k`
//!   reports is no worse than one of `h`. By Chernoff's bound `k/n` exceeds `x` with probability at
//!   most `e^(-n KL(x || q))`. For the `x > q` with `h KL(x || q) / x = ln 1/eta`: if `n >= h/x`,
//!   then `n KL(x || q) >= ln 1/eta`; if `n` is less, a release needs `k/n > x' := h/n > x`, and
//!   `n KL(x' || q) = h KL(x' || q)/x'` is larger still. So except with probability `eta` either
//!   nothing is released or the rate is at most `x`, whatever `n` is. A delta given `k` is a convex
//!   function of the rate that is 0 at 0, so in one round those up to `x` count with `q/x` on
//!   average.
//!
//! The first is better for large batches, the second for small ones. In one round they also help
//! each other: with `j` others or fewer, what a release reveals is at most what the batch at the
//! rate `x` does, so that `j` may be larger.
//!
//! Dummies are shown to the adversary. Then at least `c` of the `B/2` honest messages are reports,
//! except with a probability that is taken from delta, and the second bound holds with `c` for `h`.
//!
//! Where the rate depends on the value this holds for RAPPOR alone, whose dummies are not shown: each
//! is a report of a device without labels. That one is told from a device with a label by looking
//! at less than what tells it from another label, so whatever message takes the place of the
//! device's, dummy or not, the bound for replacement holds. Other randomizers have no such report:
//! the number of their reports is seen, which depends on the values, and the terms are refused.
//!
//! With two rates they are judged where the count tells something ([`counted`]): of a release the
//! count is seen, and given the count, a shuffle of the smallest batch in which the device is with
//! a probability that is hardly above its rate.
//!
//! **Devices that are off.** An honest device that is often switched off, or refuses the recipe, has
//! a smaller rate `q'`. Its coin is two coins: one of `q'/q` says whether it is *on*, and one of `q`
//! whether it takes part if it is. Given who is on, all that are on have the rate `q`, and the rule
//! for their number holds: for every `n`, or where the count tells something, for every number of
//! others that is not below what is certified. If the device itself is off, both neighbours look the
//! same. The divergence is jointly convex, so the mixture over who is on is not worse than the worst
//! case. In several rounds the same holds for each round given the past, and the bounds compose
//! adaptively.
//!
//! This needs that who is on depends neither on the values nor on coins: those of the round, and
//! those of earlier rounds. (A device pays before it tosses, whatever the coin says, so a spent
//! budget tells nothing about coins.) Who is on may depend on earlier results, and an adversary may
//! decide it before the coins are tossed. And where the count tells something, what is certified has
//! to be a number of devices that are on.

mod counted;
mod devices;
mod local;
mod server;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use self::counted::{Counted, honest_others};
use self::local::Local;
use crate::account::{Accountant, Question};
use crate::calibrate::smallest_crowd;
use crate::error::{self, at_least_one, at_most, in_range, non_negative, positive, rate};
use crate::math::search::last_where;
use crate::math::{binomial, down, sqrt};
use crate::relay::epsilon_of_sending;
use crate::{Adjacency, Count, Error, Event, Shape};

pub use server::Contribution;

/// The fraction of the others that is honest.
pub const HONEST: f64 = 0.5;

/// The part of delta that pays for improbable counts.
pub(crate) const IMPROBABLE: f64 = 1e-3;

/// The same for local randomizers, where a larger crowd is worth more than delta.
const SILENT: f64 = 1.0 / 32.0;

/// The theorem by which a recipe is judged, with its parameters. Each mechanism names its law.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Law {
    /// Exact values: no epsilon holds.
    Exact,
    /// Gaussian noise, of which each device adds its part.
    Gaussian {
        /// Standard deviation of the noise of `B` contributions together, in units of the clip.
        sigma: f64,
        /// Shape of one contribution.
        shape: Shape,
    },
    /// Discrete Gaussian noise in each coordinate, of which each device adds its part; a report
    /// that comes out too long is drawn again.
    DistributedGaussian {
        /// The noise of `B` contributions together: `sqrt B` times the parameter of one device's, in
        /// units of the contribution.
        sigma: f64,
        /// What one device may add to the sum, without its noise.
        contribution: Contribution,
        /// How many whole units, of which the noise is a multiple, are one of the contribution.
        unit: u64,
        /// How many numbers are summed.
        dimension: u64,
        /// What the recipe claims to protect: presence (add/remove) or the value (replace).
        adjacency: Adjacency,
        /// In each round some report is drawn again with this probability, at most.
        redrawn: f64,
    },
    /// Discrete Gaussian noise in each coordinate, all of it added by an honest server.
    ServerGaussian {
        /// The parameter sigma of the noise, in units of the sum.
        sigma: f64,
        /// What one device may add to the sum.
        contribution: Contribution,
        /// What the recipe claims to protect: presence (add/remove) or the value (replace).
        adjacency: Adjacency,
    },
    /// Any randomizer of this epsilon.
    PureDp {
        /// The local epsilon, under replacement.
        epsilon0: f64,
    },
    /// k-ary randomized response.
    RandomizedResponse {
        /// The local epsilon, under replacement.
        epsilon0: f64,
        /// Number of symbols.
        k: u64,
    },
    /// RAPPOR, of which only the sum is seen.
    Rappor {
        /// The local epsilon, under deletion.
        epsilon0: f64,
        /// Number of symbols.
        k: u64,
    },
    /// Projective geometry response.
    ProjectiveGeometry {
        /// The local epsilon, under deletion.
        epsilon0: f64,
        /// The order of the field.
        order: u64,
        /// The number of coordinates of a point.
        dimension: u64,
    },
}

impl Law {
    /// One report alone, for the laws of local randomizers.
    fn local(self) -> Option<Event> {
        match self {
            Self::Exact
            | Self::Gaussian { .. }
            | Self::DistributedGaussian { .. }
            | Self::ServerGaussian { .. } => None,
            Self::PureDp { epsilon0 } => Some(Event::PureDp { epsilon: epsilon0 }),
            Self::RandomizedResponse { epsilon0, k } => {
                Some(Event::RandomizedResponse { epsilon0, k })
            }
            Self::Rappor { epsilon0, k } => Some(Event::Rappor { epsilon0, k }),
            Self::ProjectiveGeometry { epsilon0, order, dimension } => {
                Some(Event::ProjectiveGeometry { epsilon0, order, dimension })
            }
        }
    }
}

/// What decides the privacy of a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// What is known about one contribution.
    pub law: Law,
    /// The probability of taking part in one round.
    pub rate: f64,
    /// The same for a device with the default value, which adds nothing to the sum: at most `rate`,
    /// which `None` stands for.
    pub default_rate: Option<f64>,
    /// The probability of sending a dummy when not taking part.
    pub dummy_rate: f64,
    /// What part of the other devices is in the crowd, at least: 1, unless the adversary knows who
    /// sent something. Then the rates are those of the senders, and this is the probability with
    /// which a device is one of them. It matters only where the count tells something.
    pub senders: f64,
    /// Nothing is released below this many contributions.
    pub min_batch: u64,
    /// How many rounds use these terms.
    pub rounds: u64,
}

/// A device's judgement of a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Holds at `delta` for every population, under add/remove for every one that is not below the
    /// certified one; infinite if no epsilon does.
    pub epsilon: f64,
    /// The requested delta.
    pub delta: f64,
    /// Add/remove for continuous noise, replacement for local randomizers; for discrete noise of
    /// devices or of a server what the law names.
    pub adjacency: Adjacency,
    /// Always [`HONEST`].
    pub honest: f64,
    /// Always [`Count::Seen`], also below the minimum batch.
    pub count: Count,
    /// The paper's figure for the same terms: all honest, count hidden, exactly `min_batch`
    /// contributions. For local randomizers without dummies it is at most `epsilon`, which holds in
    /// the paper's model too.
    pub paper_epsilon: f64,
    /// The guarantee of the randomizer alone, even if everybody else colludes, and knows whether
    /// the device took part.
    pub local_epsilon: Option<f64>,
}

impl Terms {
    fn check(&self) -> Result<(), Error> {
        rate("rate", self.rate)?;
        let default_rate = rate("default_rate", self.least_rate())?;
        in_range("default_rate", default_rate, default_rate <= self.rate, "at most the rate")?;
        rate("dummy_rate", self.dummy_rate)?;
        rate("senders", self.senders)?;
        at_least_one("min_batch", self.min_batch)?;
        at_most("min_batch", self.min_batch, 1 << 40)?;
        at_least_one("rounds", self.rounds)?;
        if let Some(local) = self.law.local() {
            local.check()?;
            // Who sees the reports sees how many of them are dummies, and that number depends on the
            // values. (A dummy of RAPPOR is a report without labels, which looks like any other.)
            let shown = !matches!(self.law, Law::Rappor { .. });
            let holds = !(shown && self.has_two_rates() && self.dummy_rate > 0.0);
            in_range("dummy_rate", self.dummy_rate, holds, "0, as the rate depends on the value")?;
        }
        if let Law::Gaussian { sigma, .. }
        | Law::DistributedGaussian { sigma, .. }
        | Law::ServerGaussian { sigma, .. } = self.law
        {
            positive("sigma", sigma)?;
        }
        if let Law::DistributedGaussian { unit, dimension, redrawn, .. } = self.law {
            at_least_one("unit", unit)?;
            at_least_one("dimension", dimension)?;
            rate("redrawn", redrawn)?;
        }
        if let Law::DistributedGaussian { contribution, adjacency, .. }
        | Law::ServerGaussian { contribution, adjacency, .. } = self.law
        {
            contribution.check()?;
            if adjacency == Adjacency::ZeroOut {
                return Err(ZERO_OUT);
            }
        }
        Ok(())
    }

    /// One rate, and no dummies.
    pub fn new(law: Law, rate: f64, min_batch: u64, rounds: u64) -> Self {
        Self { law, rate, default_rate: None, dummy_rate: 0.0, senders: 1.0, min_batch, rounds }
    }

    /// The probability with which a device with the default value takes part.
    fn least_rate(&self) -> f64 {
        self.default_rate.unwrap_or(self.rate)
    }

    /// Whether the rate depends on the value, and with it the law of the count.
    fn has_two_rates(&self) -> bool {
        self.least_rate() < self.rate
    }

    /// The largest probability of sending anything.
    fn sending(&self) -> f64 {
        self.rate + (1.0 - self.rate) * self.dummy_rate
    }

    /// The smallest one.
    fn least_sending(&self) -> f64 {
        self.least_rate() + (1.0 - self.least_rate()) * self.dummy_rate
    }

    /// Honest contributions in the smallest batch that is released.
    fn honest_batch(&self) -> u64 {
        (self.min_batch as f64 * HONEST).ceil() as u64
    }

    /// How many of them are not dummies, at least, except with probability `improbable`.
    fn honest_reports(&self, improbable: f64) -> u64 {
        let batch = self.honest_batch();
        if self.dummy_rate <= 0.0 || self.rate <= 0.0 {
            return batch;
        }
        let part = self.least_rate() / self.least_sending();
        most_surely(batch, part, improbable).max(1)
    }
}

/// How a law is judged, by its neighbours. There is no other way to an epsilon, so a law whose count
/// tells something cannot forget the counts that are seen without a release.
enum Rule {
    /// No epsilon holds.
    None(Adjacency),
    /// A device is there or not, or takes part at one rate or another: the count tells something.
    Counted(Counted),
    /// A device holds one value or another, on which no count depends. The epsilon of all rounds.
    Replace(f64),
}

/// Judges a recipe at `delta`, for all of its rounds together.
///
/// `certified` is the number of devices in the population of which somebody other than the author
/// has assured us; `None` if there is no such number. It matters where the number of contributions
/// tells something: under add/remove, or if the rate depends on the value. Without it the device is
/// taken to be alone there, and epsilon is infinite.
pub fn judge(terms: &Terms, certified: Option<u64>, delta: f64) -> Result<Judgement, Error> {
    terms.check()?;
    error::delta(delta)?;
    let (rule, paper_epsilon, local_epsilon) = match terms.law {
        Law::Exact => (Rule::None(Adjacency::AddRemove), f64::INFINITY, None),
        Law::Gaussian { sigma, shape } => {
            let paper = paper_gaussian(terms, sigma, delta)?;
            let sigma = down(sigma * sqrt(HONEST), 4.0 * f64::EPSILON);
            (terms.release(sigma, shape, Adjacency::AddRemove), paper, None)
        }
        Law::DistributedGaussian { .. } => return devices::judge(terms, certified, delta),
        Law::ServerGaussian { sigma, contribution, adjacency } => {
            let noise = contribution.noise(sigma, terms.rounds)?;
            let of = (contribution.shape(), adjacency);
            return server::judge(terms, (noise, noise), of, certified, delta);
        }
        Law::PureDp { .. }
        | Law::RandomizedResponse { .. }
        | Law::Rappor { .. }
        | Law::ProjectiveGeometry { .. } => {
            let local = Local::of(terms.law).ok_or(NO_LAW)?;
            let paper = local.paper(terms, delta)?;
            let (rule, paper) = match terms.has_two_rates() {
                true => (local.counted(terms, delta), paper),
                false => {
                    let judged = local.judged(terms, delta)?;
                    // Without dummies, what is released if all are honest and the count is hidden
                    // is a post-processing of what is judged: larger batches alone are released.
                    let bound = if terms.dummy_rate > 0.0 { paper } else { paper.min(judged) };
                    (Rule::Replace(judged), bound)
                }
            };
            // Whether the device took part says something too.
            let rates = (terms.least_rate(), terms.rate);
            let alone = local.epsilon() + epsilon_of_sending(rates, 0.0, 0.0, 0.0)?;
            (rule, paper, Some(alone).filter(|epsilon| epsilon.is_finite()))
        }
    };
    rule.judge(terms, certified, delta, (paper_epsilon, local_epsilon))
}

impl Rule {
    fn judge(
        self,
        terms: &Terms,
        certified: Option<u64>,
        delta: f64,
        (paper_epsilon, local_epsilon): (f64, Option<f64>),
    ) -> Result<Judgement, Error> {
        let (adjacency, epsilon) = match self {
            Self::None(adjacency) => (adjacency, f64::INFINITY),
            Self::Counted(law) => (law.adjacency, law.judge(terms, certified, delta)?),
            Self::Replace(epsilon) => (Adjacency::Replace, epsilon),
        };
        let (honest, count) = (HONEST, Count::Seen);
        Ok(Judgement { epsilon, delta, adjacency, honest, count, paper_epsilon, local_epsilon })
    }
}

/// The smallest minimum batch with which the recipe has at most `epsilon`.
pub fn min_batch(
    terms: &Terms,
    certified: Option<u64>,
    epsilon: f64,
    delta: f64,
) -> Result<u64, Error> {
    non_negative("epsilon", epsilon)?;
    judge(terms, certified, delta)?;
    smallest_crowd("min_batch", |min_batch| {
        let judged = judge(&Terms { min_batch, ..*terms }, certified, delta);
        judged.is_ok_and(|found| found.epsilon <= epsilon)
    })
}

/// How many of `devices` are there, at least, if each is with the probability `part`, except with
/// probability `improbable`.
fn most_surely(devices: u64, part: f64, improbable: f64) -> u64 {
    // The tail is computed to 1e-12; the hundredth that is left out covers the error.
    last_where(0, devices + 1, |least| {
        binomial::lower_tail(devices, part, least) <= 0.99 * improbable
    })
}

/// The largest number of other honest devices for which `least` contributions arrive, including the
/// device's own, with probability at most `improbable`. `None` if they arrive even without any
/// others.
fn silent_population(sending: f64, least: u64, improbable: f64) -> Option<u64> {
    if sending <= 0.0 {
        return Some(1);
    }
    most_silent(sending, least, improbable).filter(|found| *found > 0)
}

/// The same, where 0 means that one other may be enough for a release.
fn most_silent(sending: f64, least: u64, improbable: f64) -> Option<u64> {
    // The tail is computed to 1e-12; the hundredth that is left out covers the error.
    let silent = |n: u64| binomial::upper_tail(n, sending, least - 1) <= 0.99 * improbable;
    if !silent(0) {
        return None;
    }
    let high = ((least as f64 / sending) as u64).clamp(1, 1 << 52);
    Some(if silent(high) { high } else { last_where(0, high, silent) })
}

fn paper_gaussian(terms: &Terms, sigma: f64, delta: f64) -> Result<f64, Error> {
    let of = Box::new(Event::Gaussian { sigma, sensitivity: 1.0 });
    let round = Event::PoissonSampled { rate: terms.rate, of };
    let event = Event::Repeated { times: terms.rounds, of: Box::new(round) };
    best(&event, Adjacency::AddRemove, Shape::Vector, delta)
}

fn best(event: &Event, adjacency: Adjacency, shape: Shape, delta: f64) -> Result<f64, Error> {
    let accountant = Accountant::Best;
    Question { event, adjacency, shape, accountant }.epsilon_upper(delta)
}

pub(crate) const ZERO_OUT: Error = Error::Unsupported {
    what: "a server's noise under zero-out",
    hint: "claim add-remove or replace",
};

const NO_LAW: Error =
    Error::Unsupported { what: "this law", hint: "use one of a local randomizer" };

/// Judgements by terms: what depends only on the recipe is computed once.
#[derive(Clone, Debug, Default)]
pub struct Memo {
    known: HashMap<[u64; 16], Judgement>,
}

/// A full memo is emptied: recipes come one at a time, and judgements can be computed again.
const MEMO_SIZE: usize = 4_096;

impl Memo {
    /// The judgement of `terms` at `delta`, from the memo if it was made before.
    pub fn judge(
        &mut self,
        terms: &Terms,
        certified: Option<u64>,
        delta: f64,
    ) -> Result<Judgement, Error> {
        let key = key(terms, certified, delta);
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let judgement = judge(terms, certified, delta)?;
        if self.known.len() >= MEMO_SIZE {
            self.known.clear();
        }
        self.known.insert(key, judgement);
        Ok(judgement)
    }
}

fn key(terms: &Terms, certified: Option<u64>, delta: f64) -> [u64; 16] {
    let mut more = [0; 3];
    let [kind, a, b, c, d] = match terms.law {
        Law::Exact => [0; 5],
        Law::Gaussian { sigma, shape } => [1, sigma.to_bits(), shape as u64, 0, 0],
        Law::RandomizedResponse { epsilon0, k } => [2, epsilon0.to_bits(), k, 0, 0],
        Law::PureDp { epsilon0 } => [20, epsilon0.to_bits(), 0, 0, 0],
        Law::Rappor { epsilon0, k } => [7, epsilon0.to_bits(), k, 0, 0],
        Law::ProjectiveGeometry { epsilon0, order, dimension } => {
            [8, epsilon0.to_bits(), order, dimension, 0]
        }
        Law::ServerGaussian { sigma, contribution, adjacency } => {
            let (kind, c, d) = contribution.key();
            [3 + kind, sigma.to_bits(), adjacency as u64, c, d]
        }
        Law::DistributedGaussian { sigma, contribution, unit, dimension, adjacency, redrawn } => {
            let (kind, c, d) = contribution.key();
            more = [unit, dimension, redrawn.to_bits()];
            [9 + kind, sigma.to_bits(), adjacency as u64, c, d]
        }
    };
    let [rate, least, dummies, senders, delta] =
        [terms.rate, terms.least_rate(), terms.dummy_rate, terms.senders, delta].map(f64::to_bits);
    let (others, min_batch, rounds) = (honest_others(certified), terms.min_batch, terms.rounds);
    let [e, f, g] = more;
    [kind, a, b, c, d, e, f, g, rate, least, dummies, senders, min_batch, rounds, others, delta]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_silent_population_is_the_edge() {
        for (q, least) in [(0.01, 500u64), (0.5, 40), (1e-4, 2_000)] {
            let n = silent_population(q, least, 1e-9).expect("there is one");
            assert!(binomial::upper_tail(n, q, least - 1) <= 1e-9);
            assert!(binomial::upper_tail(n + 1, q, least - 1) > 0.98e-9);
            assert!((n as f64) * q < least as f64);
        }
    }
}
