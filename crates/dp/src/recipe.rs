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
//! and no `B` helps. Only a certified population does: half of it are honest devices that toss the
//! coin. What is not certified counts as nobody.
//!
//! **Add/remove** (Gaussian). Let `n` be the largest number of other honest devices for which a
//! release, the device included, has probability at most `eta`, and `m` the number that is
//! certified.
//!
//! - With `j` others or more, all that is ever seen is a post-processing of the view with exactly
//!   `j` others, no minimum at all and the least noise: toss the coins of the rest, add them to
//!   count and sum, add the missing noise (there is never less than half of the variance in a
//!   release), and withhold the sum where it is below the minimum. So one pair, count seen with `j`
//!   others, bounds every population from `j` on at once, even one that changes from round to round.
//! - With fewer than `n`, except with probability `eta`, only the count is seen, and it is a
//!   post-processing of the count with exactly `m` others.
//!
//! So if `m >= n`, the pair with `n` others is a bound at no further cost. Otherwise a single round
//! costs the larger of that pair's epsilon and the epsilon of the count alone with `m` others. For
//! several rounds there are two bounds, and the smaller one counts: the pair with `m` others; and
//! the pair with `n` others composed with the count alone, both charged for every round, released or
//! not. Each round also costs `eta`.
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
//! **Devices that are off.** An honest device that is often switched off, or refuses the recipe, has
//! a smaller rate `q'`. Its coin is two coins: one of `q'/q` says whether it is *on*, and one of `q`
//! whether it takes part if it is. Given who is on, all that are on have the rate `q`, and the rule
//! for their number holds: under replacement for every `n`; under add/remove for every number of
//! others that is not below `m`. If the device itself is off, both neighbours look the same. The
//! divergence is jointly convex, so the mixture over who is on is not worse than the worst case. In
//! several rounds the same holds for each round given the past, and the bounds compose adaptively.
//!
//! This needs that who is on depends neither on the values nor on coins: those of the round, and
//! those of earlier rounds. (A device pays before it tosses, whatever the coin says, so a spent
//! budget tells nothing about coins.) Who is on may depend on earlier results, and an adversary may
//! decide it before the coins are tossed. And under add/remove, `m` honest others must be on: what is
//! certified has to be a number of those.

mod local;
mod server;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use self::local::Local;
use crate::account::{Accountant, Question};
use crate::calibrate::smallest_crowd;
use crate::error::{self, at_least_one, at_most, non_negative, positive, rate};
use crate::math::search::last_where;
use crate::math::{binomial, down, sqrt, up};
use crate::{Adjacency, Count, Error, Event, Shape, shuffle};

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
    /// Discrete Gaussian noise in each coordinate, all of it added by an honest server.
    ServerGaussian {
        /// The parameter sigma of the noise, in units of the sum.
        sigma: f64,
        /// What one device may add to the sum.
        contribution: Contribution,
        /// What the recipe claims to protect: presence (add/remove) or the value (replace).
        adjacency: Adjacency,
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
            Self::Exact | Self::Gaussian { .. } | Self::ServerGaussian { .. } => None,
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
    /// The probability of sending a dummy when not taking part.
    pub dummy_rate: f64,
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
    /// Add/remove for Gaussian noise of devices, replacement for local randomizers; for noise of a
    /// server what the law names.
    pub adjacency: Adjacency,
    /// Always [`HONEST`].
    pub honest: f64,
    /// Always [`Count::Seen`], also below the minimum batch.
    pub count: Count,
    /// The paper's figure for the same terms: all honest, count hidden, exactly `min_batch`
    /// contributions.
    pub paper_epsilon: f64,
    /// The guarantee of the randomizer alone, even if both aggregators and all other devices
    /// collude.
    pub local_epsilon: Option<f64>,
}

impl Terms {
    fn check(&self) -> Result<(), Error> {
        rate("rate", self.rate)?;
        rate("dummy_rate", self.dummy_rate)?;
        at_least_one("min_batch", self.min_batch)?;
        at_most("min_batch", self.min_batch, 1 << 40)?;
        at_least_one("rounds", self.rounds)?;
        if let Some(local) = self.law.local() {
            local.check()?;
        }
        if let Law::Gaussian { sigma, .. } | Law::ServerGaussian { sigma, .. } = self.law {
            positive("sigma", sigma)?;
        }
        if let Law::ServerGaussian { contribution, adjacency, .. } = self.law {
            contribution.check()?;
            if adjacency == Adjacency::ZeroOut {
                return Err(ZERO_OUT);
            }
        }
        Ok(())
    }

    /// The probability of sending anything.
    fn sending(&self) -> f64 {
        self.rate + (1.0 - self.rate) * self.dummy_rate
    }

    /// Add/remove with noise `sigma` in every release.
    fn release(&self, sigma: f64, shape: Shape) -> Rule {
        let Self { rate, dummy_rate, .. } = *self;
        Rule::AddRemove(Box::new(move |population| Event::SampledCountSeen {
            rate,
            population,
            dummy_rate,
            sigma,
            shape,
        }))
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
        let part = self.rate / self.sending();
        // The tail is computed to 1e-12; the hundredth that is left out covers the error.
        let fewer = |least: u64| binomial::lower_tail(batch, part, least) <= 0.99 * improbable;
        last_where(0, batch + 1, fewer).max(1)
    }
}

/// How a law is judged, by its neighbours. There is no other way to an epsilon, so a law under
/// add/remove cannot forget the counts that are seen without a release.
enum Rule {
    /// No epsilon holds.
    None(Adjacency),
    /// A device is there or not. One release with the count seen, by the number of honest others.
    AddRemove(Box<dyn Fn(u64) -> Event>),
    /// A device holds one value or another, on which no count depends. The epsilon of all rounds.
    Replace(f64),
}

/// Judges a recipe at `delta`, for all of its rounds together.
///
/// `certified` is the number of devices in the population of which somebody other than the author
/// has assured us; `None` if there is no such number. It matters under add/remove only, where
/// without it the device is taken to be alone: then the number of contributions says whether it is
/// there, and epsilon is infinite.
pub fn judge(terms: &Terms, certified: Option<u64>, delta: f64) -> Result<Judgement, Error> {
    terms.check()?;
    error::delta(delta)?;
    let (rule, paper_epsilon, local_epsilon) = match terms.law {
        Law::Exact => (Rule::None(Adjacency::AddRemove), f64::INFINITY, None),
        Law::Gaussian { sigma, shape } => {
            let paper = paper_gaussian(terms, sigma, delta)?;
            let sigma = down(sigma * sqrt(HONEST), 4.0 * f64::EPSILON);
            (terms.release(sigma, shape), paper, None)
        }
        Law::ServerGaussian { sigma, contribution, adjacency } => {
            let noise = contribution.noise(sigma, terms.rounds)?;
            return server::judge(
                terms,
                (noise, contribution.shape(), adjacency),
                certified,
                delta,
            );
        }
        Law::RandomizedResponse { .. } | Law::Rappor { .. } | Law::ProjectiveGeometry { .. } => {
            let local = Local::of(terms.law).ok_or(NO_LAW)?;
            let paper = local.paper(terms, delta)?;
            (Rule::Replace(local.judged(terms, delta)?), paper, Some(local.epsilon()))
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
            Self::AddRemove(release) => {
                (Adjacency::AddRemove, add_remove(terms, certified, &*release, delta)?)
            }
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

/// The epsilon under add/remove, the count always seen.
fn add_remove(
    terms: &Terms,
    certified: Option<u64>,
    release: &dyn Fn(u64) -> Event,
    delta: f64,
) -> Result<f64, Error> {
    let sending = terms.sending();
    let improbable = IMPROBABLE * delta / terms.rounds as f64;
    let Some(silent) = silent_population(sending, terms.honest_batch(), improbable) else {
        return Ok(f64::INFINITY);
    };
    let of_rounds = |round: Event| {
        let event = Event::Repeated { times: terms.rounds, of: Box::new(round) };
        best(&event, Adjacency::AddRemove, Shape::Vector, delta * (1.0 - IMPROBABLE))
    };
    let others = honest_others(certified);
    if others >= silent {
        return of_rounds(release(silent));
    }
    let count = Event::CountOnly { rate: up(sending, f64::EPSILON).min(1.0), population: others };
    if terms.rounds == 1 {
        return Ok(of_rounds(release(silent))?.max(of_rounds(count)?));
    }
    let apart = of_rounds(Event::Composed { of: vec![release(silent), count] })?;
    let together = if others > 0 { of_rounds(release(others))? } else { f64::INFINITY };
    Ok(apart.min(together))
}

/// How many others are honest and toss the coin: half of those that are certified, the device not
/// included.
fn honest_others(certified: Option<u64>) -> u64 {
    certified.map_or(0, |devices| shuffle::honest_crowd(devices, HONEST).saturating_sub(1))
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
    known: HashMap<[u64; 11], Judgement>,
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

fn key(terms: &Terms, certified: Option<u64>, delta: f64) -> [u64; 11] {
    let [kind, a, b, c, d] = match terms.law {
        Law::Exact => [0; 5],
        Law::Gaussian { sigma, shape } => [1, sigma.to_bits(), shape as u64, 0, 0],
        Law::RandomizedResponse { epsilon0, k } => [2, epsilon0.to_bits(), k, 0, 0],
        Law::Rappor { epsilon0, k } => [7, epsilon0.to_bits(), k, 0, 0],
        Law::ProjectiveGeometry { epsilon0, order, dimension } => {
            [8, epsilon0.to_bits(), order, dimension, 0]
        }
        Law::ServerGaussian { sigma, contribution, adjacency } => {
            let (kind, c, d) = match contribution {
                Contribution::Numbers { max, length } => (3, max, length),
                Contribution::Labels { most } => (4, most, 0),
                Contribution::Total { most } => (5, most, 0),
                Contribution::Vector { norm, dimension } => (6, norm.to_bits(), dimension),
            };
            [kind, sigma.to_bits(), adjacency as u64, c, d]
        }
    };
    let (rate, dummies) = (terms.rate.to_bits(), terms.dummy_rate.to_bits());
    let (others, delta) = (honest_others(certified), delta.to_bits());
    [kind, a, b, c, d, rate, dummies, terms.min_batch, terms.rounds, others, delta]
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
